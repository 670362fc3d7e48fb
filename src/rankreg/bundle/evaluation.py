"""How a threshold does on labelled scores: exact intervals, nothing averaged away."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankreg.bundle.answers import (
    AT_LEAST,
    AnswerShares,
    MeasuredPromise,
    answer_shares,
    measured_promises,
    trials_at,
)
from rankreg.bundle.card import Threshold
from rankreg.notation import Record, number, percent, share
from rankreg.operating import Finding, Interval, ScoreSummary, auc_interval, findings, fpr_at_tpr_interval
from rankreg.operating.intervals import share_interval
from rankreg.operating.score_summary import evidence
from rankreg.operating.units import rows_of, units_of
from rankreg.safe_files import write_whole
from rankreg.scores import Scores

Lines = list[tuple[str, str]]
TPRS = (0.98, 0.95, 0.90)


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
    lines = [
        ("Samples", f"{found.positives:,} positives, {found.negatives:,} negatives; in brackets {sure} intervals"),
        ("Caught", f"{bounded(found.recall)} of the positives score ≥ {found.threshold:.6g}"),
        *_caught_units(found),
        *(_alarm_lines(found) if found.answers is None else _answer_lines(found.answers, found.fpr)),
        *(("Promise", _against(one)) for one in found.promises),
    ]
    rates = "; ".join(f"{bounded(interval)} at {tpr} %" for tpr, interval in found.fpr_at_tpr.items())
    return [
        *lines,
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
        ("Alarmed", f"{bounded(answers.alarm_recall)} of the positives score ≥ {answers.alarm_from:.6g}"),
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


def _caught_units(found: Evaluation) -> Lines:
    if found.recall_of_units is None or found.units == found.positives:
        return []
    return [("Caught units", f"{bounded(found.recall_of_units)} of the {found.units:,} units with positives")]


def bounded(interval: Interval) -> str:
    """A share with its interval; bounds are rounded outwards."""
    low = share(interval.low if interval.low > 1e-6 else 0.0, up=False)
    return f"{share(interval.estimate)} ({low} to {share(interval.high, up=True)})"


def per_thousand(interval: Interval) -> str:
    """Alarms per 1,000 with their interval."""
    low, high = math.floor(1000 * interval.low), math.ceil(1000 * interval.high)
    return f"{1000 * interval.estimate:,.0f} ({low:,} to {high:,})"
