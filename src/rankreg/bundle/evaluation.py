"""How a threshold does on labelled scores: exact intervals, nothing averaged away."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from rankreg._files import write_whole
from rankreg.metrics import check_binary
from rankreg.operating import (
    Finding,
    Interval,
    Record,
    auc_interval,
    findings,
    fpr_at_tpr_interval,
    lower_bound,
    upper_bound,
)
from rankreg.scores import Scores

TPRS = (0.98, 0.95, 0.90)


@dataclass(frozen=True)
class Evaluation(Record):
    """What alarms at score ≥ threshold come to, every share with its interval.

    recall, fpr, alarms, precision: shares of the positives, negatives, samples and alarms; precision is None
    without alarms. fpr_at_tpr: by the TPR in percent, at these samples' own thresholds. findings: what to know
    before any of these numbers, e.g. that the scores look reversed.
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
    findings: tuple[Finding, ...] = ()


def evaluate_scores(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    threshold: float,
    confidence: float = 0.95,
    tprs: Sequence[float] = TPRS,
) -> Evaluation:
    """Recall, FPR, alarms and precision at the threshold, AUC, and FPR at TPRs, with two-sided intervals."""
    positive, scores = check_binary(y_true, y_score)
    total, others = int(np.count_nonzero(positive)), int(np.count_nonzero(~positive))
    alarm = scores >= threshold
    caught, false = int(np.count_nonzero(alarm & positive)), int(np.count_nonzero(alarm & ~positive))
    return Evaluation(
        threshold=threshold,
        positives=total,
        negatives=others,
        recall=share_interval(caught, total, confidence),
        fpr=share_interval(false, others, confidence),
        alarms=share_interval(caught + false, total + others, confidence),
        precision=share_interval(caught, caught + false, confidence) if caught + false else None,
        auc=auc_interval(positive, scores, confidence=confidence),
        fpr_at_tpr={
            f"{100 * tpr:g}": fpr_at_tpr_interval(positive, scores, tpr=tpr, confidence=confidence) for tpr in tprs
        },
        findings=findings(positive, scores, threshold=threshold, confidence=confidence),
    )


def share_interval(successes: int, trials: int, confidence: float) -> Interval:
    """A share with its two-sided Clopper–Pearson interval."""
    each_side = (1 + confidence) / 2
    return Interval(
        successes / trials,
        lower_bound(successes, trials, each_side),
        upper_bound(successes, trials, each_side),
        confidence,
    )


def write_scores(path: Path, scores: Scores) -> None:
    """A CSV file with id, label and score, which `rankreg certify`, `compare` and `report` read."""
    import pandas as pd

    table = pd.DataFrame({"id": scores.ids, "label": scores.labels, "score": scores.values})
    write_whole(path, table.to_csv(index=False).encode())
