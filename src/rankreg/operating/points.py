"""What an operating point is, how a threshold becomes one, and what makes one useless."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rankreg.metrics import Floats, empirical_thresholds
from rankreg.notation import Record, rounded_threshold, share
from rankreg.operating.guarantees import bounds, check_prevalence, shortfall_risk, upper_bound
from rankreg.operating.intervals import Interval, interval_of_auc
from rankreg.operating.score_summary import Evidence, ScoreSummary, evidence
from rankreg.operating.units import Judged, Per, UnitSizes, rows_of, shares_units, units_of

FprMethod = Literal["clopper-pearson", "dkw", "units", "units at any threshold"]
FindingName = Literal[
    "reversed", "below-chance", "chance", "two-values", "alarms-on-everything", "alarms-at-random", "training-data"
]
NEARLY_ALL = 0.95  # a threshold that this share of the negatives reaches alarms on everything


@dataclass(frozen=True)
class Costs(Record):
    """What one missed positive and one false alarm cost, in any one unit.

    Args:
        miss: the cost of a missed positive.
        alarm: the cost of a false alarm.

    Raises:
        ValueError: a cost is negative or infinite, or both are 0.

    >>> Costs(miss=500, alarm=1)
    Costs(miss=500, alarm=1)
    """

    miss: float
    alarm: float

    def __post_init__(self) -> None:
        if not (0 <= self.miss < np.inf and 0 <= self.alarm < np.inf and self.miss + self.alarm > 0):
            raise ValueError(f"costs must be finite, not negative and not both 0, got {self.miss} and {self.alarm}")


@dataclass(frozen=True)
class CostChoice(Record):
    """The threshold of least expected cost among those at or below the certified one.

    Attributes:
        costs: what was asked for.
        per_1000: the expected cost per 1,000 samples at the chosen threshold.
        per_1000_at_certified: the same at the highest certified threshold.
        certified_threshold: the highest certified threshold.
    """

    costs: Costs
    per_1000: float
    per_1000_at_certified: float
    certified_threshold: float


@dataclass(frozen=True)
class Uncertified(Record):
    """The usual threshold: the empirical quantile, which guarantees nothing.

    Attributes:
        threshold: the k-th highest positive score, k = ⌈tpr · #positives⌉.
        recall: the share of positives that reach it in the sample.
        fpr: the share of negatives that reach it in the sample.
        alarms_per_1000: alarms per 1,000 samples at the prevalence.
        shortfall_risk: the chance that its recall on new positives is below the TPR.
        tied: other positives have the same score, or positives share units. Then the chance is at
            most `shortfall_risk`.
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

    Attributes:
        threshold: the certified threshold.
        tpr: the recall that is guaranteed.
        confidence: of the guarantee.
        positives: how many positives certified it.
        negatives: how many negatives there were.
        rank: the threshold is the rank-th lowest positive score, of rows or of units' highest rows.
        recall: the share observed in the sample, of rows or of units (see `per`).
        fpr: the share of the negative rows observed in the sample.
        fpr_at_most: the upper bound of the FPR.
        fpr_confidence: the confidence of that bound.
        fpr_method: "clopper-pearson" is exact, because the threshold depends on positives only.
            "dkw" holds at all thresholds at once, where costs made the threshold depend on
            negatives. "units" is over units. "units at any threshold" is over units that have rows
            of both classes, or where costs were given.
        prevalence: the share of positives that the next numbers assume.
        prevalence_given: whether the caller gave it; otherwise it is that of the sample.
        alarms_per_1000: alarms per 1,000 rows, from the observed shares.
        alarms_per_1000_at_most: the same from the bound of the FPR.
        ppv: the share of alarms that are real, from the observed shares.
        ppv_at_least: bound with confidence + fpr_confidence − 1; None for a recall per unit.
        npv: the share of rows without alarm that are negative; None if every row raises an alarm.
        npv_at_least: bound with confidence + fpr_confidence − 1; None for a recall per unit.
        uncertified: the usual threshold, for comparison.
        extra_fpr: what the guarantee costs over the usual threshold, in FPR.
        extra_alarms_per_1000: what the guarantee costs over the usual threshold, in alarms.
        cost: the choice by costs, if costs were given.
        units: how many units the positives belong to; None if none were given.
        per: "row" for the recall of positive rows. "unit" for the recall of units: the share of
            units with positives that have an alarm on at least one of them.
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
    """The assumption of a promise of recall, in one sentence."""
    alone = found.units in (None, found.positives)  # no two positives share a unit
    count, what = (found.positives, "positive") if alone else (found.units or 0, "unit")
    who = f"the {count:,} {what}s are" if count != 1 else f"the one {what} is"
    return f"This holds if new positives come like these and {who} independent of each other."


