"""How a threshold does on labelled scores: exact intervals, and each promise beside what was measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.bundle.card import Threshold
from rankreg.metrics import Floats, raises_alarm
from rankreg.notation import Lines, Record, number, percent, rounded_threshold, share
from rankreg.operating import Finding, Interval, Review, ScoreSummary, auc_interval, findings, fpr_at_tpr_interval
from rankreg.operating.guarantees import dependent_share
from rankreg.operating.intervals import share_interval
from rankreg.operating.points import alarms_per_1000
from rankreg.operating.score_summary import Evidence, evidence
from rankreg.operating.spans import AT_LEAST
from rankreg.operating.units import Trials, UnitSizes, rows_of, units_of
from rankreg.safe_files import write_whole
from rankreg.scores import Scores

Verdict = Literal["shown", "open", "broken"]
MeasuredName = Literal["tpr", "fpr", "precision", "alarms", "reviews"]

TPRS = (0.98, 0.95, 0.90)
ANSWERS = ("dismiss", "review", "alarm")  # a higher number is more urgent


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


@dataclass(frozen=True)
class Evaluation(Record):
    """What alarms at score ≥ threshold come to, every share with its interval.

    Args:
        threshold: where the alarms are raised.
        positives: how many positives there are.
        negatives: how many negatives there are.
        recall: the share of the positives that raise an alarm.
        fpr: the share of the negatives that do.
        alarms: the share of all samples that do.
        precision: the share of the alarms that are positives; None without alarms.
        auc: the area under the ROC curve.
        fpr_at_tpr: by the TPR in percent, the FPR at a threshold taken from these samples.
        units: how many independent units the positives belong to; None without units.
        recall_of_units: the share of them with an alarm on at least one positive; None without units.
        findings: what to know before any of these numbers, e.g. that the scores look reversed.
        answers: with three answers, what they come to; then `alarms` and `recall` speak of alarms and reviews.
        promises: the promises that the threshold keeps, beside what was measured; none if it is a recall alone.
    """

    threshold: float
    positives: int
    negatives: int
    recall: Interval
    fpr: Interval
    alarms: Interval
    precision: Interval | None
    auc: Interval
    fpr_at_tpr: dict[str, Interval]
    units: int | None = None
    recall_of_units: Interval | None = None
    findings: tuple[Finding, ...] = ()
    answers: AnswerShares | None = None
    promises: tuple[MeasuredPromise, ...] = ()


def evaluate_scores(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    threshold: float | Threshold,
    confidence: float = 0.95,
    tprs: Sequence[float] = TPRS,
    units: ArrayLike | None = None,
) -> Evaluation:
    """Measure what a threshold does on labelled scores, with two-sided intervals.

    y_true: labels; or a `ScoreSummary` in place of labels and scores, with the threshold among its levels.
    threshold: that of a bundle, with its promises, or a number. units: one value per sample, the same for samples
    that are not independent of each other.
    """
    card = threshold if isinstance(threshold, Threshold) else None
    levels = [threshold] if not isinstance(threshold, Threshold) else threshold.levels
    threshold = levels[0]
    if not isinstance(y_true, ScoreSummary) and y_score is not None and units is None:
        y_true, y_score = ScoreSummary.of(y_true, y_score, levels=levels), None
    data: tuple[Any, Any] = (y_true, y_score)
    sample = evidence(*data, units)
    caught, false = sample.alarms(threshold)
    everyone, alarmed = trials_at(sample, threshold)
    of_units = None
    if sample.units is not None:
        judged = sample.judged("unit").scores
        of_units = share_interval(int(np.count_nonzero(judged >= threshold)), len(judged), confidence=confidence)
    recall = share_interval(caught, sample.positive_trials, confidence=confidence)
    answers, promises = None, tuple[MeasuredPromise, ...]()
    if card is not None:
        answers = answer_shares(sample, card, confidence)
        whose = of_units if card.per == "unit" and of_units is not None else recall
        promises = measured_promises(sample, card, confidence, whose)
    return Evaluation(
        threshold=threshold,
        positives=rows_of(sample.positive_trials),
        negatives=rows_of(sample.negative_trials),
        recall=recall,
        fpr=share_interval(false, sample.negative_trials, confidence=confidence),
        alarms=share_interval(caught + false, everyone, confidence=confidence),
        precision=share_interval(caught, alarmed, confidence=confidence) if caught + false else None,
        auc=auc_interval(*data, confidence=confidence, units=units),
        fpr_at_tpr={
            f"{100 * tpr:g}": fpr_at_tpr_interval(*data, tpr=tpr, confidence=confidence, units=units)
            for tpr in tprs
        },
        units=units_of(sample.positive_trials),
        recall_of_units=of_units,
        findings=findings(*data, threshold=threshold, confidence=confidence, units=units),
        answers=answers,
        promises=promises,
    )


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
        if threshold.certified and said.review_per_1000_at_most is not None:  # out of fold it is an estimate
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
    return Interval(
        alarms_per_1000(prevalence, tpr.estimate, fpr.estimate),
        alarms_per_1000(prevalence, tpr.low, fpr.low),
        alarms_per_1000(prevalence, tpr.high, fpr.high),
        confidence,
    )


def _by_class(sample: Evidence, counts: tuple[int, int], confidence: float) -> tuple[Interval, Interval]:
    """The shares of positives and of negatives; both intervals hold together."""
    sure = dependent_share(confidence, 2)
    return (
        share_interval(counts[0], sample.positive_trials, confidence=sure),
        share_interval(counts[1], sample.negative_trials, confidence=sure),
    )


def write_scores(path: Path, scores: Scores) -> None:
    """A CSV file with id, label, score and, where samples share them, unit, for `rankreg certify` and its like."""
    import pandas as pd

    table = pd.DataFrame({"id": scores.ids, "label": scores.labels, "score": scores.values})
    if scores.units is not None:
        table["unit"] = scores.units
    write_whole(path, table.to_csv(index=False).encode())


def evaluation_lines(found: Evaluation) -> Lines:
    """One heading and one sentence a line."""
    sure = percent(found.fpr.confidence)
    units = []
    if found.recall_of_units is not None and found.units != found.positives:
        units = [("Caught units", f"{bounded(found.recall_of_units)} of the {found.units:,} units with positives")]
    rates = "; ".join(f"{bounded(interval)} at {tpr} %" for tpr, interval in found.fpr_at_tpr.items())
    return [
        ("Samples", f"{found.positives:,} positives, {found.negatives:,} negatives; in brackets {sure} intervals"),
        ("Caught", f"{bounded(found.recall)} of the positives score ≥ {rounded_threshold(found.threshold)}"),
        *units,
        *(_alarm_lines(found) if found.answers is None else _answer_lines(found.answers, found.fpr)),
        *(("Promise", _against(one)) for one in found.promises),
        ("AUC", bounded(found.auc)),
        ("FPR at a TPR", f"{rates}; at thresholds taken from these samples, not the model's"),
    ]


def _alarm_lines(found: Evaluation) -> Lines:
    lines = [
        ("False alarms", f"{bounded(found.fpr)} of the negatives"),
        ("Alarms", f"{per_thousand(found.alarms)} per 1,000 samples with as many positives among them"),
    ]
    if found.precision is not None:
        lines.append(("Real alarms", f"{bounded(found.precision)} of the alarms"))
    return lines


def _answer_lines(answers: AnswerShares, fpr: Interval) -> Lines:
    real = "no alarm" if answers.precision is None else f"{bounded(answers.precision)} of the alarms"
    return [
        ("Not dismissed", f"{bounded(fpr)} of the negatives"),
        (
            "Answers",
            f"{per_thousand(answers.alarmed)} alarms and {per_thousand(answers.reviewed)} reviews per 1,000 samples"
            " with as many positives among them",
        ),
        (
            "Alarmed",
            f"{bounded(answers.alarm_recall)} of the positives score ≥ {rounded_threshold(answers.alarm_from)}",
        ),
        ("Real alarms", real),
    ]


def _against(one: MeasuredPromise) -> str:
    """A promise, what was measured, and whether the two agree."""
    count = one.name in ("alarms", "reviews")
    promised = f"{one.target:.6g} per 1,000" if count else percent(one.target)
    if one.name == "reviews":
        promised = f"{number(one.target, up=True)} per 1,000"
    side = "at least" if one.name in AT_LEAST else "at most"
    name = {"tpr": "recall", "fpr": "FPR"}.get(one.name, one.name)
    if one.measured is None:
        return f"{name} {side} {promised}: not known, there is no alarm"
    said = per_thousand(one.measured.scaled(0.001)) if count else bounded(one.measured)
    verdict = {"shown": "kept", "open": "not contradicted", "broken": "BROKEN on these data"}[one.verdict]
    return f"{name} {side} {promised}: {verdict}, measured {said}"


def bounded(interval: Interval) -> str:
    """A share with its interval; bounds are rounded outwards."""
    low = share(interval.low if interval.low > 1e-6 else 0.0, up=False)
    return f"{share(interval.estimate)} ({low} to {share(interval.high, up=True)})"


def per_thousand(interval: Interval) -> str:
    """Alarms per 1,000 with their interval."""
    low, high = math.floor(1000 * interval.low), math.ceil(1000 * interval.high)
    return f"{1000 * interval.estimate:,.0f} ({low:,} to {high:,})"
