"""Three answers to a score, and promises beside what is measured on labelled scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankreg.bundle.card import Threshold
from rankreg.metrics import Floats, raises_alarm
from rankreg.notation import Record
from rankreg.operating import Interval, Review
from rankreg.operating.guarantees import dependent_share
from rankreg.operating.intervals import share_interval
from rankreg.operating.score_summary import Evidence
from rankreg.operating.units import Trials, UnitSizes, rows_of

ANSWERS = ("dismiss", "review", "alarm")  # a higher number is more urgent
AT_LEAST = ("tpr", "precision")  # other promises are upper bounds
Verdict = Literal["shown", "open", "broken"]
MeasuredName = Literal["tpr", "fpr", "precision", "alarms", "reviews"]


def answers_to(scores: Floats, threshold: Threshold) -> NDArray[np.int64]:
    """The place of each score's answer in `ANSWERS`; a score that is not finite is an alarm."""
    found = raises_alarm(scores, threshold.value).astype(np.int64)
    upper = threshold.value if threshold.alarm_from is None else threshold.alarm_from
    return found + raises_alarm(scores, upper)


@dataclass(frozen=True)
class AnswerShares(Record):
    """What three answers come to on labelled scores, every share with its interval.

    Attributes:
        alarm_from: alarm when score ≥ this; from the threshold to here, review.
        alarmed: the share of all samples that is alarmed.
        reviewed: the share of all samples to review.
        alarm_recall: the share of the positives that is alarmed.
        precision: the share of the alarms that are positives; None without alarms.
    """

    alarm_from: float
    alarmed: Interval
    reviewed: Interval
    alarm_recall: Interval
    precision: Interval | None


@dataclass(frozen=True)
class MeasuredPromise(Record):
    """A promise and what labelled scores say about it.

    Attributes:
        name: "tpr" and "precision" are at least, "fpr", "alarms" and "reviews" at most the target.
        target: what was promised; alarms and reviews are per 1,000 samples.
        measured: the same in these samples, at the promised prevalence if one was stated; None for a precision
            without alarms.
        verdict: "shown" if the whole interval keeps the promise, "broken" if none of it does, else "open".
    """

    name: MeasuredName
    target: float
    measured: Interval | None
    verdict: Verdict


def answer_shares(sample: Evidence, threshold: Threshold, confidence: float) -> AnswerShares | None:
    """What the three answers come to; None if there are two."""
    upper = threshold.alarm_from
    if upper is None:
        return None
    (caught, false), (true, wrong) = sample.alarms(threshold.value), sample.alarms(upper)
    everyone, alarmed = trials_at(sample, upper)
    return AnswerShares(
        upper,
        share_interval(true + wrong, everyone, confidence=confidence),
        share_interval(caught + false - true - wrong, everyone, confidence=confidence),
        share_interval(true, sample.positive_trials, confidence=confidence),
        share_interval(true, alarmed, confidence=confidence) if true + wrong else None,
    )


def trials_at(sample: Evidence, threshold: float) -> tuple[Trials, Trials]:
    """How many samples there are and how many raise an alarm, or the sizes of their units."""
    if sample.units is None:
        return rows_of(sample.positive_trials) + rows_of(sample.negative_trials), sum(sample.alarms(threshold))
    alarmed = sample.units[sample.scores >= threshold]
    return UnitSizes.of(np.bincount(sample.units)), UnitSizes.of(np.bincount(alarmed))


def measured_promises(
    sample: Evidence, threshold: Threshold, confidence: float, recall: Interval
) -> tuple[MeasuredPromise, ...]:
    """Every promise beside what was measured; none if only a recall was promised, or if they were not kept.

    recall: as it was promised, of rows or of units.
    """
    said = threshold.promised
    if said is None or not threshold.kept:
        return ()
    lower, upper = sample.alarms(threshold.value), (0, 0)
    share = said.prevalence if said.prevalence_given else None
    fpr = share_interval(lower[1], sample.negative_trials, confidence=confidence)
    if isinstance(said, Review):
        assert threshold.alarm_from is not None
        upper = sample.alarms(threshold.alarm_from)
        between = lower[0] - upper[0], lower[1] - upper[1]
        targets: dict[MeasuredName, float] = {"tpr": said.tpr, "precision": said.precision}
        if threshold.certified:  # out of fold the load is an estimate
            targets["reviews"] = said.review_per_1000_at_most
        found = {
            "precision": _precision(sample, threshold.alarm_from, upper, share, confidence),
            "reviews": _per_1000(sample, between, share, confidence),
        }
    else:
        targets = {one.name: one.target for one in said.promises}
        found = {
            "fpr": fpr,
            "precision": _precision(sample, threshold.value, lower, share, confidence),
            "alarms": _per_1000(sample, lower, share, confidence),
        }
    found["tpr"] = recall
    return tuple(
        MeasuredPromise(name, target, found[name], _verdict(found[name], target, name in AT_LEAST))
        for name, target in targets.items()
    )


def _verdict(measured: Interval | None, target: float, at_least: bool) -> Verdict:
    if measured is None:
        return "open"
    low, high, limit = (
        (measured.low, measured.high, target) if at_least else (-measured.high, -measured.low, -target)
    )
    return "shown" if low >= limit else "broken" if high < limit else "open"


def _precision(
    sample: Evidence, threshold: float, counts: tuple[int, int], prevalence: float | None, confidence: float
) -> Interval | None:
    """The share of alarms that are real, in the sample or at a prevalence."""
    if not sum(counts):
        return None
    if prevalence is None:
        return share_interval(counts[0], trials_at(sample, threshold)[1], confidence=confidence)

    def real(tpr: float, fpr: float) -> float:
        true, false = prevalence * tpr, (1 - prevalence) * fpr
        return true / (true + false) if true + false else 1.0

    tpr, fpr = _by_class(sample, counts, confidence)
    return Interval(real(tpr.estimate, fpr.estimate), real(tpr.low, fpr.high), real(tpr.high, fpr.low), confidence)


def _per_1000(sample: Evidence, counts: tuple[int, int], prevalence: float | None, confidence: float) -> Interval:
    """So many positives and negatives per 1,000 samples, in the sample or at a prevalence."""
    if prevalence is None:
        everyone = trials_at(sample, np.inf)[0]
        return share_interval(sum(counts), everyone, confidence=confidence).scaled(1000)
    tpr, fpr = _by_class(sample, counts, confidence)

    def rate(side: Callable[[Interval], float]) -> float:
        return 1000 * (prevalence * side(tpr) + (1 - prevalence) * side(fpr))

    return Interval(
        rate(lambda one: one.estimate), rate(lambda one: one.low), rate(lambda one: one.high), confidence
    )


def _by_class(sample: Evidence, counts: tuple[int, int], confidence: float) -> tuple[Interval, Interval]:
    """The shares of positives and of negatives; both intervals hold together."""
    sure = dependent_share(confidence, 2)
    return (
        share_interval(counts[0], sample.positive_trials, confidence=sure),
        share_interval(counts[1], sample.negative_trials, confidence=sure),
    )