def point_at(
    sample: Evidence,
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
    total, negatives = len(sample.positives), rows_of(sample.negative_trials)
    share = total / (total + negatives) if prevalence is None else check_prevalence(prevalence)
    if threshold is None:
        threshold = lowest(judged.scores, rank)
    cost = None if costs is None else _cheapest(sample, threshold, costs, share)
    if cost is not None:
        threshold = cost[0]
    caught, false = sample.alarms(threshold)
    row_recall, fpr = caught / total, false / negatives
    bound, method = _fpr_at_most(sample, false, fpr_confidence, looked=cost is not None)
    usual = _uncertified(sample, judged, tpr, share)
    rates = rates_at(share, row_recall, fpr, tpr=tpr, fpr_at_most=bound)
    if per == "unit":
        rates |= {"ppv_at_least": None, "npv_at_least": None}
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
        **rates,
        uncertified=usual,
        extra_fpr=fpr - usual.fpr,
        extra_alarms_per_1000=rates["alarms_per_1000"] - usual.alarms_per_1000,
        cost=None if cost is None else cost[1],
        units=units_of(judged.trials),
        per=per,
    )


def lowest(scores: Floats, rank: int) -> float:
    """The rank-th lowest score."""
    return float(np.partition(scores, rank - 1)[rank - 1])


def alarms_per_1000(prevalence: float, recall: float, fpr: float) -> float:
    """Alarms per 1,000 rows, true and false; `page.js` repeats it."""
    return 1000 * (prevalence * recall + (1 - prevalence) * fpr)


def rates_at(prevalence: float, recall: float, fpr: float, *, tpr: float, fpr_at_most: float) -> dict[str, Any]:
    """Alarms, PPV and NPV of rows at a prevalence, from observed shares and from bounds; `page.js` repeats it."""
    alarms = alarms_per_1000(prevalence, recall, fpr)
    cleared = prevalence * (1 - recall) + (1 - prevalence) * (1 - fpr)
    sure = (1 - prevalence) * (1 - fpr_at_most)
    return {
        "alarms_per_1000": alarms,
        "alarms_per_1000_at_most": alarms_per_1000(prevalence, 1.0, fpr_at_most),
        "ppv": 1000 * prevalence * recall / alarms,
        "ppv_at_least": prevalence * tpr / (prevalence * tpr + (1 - prevalence) * fpr_at_most),
        "npv": (1 - prevalence) * (1 - fpr) / cleared if cleared else None,
        "npv_at_least": sure / (sure + prevalence * (1 - tpr)),
    }


def _recall(judged: Judged, threshold: float) -> float:
    return int(np.count_nonzero(judged.scores >= threshold)) / len(judged.scores)


def _fpr_at_most(sample: Evidence, false: int, confidence: float, *, looked: bool) -> tuple[float, FprMethod]:
    """The bound of the FPR; looked: whether the threshold was chosen by the negatives too."""
    trials = sample.negative_trials
    if sample.mixed or (looked and shares_units(trials)):
        high = float(bounds(np.array(false), trials, confidence, anywhere=True)[1])
        return high, "units at any threshold"
    if looked:
        total = rows_of(trials)
        reach = float(np.sqrt(-np.log(min(1 - confidence, 0.5)) / (2 * total)))
        return min(1.0, false / total + reach), "dkw"
    return upper_bound(false, trials, confidence), "units" if shares_units(trials) else "clopper-pearson"


def _uncertified(sample: Evidence, judged: Judged, tpr: float, prevalence: float) -> Uncertified:
    threshold = float(empirical_thresholds(judged.scores, np.array([tpr]))[0])
    caught, false = sample.alarms(threshold)
    total = len(sample.positives)
    row_recall, fpr = caught / total, false / rows_of(sample.negative_trials)
    ranked = len(judged.scores)
    rank = max(1, int(np.floor((1 - tpr) * ranked + 1e-9)) + 1)  # the same score, counted from the lowest
    return Uncertified(
        threshold=threshold,
        recall=_recall(judged, threshold),
        fpr=fpr,
        alarms_per_1000=alarms_per_1000(prevalence, row_recall, fpr),
        shortfall_risk=shortfall_risk(judged.trials, min(rank, ranked), tpr),
        tied=shares_units(judged.trials) or int(np.count_nonzero(judged.scores == threshold)) > 1,
    )


def _cheapest(sample: Evidence, certified: float, costs: Costs, prevalence: float) -> tuple[float, CostChoice]:
    """The positive score at or below the certified threshold with the least expected cost.

        cost(t) = prevalence · miss · (1 − recall(t)) + (1 − prevalence) · alarm · FPR(t)

    Between two positive scores a lower threshold only adds alarms, so the positives' scores are all
    to try.
    """
    ordered = np.sort(sample.positives)
    candidates = np.unique(ordered[ordered <= certified])
    missed = np.searchsorted(ordered, candidates, side="left") / len(ordered)
    fpr = sample.false_alarms(candidates) / rows_of(sample.negative_trials)
    expected = 1000 * (prevalence * costs.miss * missed + (1 - prevalence) * costs.alarm * fpr)
    best = len(expected) - 1 - int(np.argmin(expected[::-1]))  # the highest of equally cheap thresholds
    return float(candidates[best]), CostChoice(costs, float(expected[best]), float(expected[-1]), certified)


