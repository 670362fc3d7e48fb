"""Guarantees over units: the bound by brute force, its special cases by SciPy, and what is done with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from rankreg.operating import (
    NotEnoughPositives,
    certify,
    certify_groups,
    certify_targets,
    highest_tpr,
    positives_needed,
)
from rankreg.operating.guarantees import certified_rank, lower_bound, shortfall_risk, units_needed, upper_bound
from rankreg.operating.units import UnitSizes

SHAPES: dict[str, list[int]] = {
    "equal": [7] * 60,
    "geometric": np.random.default_rng(0).geometric(0.2, 200).tolist(),
    "one large": [1] * 300 + [50],
    "two sizes": [1] * 80 + [6] * 40,
}


def brute_force_tail(shape: list[int], count: int, share: float) -> float:
    """The exponential bound of two sizes: the worst of 1,001 ways to divide the misses, the best of 600 rates."""
    (small, large), (few, many) = np.unique(shape, return_counts=True)
    misses = share * sum(shape)
    on_large = np.linspace(0, min(1, misses / (many * large)), 1001)
    on_small = (misses - many * large * on_large) / (few * small)
    possible = (on_small >= 0) & (on_small <= 1)
    rates = np.exp(np.linspace(-8, 2, 600))[:, None]

    def log_mean(chances: NDArray[np.float64], size: int) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log1p(-chances), np.log(chances) - rates * size))

    logs = few * log_mean(on_small[possible], small) + many * log_mean(on_large[possible], large)
    return float(np.exp(min(0.0, (rates[:, 0] * count + logs.max(axis=1)).min())))


@pytest.mark.parametrize("shape", [[1] * 80 + [6] * 40, [1] * 300 + [50], [2] * 10 + [3] * 50, [4] * 90 + [40] * 9])
@pytest.mark.parametrize(("part", "share"), [(0.2, 0.05), (0.5, 0.1), (0.8, 0.3), (0.6, 0.9)])
def test_the_bound_is_that_of_brute_force(shape: list[int], part: float, share: float) -> None:
    count = max(1, int(part * share * sum(shape)))
    found = float(UnitSizes.of(shape).tail(count, share))
    assert found == pytest.approx(brute_force_tail(shape, count, share), rel=2e-3)


@pytest.mark.parametrize(("units", "size"), [(30, 2), (150, 5), (1000, 40)])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_equal_sizes_give_chernoffs_bound_of_as_many_units(units: int, size: int, share: float) -> None:
    sizes, rows = UnitSizes.of([size] * units), units * size
    for count in np.unique(np.linspace(1, share * rows, 7).astype(int)):
        seen = min(count / rows, share)
        distance = special.rel_entr(seen, share) + special.rel_entr(1 - seen, 1 - share)
        assert float(sizes.tail(count, share)) == pytest.approx(np.exp(-units * distance), rel=1e-4, abs=1e-300)
    assert float(sizes.tail(0, share)) == pytest.approx((1 - share) ** units, rel=1e-9)


@pytest.mark.parametrize("name", SHAPES)
def test_the_bound_is_never_below_the_chance_it_bounds(name: str) -> None:
    """Against all-or-none units with chances of several kinds, by simulation of 40,000 draws."""
    shape = np.array(SHAPES[name])
    generator, total = np.random.default_rng(1), shape.sum()
    for power in (-1.0, 0.0, 1.0):  # small units harder, all alike, large units harder
        chances = np.minimum(1, 0.1 * shape**power * total / (shape ** (1 + power)).sum())
        share = float(shape @ chances / total)
        missed = (generator.random((40_000, len(shape))) < chances) @ shape
        for count in np.quantile(missed, [0.005, 0.05, 0.3]).astype(int):
            chance = np.mean(missed <= count)
            assert chance <= UnitSizes.of(shape).tail(count, share) + 3 * np.sqrt(chance / 40_000)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.floats(0.01, 0.6), st.floats(0.5, 0.99))
def test_rank_risk_and_bounds_agree(shape: list[int], miss: float, confidence: float) -> None:
    sizes, tpr = UnitSizes.of(shape), 1 - miss
    rank = certified_rank(sizes, tpr, confidence)
    assert 0 <= rank <= sum(shape)
    assert not rank or shortfall_risk(sizes, rank, tpr) <= (1 - confidence) * (1 + 1e-4)
    assert shortfall_risk(sizes, rank + 1, tpr) >= (1 - confidence) * (1 - 1e-4)
    assert certified_rank(sizes, tpr - 0.005, confidence) >= rank  # less is asked
    assert rank <= certified_rank(sum(shape), tpr, confidence)  # units never know more than as many rows
    count = min(3, sum(shape) - 1)
    high = upper_bound(count, sizes, confidence)
    assert high >= upper_bound(count, sum(shape), confidence) - 1e-9
    if high < 1 and not sizes.single:
        assert float(sizes.tail(count, high)) == pytest.approx(1 - confidence, rel=1e-4)
    assert lower_bound(sum(shape) - count, sizes, confidence) == pytest.approx(1 - high)


def test_units_of_one_row_are_binomial_to_the_last_bit() -> None:
    sizes = UnitSizes.of(np.ones(300))
    assert certified_rank(sizes, 0.98, 0.95) == certified_rank(300, 0.98, 0.95)
    assert shortfall_risk(sizes, 4, 0.98) == shortfall_risk(300, 4, 0.98)
    assert shortfall_risk(sizes, 4, 0.98) == pytest.approx(stats.binom.cdf(3, 300, 0.02))
    assert upper_bound(7, sizes, 0.9) == upper_bound(7, 300, 0.9)
    assert lower_bound(7, sizes, 0.9) == lower_bound(7, 300, 0.9)
    assert highest_tpr(sizes, 0.95) == highest_tpr(300, 0.95)


def test_the_edges_are_stable() -> None:
    sizes = UnitSizes.of(SHAPES["geometric"])
    assert float(sizes.tail(0, 1e-12)) == pytest.approx(1, abs=1e-9)
    assert float(sizes.tail(sizes.rows, 0.5)) == 1
    assert float(sizes.tail(-1, 0.5)) == 0
    assert upper_bound(sizes.rows, sizes, 0.95) == 1
    assert lower_bound(0, sizes, 0.95) == 0
    assert 0 < upper_bound(0, sizes, 0.95) < 0.1
    many = UnitSizes.of(np.random.default_rng(2).geometric(0.01, 10_000))  # a million rows
    assert 0.01 < upper_bound(many.rows // 100, many, 0.95) < 0.02


def test_as_many_equal_units_are_needed_as_positives_before() -> None:
    assert units_needed(UnitSizes.of([5] * 10), 0.98, 0.95) == positives_needed(0.98, 0.95) == 149
    assert not certified_rank(UnitSizes.of([5] * 148), 0.98, 0.95)
    assert certified_rank(UnitSizes.of([5] * 149), 0.98, 0.95)
    assert highest_tpr(UnitSizes.of([5] * 10), 0.95) == pytest.approx(0.05**0.1)


def test_the_units_needed_are_enough_and_one_fewer_is_not() -> None:
    shape = [1, 2, 4]
    needed = units_needed(UnitSizes.of(shape * 3), 0.95, 0.9)
    times = -(-needed // 3)
    assert certified_rank(UnitSizes.of(shape * times), 0.95, 0.9)
    assert not certified_rank(UnitSizes.of(shape * (times - 1)), 0.95, 0.9)
    best = highest_tpr(UnitSizes.of(shape * 10), 0.9)
    assert certified_rank(UnitSizes.of(shape * 10), best - 1e-6, 0.9)
    assert not certified_rank(UnitSizes.of(shape * 10), best + 1e-6, 0.9)


def clustered(
    units: int, size: int, seed: int = 3
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Labels, scores and units: half of the units positive, rows of a unit correlated."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(units) % 2, size)
    scores = (
        np.repeat(generator.standard_normal(units), size) + generator.standard_normal(units * size) + 3 * labels
    )
    return labels, scores, np.repeat(np.arange(units), size)


def test_certify_takes_the_row_whose_rank_the_units_certify() -> None:
    labels, scores, units = clustered(800, 5)
    point = certify(labels, scores, tpr=0.95, units=units)
    sizes = UnitSizes.of([5] * 400)
    assert (point.units, point.per, point.positives) == (400, "row", 2000)
    assert point.rank == certified_rank(sizes, 0.95, 0.95) < certify(labels, scores, tpr=0.95).rank
    assert point.threshold == np.sort(scores[labels == 1])[point.rank - 1]
    assert point.recall == np.mean(scores[labels == 1] >= point.threshold)
    false = int(np.sum(scores[labels == 0] >= point.threshold))
    assert (point.fpr_at_most, point.fpr_method) == (upper_bound(false, sizes, 0.95), "units")


def test_a_recall_per_unit_counts_each_units_highest_score() -> None:
    labels, scores, units = clustered(800, 5)
    point = certify(labels, scores, tpr=0.95, units=units, per="unit")
    highest = scores[labels == 1].reshape(400, 5).max(axis=1)
    assert point.rank == certified_rank(400, 0.95, 0.95)
    assert point.threshold == np.sort(highest)[point.rank - 1]
    assert point.recall == np.mean(highest >= point.threshold)
    assert point.uncertified.recall == np.mean(highest >= point.uncertified.threshold)
    assert point.alarms_per_1000 == pytest.approx(1000 * np.mean(scores >= point.threshold))
    assert (point.ppv_at_least, point.npv_at_least) == (None, None)


def test_units_of_one_row_each_change_nothing() -> None:
    labels, scores, _ = clustered(800, 5)
    names = np.array([f"row {row}" for row in range(4000)])
    plain, single = certify(labels, scores), certify(labels, scores, units=names)
    assert single.units == 2000
    assert plain.units is None
    assert single.to_dict() | {"units": None} == plain.to_dict()


def test_too_few_units_are_counted_as_units() -> None:
    labels, scores, units = clustered(200, 5)
    with pytest.raises(NotEnoughPositives, match="100 units with 500 positives are too few") as caught:
        certify(labels, scores, tpr=0.98, units=units)
    assert (caught.value.units, caught.value.positives, caught.value.needed) == (100, 500, 149)
    with pytest.raises(NotEnoughPositives, match=r"149 units like these \(49 more\) are needed"):
        certify(labels, scores, tpr=0.98, units=units, per="unit")
    groups = np.where(units < 50, "few", "many")
    found = certify_groups(labels, scores, groups, tpr=0.95, units=units)
    assert "25 units with 125 positives in group 'few'" in found.uncertified["few"]


def test_several_targets_share_the_risk_of_units() -> None:
    labels, scores, units = clustered(800, 5)
    found = certify_targets(labels, scores, tprs=[0.9, 0.95], units=units)
    sizes = UnitSizes.of([5] * 400)
    assert [point.rank for point in found.points] == [certified_rank(sizes, tpr, 0.975) for tpr in (0.95, 0.9)]
    assert {point.fpr_confidence for point in found.points} == {0.975}
    few = certify_targets(*clustered(300, 2)[:2], tprs=[0.9, 0.98], units=clustered(300, 2)[2])
    assert [point.rank for point in few.points] == [1, 1]  # one claim: 150 units suffice as for 98 % alone


def test_groups_and_units_combine() -> None:
    labels, scores, units = clustered(1600, 5)
    groups = np.repeat(["a", "b"], 4000)
    found = certify_groups(labels, scores, groups, tpr=0.95, units=units)
    alone = certify(labels[:4000], scores[:4000], tpr=0.95, confidence=0.95**0.5, units=units[:4000])
    assert found.points["a"] == alone
    across = certify_groups(labels, scores, np.tile(["a", "b"], 4000), tpr=0.95, units=units)
    assert across.points["a"].confidence == pytest.approx(0.975)  # units have rows in both groups


def test_units_with_rows_of_both_classes_get_a_bound_for_any_threshold() -> None:
    labels, scores, _ = clustered(800, 5)
    units = np.arange(4000) // 10
    point = certify(labels, scores, tpr=0.9, units=units)
    assert point.fpr_method == "units at any threshold"
    assert point.fpr_at_most >= upper_bound(round(point.fpr * point.negatives), UnitSizes.of([5] * 400), 0.95)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        (np.array([1, 2]), "one unit per sample"),
        (np.array([1.0, np.nan, 2.0, 2.0]), "no unit, first in row 2"),
        (np.array(["a", 3, "b", None], dtype=object), "no unit, first in row 4"),
    ],
)
def test_units_that_are_missing_are_refused(units: NDArray[np.generic], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify([1, 0, 1, 0], [3.0, 1.0, 2.0, 0.0], tpr=0.1, units=units)


def test_units_may_be_of_several_types() -> None:
    mixed = np.array(["a", 3, "a", 3.0, ("b", 1)], dtype=object)
    point = certify([1, 1, 1, 1, 0], [3.0, 2.0, 1.0, 0.0, -1.0], tpr=0.1, confidence=0.5, units=mixed)
    assert point.units == 2


def test_a_recall_per_unit_needs_units() -> None:
    with pytest.raises(ValueError, match="pass them as units="):
        certify([1, 0], [1.0, 0.0], per="unit")
