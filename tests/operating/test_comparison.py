"""Two models on the same samples: the level by simulation, the fast draws against the plain ones."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from rankreg.metrics import auc, fpr_at_tpr
from rankreg.operating import compare
from rankreg.operating.bootstrap import fpr_differences
from rankreg.operating.comparison import paired
from rankreg.scores import Scores

Floats = NDArray[np.float64]


def two_models(
    positives: int, negatives: int, shifts: tuple[float, float], correlation: float, generator: np.random.Generator
) -> tuple[NDArray[np.int64], Floats, Floats]:
    labels = np.repeat([1, 0], [positives, negatives])
    a, other = generator.standard_normal((2, len(labels)))
    b = correlation * a + np.sqrt(1 - correlation**2) * other
    return labels, a + shifts[0] * labels, b + shifts[1] * labels


def rejections(positives: int, negatives: int, tpr: float, correlation: float, rounds: int) -> tuple[float, float]:
    """How often equally good models are called different, by FPR and by AUC."""
    generator, found = np.random.default_rng(10), np.zeros(2)
    for seed in range(rounds):
        labels, a, b = two_models(positives, negatives, (2, 2), correlation, generator)
        result = compare(labels, a, b, tpr=tpr, draws=300, seed=seed)
        found += [result.fpr.significant(0.95), result.auc.significant(0.95)]
    return float(found[0] / rounds), float(found[1] / rounds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("positives", "negatives", "tpr", "correlation"),
    [(40, 400, 0.98, 0.5), (100, 500, 0.95, 0.9), (150, 150, 0.9, 0.7), (300, 1000, 0.98, 0.3)],
)
def test_equal_models_are_called_different_no_more_often_than_stated(
    positives: int, negatives: int, tpr: float, correlation: float
) -> None:
    by_fpr, by_auc = rejections(positives, negatives, tpr, correlation, 2000)
    assert by_fpr <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    assert 0.01 <= by_auc <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)


def test_the_level_holds_where_the_tpr_leaves_room_for_less_than_one_miss() -> None:
    assert rejections(40, 400, 0.98, 0.5, 400)[0] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_with_less_than_one_expected_miss_the_interval_covers_less_than_it_says_and_warns() -> None:
    generator, held, rounds = np.random.default_rng(15), 0, 400
    rates = stats.norm.sf(np.array([2.5, 1.5]) + stats.norm.ppf(0.02))
    for seed in range(rounds):
        labels, a, b = two_models(20, 300, (2.5, 1.5), 0.7, generator)
        found = compare(labels, a, b, tpr=0.98, draws=300, seed=seed)
        held += found.fpr.low <= rates[0] - rates[1] <= found.fpr.high
    assert 0.88 <= held / rounds <= 0.94  # 90.1 % in 2,000 rounds, not the nominal 95 %
    assert found.warning is not None
    assert "50 or more are needed" in found.warning


def test_one_expected_miss_needs_no_warning() -> None:
    labels, a, b = two_models(50, 300, (2.5, 1.5), 0.7, np.random.default_rng(15))
    assert compare(labels, a, b, tpr=0.98, draws=100).warning is None
    assert compare(labels[1:], a[1:], b[1:], tpr=0.98, draws=100).warning is not None


def test_scores_that_are_all_equal_are_refused() -> None:
    labels, a, _ = two_models(50, 300, (2.5, 1.5), 0.7, np.random.default_rng(15))
    with pytest.raises(ValueError, match=r"second model: all 350 scores equal 0.5"):
        compare(labels, a, np.full(350, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize(("positives", "tpr", "shifts"), [(100, 0.95, (3.0, 2.0)), (200, 0.98, (3.0, 4.0))])
def test_the_interval_covers_a_true_difference(positives: int, tpr: float, shifts: tuple[float, float]) -> None:
    generator, missed, rounds = np.random.default_rng(11), 0, 2000
    rates = stats.norm.sf(np.array(shifts) + stats.norm.ppf(1 - tpr))
    for seed in range(rounds):
        labels, a, b = two_models(positives, 1000, shifts, 0.6, generator)
        found = compare(labels, a, b, tpr=tpr, draws=300, seed=seed).fpr
        missed += not found.low <= rates[0] - rates[1] <= found.high
    assert missed / rounds <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / rounds)


def plain_draws(positives: list[Floats], negatives: list[Floats], tpr: float, draws: int) -> Floats:
    """The same distribution, one positive and one negative at a time."""
    generator, found = np.random.default_rng(12), []
    orders = [np.argsort(scores) for scores in positives]
    for _ in range(draws):
        gaps = generator.dirichlet(np.ones(len(positives[0]) + 1))
        weights = []
        for scores, order, others in zip(positives, orders, negatives, strict=True):
            edges = np.append(0, np.cumsum(gaps[:-1][order]))
            place = np.flatnonzero(edges <= 1 - tpr)[-1]
            levels = np.append(-np.inf, scores[order])
            way = (1 - tpr - edges[place]) / (edges[place + 1] - edges[place])
            weights.append((1 - way) * (others >= levels[place]) + way * (others >= levels[place + 1]))
        only_a = np.sum(weights[0] * (1 - weights[1]))
        only_b = np.sum(weights[1] * (1 - weights[0]))
        rest = len(negatives[0]) - only_a - only_b
        share = generator.dirichlet(np.array([only_a, only_b, rest]) + 0.5)
        found.append(share[0] - share[1])
    return np.array(found)


@pytest.mark.parametrize(("positives", "tpr"), [(30, 0.95), (400, 0.9), (3000, 0.98)])
def test_leaving_out_what_cannot_matter_changes_nothing(positives: int, tpr: float) -> None:
    labels, a, b = two_models(positives, 200, (2, 2.3), 0.6, np.random.default_rng(13))
    positive = labels == 1
    fast = fpr_differences((a[positive], b[positive]), (a[~positive], b[~positive]), tpr, 3000, seed=1)
    plain = plain_draws([a[positive], b[positive]], [a[~positive], b[~positive]], tpr, 1500)
    assert stats.ks_2samp(fast, plain).pvalue > 1e-3


def test_estimates_are_those_of_the_metrics_and_seeds_repeat() -> None:
    labels, a, b = two_models(120, 900, (2, 1), 0.5, np.random.default_rng(14))
    found = compare(labels, a, b, tpr=0.9, seed=3)
    assert (found.fpr.a, found.fpr.b) == (fpr_at_tpr(labels, a, 0.9), fpr_at_tpr(labels, b, 0.9))
    assert (found.auc.a, found.auc.b) == pytest.approx((auc(labels, a), auc(labels, b)))
    assert found.fpr.high < 0
    assert found.auc.low > 0
    assert found == compare(labels, a, b, tpr=0.9, seed=3)
    assert found.fpr.low != compare(labels, a, b, tpr=0.9, seed=4).fpr.low


def test_swapping_the_models_turns_the_sign() -> None:
    labels, a, b = two_models(120, 900, (2, 1.5), 0.5, np.random.default_rng(15))
    there, back = compare(labels, a, b, tpr=0.9), compare(labels, b, a, tpr=0.9)
    assert there.auc.difference == -back.auc.difference
    assert there.fpr.difference == -back.fpr.difference
    assert there.fpr.low == pytest.approx(-back.fpr.high, abs=0.02)


def test_a_model_is_no_better_than_itself_on_another_scale() -> None:
    labels, a, _ = two_models(100, 500, (2, 2), 0.5, np.random.default_rng(16))
    found = compare(labels, a, np.exp(a))
    assert found.fpr.p_value > 0.9
    assert found.auc.p_value == 1.0


def scores(ids: list[str], labels: list[int], values: list[float]) -> Scores:
    return Scores(np.array(ids), np.array(labels), np.array(values))


def test_samples_are_matched_by_id() -> None:
    labels, a, b = paired(
        scores(["x", "y", "z"], [1, 0, 0], [3, 2, 1]), scores(["z", "x", "y"], [0, 1, 0], [10, 30, 20])
    )
    assert (labels.tolist(), a.tolist(), b.tolist()) == ([1, 0, 0], [3, 2, 1], [30, 20, 10])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            scores(["x", "q", "z"], [1, 0, 0], [1, 2, 3]),
            r"1 ids are only in the first \(y\), 1 only in the second \(q\)",
        ),
        (scores(["x", "y"], [1, 0], [1, 2]), r"1 ids are only in the first \(z\), 0 only in the second"),
        (scores(["x", "y", "y"], [1, 0, 0], [1, 2, 3]), r"1 ids occur more than once in the second file \(y\)"),
        (scores(["x", "y", "z"], [1, 1, 0], [1, 2, 3]), r"labels of 1 samples differ between the two \(y\)"),
    ],
)
def test_samples_that_do_not_match_are_refused(other: Scores, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired(scores(["x", "y", "z"], [1, 0, 0], [3, 2, 1]), other)


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="draws must be at least 100"):
        compare([1, 1, 0, 0], [1, 2, 3, 4], [1, 2, 3, 4], draws=10)