@dataclass(frozen=True)
class Finding(Record):
    """Something to know before any number.

    Attributes:
        name: "reversed", "below-chance", "chance", "two-values", "alarms-on-everything", "alarms-at-random", or
            "training-data" from `evaluate` of a bundle.
        sentence: what was found and what to do.
        refuses: whether no threshold of these scores should be certified.
        useless: whether no threshold, or not this one, is shown to be better than chance.
    """

    name: FindingName
    sentence: str
    refuses: bool = False
    useless: bool = False


def findings(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    threshold: float | None = None,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
) -> tuple[Finding, ...]:
    """What is wrong with these scores, or with this threshold on them, the most serious first; usually nothing.

    A certified threshold keeps its recall with any scores, even useless ones: it then alarms on
    nearly everything. So look here before you use one. The names:

    - "reversed": positives score lower than negatives; the whole interval of the AUC lies below one half.
    - "below-chance": the AUC is below one half, but its interval is not.
    - "chance": the AUC is one half or more, but its interval includes one half.
    - "alarms-on-everything": all or nearly all negatives (95 % or more) reach the threshold.
    - "alarms-at-random": as large a share of the negatives reaches the threshold as of the positives.
    - "two-values": the scores are hard predictions, between which no threshold can be chosen.

    Args:
        y_true: labels, 1 for the critical class; or a `ScoreSummary` in place of labels and scores.
        y_score: scores, higher = more critical.
        threshold: the one in use, if any.
        confidence: that of the AUC's interval.
        units: one value per sample, as for `auc_interval`.

    >>> labels, hard = [0] * 40 + [1] * 40, [0] * 40 + [1] * 30 + [0] * 10
    >>> [found.name for found in findings(labels, hard, threshold=0)]
    ['alarms-on-everything', 'two-values']
    """
    sample = evidence(y_true, y_score, units)
    found = _about_the_order(sample, confidence)
    low, high = sample.span
    if threshold is not None:
        found += _about_the_threshold(sample, threshold, said=bool(found))
    if sample.two_valued:
        found.append(
            Finding(
                "two-values",
                f"The scores have only two values, {low:g} and {high:g}: they are predictions, not scores, and"
                " leave no threshold to choose. Pass what the model computes before it decides, e.g."
                " predict_proba(X)[:, 1] or decision_function(X)",
            )
        )
    return tuple(found)


def _about_the_threshold(sample: Evidence, threshold: float, *, said: bool) -> list[Finding]:
    """said: whether it was said already that the scores are no better than chance."""
    caught, false = sample.alarms(threshold)
    negatives = rows_of(sample.negative_trials)
    recall, fpr = caught / len(sample.positives), false / negatives
    advice = " It keeps its recall by telling nothing apart: use a lower TPR or a better model"
    if fpr == 1:
        whom = "sample" if recall == 1 else "negative"
        what = f"Alarms on every {whom}: all {false:,} negatives reach {rounded_threshold(threshold)}."
    elif fpr >= NEARLY_ALL:
        what = (
            f"Alarms on nearly everything: {false:,} of {negatives:,} negatives ({share(fpr)}) reach"
            f" {rounded_threshold(threshold)}."
        )
    elif fpr >= recall and not said:
        what = (
            f"No better than alarms at random: {share(fpr)} of the negatives reach {rounded_threshold(threshold)},"
            f" and {share(recall)} of the positives. Use another threshold or a better model"
        )
        return [Finding("alarms-at-random", what, useless=True)]
    else:
        return []
    return [Finding("alarms-on-everything", what + advice, useless=True)]


def _about_the_order(sample: Evidence, confidence: float) -> list[Finding]:
    area, fewer = sample.auc(), min(len(sample.positives), rows_of(sample.negative_trials))
    alone = not isinstance(sample.negative_trials, UnitSizes)
    if alone and area - 0.5 > 3 / np.sqrt(fewer):  # six times the largest error that an AUC can have
        return []
    found = interval_of_auc(sample, confidence) if fewer > 1 else Interval(area, 0.0, 1.0, confidence)
    if found.low > 0.5:
        return []
    if area >= 0.5:
        said = f"AUC {100 * area:.1f} %, at least {100 * found.low:.1f} %"
        return [
            Finding(
                "chance",
                f"The scores are not shown to be better than chance here ({said}): collect more samples, or use"
                " a better model",
                useless=True,
            )
        ]
    said = f"AUC {100 * area:.1f} %, at most {100 * found.high:.1f} %"
    if found.high < 0.5:
        return [
            Finding(
                "reversed",
                f"The scores look reversed: positives score lower than negatives ({said}). Higher must mean more"
                " critical: negate the scores, pass the probability of the critical class, or name the other label"
                " as the positive one",
                refuses=True,
                useless=True,
            )
        ]
    return [
        Finding(
            "below-chance",
            f"The scores are no better than chance here ({said}): check that higher means more critical, and which"
            " label is the positive one",
            useless=True,
        )
    ]
