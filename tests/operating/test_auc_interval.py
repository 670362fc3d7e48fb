"""The AUC's interval holds the true area as often as it says: few positives, areas near 1, ties, units."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from rankreg.operating import auc_interval, compare
from rankreg.operating.comparison import auc_difference
from rankreg.operating.intervals import Spread, area_bounds, components
from rankreg.operating.units import Sample

Reals = NDArray[np.float64]
AREAS = (0.6, 0.8, 0.9, 0.95, 0.98, 0.995)
SIZES = (
    (8, 8),
    (8, 80),
    (10, 50),
    (20, 20),
    (20, 200),
    (50, 50),
    (50, 500),
    (200, 200),
    (200, 2000),
    (1000, 1000),
    (1000, 5000),
)
DRAWS = {8: 2000, 10: 2000, 20: 2000, 50: 1500, 200: 1000, 1000: 1000}


class Source(NamedTuple):
    """How positives and negatives are drawn, and the true area."""

    positives: Callable[[np.random.Generator, tuple[int, int]], Reals]
    negatives: Callable[[np.random.Generator, tuple[int, int]], Reals]
    area: float


def binormal(area: float, deviation: float) -> Source:
    shift = stats.norm.ppf(area) * np.hypot(1, deviation)
    return Source(lambda g, size: shift + deviation * g.standard_normal(size), _normal, area)


def exponential(area: float) -> Source:
    rate = area / (1 - area)
    return Source(
        lambda g, size: rate * g.standard_exponential(size), lambda g, size: g.standard_exponential(size), area
    )


def some_like_negatives(area: float) -> Source:
    """A share of the positives cannot be told from negatives, the others are far above: wrong labels."""
    share = 2 * (1 - area)
    return Source(lambda g, size: g.standard_normal(size) + 20.0 * (g.random(size) >= share), _normal, area)


def rated(area: float, levels: int) -> Source:
    """Normal scores cut into ratings, with as much shift as gives the area."""

    def chances(shift: float) -> tuple[Reals, Reals, Reals]:
        cuts = np.linspace(-1, shift + 1, levels + 1)[1:-1]
        negative, positive = (np.diff([0, *stats.norm.cdf(cuts - middle), 1]) for middle in (0, shift))
        return cuts, positive, negative

    def area_at(shift: float) -> float:
        _, positive, negative = chances(shift)
        return float(positive @ (np.cumsum(negative) - negative / 2))

    shift = float(optimize.brentq(lambda value: area_at(value) - area, 0.01, 15))
    cuts = chances(shift)[0]
    return Source(
        lambda g, size: np.digitize(shift + g.standard_normal(size), cuts).astype(float),
        lambda g, size: np.digitize(g.standard_normal(size), cuts).astype(float),
        area_at(shift),
    )


def hard(area: float) -> Source:
    return Source(
        lambda g, size: (g.random(size) < area).astype(np.float64),
        lambda g, size: (g.random(size) >= area).astype(np.float64),
        area,
    )


def _normal(generator: np.random.Generator, size: tuple[int, int]) -> Reals:
    return generator.standard_normal(size)


SOURCES: dict[str, Callable[[float], Source]] = {
    "binormal": lambda area: binormal(area, 1.0),
    "positives twice as wide": lambda area: binormal(area, 2.0),
    "positives half as wide": lambda area: binormal(area, 0.5),
    "exponential": exponential,
    "some like negatives": some_like_negatives,
    "five ratings": lambda area: rated(area, 5),
    "hard predictions": hard,
}


def many_components(positives: Reals, negatives: Reals) -> tuple[Reals, Reals]:
    """`components` of many samples at once, one per row."""
    draws = len(positives)
    _, codes = np.unique(np.hstack([positives, negatives]), return_inverse=True)
    ranks = codes.reshape(draws, -1) + np.arange(draws)[:, None] * (codes.max() + 1)
    own, others = ranks[:, : positives.shape[1]], ranks[:, positives.shape[1] :]

    def below(values: Any, among: Any) -> Reals:
        ordered = np.sort(among, axis=1).ravel()
        places = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
        before = np.arange(draws)[:, None] * among.shape[1]
        return np.asarray((places / 2 - before) / among.shape[1])

    return below(own, others), 1 - below(others, own)


def many_bounds(positives: Reals, negatives: Reals, confidence: float) -> tuple[Reals, Reals]:
    parts = many_components(positives, negatives)
    areas = parts[0].mean(axis=1)
    spreads = [Spread.of(part - areas[:, None], np.ones(part.shape[1], np.int64)) for part in parts]
    return area_bounds(areas, spreads, confidence)


def miss_rate(source: Source, positives: int, negatives: int, draws: int, confidence: float, seed: int) -> float:
    generator, missed, left = np.random.default_rng(seed), 0, draws
    while left:
        rows = min(left, max(1, 1_000_000 // (positives + negatives)))
        drawn = source.positives(generator, (rows, positives)), source.negatives(generator, (rows, negatives))
        low, high = many_bounds(*drawn, confidence)
        missed += int(np.count_nonzero((low > source.area + 1e-12) | (high < source.area - 1e-12)))
        left -= rows
    return missed / draws


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_the_interval_misses_the_area_about_as_often_as_it_says_and_hardly_more(kind: str) -> None:
    rates = {
        (area, *size): miss_rate(SOURCES[kind](area), *size, DRAWS[size[0]], 0.95, seed=27)
        for area in AREAS
        for size in SIZES
    }
    most = {key: 0.06 + 2.5 * np.sqrt(0.05 * 0.95 / DRAWS[key[1]]) for key in rates}  # what chance may add
    assert {key: rate for key, rate in rates.items() if rate > most[key]} == {}
    assert np.mean(list(rates.values())) <= 0.05
    many = [rates[area, 1000, 5000] for area in AREAS if area <= 0.9]
    assert np.mean(many) == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("sizes", [(10, 50), (20, 200), (50, 500)])
def test_few_positives_at_an_area_of_98_percent_are_covered(sizes: tuple[int, int]) -> None:
    """The settings that the plain interval, ± 1.96 standard errors, missed 28, 22 and 14 % of the time."""
    for kind in ("binormal", "exponential", "some like negatives"):
        assert miss_rate(SOURCES[kind](0.98), *sizes, 1000, 0.95, seed=1) <= 0.065


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.99])
def test_other_confidences_hold_too(confidence: float) -> None:
    for kind in ("binormal", "positives twice as wide"):
        rate = miss_rate(SOURCES[kind](0.9), 50, 200, 2000, confidence, seed=2)
        assert rate <= 1.3 * (1 - confidence) + 0.002


def test_many_at_once_are_what_one_call_gives() -> None:
    generator = np.random.default_rng(3)
    for kind in SOURCES:
        source = SOURCES[kind](0.9)
        drawn = source.positives(generator, (20, 9)), source.negatives(generator, (20, 30))
        low, high = many_bounds(*drawn, 0.9)
        for positives, negatives, *ends in zip(*drawn, low, high, strict=True):
            if len(np.unique([*positives, *negatives])) > 1:
                found = auc_interval(np.repeat([1, 0], [9, 30]), np.append(positives, negatives), confidence=0.9)
                np.testing.assert_allclose((found.low, found.high), ends, atol=1e-12)


def test_perfect_separation_is_not_certainty() -> None:
    """The lower end is the quantile of a proportion of n of n, n the size of the rarer class."""
    found = auc_interval(np.repeat([1, 0], [20, 500]), np.repeat([1.0, 0.0], [20, 500]))
    assert (found.estimate, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(stats.beta.ppf(0.025, 20.5, 0.5))
    wrong = auc_interval(np.repeat([1, 0], [20, 500]), np.repeat([0.0, 1.0], [20, 500]))
    assert (wrong.estimate, wrong.low) == (0.0, 0.0)
    assert wrong.high == pytest.approx(1 - found.low)


def test_the_interval_is_mirrored_with_the_scores_and_holds_the_estimate() -> None:
    generator = np.random.default_rng(4)
    for positives, shift in ((3, 0.0), (8, 1.0), (30, 3.0)):
        labels = np.repeat([1, 0], [positives, 40])
        scores = np.round(generator.standard_normal(len(labels)) + shift * labels, 1)
        found, mirrored = auc_interval(labels, scores), auc_interval(labels, -scores)
        assert found.low <= found.estimate <= found.high
        np.testing.assert_allclose((1 - mirrored.high, 1 - mirrored.low), (found.low, found.high), atol=1e-12)


def test_a_large_sample_gives_delongs_interval() -> None:
    generator = np.random.default_rng(5)
    labels = np.repeat([1, 0], [20_000, 50_000])
    scores = generator.standard_normal(70_000) + labels
    found, parts = auc_interval(labels, scores), components(scores[labels == 1], scores[labels == 0])
    error = np.sqrt(parts[0].var(ddof=1) / 20_000 + parts[1].var(ddof=1) / 50_000)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.01)


def test_copies_of_every_row_as_units_change_nothing() -> None:
    generator = np.random.default_rng(6)
    labels = np.repeat([1, 0], [15, 60])
    scores = generator.standard_normal(75) + labels
    alone = auc_interval(labels, scores)
    copied = auc_interval(np.repeat(labels, 4), np.repeat(scores, 4), units=np.repeat(np.arange(75), 4))
    np.testing.assert_allclose((copied.low, copied.high), (alone.low, alone.high), atol=1e-12)
    as_rows = auc_interval(np.repeat(labels, 4), np.repeat(scores, 4))
    assert as_rows.high - as_rows.low < 0.6 * (alone.high - alone.low)


def test_units_are_one_per_sample_and_two_of_each_class() -> None:
    with pytest.raises(ValueError, match=r"one unit per sample, shape \(4,\), got \(3,\)"):
        auc_interval([1, 1, 0, 0], [3.0, 1.0, 2.0, 0.0], units=[1, 2, 3])
    with pytest.raises(ValueError, match="two samples or units of each class, got 1"):
        auc_interval([1, 1, 0, 0], [3.0, 1.0, 2.0, 0.0], units=["a", "a", "b", "c"])


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("mixed", [False, True])
def test_rows_of_one_patient_are_covered(correlation: float, mixed: bool) -> None:
    """Patients have 1 to 8 rows; mixed: a patient's rows of both classes share a part of their scores."""
    for shift in (1.0, 2.5):
        generator, missed, draws = np.random.default_rng(7), 0, 1000
        truth = stats.norm.cdf(shift / np.sqrt(2))  # of two rows of different patients, who are nearly all pairs
        for _ in range(draws):
            sizes = generator.integers(1, 9, 100)
            units = np.repeat(np.arange(100), sizes)
            chance = 0.25 if mixed else 1.0 * (units < 30)
            labels = generator.random(len(units)) < chance
            own = generator.standard_normal(100)[units] * np.sqrt(correlation)
            scores = own + generator.standard_normal(len(units)) * np.sqrt(1 - correlation) + shift * labels
            found = auc_interval(labels, scores, units=units)
            missed += not found.low <= truth <= found.high
        assert missed / draws <= 0.07, (shift, missed)


