"""From records to numbers, against brute force, scikit-learn and SciPy."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, ttest_1samp
from sklearn.metrics import roc_auc_score, roc_curve

from rankreg.metrics import error_at_tpr
from rankreg.operating import compare
from rankreg.operating.intervals import aucs
from rankreg.scores import Scores
from rankreg_bench.arms import TUNED
from rankreg_bench.differences import BETTER, contrasts_of, pair
from rankreg_bench.estimates import difference_intervals, intervals_of
from rankreg_bench.gains import ensemble_gain, measure_draws
from rankreg_bench.grids import DATA, EXPERIMENTS, plan_run, plans_of
from rankreg_bench.records import Cell, Grid, Outcome, RecordFolder, Selection
from tests.bench.handmade import part, write, write_all

NAME, LOSSES = "cifar100-100", ("bce", "s-ml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two losses, four arms, three splits."""
    home = tmp_path_factory.mktemp("records")
    write_all(home, NAME, only=LOSSES)
    return home


@pytest.fixture(scope="module")
def grids(folder: Path) -> dict[str, Grid]:
    """By test set."""
    selection = Selection(NAME, "compact", folder, splits=3, only=LOSSES)
    return {grid.test: grid for test in ("official", "extended", "tuning") for grid in selection.grids(test)}


def seed_of(loss: str, arm: str, split: int) -> int:
    return split * 31 + sum(map(ord, loss + arm))


def handmade(loss: str, arm: str, split: int, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    quality = {"base": 0.5, "alm": 0.7, "buffer": 1.0, "rankreg": 1.2}[arm]
    parts = [part(name, quality, seed_of(loss, arm, split)) for name in names]
    return np.concatenate([p.labels for p in parts]), np.concatenate([p.values for p in parts])


def sklearn_fpr(labels: np.ndarray, scores: np.ndarray, tpr: float) -> float:
    fprs, tprs, _ = roc_curve(labels, scores, drop_intermediate=False)
    return float(fprs[tprs >= tpr - 1e-9].min())


@pytest.mark.parametrize(
    ("test", "names"),
    [("official", ("test",)), ("extended", ("test", "extended")), ("tuning", ("validation", "tuning"))],
)
def test_an_ensemble_is_measured_on_the_mean_of_its_members_scores(
    grids: dict[str, Grid], test: str, names: tuple[str, ...]
) -> None:
    cell = grids[test].cells[NAME, "s-ml", "alm"]
    labels = handmade("s-ml", "alm", 0, names)[0]
    members = np.array([handmade("s-ml", "alm", split, names)[1] for split in range(3)], dtype=np.float64)
    mean = members.mean(axis=0).astype(np.float32)
    assert cell.ensemble["auc"].estimate == pytest.approx(100 * roc_auc_score(labels, mean), abs=1e-3)
    for tpr in (0.98, 0.95, 0.90):
        found = cell.ensemble[f"fpr@{100 * tpr:.0f}"]
        assert found.estimate == pytest.approx(100 * sklearn_fpr(labels, mean, tpr), abs=1e-3)
        assert found.low <= found.estimate <= found.high


def test_single_splits_are_measured_one_by_one(grids: dict[str, Grid]) -> None:
    cell = grids["extended"].cells[NAME, "bce", "rankreg"]
    for split in range(3):
        labels, scores = handmade("bce", "rankreg", split, ("test", "extended"))
        assert cell.singles[split]["auc"] == pytest.approx(100 * roc_auc_score(labels, scores), abs=1e-3)


def test_a_pooled_difference_averages_losses_within_splits_before_the_t_test(grids: dict[str, Grid]) -> None:
    grid = grids["official"]
    found = pair(grid, NAME, LOSSES, "rankreg", "buffer")
    assert found is not None
    rows = [
        [
            grid.cells[NAME, loss, "rankreg"].singles[split]["auc"]
            - grid.cells[NAME, loss, "buffer"].singles[split]["auc"]
            for split in range(3)
        ]
        for loss in LOSSES
    ]
    expected = ttest_1samp(np.mean(rows, axis=0), 0)
    interval, estimate = expected.confidence_interval(0.95), found.estimate("auc")
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))
    assert found.p_value("auc") == pytest.approx(expected.pvalue)


