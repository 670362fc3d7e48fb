"""What an operating point is, and how a threshold becomes one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rankreg.metrics import Bools, Floats, check_binary, empirical_thresholds
from rankreg.operating._records import Record
from rankreg.operating.exact import check_prevalence, shortfall_risk, upper_bound


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

    tied: other positives have that score too, so the chance is at most the `shortfall_risk`.
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

    recall, fpr: the shares observed in the sample. fpr_at_most: holds with `fpr_confidence`; exact
    (Clopper–Pearson), since the threshold looks at positives only, or uniform over thresholds
    (Dvoretzky–Kiefer–Wolfowitz) where costs made it look at the negatives too. alarms_per_1000, ppv, npv:
    at the prevalence, from the observed shares. alarms_per_1000_at_most needs the FPR bound only. ppv_at_least and
    npv_at_least need both guarantees: they hold with confidence + fpr_confidence − 1. npv is None if nothing stays
    below the threshold. rank: the certified threshold is the rank-th lowest positive score. extra_*: what the
    guarantee costs over the uncertified threshold.
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
    fpr_method: Literal["clopper-pearson", "dkw"]
    prevalence: float
    prevalence_given: bool
    alarms_per_1000: float
    alarms_per_1000_at_most: float
    ppv: float
    ppv_at_least: float
    npv: float | None
    npv_at_least: float
    uncertified: Uncertified
    extra_fpr: float
    extra_alarms_per_1000: float
    cost: CostChoice | None = None


@dataclass(frozen=True, eq=False)
class Sample:
    """Checked scores and which of them are positive."""

    positive: Bools
    scores: Floats

    @classmethod
    def of(cls, y_true: ArrayLike, y_score: ArrayLike) -> "Sample":
        """Check once; scores that are all equal are refused, since every threshold alarms on all or on none."""
        positive, scores = check_binary(y_true, y_score)
        if np.all(scores == scores[0]):
            raise ValueError(f"all {len(scores)} scores equal {scores[0]}: they tell no sample from another")
        return cls(positive, scores)

    @cached_property
    def positives(self) -> Floats:
        """The positives' scores."""
        return self.scores[self.positive]

    @cached_property
    def negatives(self) -> Floats:
        """The negatives' scores."""
        return self.scores[~self.positive]

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
    costs: Costs | None = None,
    threshold: float | None = None,
) -> OperatingPoint:
    """The operating point at the rank-th lowest positive score, or at a lower threshold if one is given."""
    total = len(sample.positives)
    negatives = len(sample.scores) - total
    share = total / len(sample.scores) if prevalence is None else check_prevalence(prevalence)
    if threshold is None:
        threshold = float(np.partition(sample.positives, rank - 1)[rank - 1])
    cost = None if costs is None else _cheapest(sample, threshold, costs, share)
    if cost is not None:
        threshold = cost[0]
    caught, false = sample.alarms(threshold)
    recall, fpr = caught / total, false / negatives
    if cost is None:
        bound = upper_bound(false, negatives, fpr_confidence)
    else:
        bound = min(1.0, fpr + float(np.sqrt(-np.log(min(1 - fpr_confidence, 0.5)) / (2 * negatives))))
    usual = _uncertified(sample, tpr, share)
    alarms = 1000 * (share * recall + (1 - share) * fpr)
    cleared = share * (1 - recall) + (1 - share) * (1 - fpr)
    return OperatingPoint(
        threshold=threshold,
        tpr=tpr,
        confidence=confidence,
        positives=total,
        negatives=negatives,
        rank=rank,
        recall=recall,
        fpr=fpr,
        fpr_at_most=bound,
        fpr_confidence=fpr_confidence,
        fpr_method="clopper-pearson" if cost is None else "dkw",
        prevalence=share,
        prevalence_given=prevalence is not None,
        alarms_per_1000=alarms,
        alarms_per_1000_at_most=1000 * (share + (1 - share) * bound),
        ppv=1000 * share * recall / alarms,
        ppv_at_least=share * tpr / (share * tpr + (1 - share) * bound),
        npv=(1 - share) * (1 - fpr) / cleared if cleared else None,
        npv_at_least=(1 - share) * (1 - bound) / ((1 - share) * (1 - bound) + share * (1 - tpr)),
        uncertified=usual,
        extra_fpr=fpr - usual.fpr,
        extra_alarms_per_1000=alarms - usual.alarms_per_1000,
        cost=None if cost is None else cost[1],
    )


def _uncertified(sample: Sample, tpr: float, prevalence: float) -> Uncertified:
    threshold = float(empirical_thresholds(sample.positives, np.array([tpr]))[0])
    caught, false = sample.alarms(threshold)
    total = len(sample.positives)
    recall, fpr = caught / total, false / (len(sample.scores) - total)
    rank = max(1, int(np.floor((1 - tpr) * total + 1e-9)) + 1)  # the same score, counted from the lowest
    return Uncertified(
        threshold=threshold,
        recall=recall,
        fpr=fpr,
        alarms_per_1000=1000 * (prevalence * recall + (1 - prevalence) * fpr),
        shortfall_risk=shortfall_risk(total, min(rank, total), tpr),
        tied=int(np.count_nonzero(sample.positives == threshold)) > 1,
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
