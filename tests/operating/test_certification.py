"""The certified threshold: its numbers by brute force, its promise by simulation."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import confusion_matrix, roc_curve

from rankreg.operating import Costs, NotEnoughPositives, OperatingPoint, certify, certify_groups, certify_targets
from rankreg.operating.guarantees import certified_rank, joint_confidence, joint_ranks

DRAWS = 4000


def two_classes(positives: int, negatives: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    generator = np.random.default_rng(seed)
    labels = np.repeat([1, 0], [positives, negatives])
    return labels, generator.standard_normal(len(labels)) + 2 * labels


def shortfall_limit(risk: float, draws: int) -> float:
    """The risk plus three Monte-Carlo standard errors."""
    return risk + 3 * float(np.sqrt(risk * (1 - risk) / draws))


# The recall of a threshold t in the population: the chance that a positive scores t or more.
POPULATIONS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "normal": (stats.norm(), lambda draw: draw),
    "heavy tails": (stats.cauchy(), lambda draw: draw),
    "skewed": (stats.lognorm(2), lambda draw: draw),
    "tied": (stats.norm(), lambda draw: np.round(2 * draw) / 2),
    "few values": (stats.norm(), lambda draw: np.sign(draw)),
}


def true_recall(name: str, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    if name == "tied":
        return np.asarray(stats.norm.sf(thresholds - 0.25))
    if name == "few values":
        return np.where(thresholds > 0, 0.5, 1.0)
    return np.asarray(POPULATIONS[name][0].sf(thresholds))


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize(("positives", "tpr", "confidence"), [(59, 0.95, 0.95), (200, 0.98, 0.9), (300, 0.9, 0.95)])
def test_recall_falls_short_no_more_often_than_promised(
    name: str, positives: int, tpr: float, confidence: float
) -> None:
    population, rounding = POPULATIONS[name]
    draws = rounding(population.rvs((DRAWS, positives), random_state=np.random.default_rng(1)))
    rank = certified_rank(positives, tpr, confidence)
    thresholds = np.partition(draws, rank - 1, axis=1)[:, rank - 1]
    for draw, threshold in zip(draws[:3], thresholds[:3], strict=True):  # the order statistic is what certify takes
        labels, scores = np.append(np.ones(positives), 0), np.append(draw, -1e9)
        assert certify(labels, scores, tpr=tpr, confidence=confidence).threshold == threshold
    short = np.mean(true_recall(name, thresholds) < tpr - 1e-12)
    assert short <= shortfall_limit(1 - confidence, DRAWS)


def test_the_promise_is_exact_not_merely_safe() -> None:
    """With 59 positives at 95 %, the lowest score fails with chance 0.95⁵⁹ = 4.85 %."""
    lowest = np.random.default_rng(2).random((40_000, 59)).min(axis=1)
    assert np.mean(lowest > 0.05) == pytest.approx(0.95**59, abs=3 * np.sqrt(0.0485 * 0.9515 / 40_000))


@given(st.lists(st.tuples(st.booleans(), st.integers(-5, 5)), min_size=30, max_size=80), st.floats(0.3, 0.9))
def test_every_number_of_a_point_by_counting(rows: list[tuple[bool, int]], tpr: float) -> None:
    labels = np.array([1, 1, 1, 1, 0] + [int(positive) for positive, _ in rows])
    scores = np.array([0, 1, 2, 3, -1] + [score for _, score in rows])
    try:
        point = certify(labels, scores, tpr=tpr, confidence=0.6, prevalence=0.1)
    except NotEnoughPositives:
        assert tpr ** labels.sum() > 0.4
        return
    lowest_first = np.sort(scores[labels == 1])
    assert point.threshold == lowest_first[point.rank - 1]
    below, false, _, caught = confusion_matrix(labels, scores >= point.threshold).ravel()
    assert point.fpr == pytest.approx(false / (false + below))
    assert point.recall == pytest.approx(caught / labels.sum())
    alarm = 0.1 * point.recall + 0.9 * point.fpr
    assert point.alarms_per_1000 == pytest.approx(1000 * alarm)
    assert point.ppv == pytest.approx(0.1 * point.recall / alarm)
    if point.npv is None:
        assert alarm == pytest.approx(1)
    else:
        assert point.npv == pytest.approx(0.9 * (1 - point.fpr) / (1 - alarm))
    assert point.ppv_at_least is not None
    assert point.ppv_at_least <= point.ppv + 1e-12 or point.recall < tpr
    assert point.fpr_at_most >= point.fpr


def test_the_point_lies_on_scikit_learns_curve() -> None:
    labels, scores = two_classes(400, 5000)
    point = certify(labels, scores, tpr=0.9)
    fpr, tpr, thresholds = roc_curve(labels, scores, drop_intermediate=False)
    place = np.flatnonzero(thresholds == point.threshold)[0]
    assert (fpr[place], tpr[place]) == (point.fpr, point.recall)
    assert point.uncertified.threshold == thresholds[np.argmax(tpr >= 0.9)]
    assert point.extra_fpr == pytest.approx(fpr[place] - fpr[np.argmax(tpr >= 0.9)])


def test_the_fpr_bound_holds_as_often_as_it_says() -> None:
    """The threshold comes from the positives, so the bound is binomial whatever it is."""
    generator, broken = np.random.default_rng(3), 0
    labels = np.repeat([1, 0], [60, 100])
    for _ in range(2000):
        scores = generator.standard_normal(160) + labels
        point = certify(labels, scores, tpr=0.9, confidence=0.9)
        broken += stats.norm.sf(point.threshold) > point.fpr_at_most
    assert broken / 2000 <= shortfall_limit(0.1, 2000)


def test_without_a_prevalence_it_is_that_of_the_sample() -> None:
    labels, scores = two_classes(200, 1800)
    point = certify(labels, scores)
    assert (point.prevalence, point.prevalence_given) == (0.1, False)
    assert point.alarms_per_1000 == pytest.approx(1000 * np.mean(scores >= point.threshold))


def test_scaling_and_shifting_scores_moves_the_threshold_along() -> None:
    labels, scores = two_classes(200, 500)
    point, moved = certify(labels, scores), certify(labels, np.exp(scores))
    assert moved.threshold == np.exp(point.threshold)
    assert (moved.fpr, moved.recall) == (point.fpr, point.recall)


def test_ties_at_the_usual_threshold_are_noted() -> None:
    labels, scores = two_classes(600, 900)
    assert not certify(labels, scores).uncertified.tied
    point = certify(labels, np.round(scores))
    usual = np.count_nonzero(np.round(scores)[labels == 1] == point.uncertified.threshold)
    assert usual > 1
    assert point.uncertified.tied


def test_a_point_is_json() -> None:
    labels, scores = two_classes(200, 500)
    for found in (
        certify(labels, scores.astype(np.float32), costs=Costs(10, 1)),
        certify_targets(labels, scores, tprs=[0.9, 0.95]),
        certify_groups(labels, scores, np.arange(700) % 2, tpr=0.9),
    ):
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["confidence"] == 0.95


def test_the_cheapest_threshold_is_the_best_of_all_that_keep_the_recall() -> None:
    labels, scores = two_classes(300, 3000)
    plain = certify(labels, scores, tpr=0.9, prevalence=0.02)
    point = certify(labels, scores, tpr=0.9, prevalence=0.02, costs=Costs(miss=400, alarm=1))
    assert point.cost is not None

    def cost(threshold: float) -> float:
        missed, false = np.mean(scores[labels == 1] < threshold), np.mean(scores[labels == 0] >= threshold)
        return float(1000 * (0.02 * 400 * missed + 0.98 * false))

    allowed = [score for score in scores if score <= plain.threshold]
    assert point.cost.per_1000 == pytest.approx(min(map(cost, allowed)))
    assert cost(point.threshold) == pytest.approx(point.cost.per_1000)
    assert cost(plain.threshold) == pytest.approx(point.cost.per_1000_at_certified)
    assert point.threshold < plain.threshold
    assert point.fpr_at_most - point.fpr == pytest.approx(np.sqrt(np.log(20) / 6000))


def test_cheap_misses_do_not_undercut_the_guarantee() -> None:
    labels, scores = two_classes(300, 3000)
    plain, cheap = certify(labels, scores), certify(labels, scores, costs=Costs(miss=0, alarm=1))
    assert cheap.threshold == plain.threshold


@pytest.mark.parametrize(("miss", "alarm"), [(-1, 1), (0, 0), (1, float("inf")), (float("nan"), 1)])
def test_impossible_costs_are_refused(miss: float, alarm: float) -> None:
    with pytest.raises(ValueError, match="costs must be finite"):
        Costs(miss, alarm)


def test_the_joint_confidence_is_that_of_simulation() -> None:
    tprs, ranks = [0.9, 0.98, 0.95], [12, 1, 5]
    draws = np.sort(np.random.default_rng(4).random((40_000, 200)), axis=1)
    kept = np.all([draws[:, rank - 1] <= 1 - tpr for tpr, rank in zip(tprs, ranks, strict=True)], axis=0)
    exact = joint_confidence(200, tprs, ranks)
    assert kept.mean() == pytest.approx(exact, abs=3 * np.sqrt(exact * (1 - exact) / 40_000))


def test_one_target_shares_with_nobody() -> None:
    assert joint_confidence(300, [0.98], [2]) == pytest.approx(1 - stats.binom.cdf(1, 300, 0.02))
    labels, scores = two_classes(300, 300)
    assert certify_targets(labels, scores, tprs=[0.98]).points[0] == certify(labels, scores, tpr=0.98)


@pytest.mark.parametrize("positives", [149, 220, 1000, 20_000])
def test_targets_hold_together_and_cost_no_more_than_the_product_rule(positives: int) -> None:
    tprs = [0.98, 0.9, 0.95]
    ranks = joint_ranks(positives, tprs, 0.95)
    assert joint_confidence(positives, tprs, ranks) >= 0.95 - 1e-9
    product = [certified_rank(positives, tpr, 0.95 ** (1 / 3)) for tpr in tprs]
    assert min(ranks) >= 1
    assert not all(product) or sum(ranks) > sum(product)


def test_as_many_positives_suffice_for_several_targets_as_for_the_highest() -> None:
    with pytest.raises(NotEnoughPositives, match="149 are needed"):
        joint_ranks(148, [0.9, 0.98], 0.95)
    assert min(joint_ranks(149, [0.9, 0.98], 0.95)) >= 1


@pytest.mark.parametrize("positives", [160, 500])
def test_all_targets_hold_at_once_as_often_as_promised(positives: int) -> None:
    tprs = [0.98, 0.95, 0.9]
    draws = np.sort(np.random.default_rng(5).random((DRAWS, positives)), axis=1)
    ranks = joint_ranks(positives, tprs, 0.95)
    short = np.any([draws[:, rank - 1] > 1 - tpr for tpr, rank in zip(tprs, ranks, strict=True)], axis=0)
    assert short.mean() <= shortfall_limit(0.05, DRAWS)
    labels, scores = np.repeat([1, 0], [positives, 2]), np.append(draws[0], [-1, -2])
    found = certify_targets(labels, scores, tprs=tprs)
    assert [point.threshold for point in found.points] == [draws[0, rank - 1] for rank in ranks]


def test_very_many_positives_share_by_the_product_rule() -> None:
    ranks = joint_ranks(150_000, [0.9, 0.98], 0.95)
    assert ranks == [certified_rank(150_000, tpr, 0.95**0.5) for tpr in (0.9, 0.98)]


def test_every_group_keeps_its_recall_at_once() -> None:
    generator, short, common_short = np.random.default_rng(6), 0, 0
    groups = np.repeat(["a", "b", "c"], 130)
    labels = np.tile(np.repeat([1, 0], [100, 30]), 3)
    for _ in range(2000):
        scores = generator.random(390)
        found = certify_groups(labels, scores, groups, tpr=0.95, confidence=0.9)
        short += any(point.threshold > 0.05 for point in found.points.values())
        common_short += found.everyone.threshold > 0.05
    assert common_short <= short <= 2000 * shortfall_limit(0.1, 2000)


def test_the_common_threshold_is_the_lowest_and_counts_everyone() -> None:
    labels, scores = two_classes(600, 900)
    groups = np.arange(1500) % 2
    found = certify_groups(labels, scores, groups, names=["women", "men"])
    assert list(found.points) == ["women", "men"]
    assert found.everyone.threshold == min(point.threshold for point in found.points.values())
    assert found.everyone.positives == 600
    assert found.everyone.fpr == np.mean(scores[labels == 0] >= found.everyone.threshold)
    men: OperatingPoint = found.points["men"]
    alone = certify(labels[groups == 1], scores[groups == 1], confidence=0.95**0.5)
    assert men == alone


def test_a_group_that_cannot_be_certified_is_named() -> None:
    labels, scores = two_classes(600, 900)
    few = np.where(np.arange(1500) < 20, "small", "large")
    few[-1] = "small"
    why = certify_groups(labels, scores, few).uncertified["small"]
    assert "20 positives in group 'small' are too few" in why
    assert "97.4679 % confidence, which each of 2 groups needs for 95 % in all of them together" in why
    few[-1] = "large"
    assert "group 'small' has no negatives" in certify_groups(labels, scores, few).uncertified["small"]
    with pytest.raises(ValueError, match="one group per sample"):
        certify_groups(labels, scores, few[1:])


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([1] * 300, np.arange(300.0), "undefined without negatives"),
        ([0] * 300, np.arange(300.0), "undefined without positives"),
        ([1, 0], [0.0, float("nan")], "NaN"),
        ([1] * 200 + [0] * 5, np.ones(205), "all 205 scores equal 1.0"),
        ([1, 2], [0.0, 1.0], "must be 0 or 1"),
        ([1, 0, 1], [0.0, 1.0], "one shape"),
    ],
)
def test_bad_input_is_refused(labels: list[int], scores: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify(labels, scores)
