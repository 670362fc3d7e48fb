"""Three answers: alarm, review or dismiss. Two thresholds, and a bound of how much is left to review."""

from dataclasses import dataclass

import numpy as np

from rankreg.notation import Record
from rankreg.operating.guarantees import NotEnoughPositives, bounds, dependent_share
from rankreg.operating.promises import REVIEW_PARTS, Conflict, conflicts, counted, observed_at
from rankreg.operating.spans import Asked, Steps
from rankreg.operating.units import Trials, rows_of, shares_units


@dataclass(frozen=True)
class Review(Record):
    """Three answers: alarm when score ≥ `alarm_from`, review when score ≥ `review_from`, else dismiss.

    Attributes:
        review_from: the lower threshold. At least `tpr` of the positives are alarmed or reviewed.
        alarm_from: the upper threshold. At least `precision` of the alarms are real. It equals
            `review_from` if one threshold keeps both promises, and is None if no precision was shown.
        tpr: the recall that is promised.
        precision: the precision that is promised.
        confidence: of both promises, and of `review_per_1000_at_most` if there is one, together.
        review_per_1000: rows to review per 1,000 rows, from the observed shares.
        review_per_1000_at_most: the upper bound of the same; None where it is only estimated, out of fold.
        alarms_per_1000: alarms per 1,000 rows, from the observed shares.
        recall: the share of positives observed at or above `review_from`.
        alarm_recall: the share of positives observed at or above `alarm_from`.
        alarm_precision: the share of alarms that are real, from the observed shares; None without alarms.
        highest_precision: the highest precision that could have been promised; None if `precision` is kept.
        prevalence: the share of positives that these numbers assume.
        prevalence_given: whether the caller gave it; otherwise it is that of the sample.
        positives: how many positives there were.
        negatives: how many negatives there were.
        units: how many units the positives belong to; None if none were given.
        conflicts: why no precision was shown and what would help; empty if `precision` is kept.
    """

    review_from: float
    alarm_from: float | None
    tpr: float
    precision: float
    confidence: float
    review_per_1000: float
    review_per_1000_at_most: float | None
    alarms_per_1000: float
    recall: float
    alarm_recall: float
    alarm_precision: float | None
    highest_precision: float | None
    prevalence: float
    prevalence_given: bool
    positives: int
    negatives: int
    units: int | None = None
    conflicts: tuple[Conflict, ...] = ()


def review_promises(
    precision: float, tpr: float, prevalence: float | None, confidence: float
) -> tuple[Asked, Asked]:
    """The recall and the precision of a review, each with its share of the risk."""
    sure = dependent_share(confidence, REVIEW_PARTS)
    return Asked({"tpr": tpr}, prevalence, sure), Asked({"precision": precision}, prevalence, sure)


def review_conflicts(
    steps: Steps, precision: float, tpr: float, prevalence: float | None, confidence: float
) -> tuple[Conflict, ...]:
    """Which of the two promises of a review cannot be shown, and what would help."""
    recall, alarms = review_promises(precision, tpr, prevalence, confidence)
    return conflicts(steps, recall) + conflicts(steps, alarms)


def check_review_units(rows: Trials, prevalence: float | None) -> None:
    """Where rows depend on each other, only the bounds by class know what they show."""
    if shares_units(rows) and prevalence is None:
        raise ValueError("a review of units of several rows needs a prevalence: give it too")


def review_point(steps: Steps, precision: float, tpr: float, prevalence: float | None, confidence: float) -> Review:
    """The two thresholds; the upper one is None if the precision is not shown."""
    check_review_units(steps.rows, prevalence)
    recall, alarms = review_promises(precision, tpr, prevalence, confidence)
    sure, kept = recall.confidence, recall.kept(steps)
    if kept.empty:
        raise NotEnoughPositives(steps.positives, tpr, sure, shared=", a third of the risk")
    shown = alarms.kept(steps)
    lower, upper = kept.first, -1
    if not shown.empty:
        upper = shown.last if shown.last < lower else max(lower, shown.first)
        lower = max(lower, upper)  # the walk may have started below the threshold that keeps the recall
    at_lower, at_upper = (observed_at(steps, step, prevalence) for step in (lower, upper))
    most = 0.0 if upper == lower else review_at_most(steps, lower, upper, prevalence, sure)
    return Review(
        review_from=float(steps.thresholds[lower]),
        alarm_from=None if upper < 0 else float(steps.thresholds[upper]),
        tpr=tpr,
        precision=precision,
        confidence=confidence,
        review_per_1000=at_lower["alarms_per_1000"] - at_upper["alarms_per_1000"],
        review_per_1000_at_most=1000 * most,
        alarms_per_1000=at_upper["alarms_per_1000"],
        recall=at_lower["recall"],
        alarm_recall=at_upper["recall"],
        alarm_precision=at_upper["precision"] if upper >= 0 else None,
        highest_precision=None,
        **counted(steps, prevalence),
    )


def review_at_most(steps: Steps, lower: int, upper: int, prevalence: float | None, confidence: float) -> float:
    """The upper bound of the share of rows at or above one threshold and below a higher one.

    lower: a step that the positives alone chose. upper: any step, or −1 for none. At `lower` the FPR is
    bounded and the TPR is at most 1. At `upper`, which may be chosen by looking, the
    Dvoretzky–Kiefer–Wolfowitz bound holds at all thresholds at once, or the one over units. Each of the
    three bounds gets a third of the risk.
    """
    sure = 1 - (1 - confidence) / 3
    negatives, rows = rows_of(steps.negatives), rows_of(steps.rows)
    positives = rows - negatives
    fpr = float(bounds(steps.false[lower], steps.negatives, sure, anywhere=steps.mixed)[1])

    def least(count: int, total: int, trials: Trials | None = None) -> float:
        if trials is not None and shares_units(trials):
            return float(bounds(np.array(count), trials, sure, anywhere=True)[0])
        return max(0.0, count / total - float(np.sqrt(-np.log(min(1 - sure, 0.5)) / (2 * total))))

    true, false = (int(counts[upper]) if upper >= 0 else 0 for counts in (steps.true, steps.false))
    if prevalence is None:
        share = float(bounds(np.array(positives), rows, sure)[1])
        return max(0.0, share + (1 - share) * fpr - least(true + false, rows))
    caught = least(true, positives, steps.positives)
    alarmed = least(false, negatives, steps.negatives)
    between = prevalence * (1 - caught) + (1 - prevalence) * (fpr - alarmed)
    return max(0.0, between)
