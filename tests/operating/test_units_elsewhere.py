"""Units in comparisons, intervals, monitoring and recertification, by oracles and by what must not change."""

from dataclasses import replace

import numpy as np
import pytest

from rankreg.metrics import auc, fpr_at_tpr
from rankreg.operating import certify, compare, fpr_at_tpr_interval, monitor, recertify
from rankreg.operating.guarantees import certified_rank, lower_bound, upper_bound
from rankreg.operating.intervals import aucs
from rankreg.operating.monitoring import log_evidence
from rankreg.operating.points import assumption
from rankreg.operating.units import UnitSizes
from tests.operating.test_units import clustered


def test_a_model_compared_with_itself_differs_by_nothing() -> None:
    labels, scores, units = clustered(100, 3)
    for other in (scores, np.exp(scores), 3 * scores - 1):
        for given in (None, units):
            found = compare(labels, scores, other, tpr=0.9, units=given)
            for difference in (found.fpr, found.auc):
                assert (difference.difference, difference.low, difference.high) == (0, 0, 0)
                assert difference.p_value == 1
            assert found.fpr.a == found.fpr.b == fpr_at_tpr(labels, scores, 0.9)
            assert found.auc.a == found.auc.b == auc(labels, scores)


def test_models_that_only_happen_to_agree_are_still_uncertain() -> None:
    labels = np.repeat([1, 0], [60, 60])
    generator = np.random.default_rng(4)
    a, b = labels + 0.1 * generator.random(120), labels + 0.1 * generator.random(120)
    found = compare(labels, a, b, tpr=0.9).fpr
    assert found.difference == 0  # both separate these samples
    assert found.low < 0 < found.high


def test_units_of_one_row_compare_as_rows_do() -> None:
    labels, scores, _ = clustered(100, 3)
    other = scores + np.random.default_rng(5).standard_normal(300)
    plain, single = (compare(labels, scores, other, tpr=0.9, units=units) for units in (None, np.arange(300)))
    assert replace(single, units=None) == plain


def test_copies_tell_no_more_than_their_originals() -> None:
    """Each row copied ten times: with units the interval is that of the originals, without it is far too short."""
    labels, scores, _ = clustered(300, 1)
    other = scores + np.random.default_rng(6).standard_normal(300)
    labels_10, scores_10, other_10, units = (
        np.repeat(values, 10) for values in (labels, scores, other, np.arange(300))
    )

    def widths(found: object) -> np.ndarray:
        return np.array([getattr(found, name).high - getattr(found, name).low for name in ("fpr", "auc")])

    originals = widths(compare(labels, scores, other, tpr=0.9))
    over_units = widths(compare(labels_10, scores_10, other_10, tpr=0.9, units=units))
    over_rows = widths(compare(labels_10, scores_10, other_10, tpr=0.9))
    np.testing.assert_allclose(over_units, originals, rtol=0.1)
    assert (over_rows < 0.6 * originals).all()
    interval = fpr_at_tpr_interval(labels_10, scores_10, tpr=0.9, units=units)
    short = fpr_at_tpr_interval(labels_10, scores_10, tpr=0.9)
    assert interval.low < short.low < short.high < interval.high


def test_the_spread_of_the_auc_over_units_is_that_of_leaving_one_out() -> None:
    """The jackknife over units, an independent estimate of the same variance."""
    labels, scores, _ = clustered(200, 4)
    units = np.arange(800) // 8  # each unit with rows of both classes
    found = aucs(labels == 1, [scores, scores**3], units)
    left_out = np.array(
        [
            [auc(labels[units != unit], values[units != unit]) for values in (scores, scores**3)]
            for unit in range(100)
        ]
    )
    jackknife = 99 / 100 * (left_out - left_out.mean(axis=0)).T @ (left_out - left_out.mean(axis=0))
    np.testing.assert_allclose(found.covariance, jackknife, rtol=0.05)


def test_one_unit_has_no_spread() -> None:
    labels, scores, _ = clustered(4, 3)
    with pytest.raises(ValueError, match="at least two"):
        compare(labels, scores, scores[::-1], tpr=0.5, units=np.zeros(12))


