"""Samples, and the independent units that their rows belong to (docs/decisions/0026).

A unit is what was drawn independently: a patient, or all copies of one row. Unit i has m_i rows; T
counts how many of all N rows lie on one side of a threshold. If the true share of such rows is at
least `share`, for any λ > 0

    P(T ≤ x) ≤ exp(λ x + max_p Σ log(1 − p_i g_i)),    g_i = 1 − exp(−λ m_i),    Σ m_i p_i = share · N,  0 ≤ p_i ≤ 1

At worst a unit's rows are counted all or none, and the chances p_i go with the sizes in the worst
way. The maximum has a dual: for any w > 0 it is at most

    Σ max(−λ m_i, min(0, log(w g_i / m_i))) + (Σ min(m_i, max(0, m_i / g_i − w)) − share · N) / w

So every pair (λ, w) gives a valid bound, and a search that stops early is never unsafe, only less
sharp.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import Bools, Floats, alarm_counts, auc, check_binary

Per = Literal["row", "unit"]
Reals = NDArray[np.float64]
# The rate λ is found to about 1 %, which costs less than 1 part in 10⁴ of log risk.
GRID, ROUNDS, HALVINGS = 20, 4, 34
CHUNK = 2_000_000  # numbers held at once


@dataclass(frozen=True, eq=False)
class UnitSizes:
    """How many units have how many rows. The guarantees need to know no more of them.

    sizes: the distinct numbers of rows per unit, ascending; counts: how many units have each.
    """

    sizes: Reals
    counts: Reals

    @classmethod
    def of(cls, rows_per_unit: ArrayLike) -> "UnitSizes":
        """The sizes of these units. Units without rows do not count."""
        given = np.asarray(rows_per_unit)
        sizes, counts = np.unique(given[given > 0], return_counts=True)
        return cls(sizes.astype(np.float64), counts.astype(np.float64))

    @cached_property
    def units(self) -> int:
        """How many units there are."""
        return int(self.counts.sum())

    @cached_property
    def rows(self) -> int:
        """How many rows they have together."""
        return int(self.sizes @ self.counts)

    @property
    def single(self) -> bool:
        """Whether every unit is one row, so that the binomial is exact."""
        return self.units == self.rows

    def tail(self, count: ArrayLike, share: ArrayLike) -> Reals:
        """At most how likely `count` rows or fewer are, when the true share is at least `share`."""

        def log_bound(rate: Reals, x: Reals, wanted: Reals) -> Reals:
            level, log, rows = self._worst(rate, lambda _, rows: rows > wanted)
            return _times(rate, x) + log + (rows - wanted) / level

        x, wanted = np.broadcast_arrays(np.asarray(count, float), self.rows * np.asarray(share, float))
        found = self._least(log_bound, x, wanted, certain=x == 0)
        return np.where(x < 0, 0.0, np.exp(np.minimum(found, 0.0)))

    def largest_count(self, share: ArrayLike, risk: ArrayLike) -> NDArray[np.int64]:
        """The largest count whose `tail` is at most the risk; −1 where there is none."""

        def minus_count(rate: Reals, log_risk: Reals, wanted: Reals) -> Reals:
            level, log, rows = self._worst(rate, lambda _, rows: rows > wanted)
            return (log + (rows - wanted) / level - log_risk) / rate

        log_risk, wanted = np.broadcast_arrays(
            np.log(np.asarray(risk, float)), self.rows * np.asarray(share, float)
        )
        count = np.floor(-self._least(minus_count, log_risk, wanted))
        none = self.tail(0, share) > np.asarray(risk)
        return np.where(none, -1, np.maximum(count, 0)).astype(np.int64)

    def largest_share(self, count: ArrayLike, risk: ArrayLike) -> Reals:
        """The bound that the true share stays below with chance 1 − risk, when `count` rows were seen."""

        def share(rate: Reals, x: Reals, log_risk: Reals) -> Reals:
            level, log, rows = self._worst(rate, lambda log, _: _times(rate, x) + log < log_risk)
            return (rows + level * (_times(rate, x) + log - log_risk)) / self.rows

        x, log_risk = np.broadcast_arrays(np.asarray(count, float), np.log(np.asarray(risk, float)))
        found = self._least(share, x, log_risk, certain=x == 0)
        return np.where(x >= self.rows, 1.0, np.minimum(found, 1.0))

    def _worst(
        self, rate: Reals, too_low: Callable[[Reals, Reals], NDArray[np.bool_]]
    ) -> tuple[Reals, Reals, Reals]:
        """Halve the way to the level w that is wanted; with it Σ log(1 − p g) and the rows Σ m p of the worst p."""
        steps = rate[..., None] * self.sizes
        gain = -np.expm1(-steps)
        edges, logs = self.sizes / gain, np.log(gain / self.sizes)

        def at(log_level: Reals) -> tuple[Reals, Reals]:
            log = np.maximum(np.minimum(log_level[..., None] + logs, 0.0), -steps) @ self.counts
            rows = np.minimum(np.maximum(edges - np.exp(log_level)[..., None], 0.0), self.sizes) @ self.counts
            return log, rows

        high = np.log(edges[..., -1])  # above the highest edge no unit has any share
        low = high - 45.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            raised = too_low(*at(middle))
            low, high = np.where(raised, middle, low), np.where(raised, high, middle)
        return (np.exp(high), *at(high))

    def _least(
        self, value: Callable[..., Reals], *given: NDArray[Any], certain: NDArray[Any] | None = None
    ) -> Reals:
        """The least value over the rate λ, which has one minimum, for every cell of the arrays given.

        certain: cells where λ = ∞ is allowed too, which is where nothing was missed.
        """
        shape = given[0].shape
        cells = [np.ravel(array) for array in given]
        size = max(1, CHUNK // (GRID * len(self.sizes)))
        parts = []
        for start in range(0, len(cells[0]), size):
            chunk = [cell[start : start + size, None] for cell in cells]
            rows = np.arange(len(chunk[0]))
            low = np.full(len(rows), np.log(1e-8 / self.sizes[-1]))
            high = np.full(len(rows), np.log(80 / self.sizes[0]))
            best = np.full(len(rows), np.inf)
            for _ in range(ROUNDS):
                grid = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, GRID)
                found = value(np.exp(grid), *chunk)
                at = found.argmin(axis=1)
                best = np.minimum(best, found[rows, at])
                low, high = grid[rows, np.maximum(at - 1, 0)], grid[rows, np.minimum(at + 1, GRID - 1)]
            if certain is not None:
                allowed = np.ravel(certain)[start : start + size]
                limit = value(np.full((len(rows), 1), np.inf), *chunk)[:, 0]
                best = np.where(allowed, np.minimum(best, limit), best)
            parts.append(best)
        return np.concatenate(parts).reshape(shape)


def _times(rate: Reals, count: Reals) -> Reals:
    """λ x, which is 0 for x = 0 even where λ is infinite."""
    return np.where(count > 0, rate * np.maximum(count, 1e-300), 0.0)


def unit_codes(units: ArrayLike, rows: int) -> NDArray[np.int64]:
    """A number for each row's unit, from 0 on in the order of the units' first rows.

    Names, numbers or any hashable values will do, but none may be missing.
    """
    values = np.asarray(units)
    if values.shape != (rows,):
        raise ValueError(f"expected one unit per sample, shape ({rows},), got {values.shape}")
    if values.dtype == object:  # values of several types cannot be sorted
        missing = [place for place, value in enumerate(values) if value is None or value != value]
        numbers: dict[Any, int] = {}
        codes = np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)
    else:
        missing = np.flatnonzero(values != values).tolist()
        _, first, place = np.unique(values, return_index=True, return_inverse=True)
        codes = np.argsort(np.argsort(first)).astype(np.int64)[place]
    if missing:
        raise ValueError(f"{len(missing)} samples have no unit, first in row {missing[0] + 1}: give each its own")
    return codes


Trials = int | UnitSizes  # a number of independent rows, or the sizes of their units


def rows_of(trials: Trials) -> int:
    """How many rows were tried."""
    return trials.rows if isinstance(trials, UnitSizes) else trials


def units_of(trials: Trials) -> int | None:
    """How many units they belong to; None if none were given."""
    return trials.units if isinstance(trials, UnitSizes) else None


def independent_of(trials: Trials) -> int:
    """How many independent units there are: rows, if no units were given."""
    return trials.units if isinstance(trials, UnitSizes) else trials


def shares_units(trials: Trials) -> TypeGuard[UnitSizes]:
    """Whether some unit has several rows, so that the binomial is not exact."""
    return isinstance(trials, UnitSizes) and not trials.single


class Judged(NamedTuple):
    """The scores that a promise of recall counts, and how independent they are."""

    scores: Floats
    trials: Trials


@dataclass(frozen=True, eq=False)
class Sample:
    """Checked scores, which of them are positive, and a number for the unit of each; None: each its own."""

    positive: Bools
    scores: Floats
    units: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, y_true: ArrayLike, y_score: ArrayLike, units: ArrayLike | None = None) -> "Sample":
        """Check once; scores that are all equal are refused, since every threshold alarms on all or on none."""
        positive, scores = check_binary(y_true, y_score)
        if np.all(scores == scores[0]):
            raise ValueError(
                f"all {len(scores)} scores equal {scores[0]}: they tell no sample from another; check the model,"
                " or the column of scores"
            )
        return cls(positive, scores, None if units is None else unit_codes(units, len(scores)))

    @cached_property
    def positives(self) -> Floats:
        """The positives' scores."""
        return self.scores[self.positive]

    @cached_property
    def negatives(self) -> Floats:
        """The negatives' scores."""
        return self.scores[~self.positive]

    @cached_property
    def positive_trials(self) -> Trials:
        """How many positives there are, or the sizes of their units."""
        return self._trials(self.positive)

    @cached_property
    def negative_trials(self) -> Trials:
        """How many negatives there are, or the sizes of their units."""
        return self._trials(~self.positive)

    @cached_property
    def row_trials(self) -> Trials:
        """How many rows there are, or the sizes of their units."""
        return self._trials(np.ones(len(self.scores), dtype=bool))

    @cached_property
    def mixed(self) -> bool:
        """Whether a unit has rows of both classes, so that the positives tell something of the negatives."""
        if self.units is None:
            return False
        shared: Bools = np.isin(self.units[self.positive], self.units[~self.positive])
        return bool(shared.any())

    def judged(self, per: Per) -> Judged:
        """The rows or the units whose recall is promised; a unit scores as high as its highest positive row."""
        if per == "row":
            return Judged(self.positives, self.positive_trials)
        if per != "unit":
            raise ValueError(f'per must be "row" or "unit", got {per!r}')
        if self.units is None:
            raise ValueError('per="unit" promises a recall of units: pass them as units=, one value per sample')
        found, place = np.unique(self.units[self.positive], return_inverse=True)
        highest = np.full(len(found), -np.inf, dtype=self.scores.dtype)
        np.maximum.at(highest, place, self.positives)
        return Judged(highest, UnitSizes.of(np.ones(len(found))))

    def part(self, chosen: Bools) -> "Sample":
        """Some of the samples."""
        units = None if self.units is None else self.units[chosen]
        return Sample(self.positive[chosen], self.scores[chosen], units)

    def _trials(self, chosen: Bools) -> Trials:
        if self.units is None:
            return int(np.count_nonzero(chosen))
        return UnitSizes.of(np.bincount(self.units[chosen]))

    def alarms(self, threshold: float) -> tuple[int, int]:
        """How many positives and negatives reach the threshold; one pass, without copying the negatives."""
        caught = int(np.count_nonzero(self.positives >= threshold))
        return caught, int(np.count_nonzero(self.scores >= threshold)) - caught

    def false_alarms(self, thresholds: Floats) -> NDArray[np.int64]:
        """How many negatives reach each threshold."""
        return alarm_counts(self.negatives, thresholds)

    def auc(self) -> float:
        """The area under the ROC curve."""
        return auc(self.positive, self.scores)

    @cached_property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest score."""
        return float(self.scores.min()) + 0.0, float(self.scores.max()) + 0.0  # never −0

    @property
    def two_valued(self) -> bool:
        """Whether every score is the lowest or the highest."""
        low, high = self.span
        return bool(np.all((self.scores == low) | (self.scores == high)))


@dataclass(frozen=True, eq=False)
class Groups:
    """A sample in groups.

    parts: the samples of each group by its name. places: for each row the place of its group among the
    parts. spread: a unit has rows in more than one group, so that the groups are not independent.
    """

    sample: Sample
    parts: dict[str, Sample]
    places: NDArray[np.integer]
    spread: bool

    @classmethod
    def of(cls, sample: Any, groups: ArrayLike, names: Sequence[str] | None = None) -> "Groups":
        """The groups of a `Sample`: one value per row, or with `names` an index into the names."""
        if not isinstance(sample, Sample):
            raise ValueError(
                "a ScoreSummary knows no groups: pass labels and scores, or a summary of each group alone"
            )
        members = np.asarray(groups)
        if members.shape != sample.scores.shape:
            raise ValueError(f"expected one group per sample, shape {sample.scores.shape}, got {members.shape}")
        values, places = np.unique(members, return_inverse=True)
        parts = {
            str(value) if names is None else names[int(value)]: sample.part(places == place)
            for place, value in enumerate(values)
        }
        if sample.units is None:
            return cls(sample, parts, places, spread=False)
        pairs = np.unique(np.stack([sample.units, places]), axis=1)
        return cls(sample, parts, places, spread=int(pairs.shape[1]) > len(np.unique(sample.units)))

    def together(self, names: Collection[str]) -> Sample:
        """The samples of all groups of these names."""
        return self.sample.part(np.array([name in names for name in self.parts], dtype=bool)[self.places])