def test_the_better_of_base_and_alm_is_chosen_for_each_loss_and_measure(grids: dict[str, Grid]) -> None:
    grid = grids["official"]
    found = pair(grid, NAME, LOSSES, "rankreg", BETTER)
    assert found is not None
    for measure, best in (("fpr@95", min), ("auc", max)):
        rows = []
        for loss in LOSSES:
            by_arm = {
                arm: np.array([grid.cells[NAME, loss, arm].singles[split][measure] for split in range(3)])
                for arm in ("rankreg", "base", "alm")
            }
            rival = best((by_arm["base"], by_arm["alm"]), key=lambda values: values.mean())
            rows.append(by_arm["rankreg"] - rival)
        assert found.values[measure] == pytest.approx(np.mean(rows, axis=0))


def test_the_gain_of_ensembles_is_the_papers_delta(grids: dict[str, Grid]) -> None:
    grid = grids["official"]

    def value(loss: str, arm: str, measure: str) -> float:
        return grid.cells[NAME, loss, arm].ensemble[measure].estimate

    fprs = [
        min(value(loss, arm, "fpr@95") for arm in ("base", "alm")) - value(loss, "rankreg", "fpr@95")
        for loss in LOSSES
    ]
    aucs = [
        value(loss, "rankreg", "auc") - max(value(loss, arm, "auc") for arm in ("base", "alm")) for loss in LOSSES
    ]
    found = ensemble_gain(grid, NAME, LOSSES, "rankreg", BETTER).by_measure
    assert found["fpr@95"].estimate == pytest.approx(np.mean(fprs))
    assert found["auc"].estimate == pytest.approx(np.mean(aucs))
    assert grid.shared(NAME, LOSSES, ("rankreg", "base", "alm"))[0] == LOSSES


def test_drawn_aucs_are_spread_like_those_of_resampled_scores(grids: dict[str, Grid]) -> None:
    cell, random = grids["official"].cells[NAME, "bce", "buffer"], np.random.default_rng(1)
    positives, negatives = (cell.mean.values[cell.mean.labels == label] for label in (1, 0))
    labels = np.repeat([1, 0], [len(positives), len(negatives)])
    drawn = []
    for _ in range(1000):
        scores = np.append(*(random.choice(part, len(part)) for part in (positives, negatives)))
        drawn.append(100 * roc_auc_score(labels, scores))
    found = measure_draws(cell)["auc"]
    assert found.mean() == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(len(found)))
    assert found.std() == pytest.approx(np.std(drawn), rel=0.25)


def test_the_interval_of_an_fpr_gain_covers_the_truth_as_often_as_it_says() -> None:
    """Two losses, two models each, scores that share half of their noise: FPRs at a TPR are known."""
    random, labels, inside = np.random.default_rng(0), np.repeat([1, 0], [60, 120]), 0
    shifts = {("bce", "rankreg"): 2.0, ("bce", "buffer"): 1.5, ("s-ml", "rankreg"): 1.0, ("s-ml", "buffer"): 1.5}
    true = {key: 100 * norm.sf(shift - norm.ppf(0.95)) for key, shift in shifts.items()}
    gain = np.mean([true[loss, "buffer"] - true[loss, "rankreg"] for loss in LOSSES])
    for _ in range(200):
        common, cells = random.normal(size=180), {}
        for (loss, arm), shift in shifts.items():
            values = (common + random.normal(size=180)) / np.sqrt(2) + shift * labels
            cells[NAME, loss, arm] = Cell(NAME, 1, {0: Scores(np.arange(180), labels, values)})
        found = ensemble_gain(Grid("official", cells), NAME, LOSSES, "rankreg", "buffer").by_measure["fpr@95"]
        inside += int(found.low <= gain <= found.high)
    assert 180 <= inside <= 200  # 90 to 100 %: at 190 the binomial's own spread is 3


def test_the_interval_of_a_single_fpr_gain_is_that_of_a_comparison(grids: dict[str, Grid]) -> None:
    grid = grids["extended"]
    first, second = (grid.cells[NAME, "bce", arm].mean for arm in ("rankreg", "base"))
    expected = compare(first.labels, first.values, second.values, tpr=0.95).fpr
    found = ensemble_gain(grid, NAME, ["bce"], "rankreg", "base").by_measure["fpr@95"]
    assert (found.low, found.high) == pytest.approx((-100 * expected.high, -100 * expected.low), abs=4)


def test_the_error_of_a_single_auc_gain_is_delongs(grids: dict[str, Grid]) -> None:
    grid = grids["official"]
    first, second = (grid.cells[NAME, "bce", arm].mean for arm in ("rankreg", "buffer"))
    areas, covariance = aucs(first.labels == 1, [first.values, second.values])
    middle, error = areas[0] - areas[1], np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    expected = 100 * (middle + norm.ppf([0.025, 0.975]) * error)
    found = ensemble_gain(grid, NAME, ["bce"], "rankreg", "buffer").by_measure["auc"]
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=2e-3)