def test_the_interval_of_the_fpr_takes_both_bounds_over_units() -> None:
    labels, scores, units = clustered(400, 5)
    found = fpr_at_tpr_interval(labels, scores, tpr=0.9, confidence=0.9, units=units)
    sizes, ordered = UnitSizes.of([5] * 200), np.sort(scores[labels == 1])
    risk = 0.1 / 4  # as many units of either class
    lowest, highest = certified_rank(sizes, 0.9, 1 - risk), 1001 - certified_rank(sizes, 0.1, 1 - risk)
    false = [int(np.sum(scores[labels == 0] >= ordered[rank - 1])) for rank in (lowest, highest)]
    assert found.high == upper_bound(false[0], sizes, 1 - risk)
    assert found.low == lower_bound(false[1], sizes, 1 - risk)
    single = fpr_at_tpr_interval(labels, scores, tpr=0.9, units=np.arange(2000))
    assert single == fpr_at_tpr_interval(labels, scores, tpr=0.9)


def test_the_monitor_counts_each_unit_once_in_the_order_of_first_rows() -> None:
    scores = np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0])
    units = np.array(["b", "a", "b", "a", "b", "c"])
    watch = monitor(scores, threshold=0.0, tpr=0.9, units=units)
    expected, _ = log_evidence(np.array([2 / 3, 1 / 2, 0]), 0.1, np.array([1, 2 / 3, 1 / 3]))
    np.testing.assert_allclose(np.log(watch.path), expected)
    assert (watch.units, watch.positives, watch.misses, watch.recall) == (3, 6, 3, 0.5)
    by_unit = monitor(scores, threshold=0.0, tpr=0.9, units=units, per="unit")
    np.testing.assert_allclose(by_unit.path, monitor([1.0, 1.0, 1.0], threshold=0.0, tpr=0.9).path)
    assert (by_unit.misses, by_unit.recall) == (0, 1)
    with pytest.raises(ValueError, match="pass them as units="):
        monitor(scores, threshold=0.0, per="unit")


def test_the_monitor_is_a_fair_bet_on_units_of_several_sizes() -> None:
    """Its mean over all streams of four units, weighted by their chance, is 1 at the target of the rows.

    Small units are missed more than the target allows and large ones less, so that the rows just meet it.
    """
    sizes, chances, target = np.array([1.0, 4.0]), np.array([0.3, 0.05]), 0.1  # rows: (0.3 + 4 · 0.05) / 5
    shares, weights, probability = list[list[float]](), list[list[float]](), list[float]()
    for stream in np.ndindex(4, 4, 4, 4):  # each unit small or large, caught or missed
        kinds, missed = np.array(stream) // 2, np.array(stream) % 2
        shares.append(missed.tolist())
        weights.append((sizes[kinds] / 4).tolist())
        probability.append(float(np.prod(0.5 * np.where(missed, chances[kinds], 1 - chances[kinds]))))
    mean = np.array(probability) @ np.exp(log_evidence(np.array(shares, float), target, np.array(weights))[0])
    np.testing.assert_allclose(mean, 1)


def test_recertifying_bounds_the_recall_over_units() -> None:
    labels, scores, units = clustered(400, 5)
    found = recertify(labels, scores, threshold=1.0, tpr=0.9, units=units)
    caught = int(np.sum(scores[labels == 1] >= 1.0))
    sizes = UnitSizes.of([5] * 200)
    assert (found.units, found.positives) == (200, 1000)
    assert (found.recall.low, found.recall.high) == (
        lower_bound(caught, sizes, 0.95),
        upper_bound(caught, sizes, 0.95),
    )
    assert found.point == certify(labels, scores, tpr=0.9, units=units)
    by_unit = recertify(labels, scores, threshold=1.0, tpr=0.9, units=units, per="unit")
    highest = scores[labels == 1].reshape(200, 5).max(axis=1)
    assert by_unit.recall.low == lower_bound(int(np.sum(highest >= 1.0)), 200, 0.95)


def test_the_assumption_counts_units_where_there_are_any() -> None:
    labels, scores, units = clustered(400, 5)
    over_units, over_rows = certify(labels, scores, tpr=0.9, units=units), certify(labels, scores, tpr=0.9)
    assert "200 units are independent" in assumption(over_units)
    assert "1,000 positives are independent" in assumption(over_rows)
