"""The theory, coming-from and how-many-positives pages, and those of studies, say what code and records say."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks import answer_study, coverage_study, mapie_peer, promise_study, resampling_peer, threshold_peer
from benchmarks.fit_study.rendering import page as fit_page
from benchmarks.tabular_study.rendering import page as tabular_page
from docs.blocks import BLOCKS, DOCS, ROOT, fit_gives, mapie_records, pages, rendered
from docs.pictures import DRAWN, LABELS, PICTURES, SCORES, draw, expected_fpr, numbers, recorded, steps
from scipy import stats
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from rankreg import RankReg
from rankreg.operating.guarantees import certified_rank
from tests.conftest import brute_force_rank

RECORDED = recorded()


def flat(tree: Any, path: str = "") -> dict[str, Any]:
    """Every leaf of nested lists and dictionaries with its place."""
    if isinstance(tree, dict):
        return {key: leaf for name, part in tree.items() for key, leaf in flat(part, f"{path}/{name}").items()}
    if isinstance(tree, list):
        return {key: leaf for place, part in enumerate(tree) for key, leaf in flat(part, f"{path}/{place}").items()}
    return {path: tree}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_says_what_its_code_and_records_say(page: Path) -> None:
    assert page.read_text() == rendered(page), "run `make tables`"


def test_every_rendered_part_is_on_one_page() -> None:
    assert sorted(name for names in pages().values() for name in names) == sorted(BLOCKS)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_the_numbers_of_today(name: str) -> None:
    today, shown = flat(numbers(name)), flat(RECORDED[name])
    assert today.keys() == shown.keys(), "run `make pictures`"
    assert list(shown.values()) == pytest.approx(list(today.values()), rel=1e-4, abs=1e-6)


def test_every_picture_is_drawn_from_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docs.pictures.IMAGES", tmp_path)
    for name in DRAWN:
        draw(name, RECORDED[name])
    assert {file.stem for file in tmp_path.iterdir()} == {f"theory-{name}" for name in PICTURES}


def test_every_picture_that_a_page_shows_exists() -> None:
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} shows {target}"


def test_the_arrows_of_the_scores_form_follow_section_3_4_read_aloud() -> None:
    scores, positive = torch.tensor(SCORES, dtype=torch.float64), torch.tensor(LABELS) == 1
    ranks = brute_force_rank(scores) / len(SCORES)
    push = torch.where(positive, 2 * ranks / positive.sum(), 0.0)
    gamma = 1.0 / push.max()  # reach 1
    moved = brute_force_rank(scores + gamma * push) / len(SCORES)
    assert steps(RankReg(among="all", weight=1.0)) == pytest.approx(((ranks - moved) / gamma).tolist())


def test_ranks_among_all_push_the_best_positive_down_and_the_default_does_not() -> None:
    best = LABELS.index(1)
    default, scores, published = (found[best] for found in RECORDED["ten-samples"].values())
    assert default == 0
    assert scores < 0
    assert published < 0


@pytest.mark.parametrize("kind", ["usual", "certified"])
def test_the_bands_of_recall_are_those_of_a_simulation(kind: str) -> None:
    row = next(row for row in RECORDED["coverage"]["sizes"] if row["positives"] == 100)
    random = np.random.default_rng(1)
    below = np.sort(random.random((20_000, 100)), axis=1)  # the share of all positives below each score
    rank = 6 if kind == "usual" else certified_rank(100, 0.95, 0.95)  # the 95th highest of 100 is the 6th lowest
    recall = 1 - below[:, rank - 1]
    assert np.quantile(recall, [0.05, 0.5, 0.95]) == pytest.approx(list(row[kind].values()), abs=0.002)
    assert np.mean(recall < 0.95) == pytest.approx(row[f"{kind} short"], abs=0.012)


def test_the_curves_of_positives_needed_follow_the_formula() -> None:
    data = RECORDED["needed"]
    for sure, counts in data["positives"].items():
        exact = [math.ceil(math.log(1 - float(sure)) / math.log(tpr) - 1e-9) for tpr in data["tpr"]]
        assert counts == exact


def test_the_expected_price_is_that_of_a_simulation() -> None:
    random = np.random.default_rng(2)
    distance = math.sqrt(2) * 2.0537489106318225  # AUC 0.98
    thresholds = np.sort(random.normal(distance, 1, (20_000, 93)), axis=1)[:, 1]  # the second lowest of 93
    assert expected_fpr(93, 0.98) == pytest.approx(float(np.mean(ndtr(-thresholds))), abs=0.004)
    assert expected_fpr(58, 0.98) is None


def test_the_first_positives_beyond_the_minimum_pay_most() -> None:
    firsts = [n for n in range(59, 130) if certified_rank(n, 0.95, 0.95) > certified_rank(n - 1, 0.95, 0.95)]
    assert firsts == [59, 93, 124]
    for auc in (0.95, 0.98, 0.99):
        at = {n: expected_fpr(n, auc) or 0.0 for n in (59, 92, 93, 181, 1000)}
        assert at[59] - at[93] > at[181] - at[1000]
        assert at[92] > at[59]


def test_the_threshold_of_a_fit_changes_where_its_positives_suffice() -> None:
    assert [fit_gives(n, 0.95) for n in (58, 59, 290, 295)] == [
        "expected",
        "cross-fitted",
        "cross-fitted",
        "certified",
    ]
    assert fit_gives(1000, 0.98) == "certified"
    assert certified_rank(round(0.3 * 100), 0.9, 0.95)  # what the page advises with 100 positives


def test_the_page_says_how_many_positives_the_simulated_fits_held_out() -> None:
    kept = {n: coverage_study.SETTINGS[f"{n} positives"].held for n in (50, 100, 300)}
    held = {n: round(n * (share or 0)) for n, share in kept.items()}
    text = " ".join((DOCS / "how-many-positives.md").read_text().split())
    assert "{} of 50, {} of 100 and {} of 300".format(*held.values()) in text


def test_the_true_rates_of_a_linear_score_are_those_of_many_rows() -> None:
    random = np.random.default_rng(3)
    labels = np.repeat([1, 0], 100_000)
    rows = random.normal(size=(len(labels), threshold_peer.FEATURES)) + labels[:, None] * threshold_peer.SHIFT
    model = LogisticRegression().fit(rows[::500], labels[::500])
    alarm = model.decision_function(rows) >= 0.3
    found = [alarm[labels == kind].mean() for kind in (1, 0)]
    assert threshold_peer.rates(model, 0.3) == pytest.approx(found, abs=0.005)


def test_the_fast_balanced_accuracy_is_scikit_learns() -> None:
    random = np.random.default_rng(4)
    truth, said = random.integers(0, 2, (2, 500))
    assert threshold_peer.balanced_accuracy(truth, said) == pytest.approx(balanced_accuracy_score(truth, said))


def test_a_recorded_draw_of_thresholds_repeats() -> None:
    rows = pd.read_csv(threshold_peer.PLACE)
    before = rows[(rows["positives"] == 60) & (rows["draw"] == 7)]
    assert before["method"].tolist() == list(threshold_peer.METHODS)
    again = pd.DataFrame(threshold_peer.one_draw(60, 7))
    assert again[["recall", "fpr"]].to_numpy() == pytest.approx(before[["recall", "fpr"]].to_numpy(), abs=1e-3)


def test_both_sides_of_the_resampling_study_are_on_the_same_halves() -> None:
    rows = resampling_peer.paired(resampling_peer.RECORDS)
    halves = {
        str(method): set(own[["table", "repetition", "half"]].itertuples(index=False, name=None))
        for method, own in rows.groupby("method")
    }
    assert halves.keys() == {resampling_peer.OURS, *resampling_peer.PLAIN, *resampling_peer.METHODS}
    assert all(one == halves[resampling_peer.OURS] for one in halves.values())
    assert len(halves[resampling_peer.OURS]) == 6 * 2 * resampling_peer.REPETITIONS
    positives = rows.groupby(["table", "repetition", "half"])["positives"].nunique()
    assert (positives == 1).all()


def test_the_tables_of_guarantees_are_those_of_the_records() -> None:
    page = (DOCS / "guarantees.md").read_text()
    assert promise_study.table(pd.read_csv(ROOT / promise_study.PLACE)) in page
    assert mapie_peer.markdown(mapie_records()) in page


def test_the_pages_of_the_studies_on_tables_say_what_their_records_say() -> None:
    assert (DOCS / "fit.md").read_text() == fit_page(ROOT / "records/fit"), "python -m benchmarks.fit_study page"
    assert (DOCS / "tabular.md").read_text().strip() == tabular_page(ROOT / "records/tabular").strip()


def test_what_is_said_about_scikit_learns_thresholds_is_so() -> None:
    rows = pd.read_csv(threshold_peer.PLACE)
    found = rows.assign(short=rows["recall"] < threshold_peer.TPR).groupby(["method", "positives"])
    short, fpr = found["short"].mean(), found["fpr"].mean()
    _, quantile, _, constrained, cross_fitted, certified = threshold_peer.METHODS
    assert (short[cross_fitted] <= 0.05).all()
    assert (short[certified] <= 0.05).all()
    assert (short[quantile] > 0.4).all()
    assert short[constrained][60] > 0.1
    assert all(fpr[cross_fitted][n] < fpr[constrained][n] for n in (120, 400))


def test_fresh_draws_do_not_contradict_what_a_fit_promises() -> None:
    rows = pd.read_csv(ROOT / "records/fit/answers_fresh.csv")
    assert set(rows["draw"]).isdisjoint(pd.read_csv(answer_study.PLACE)["draw"])
    found = rows.assign(broken=rows["broken"].fillna(0)).groupby(["setting", "promise", "kind"])["broken"]
    assert len(found) == 52
    assert (found.size() == 126).all()
    assert found.sum().max() == 9  # 25 would be a contradiction
    assert stats.binom.sf(24, 126, 0.1) <= 0.05 / 52


def test_the_average_that_fit_makes_falls_short_no_more_often_than_stated() -> None:
    rows = pd.read_csv(coverage_study.PLACE)
    draws = rows[rows["setting"].str.startswith("fit, ")].groupby("setting")
    short = draws.apply(lambda own: int((own["recall"] < own["tpr"]).sum()))
    assert short.sort_values().tolist() == [3, 3, 3, 3, 6]
    for name, setting in coverage_study.SETTINGS.items():
        if name in short:
            assert stats.binom.sf(short[name] - 1, 100, 1 - setting.confidence) > 0.05 / len(short)
    assert (draws.size() == 100).all()


def test_what_is_said_about_skin_lesions_is_in_the_records_of_the_image_study() -> None:
    rows = (
        pd.read_csv(ROOT / "records/images/ham10000.csv").groupby("arm")[["fpr_at_95", "fpr_at_90", "auc"]].mean()
    )
    decision = (DOCS / "decisions/0046-images.md").read_text()
    for arm in ("scratch", "frozen", "fine-tuned", "scratch + frozen", "scratch + fine-tuned", "all three"):
        numbers = " | ".join(f"{100 * value:.1f}" for value in rows.loc[arm].to_numpy())
        assert f"| {arm} | {numbers} |" in decision


def test_what_the_guide_says_about_pretrained_features_is_in_their_records() -> None:
    records = [json.loads(line) for line in (ROOT / "records/images/features.jsonl").read_text().splitlines()]
    rows = pd.DataFrame(
        {"data": one["data"], "way": way, **found} for one in records for way, found in one["measures"].items()
    )
    means = rows.groupby(["way", "data"])[["auc", "fpr@95"]].mean()
    alone, average = means.loc["features"], means.loc["features, oversampling"]
    ahead = alone["auc"] > average["auc"]
    (skin,) = ahead.index[~ahead]  # "on CIFAR and solar cells features alone were better"
    assert skin.startswith("skin lesions")
    assert len(ahead) == 4
    guide = " ".join((DOCS / "guide/own-data.md").read_text().split())
    assert (
        f"an AUC of {average.auc[skin]:.1f} and an FPR of {average['fpr@95'][skin]:.1f} % at 95 % TPR,"
        f" features alone {alone.auc[skin]:.1f} and {alone['fpr@95'][skin]:.1f} %"
    ) in guide