def paired_miss_rate(areas: tuple[float, float], correlation: float, positives: int, negatives: int) -> float:
    """How often the interval of the difference of two binormal models misses it."""
    generator, missed, draws = np.random.default_rng(8), 0, 1000
    labels = np.repeat([1, 0], [positives, negatives])
    shifts = np.sqrt(2) * stats.norm.ppf(areas)
    for _ in range(draws):
        shared, *own = generator.standard_normal((3, len(labels)))
        a, b = (
            np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * noise + shift * labels
            for noise, shift in zip(own, shifts, strict=True)
        )
        found = auc_difference(Sample.of(labels, a), Sample.of(labels, b), 0.95)
        missed += not found.low <= areas[0] - areas[1] <= found.high
    return missed / draws


@pytest.mark.parametrize("sizes", [(10, 50), (20, 200)])
def test_differences_with_few_positives_are_covered(sizes: tuple[int, int]) -> None:
    """DeLong's own interval misses the first of these 18 % of the time."""
    assert paired_miss_rate((0.98, 0.95), 0.9, *sizes) <= 0.065


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("areas", [(0.8, 0.8), (0.95, 0.9), (0.98, 0.98), (0.995, 0.9)])
def test_differences_are_covered(areas: tuple[float, float], correlation: float) -> None:
    for sizes in ((10, 50), (50, 500), (200, 1000)):
        assert paired_miss_rate(areas, correlation, *sizes) <= 0.07


def test_two_perfect_models_may_differ() -> None:
    labels = np.repeat([1, 0], [20, 100])
    found = compare(labels, labels * 2.0, labels * 3.0 + np.linspace(0, 1, 120), draws=100).auc
    assert (found.difference, found.p_value) == (0.0, 1.0)
    assert found.low < -0.05
    assert found.high > 0.05
