"""Drift without labels: places by brute force, a fair bet, false alarms within the level, and changes found."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from rankreg.operating import drift
from rankreg.operating.score_drift import BETS, JUMP, log_drift_evidence, places


@pytest.mark.parametrize("digits", [0, 1, 8])  # with many ties, some, and none
def test_a_place_is_the_share_of_earlier_scores_below(digits: int) -> None:
    generator = np.random.default_rng(1)
    reference, new = (np.round(generator.standard_normal(size), digits) for size in (37, 101))
    chances = generator.random(101)
    for row, (found, chance) in enumerate(zip(places(reference, new, chances), chances, strict=True)):
        seen = np.concatenate([reference, new[: row + 1]])
        expected = (np.sum(seen < new[row]) + chance * np.sum(seen == new[row])) / len(seen)
        assert found == pytest.approx(expected)


def test_places_are_uniform_and_independent_over_all_orders() -> None:
    """Every order of five scores, one of them twice, gives each cell of two places its share."""
    cells = np.zeros((4, 5))
    middles = (np.arange(20) + 0.5) / 20  # stand for the chances, exactly: 20 is divisible by 4 and 5
    for order in permutations([1.0, 2.0, 2.0, 3.0, 4.0]):
        first = [places(np.array(order[:3]), np.array(order[3:4]), np.array([u]))[0] for u in middles]
        last = [places(np.array(order[:4]), np.array(order[4:]), np.array([u]))[0] for u in middles]
        counts = [
            np.histogram(found, bins)[0]
            for found, bins in ((first, np.linspace(0, 1, 5)), (last, np.linspace(0, 1, 6)))
        ]
        cells += np.outer(*counts) / 400
    np.testing.assert_allclose(cells / cells.sum(), 1 / 20)


def test_the_evidence_is_its_formula_written_out() -> None:
    found = np.random.default_rng(2).random(40)
    shares, expected = np.full(len(BETS), 1 / len(BETS)), []
    for place in found:
        mixed = (1 - JUMP) * shares + JUMP * shares.sum() / len(BETS)
        shares = np.array([stats.beta(*bet).pdf(place) for bet in BETS]) * mixed
        expected.append(shares.sum())
    np.testing.assert_allclose(np.exp(log_drift_evidence(found)), expected)


def test_the_evidence_is_a_fair_bet() -> None:
    before = np.array([0.9, 0.8, 0.95])

    def after(place: float) -> float:
        return float(np.exp(log_drift_evidence(np.append(before, place))[-1]))

    now = np.exp(log_drift_evidence(before)[-1])
    assert integrate.quad(after, 0, 1, epsabs=1e-6)[0] == pytest.approx(now, rel=1e-4)


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_false_alarms_stay_below_the_level(level: float) -> None:
    generator = np.random.default_rng(3)
    alarms = log_drift_evidence(generator.random((1000, 300))).max(axis=1) >= -np.log(level)
    assert 0 < np.mean(alarms) <= level


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "heavy", "tied"])
def test_false_alarms_stay_below_the_level_with_scores_of_any_kind(kind: str) -> None:
    draws: dict[str, Any] = {
        "normal": lambda generator, size: generator.standard_normal(size),
        "heavy": lambda generator, size: generator.standard_cauchy(size),
        "tied": lambda generator, size: generator.integers(0, 5, size).astype(float),
    }
    found = 0
    for seed in range(250):
        generator = np.random.default_rng(seed)
        reference, new = draws[kind](generator, 30), draws[kind](generator, 200)
        found += drift(reference, new, level=0.1, seed=seed).alarm_at is not None
    assert found <= 25


@pytest.mark.parametrize(
    ("shift", "scale", "after", "within"),
    [(0.5, 1.0, 0, 120), (-0.5, 1.0, 0, 120), (0.0, 1.5, 0, 80), (0.0, 0.6, 0, 80), (0.5, 1.0, 300, 250)],
)
def test_a_change_of_place_or_spread_is_found(shift: float, scale: float, after: int, within: int) -> None:
    found = []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        new = generator.standard_normal(after + within)
        new[after:] = shift + scale * new[after:]
        found.append(drift(generator.standard_normal(2000), new).alarm_at is not None)
    assert np.mean(found) > 0.8


def test_a_longer_stream_begins_with_the_same_evidence() -> None:
    generator = np.random.default_rng(4)
    reference, new = generator.integers(0, 9, 50), generator.integers(0, 9, 80)
    np.testing.assert_allclose(drift(reference, new).path[:30], drift(reference, new[:30]).path)


def test_the_order_within_one_day_does_not_matter() -> None:
    """An export sorted by score within each day is no drift; without dates it is one."""
    generator = np.random.default_rng(5)
    reference: NDArray[np.float64] = generator.standard_normal(1000)
    new = np.sort(generator.standard_normal((4, 100)), axis=1).ravel()
    days = np.repeat(np.datetime64("2025-01-01") + np.arange(4), 100)
    found = drift(reference, new, times=days)
    assert found.alarm_at is None
    assert (found.first_time, found.last_time) == ("2025-01-01", "2025-01-04")
    assert drift(reference, new).alarm_at is not None


def test_the_alarm_has_a_date_and_the_direction_is_told() -> None:
    days = np.datetime64("2025-01-01") + np.arange(40)
    found = drift(np.arange(1000), np.full(40, 990.0), times=days)
    assert found.alarm_at is not None
    assert found.path[found.alarm_at - 1] >= 20 > found.path[found.alarm_at - 2]
    assert found.alarm_time == str(days[found.alarm_at - 1])
    assert found.above_median == 1.0
    assert {"path", "times"}.isdisjoint(found.to_dict())


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (([], [1.0]), {}, "at least one reference sample"),
        (([1.0], []), {}, "at least one new sample"),
        (([1.0], [float("nan")]), {}, "NaN"),
        (([1.0], [2.0]), {"level": 0.0}, "level must lie strictly"),
        (([1.0], [2.0, 3.0]), {"times": [2, 1]}, "times must ascend"),
    ],
)
def test_bad_requests_are_refused(arguments: tuple[Any, Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drift(*arguments, **settings)
