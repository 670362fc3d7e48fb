"""How a threshold does on labelled scores: exact intervals, nothing averaged away."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from rankreg.bundle.card import Threshold
from rankreg.metrics import Bools, check_binary
from rankreg.notation import Record, percent, share
from rankreg.operating import Finding, Interval, auc_interval, findings, fpr_at_tpr_interval
from rankreg.operating.intervals import share_interval
from rankreg.operating.points import assumption
from rankreg.operating.units import UnitSizes, unit_codes
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


def evaluate_scores(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    threshold: float,
    confidence: float = 0.95,
    tprs: Sequence[float] = TPRS,
    units: ArrayLike | None = None,
) -> Evaluation:
    """Measure what a threshold does on labelled scores, with two-sided intervals.

    units: one value per sample, the same for samples that are not independent of each other.
    """
    positive, scores = check_binary(y_true, y_score)
    codes = None if units is None else unit_codes(units, len(scores))
    alarm = scores >= threshold

    def share_of(hits: Bools, among: Bools) -> Interval:
        trials = int(np.count_nonzero(among)) if codes is None else UnitSizes.of(np.bincount(codes[among]))
        return share_interval(int(np.count_nonzero(hits & among)), trials, confidence=confidence)

    in_all = of_units = None
    if codes is not None:
        in_all, caught = len(np.unique(codes[positive])), len(np.unique(codes[alarm & positive]))
        of_units = share_interval(caught, in_all, confidence=confidence)
    return Evaluation(
        threshold=threshold,
        positives=int(np.count_nonzero(positive)),
        negatives=int(np.count_nonzero(~positive)),
        recall=share_of(alarm, positive),
        fpr=share_of(alarm, ~positive),
        alarms=share_of(alarm, np.ones_like(alarm)),
        precision=share_of(positive, alarm) if alarm.any() else None,
        auc=auc_interval(positive, scores, confidence=confidence, units=codes),
        fpr_at_tpr={
            f"{100 * tpr:g}": fpr_at_tpr_interval(positive, scores, tpr=tpr, confidence=confidence, units=codes)
            for tpr in tprs
        },
        units=in_all,
        recall_of_units=of_units,
        findings=findings(positive, scores, threshold=threshold, confidence=confidence, units=codes),
    )


def write_scores(path: Path, scores: Scores) -> None:
    """A CSV file with id, label, score and, where samples share them, unit, for `rankreg certify` and its like."""
    import pandas as pd

    table = pd.DataFrame({"id": scores.ids, "label": scores.labels, "score": scores.values})
    if scores.units is not None:
        table["unit"] = scores.units
    write_whole(path, table.to_csv(index=False).encode())


def promise_lines(threshold: Threshold) -> Lines:
    """What recall the threshold promises and on which assumption, or that it promises none."""
    if threshold.kind == "empirical":
        return [("Recall", f"UNCERTIFIED: {_shortage(threshold)}")]
    caught = (
        "of new positives raise an alarm"
        if threshold.per == "row"
        else "of new units with positives raise an alarm on at least one of them"
    )
    sure, target = percent(threshold.confidence), percent(threshold.tpr)
    if threshold.kind == "certified":
        verdict = f"certified: at least {target} {caught}, with {sure} confidence ({_calibration(threshold)})"
    elif threshold.kind == "cross-fitted":
        verdict = (
            f"cross-fitted: at least {target} {caught}, with {sure} confidence in simulations; proven is"
            f" {percent(max(0.0, 2 * threshold.tpr - 1))} on average ({_calibration(threshold)})"
        )
    else:
        on_average = share(threshold.expected_recall or 0.0, up=False)
        verdict = (
            f"expected: {on_average} {caught} on average, without a confidence:"
            f" {_calibration(threshold)} are too few, {_needed(threshold)} allow {sure}"
        )
    return [("Recall", verdict), ("Assumption", assumption(threshold))]


def _needed(threshold: Threshold) -> str:
    needed = threshold.units_needed or threshold.positives_needed
    return f"{needed:,}{' units like these' if threshold.units_needed else ''}" if needed else "more"


def _shortage(threshold: Threshold) -> str:
    needed = threshold.units_needed or threshold.positives_needed
    if needed is None:  # the usual threshold of a classifier, or one that was cross-validated
        return "no recall is guaranteed"
    like = " units like these" if threshold.units_needed else ""
    return (
        f"{_calibration(threshold)} are too few to guarantee {percent(threshold.tpr)} with"
        f" {percent(threshold.confidence)} confidence, which takes {needed:,}{like}; the threshold is where"
        f" {percent(threshold.tpr)} of these were caught"
    )


def _calibration(threshold: Threshold) -> str:
    kind = "out-of-fold" if threshold.kind in ("cross-fitted", "expected") else "calibration"
    positives = f"{threshold.calibration_positives:,} {kind} positives"
    if threshold.units in (None, threshold.calibration_positives):
        return positives
    return f"{positives} in {threshold.units:,} independent units"


def evaluation_lines(found: Evaluation) -> Lines:
    """One heading and one sentence a line."""
    sure = percent(found.fpr.confidence)
    lines = [
        ("Samples", f"{found.positives:,} positives, {found.negatives:,} negatives; in brackets {sure} intervals"),
        ("Caught", f"{bounded(found.recall)} of the positives score ≥ {found.threshold:.6g}"),
        *_caught_units(found),
        ("False alarms", f"{bounded(found.fpr)} of the negatives"),
        ("Alarms", f"{per_thousand(found.alarms)} per 1,000 samples with as many positives among them"),
    ]
    if found.precision is not None:
        lines.append(("Real alarms", f"{bounded(found.precision)} of the alarms"))
    rates = "; ".join(f"{bounded(interval)} at {tpr} %" for tpr, interval in found.fpr_at_tpr.items())
    return [
        *lines,
        ("AUC", bounded(found.auc)),
        ("FPR at a TPR", f"{rates}; at thresholds taken from these samples, not the model's"),
    ]


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
    return (
        f"{1000 * interval.estimate:.0f} ({math.floor(1000 * interval.low)} to {math.ceil(1000 * interval.high)})"
    )