def test_only_splits_that_both_arms_have_are_compared(tmp_path: Path) -> None:
    for arm, splits in (("rankreg", (0, 1, 2)), ("buffer", (1, 2, 3))):
        for split in splits:
            write(tmp_path, plan_run("compact", NAME, "bce", arm, split))
    write(tmp_path, plan_run("compact", NAME, "s-ml", "rankreg", 0))
    (grid,) = Selection(NAME, "compact", tmp_path).grids("official")
    found = pair(grid, NAME, ["bce", "s-ml"], "rankreg", "buffer")
    assert found is not None
    assert (found.splits, found.losses) == ((1, 2), ("bce",))
    assert pair(grid, NAME, ["bce"], "rankreg", "alm") is None
    gain = ensemble_gain(grid, NAME, ["bce", "s-ml"], "rankreg", "buffer")
    assert (gain.losses, gain.splits) == (("bce",), (1, 2))
    fewer = [grid.cells[NAME, "bce", arm].on((1, 2)).ensemble["auc"].estimate for arm in ("rankreg", "buffer")]
    assert gain.by_measure["auc"].estimate == pytest.approx(fewer[0] - fewer[1])
    assert ensemble_gain(grid, NAME, ["bce"], "rankreg", "alm").by_measure == {}


def test_splits_that_agree_to_the_digit_are_no_evidence(tmp_path: Path) -> None:
    labels = np.repeat([1, 0], [40, 90])
    for split, few in ((0, 30), (1, 7)):
        for arm, alarms in (("rankreg", few), ("buffer", few + 7)):  # negatives above all positives
            values = np.concatenate([np.full(40, 0.5), np.repeat([1.0, 0.0], [alarms, 90 - alarms])])
            scores = {"test": Scores(np.arange(130), labels, values)}
            RecordFolder(tmp_path).write(plan_run("compact", NAME, "bce", arm, split), Outcome({}, scores))
    (grid,) = Selection(NAME, "compact", tmp_path).grids("official")
    found = pair(grid, NAME, ["bce"], "rankreg", "buffer")
    assert found is not None
    singles = [grid.cells[NAME, "bce", arm].singles for arm in ("rankreg", "buffer")]
    assert (
        len({one["fpr@95"] - two["fpr@95"] for one, two in zip(*(s.values() for s in singles), strict=True)}) == 2
    )
    assert found.values["fpr@95"] == pytest.approx([-700 / 90] * 2, abs=1e-3)
    assert (found.p_value("fpr@95"), found.detectable("fpr@95")) == (None, None)
    same = pair(grid, NAME, ["bce"], "rankreg", "rankreg")
    assert same is not None
    assert same.p_value("auc") == 1.0


def test_the_interval_of_an_error_at_a_tpr_is_a_bootstrap_over_classes() -> None:
    data, random = DATA["cifar10-lt-100"], np.random.default_rng(0)
    labels = np.arange(600) % 10
    logits = random.normal(size=(600, 10))
    logits[np.arange(600), labels] += 1.5
    found = intervals_of(data, Scores(np.arange(600), labels, logits))
    drawn = []
    for _ in range(300):
        rows = np.concatenate([random.choice(np.flatnonzero(labels == k), 60) for k in range(10)])
        drawn.append(100 * error_at_tpr(labels[rows], logits[rows], 0.9, positive=9))
    low, high = np.quantile(drawn, [0.025, 0.975])
    interval = found["error@90tpr"]
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=2.5)
    assert found["accuracy"].estimate == pytest.approx(100 * (logits.argmax(1) == labels).mean(), abs=1e-3)


def test_ensembles_are_compared_sample_by_sample() -> None:
    good, bad = part("test", 2.0, 1), part("test", 0.2, 2)
    found = difference_intervals(DATA[NAME], good, bad)
    expected = 100 * (roc_auc_score(good.labels, good.values) - roc_auc_score(bad.labels, bad.values))
    assert found["auc"].estimate == pytest.approx(expected, abs=1e-3)
    assert found["auc"].low > 0


