"""What an operating point is, and how a threshold becomes one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import Bools, Floats, check_binary, empirical_thresholds
from rankreg.operating._records import Record
from rankreg.operating.exact import (
    Trials,
    check_prevalence,
    rows_of,
    shares_units,
    shortfall_risk,
    units_of,
    upper_bound,
    upper_bound_anywhere,
)
from rankreg.operating.units import UnitSizes, unit_codes

Per = Literal["row", "unit"]
FprMethod = Literal["clopper-pearson", "dkw", "units", "units at any threshold"]


@dataclass(frozen=True)
class Costs(Record):
    """What one missed positive and one false alarm cost, in any one unit."""

    miss: float
    alarm: float

    def __post_init__(self) -> None:
        if not (0 <= self.miss < np.inf and 0 <= self.alarm < np.inf and self.miss + self.alarm > 0):
            raise ValueError(f"costs must be finite, not negative and not both 0, got {self.miss} and {self.alarm}")


@dataclass(frozen=True)
class CostChoice(Record):
    """The threshold of least expected cost among those at or below the certified one, and what it saves."""

    costs: Costs
    per_1000: float
    per_1000_at_certified: float
    certified_threshold: float


@dataclass(frozen=True)
class Uncertified(Record):
    """The usual threshold, the empirical quantile; `shortfall_risk`: how likely it falls short of the TPR.

    tied: other positives have that score too, or positives share units, so the chance is at most the
    `shortfall_risk`.
    """

    threshold: float
    recall: float
    fpr: float
    alarms_per_1000: float
    shortfall_risk: float
    tied: bool


@dataclass(frozen=True)
class OperatingPoint(Record):
    """Alarm when score ≥ threshold. With `confidence`, the recall on new positives is at least `tpr`.

    per: "row" if the recall is the share of positive rows that raise an alarm, "unit" if it is the share of units
    that have positives and at least one alarm among them. units: how many units the positives belong to; None if
    none were given, so that every row counts as independent. recall, fpr: the shares observed in the sample, the
    FPR always of rows. fpr_at_most: holds with `fpr_confidence`; fpr_method: exact (Clopper–Pearson), since the
    threshold looks at positives only; uniform over thresholds (Dvoretzky–Kiefer–Wolfowitz) where costs made it look
    at the negatives too; or over units, for any threshold if it looked at negatives or if units have rows of both
    classes. alarms_per_1000, ppv, npv: per row, at the prevalence, from the observed shares.
    alarms_per_1000_at_most needs the FPR bound only. ppv_at_least and npv_at_least need both guarantees: they hold
    with confidence + fpr_confidence − 1, and are None for a recall per unit, which says nothing about rows. npv is
    None if nothing stays below the threshold. rank: the certified threshold is the rank-th lowest score, of the
    positive rows or of the units' highest ones. extra_*: what the guarantee costs over the uncertified threshold.
    """

    threshold: float
    tpr: float
    confidence: float
    positives: int
    negatives: int
    rank: int
    recall: float
    fpr: float
    fpr_at_most: float
    fpr_confidence: float
    fpr_method: FprMethod
    prevalence: float
    prevalence_given: bool
    alarms_per_1000: float
    alarms_per_1000_at_most: float
    ppv: float
    ppv_at_least: float | None
    npv: float | None
    npv_at_least: float | None
    uncertified: Uncertified
    extra_fpr: float
    extra_alarms_per_1000: float
    cost: CostChoice | None = None
    units: int | None = None
    per: Per = "row"


class Counted(Protocol):
    """A result that says how many positives and units it rests on."""

    @property
    def positives(self) -> int: ...
    @property
    def units(self) -> int | None: ...


def assumption(found: Counted) -> str:
    """What a promise of recall rests on, in one sentence: for an operating point, or what else has its counts."""
    count, what = (found.positives, "positive") if found.units is None else (found.units, "unit")
    who = f"the {count:,} {what}s are" if count != 1 else f"the one {what} is"
    return f"This holds if new positives come like these and {who} independent of each other."


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
            raise ValueError(f"all {len(scores)} scores equal {scores[0]}: they tell no sample from another")
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


def point_at(
    sample: Sample,
    rank: int,
    *,
    tpr: float,
    confidence: float,
    fpr_confidence: float,
    prevalence: float | None,
    per: Per = "row",
    costs: Costs | None = None,
    threshold: float | None = None,
) -> OperatingPoint:
    """The operating point at the rank-th lowest score that is judged, or at a lower threshold if one is given."""
    judged = sample.judged(per)
    total, negatives = len(sample.positives), len(sample.scores) - len(sample.positives)
    share = total / len(sample.scores) if prevalence is None else check_prevalence(prevalence)
    if threshold is None:
        threshold = float(np.partition(judged.scores, rank - 1)[rank - 1])
    cost = None if costs is None else _cheapest(sample, threshold, costs, share)
    if cost is not None:
        threshold = cost[0]
    caught, false = sample.alarms(threshold)
    row_recall, fpr = caught / total, false / negatives
    bound, method = _fpr_at_most(sample, false, fpr_confidence, looked=cost is not None)
    usual = _uncertified(sample, judged, tpr, share)
    alarms = 1000 * (share * row_recall + (1 - share) * fpr)
    cleared = share * (1 - row_recall) + (1 - share) * (1 - fpr)
    by_row = per == "row"
    return OperatingPoint(
        threshold=threshold,
        tpr=tpr,
        confidence=confidence,
        positives=total,
        negatives=negatives,
        rank=rank,
        recall=_recall(judged, threshold),
        fpr=fpr,
        fpr_at_most=bound,
        fpr_confidence=fpr_confidence,
        fpr_method=method,
        prevalence=share,
        prevalence_given=prevalence is not None,
        alarms_per_1000=alarms,
        alarms_per_1000_at_most=1000 * (share + (1 - share) * bound),
        ppv=1000 * share * row_recall / alarms,
        ppv_at_least=share * tpr / (share * tpr + (1 - share) * bound) if by_row else None,
        npv=(1 - share) * (1 - fpr) / cleared if cleared else None,
        npv_at_least=(
            (1 - share) * (1 - bound) / ((1 - share) * (1 - bound) + share * (1 - tpr)) if by_row else None
        ),
        uncertified=usual,
        extra_fpr=fpr - usual.fpr,
        extra_alarms_per_1000=alarms - usual.alarms_per_1000,
        cost=None if cost is None else cost[1],
        units=units_of(judged.trials),
        per=per,
    )


def _recall(judged: Judged, threshold: float) -> float:
    return int(np.count_nonzero(judged.scores >= threshold)) / len(judged.scores)


def _fpr_at_most(sample: Sample, false: int, confidence: float, *, looked: bool) -> tuple[float, FprMethod]:
    """The bound of the FPR; looked: whether the threshold was chosen by the negatives too."""
    trials = sample.negative_trials
    if sample.mixed or (looked and shares_units(trials)):
        return upper_bound_anywhere(false, trials, confidence), "units at any threshold"
    if looked:
        total = rows_of(trials)
        reach = float(np.sqrt(-np.log(min(1 - confidence, 0.5)) / (2 * total)))
        return min(1.0, false / total + reach), "dkw"
    return upper_bound(false, trials, confidence), "units" if shares_units(trials) else "clopper-pearson"


def _uncertified(sample: Sample, judged: Judged, tpr: float, prevalence: float) -> Uncertified:
    threshold = float(empirical_thresholds(judged.scores, np.array([tpr]))[0])
    caught, false = sample.alarms(threshold)
    total = len(sample.positives)
    row_recall, fpr = caught / total, false / (len(sample.scores) - total)
    ranked = len(judged.scores)
    rank = max(1, int(np.floor((1 - tpr) * ranked + 1e-9)) + 1)  # the same score, counted from the lowest
    return Uncertified(
        threshold=threshold,
        recall=_recall(judged, threshold),
        fpr=fpr,
        alarms_per_1000=1000 * (prevalence * row_recall + (1 - prevalence) * fpr),
        shortfall_risk=shortfall_risk(judged.trials, min(rank, ranked), tpr),
        tied=shares_units(judged.trials) or int(np.count_nonzero(judged.scores == threshold)) > 1,
    )


def _cheapest(sample: Sample, certified: float, costs: Costs, prevalence: float) -> tuple[float, CostChoice]:
    """The positive score at or below the certified threshold with the least expected cost.

        cost(t) = prevalence · miss · (1 − recall(t)) + (1 − prevalence) · alarm · FPR(t)

    Between two positive scores a lower threshold only adds alarms, so the positives' scores are all to try.
    """
    ordered = np.sort(sample.positives)
    candidates = np.unique(ordered[ordered <= certified])
    missed = np.searchsorted(ordered, candidates, side="left") / len(ordered)
    places = np.searchsorted(candidates, sample.negatives, side="right")
    below = np.cumsum(np.bincount(places, minlength=len(candidates) + 1))[:-1]
    fpr = 1 - below / len(sample.negatives)
    expected = 1000 * (prevalence * costs.miss * missed + (1 - prevalence) * costs.alarm * fpr)
    best = len(expected) - 1 - int(np.argmin(expected[::-1]))  # the highest of equally cheap thresholds
    return float(candidates[best]), CostChoice(costs, float(expected[best]), float(expected[-1]), certified)
