"""A summary of scores gives the numbers of the scores themselves; scikit-learn is the oracle."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from rankreg import metrics, operating
from rankreg.operating import ScoreSpool, ScoreSummary, score_spool

TPRS = [0.1, 0.5, 0.9, 1.0]
Data = tuple[NDArray[np.int64], NDArray[np.floating]]


@st.composite
def samples(draw: st.DrawFn, *, infinite: bool = False) -> Data:
    """Both classes, many ties, perhaps infinite scores; float32 or float64."""
    values = [-1.5, -0.0, 0.0, 0.1, 0.25, 1e-300, 3.0] + ([-np.inf, np.inf] if infinite else [])
    one = st.sampled_from(values) | st.floats(-4, 4, width=32)
    rows = draw(st.lists(st.tuples(st.integers(0, 1), one), min_size=2, max_size=60))
    labels, scores = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    scores = scores.astype(draw(st.sampled_from([np.float32, np.float64])))
    assume(0 < labels.sum() < len(labels) and not np.all(scores == scores[0]))
    return labels, scores


def in_pieces(labels: NDArray[np.int64], scores: NDArray[np.floating], cuts: list[int]) -> ScoreSummary:
    """Counted piece by piece and merged, over JSON, in reverse order."""
    empty = ScoreSummary.of_positives(scores[labels == 1])
    parts = [
        empty.count(part[own == 0])
        for own, part in zip(np.split(labels, sorted(cuts)), np.split(scores, sorted(cuts)), strict=True)
    ]
    sent = [ScoreSummary.from_dict(json.loads(json.dumps(part.to_dict()))) for part in parts[::-1]]
    return sent[0].merge(*sent[1:])


@given(samples(infinite=True), st.lists(st.integers(0, 60), max_size=4))
@settings(max_examples=40, deadline=None)
def test_every_number_is_the_same_in_memory_and_merged(data: Data, cuts: list[int]) -> None:
    labels, scores = data
    for summary in (ScoreSummary.of(labels, scores), in_pieces(labels, scores, cuts)):
        assert summary.auc() == metrics.auc(labels, scores)
        assert summary.fpr_at_tpr(TPRS).tolist() == metrics.fpr_at_tpr(labels, scores, TPRS).tolist()
        whole: Any = operating.fpr_at_tpr_interval(labels, scores, tpr=TPRS)
        assert operating.fpr_at_tpr_interval(summary, tpr=TPRS) == whole
        if 1 < labels.sum() < len(labels) - 1:
            assert operating.auc_interval(summary) == operating.auc_interval(labels, scores)
        threshold = float(scores[labels == 1][0])
        found = operating.findings(labels, scores, threshold=threshold)
        assert operating.findings(summary, threshold=threshold) == found
        for score in scores[labels == 1]:
            assert summary.alarms(float(score)) == tuple(int((scores[labels == k] >= score).sum()) for k in (1, 0))


@given(samples())
@settings(max_examples=40, deadline=None)
def test_roc_is_the_curve_of_scikit_learn_with_fewer_points(data: Data) -> None:
    labels, scores = data
    found = ScoreSummary.of(labels, scores).roc()
    fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
    points = set(zip(fpr.round(12).tolist(), tpr.round(12).tolist(), strict=True))
    assert set(zip(found.fpr.round(12).tolist(), found.tpr.round(12).tolist(), strict=True)) <= points
    area = float(np.sum(np.diff(found.fpr) * (found.tpr[1:] + found.tpr[:-1]) / 2))
    assert area == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert np.all(np.diff(found.thresholds) < 0)
    for rate, threshold in zip(found.fpr, found.thresholds, strict=True):
        assert rate == np.mean(scores[labels == 0] >= threshold)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("costs", [None, operating.Costs(miss=30, alarm=1)])
def test_a_certified_point_is_the_same_to_the_last_bit(dtype: Any, costs: operating.Costs | None) -> None:
    generator = np.random.default_rng(3)
    labels = (generator.random(4000) < 0.05).astype(np.int64)
    scores = (generator.standard_normal(4000) + 2 * labels).round(2).astype(dtype)
    merged = in_pieces(labels, scores, [100, 100, 2500])
    settings: dict[str, Any] = {"tpr": 0.9, "prevalence": 0.01, "costs": costs}
    assert operating.certify(merged, **settings) == operating.certify(labels, scores, **settings)
    several = operating.certify_targets(labels, scores, tprs=[0.8, 0.9])
    assert operating.certify_targets(merged, tprs=[0.8, 0.9]) == several


def test_more_pairs_than_64_bits_can_count_do_not_overflow() -> None:
    many = 2**40
    summary = ScoreSummary(
        np.array([0.5]), np.array([many]), np.array([0]), np.array([3 * many, many]), (0, 1), (1, 1)
    )
    assert summary.auc() == 0.75


def test_hard_predictions_are_found_even_if_all_positives_are_predicted() -> None:
    labels = [1] * 50 + [0] * 200
    hard, soft = [1] * 50 + [0] * 100 + [1] * 100, [1.0] * 50 + [0] * 100 + [0.5] * 100
    assert [found.name for found in operating.findings(ScoreSummary.of(labels, hard))] == ["two-values"]
    assert operating.findings(ScoreSummary.of(labels, soft)) == ()


def test_what_a_summary_does_not_know_is_refused() -> None:
    summary = ScoreSummary.of([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    assert [summary.alarms(threshold) for threshold in (0.1, 0.6, 0.8, 0.9)] == [(2, 2), (1, 0), (1, 0), (0, 0)]
    with pytest.raises(ValueError, match=r"how many negatives reach 0\.38"):
        summary.alarms(0.38)
    with pytest.raises(ValueError, match="pass it alone"):
        operating.certify(summary, [0.1, 0.2])
    with pytest.raises(ValueError, match="y_score is missing"):
        operating.certify([0, 1])
    with pytest.raises(ValueError, match="knows no units"):
        operating.certify(summary, per="unit")
    with pytest.raises(ValueError, match="different positives"):
        summary.merge(ScoreSummary.of_positives([0.35]))
    with pytest.raises(ValueError, match="undefined without negatives"):
        ScoreSummary.of_positives([1, 2]).auc()
    with pytest.raises(ValueError, match="undefined without positives"):
        operating.certify(ScoreSummary.of_positives([]).count([1.0]))
    with pytest.raises(ValueError, match="all 3 scores equal"):
        operating.certify(ScoreSummary.of([0, 1, 1], [2, 2, 2]))
    with pytest.raises(ValueError, match="NaN"):
        summary.count([np.nan])


@pytest.mark.parametrize(
    "change", [{"scores": [2, 1]}, {"tied_counts": [-1, 0]}, {"between_counts": [1, 2]}, {"lowest": None}]
)
def test_a_damaged_description_is_refused(change: dict[str, Any]) -> None:
    sent = ScoreSummary.of([0, 1, 1], [0, 1, 2]).to_dict()
    with pytest.raises(ValueError, match="not a summary of scores"):
        ScoreSummary.from_dict(sent | change)


@given(samples(infinite=True), st.lists(st.sampled_from([-np.inf, -1.5, 0.05, 0.25, 2.0, np.inf]), max_size=4))
@settings(max_examples=40, deadline=None)
def test_levels_are_counted_and_change_no_other_number(data: Data, levels: list[float]) -> None:
    labels, scores = data
    plain, found = ScoreSummary.of(labels, scores), ScoreSummary.of(labels, scores, levels=levels)
    for level in levels:
        assert found.alarms(level) == tuple(int((scores[labels == k] >= level).sum()) for k in (1, 0))
    assert found.positives.tolist() == plain.positives.tolist()
    assert (found.span, found.two_valued, found.auc()) == (plain.span, plain.two_valued, plain.auc())
    assert found.fpr_at_tpr(TPRS).tolist() == plain.fpr_at_tpr(TPRS).tolist()
    assert [one.tolist() for one in found.roc()[:2]] == [one.tolist() for one in plain.roc()[:2]]
    if 1 < labels.sum() < len(labels) - 1:
        assert operating.auc_interval(found) == operating.auc_interval(plain)
    assert operating.findings(found) == operating.findings(plain)
    assert ScoreSummary.from_dict(found.to_dict()).to_dict() == found.to_dict()


@given(samples(), st.lists(st.integers(0, 60), max_size=4))
@settings(max_examples=25, deadline=None)
def test_scores_that_come_once_give_the_same_summary_from_memory_and_from_disk(data: Data, cuts: list[int]) -> None:
    labels, scores = data
    for held in (1 << 20, 8):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(score_spool, "HELD", held)
            with ScoreSpool(scores.dtype.type) as spool:
                for part in np.split(np.arange(len(labels)), sorted(cuts)):
                    spool.add(labels[part] == 1, scores[part])
                assert spool.rows == len(labels)
                assert vars(spool._negatives)["_rolled"] == (
                    held == 8 and (labels == 0).sum() * scores.itemsize > held
                )
                for _ in range(2):
                    found = spool.summary(levels=[0.5]).to_dict()
                    assert found == ScoreSummary.of(labels, scores, levels=[0.5]).to_dict()


def test_a_spool_refuses_nan_and_other_shapes() -> None:
    with ScoreSpool(np.float32) as spool:
        with pytest.raises(ValueError, match="NaN"):
            spool.add(np.array([True]), np.array([np.nan]))
        with pytest.raises(ValueError, match="one label per score"):
            spool.add(np.array([True]), np.array([1.0, 2.0]))


def odd_scores(kind: str, random: np.random.Generator) -> tuple[Any, Any]:
    """Many negatives, and positives that are hard for an even grid."""
    negatives, positives = random.normal(size=3000), random.normal(size=20) + 1
    if kind == "ties":
        return negatives.round(1), positives.round(1)
    if kind == "heavy tails":
        return random.standard_cauchy(3000), random.standard_cauchy(20)
    if kind == "infinite":
        negatives[:4] = np.inf, -np.inf, 0.0, -0.0
        return negatives, np.append(positives, [np.inf, -np.inf])
    if kind == "beyond any width":
        return negatives, np.array([-1e308, 0.0, 1e308])
    if kind == "denormal":
        return negatives, np.array([0.0, 5e-324, 1e-320])
    if kind == "32 bits":
        negatives[:9] = positives[0]
        return negatives.astype(np.float32), positives
    return negatives, {"one": positives[:1], "negatives' own": negatives[::100]}[kind]


@pytest.mark.parametrize(
    "kind", ["ties", "heavy tails", "infinite", "beyond any width", "denormal", "32 bits", "one", "negatives' own"]
)
def test_many_negatives_are_counted_as_by_comparing_each_with_every_positive(kind: str) -> None:
    negatives, positives = odd_scores(kind, np.random.default_rng(3))
    found = operating.ScoreSummary.of_positives(positives).count(negatives)
    exact = negatives.astype(np.float64)  # NumPy 1 would round a score to the 32 bits of an array
    tied = [int((exact == score).sum()) for score in found.scores]
    lower = [int((exact < score).sum()) for score in found.scores]
    edges = np.append(lower, len(negatives)) - np.append(0, np.add(lower, tied))
    assert found.tied_counts.tolist() == tied
    assert found.between_counts.tolist() == edges.tolist()
    assert found.lowest == (negatives.min(), (negatives == negatives.min()).sum())
    assert found.highest == (negatives.max(), (negatives == negatives.max()).sum())
