"""The ROC curve, the band around it, and the FPR at a few TPRs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import Roc, auc, empirical_thresholds, roc
from rankreg.operating import Interval, auc_interval
from rankreg.operating.exact import certified_ranks
from rankreg.operating.intervals import divided_risks
from rankreg.report.models import Model
from rankreg.report.tables import bounds

Reals = NDArray[np.float64]
GRID: Reals = np.unique(np.concatenate([np.linspace(0.01, 0.9, 90), np.linspace(0.9, 0.9995, 200)]))
LISTED = (0.80, 0.90, 0.95, 0.98, 0.99)


@dataclass(frozen=True, eq=False)
class Band:
    """For each TPR the FPR in the sample, and bounds for that of the population."""

    tprs: Reals
    fpr: Reals
    low: Reals
    high: Reals


def curve(model: Model) -> Roc:
    """Every point of the model's ROC curve; charts thin it to what the eye can tell apart."""
    return roc(model.labels, model.scores)


def band(model: Model, tprs: Sequence[float] | Reals, confidence: float) -> Band:
    """`operating.fpr_at_tpr_interval` at many TPRs, each interval by itself, for one sort of the scores."""
    ordered, negatives = model.positives, model.negatives
    n, m = len(ordered), len(negatives)
    of_positives, of_negatives = model.sample.positive_trials, model.sample.negative_trials
    quantile_risk, count_risk = divided_risks(of_positives, of_negatives, confidence)
    levels = np.asarray(tprs, dtype=np.float64)
    lowest = certified_ranks(of_positives, levels, [1 - quantile_risk])[:, 0]
    highest = n + 1 - certified_ranks(of_positives, 1 - levels, [1 - quantile_risk])[:, 0]

    def false(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        thresholds = ordered[np.clip(ranks, 1, n) - 1]
        return m - np.searchsorted(negatives, thresholds, side="left").astype(np.int64)

    high = np.where(lowest >= 1, bounds(false(lowest), of_negatives, 1 - count_risk)[1], 1.0)
    low = np.where(highest <= n, bounds(false(highest), of_negatives, 1 - count_risk)[0], 0.0)
    estimate = m - np.searchsorted(negatives, empirical_thresholds(ordered, levels), side="left")
    return Band(levels, estimate / m, low, high)


def area(model: Model, confidence: float) -> Interval:
    """The AUC with its interval; with a single sample of a class nothing is known of its spread."""
    if min(len(model.positives), len(model.negatives)) < 2:
        return Interval(auc(model.labels, model.scores), 0.0, 1.0, confidence)
    return auc_interval(model.labels, model.scores, confidence=confidence, units=model.units)


def listed(model: Model, targets: Sequence[float], confidence: float) -> list[Interval]:
    """The FPR at the TPRs of the table, with intervals."""
    found = band(model, listed_tprs(targets), confidence)
    rows = zip(found.fpr.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    return [Interval(fpr, low, high, confidence) for fpr, low, high in rows]


def listed_tprs(targets: Sequence[float]) -> list[float]:
    """The TPRs of the table: usual ones and the targets."""
    return sorted({*LISTED, *targets})