def test_contrasts_set_variants_against_their_method_and_ranking_against_the_buffer() -> None:
    tuning = contrasts_of(EXPERIMENTS["tuning"], list(EXPERIMENTS["tuning"].arms))
    budgets = [arm for arm in TUNED if arm.startswith("rankreg-")]
    assert budgets
    assert [second for first, second in tuning if first in budgets] == ["rankreg"] * len(budgets)
    controls = contrasts_of(EXPERIMENTS["controls"], list(EXPERIMENTS["controls"].arms))
    assert {("rankreg", "buffer"), ("probability", "buffer"), ("batch-32", "base")} <= set(controls)
    sizes = contrasts_of(EXPERIMENTS["buffer-size"], list(EXPERIMENTS["buffer-size"].arms))
    assert set(sizes) == {(f"size-{n}", "rankreg") for n in (0, 5, 10, 20, 48)}
    smaller = contrasts_of(EXPERIMENTS["smaller-buffers"], list(EXPERIMENTS["smaller-buffers"].arms))
    assert {("size-5", "buffer-5"), ("rankreg", "buffer"), ("size-5", "base"), ("buffer-5", "base")} <= set(smaller)
    assert ("size-5", "buffer") not in smaller
    skin = contrasts_of(EXPERIMENTS["ham10000"], list(EXPERIMENTS["ham10000"].arms))
    assert {("fifo-batch-only", "base"), ("fifo-batch-only", "no-buffer"), ("fifo", "buffer")} <= set(skin)
    oversampled = EXPERIMENTS["oversampled-ranking"]
    found = contrasts_of(oversampled, list(oversampled.arms))
    assert {("oversampling-rankreg", "oversampling"), ("oversampling-gentle", "oversampling")} <= set(found)
    assert (
        contrasts_of(oversampled, ["buffer", "oversampling-rankreg"]) == []
    )  # no other arm differs by the term alone
    larger = contrasts_of(EXPERIMENTS["larger-batches"], list(EXPERIMENTS["larger-batches"].arms))
    assert ("rankreg-128+128", "buffer-128+128") in larger
    last = contrasts_of(EXPERIMENTS["last-epoch"], list(EXPERIMENTS["last-epoch"].arms))
    assert last == [("buffer-last", "base-last"), ("rankreg-last", "buffer-last"), ("rankreg-last", "base-last")]
    melanoma = contrasts_of(EXPERIMENTS["melanoma"], list(EXPERIMENTS["melanoma"].arms))
    assert melanoma[:2] == [("batch-only", "buffer"), ("batch-only", BETTER)]
    assert contrasts_of(EXPERIMENTS["ham10000-ceiling"], ["base"]) == []


def test_what_was_seen_on_the_first_splits_is_asked_of_others() -> None:
    assert {plan.split for plan in plans_of("last-epoch", "compact")} == set(range(5, 15))
    assert {plan.config["seed"] for plan in plans_of("last-epoch", "compact", splits=2)} == {5, 6}


def test_an_experiment_has_its_own_number_of_splits_in_its_own_preset() -> None:
    counts = {"elpv": 5, "elpv-ceiling": 5, "gains": 5, "methods": 10, "cifar100-100": 10}
    assert {name: len({plan.split for plan in plans_of(name, "converged")}) for name in counts} == counts
    assert len({plan.split for plan in plans_of("elpv", "smoke")}) == 2
    assert len(plans_of("gains", "converged")) == 2 * 2 * 3 * 5


def test_all_arms_of_a_split_of_the_long_runs_have_one_precision() -> None:
    found = {
        (plan.split, plan.config["precision"], plan.config.get("compile", False))
        for plan in plans_of("methods", "converged")
    }
    assert found == {(split, "float32", False) for split in range(5)} | {
        (split, "bfloat16", True) for split in range(5, 10)
    }


def test_settings_are_never_judged_on_a_test_set(tmp_path: Path) -> None:
    for plan in plans_of("tuning", "compact", splits=1, only=("cifar100-100", "base", "buffer")):
        write(tmp_path, plan, parts=("validation", "tuning"))  # there is nothing else to look at
    selection = Selection("tuning", "compact", tmp_path, splits=1)
    assert [grid.test for grid in selection.grids()] == ["tuning"]
    with pytest.raises(ValueError, match="never on a test set"):
        selection.grids("official")


def test_runs_on_other_samples_are_not_mixed_in(tmp_path: Path) -> None:
    plans = [plan_run("compact", NAME, "bce", arm, 0) for arm in ("base", "rankreg")]
    write(tmp_path, plans[0])
    scores = part("test", 1.0, 0)
    other = Scores(scores.ids + 1, scores.labels, scores.values)
    RecordFolder(tmp_path).write(plans[1], Outcome({"seconds": {"total": 1.0}}, {"test": other}))
    with pytest.raises(ValueError, match=r"bce-rankreg-0.* other samples"):
        Selection(NAME, "compact", tmp_path).grids("official")
