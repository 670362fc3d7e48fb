"""A threshold's promise and an evaluation in words; bounds are rounded outwards."""

import math

from rankreg.bundle.card import Threshold
from rankreg.bundle.evaluation import Evaluation
from rankreg.operating import Interval, assumption, percent

Lines = list[tuple[str, str]]


def promise_lines(threshold: Threshold) -> Lines:
    """What recall the threshold promises and on which assumption, or that it promises none."""
    if not threshold.certified:
        return [("Recall", f"UNCERTIFIED: {_shortage(threshold)}")]
    caught = (
        "of new positives raise an alarm"
        if threshold.per == "row"
        else "of new units with positives raise an alarm on at least one of them"
    )
    return [
        (
            "Recall",
            f"certified: at least {percent(threshold.tpr)} {caught}, with {percent(threshold.confidence)}"
            f" confidence ({_calibration(threshold)})",
        ),
        ("Assumption", assumption(threshold)),
    ]


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
    positives = f"{threshold.calibration_positives:,} calibration positives"
    return positives if threshold.units is None else f"{positives} in {threshold.units:,} independent units"


def evaluation_lines(found: Evaluation) -> Lines:
    """One heading and one sentence a line."""
    sure = percent(found.fpr.confidence)
    lines = [
        ("Samples", f"{found.positives:,} positives, {found.negatives:,} negatives; in brackets {sure} intervals"),
        ("Caught", f"{share(found.recall)} of the positives score ≥ {found.threshold:.6g}"),
        *_caught_units(found),
        ("False alarms", f"{share(found.fpr)} of the negatives"),
        ("Alarms", f"{per_thousand(found.alarms)} per 1,000 samples with as many positives among them"),
    ]
    if found.precision is not None:
        lines.append(("Real alarms", f"{share(found.precision)} of the alarms"))
    rates = "; ".join(f"{share(interval)} at {tpr} %" for tpr, interval in found.fpr_at_tpr.items())
    return [
        *lines,
        ("AUC", share(found.auc)),
        ("FPR at a TPR", f"{rates}; at thresholds taken from these samples, not the model's"),
    ]


def _caught_units(found: Evaluation) -> Lines:
    if found.recall_of_units is None:
        return []
    return [("Caught units", f"{share(found.recall_of_units)} of the {found.units:,} units with positives")]


def share(interval: Interval) -> str:
    """A share in percent with its interval; bounds are rounded outwards."""
    low, high = math.floor(1000 * interval.low + 1e-9) / 10, math.ceil(1000 * interval.high - 1e-9) / 10
    return f"{100 * interval.estimate:.1f} % ({low:.1f} to {high:.1f})"


def per_thousand(interval: Interval) -> str:
    """Alarms per 1,000 with their interval."""
    return (
        f"{1000 * interval.estimate:.0f} ({math.floor(1000 * interval.low)} to {math.ceil(1000 * interval.high)})"
    )
