"""An evaluation in words; bounds are rounded outwards."""

import math

from rankreg.bundle.evaluation import Evaluation
from rankreg.operating import Interval, percent

Lines = list[tuple[str, str]]


def evaluation_lines(found: Evaluation) -> Lines:
    """One heading and one sentence a line."""
    sure = percent(found.fpr.confidence)
    lines = [
        ("Samples", f"{found.positives:,} positives, {found.negatives:,} negatives; in brackets {sure} intervals"),
        ("Caught", f"{share(found.recall)} of the positives score ≥ {found.threshold:.6g}"),
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


def share(interval: Interval) -> str:
    """A share in percent with its interval; bounds are rounded outwards."""
    low, high = math.floor(1000 * interval.low + 1e-9) / 10, math.ceil(1000 * interval.high - 1e-9) / 10
    return f"{100 * interval.estimate:.1f} % ({low:.1f} to {high:.1f})"


def per_thousand(interval: Interval) -> str:
    """Alarms per 1,000 with their interval."""
    return (
        f"{1000 * interval.estimate:.0f} ({math.floor(1000 * interval.low)} to {math.ceil(1000 * interval.high)})"
    )
