"""The variance of the AUC by DeLong's structural components, in O(N log N).

Reference: DeLong, DeLong, Clarke-Pearson, Biometrics 1988; by ranks: Sun and Xu, IEEE Signal Proc. Letters 2014.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rankreg.metrics import Bools, Floats
from rankreg.operating._records import Interval, check_confidence
from rankreg.operating.points import Sample

Components = NDArray[np.float64]


class Auc(NamedTuple):
    """The areas of one or more score columns on the same samples, and their covariance matrix."""

    areas: NDArray[np.float64]
    covariance: NDArray[np.float64]


def auc_interval(y_true: ArrayLike, y_score: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """The area under the ROC curve, ± the normal quantile times DeLong's standard error, within [0, 1].

    An approximation for many samples of both classes. It has no width where the classes do not overlap: the sample
    says nothing of how far the true area is from 1.
    """
    check_confidence(confidence)
    sample = Sample.of(y_true, y_score)
    found = aucs(sample.positive, [sample.scores])
    area = float(found.areas[0])
    reach = float(special.ndtri((1 + confidence) / 2) * np.sqrt(found.covariance[0, 0]))
    return Interval(area, max(0.0, area - reach), min(1.0, area + reach), confidence)


def aucs(positive: Bools, columns: list[Floats], units: NDArray[np.int64] | None = None) -> Auc:
    """Areas of score columns on the same samples, with DeLong's covariance; over units, Obuchowski's (1997)."""
    counts = np.count_nonzero(positive), np.count_nonzero(~positive)
    if min(counts) < 2:
        raise ValueError(f"DeLong's variance needs two samples of each class, got {counts[0]} and {counts[1]}")
    parts = [components(scores[positive], scores[~positive]) for scores in columns]
    of_positives = np.array([part[0] for part in parts])
    of_negatives = np.array([part[1] for part in parts])
    areas = of_positives.mean(axis=1)
    if units is None:
        covariance = np.cov(of_positives) / counts[0] + np.cov(of_negatives) / counts[1]
        return Auc(areas, np.atleast_2d(covariance))
    apart = np.zeros((len(columns), len(positive)))
    apart[:, positive] = (of_positives - areas[:, None]) / counts[0]
    apart[:, ~positive] = (of_negatives - areas[:, None]) / counts[1]
    together = np.array([np.bincount(units, row) for row in apart])  # both classes of a unit: with their covariance
    number = together.shape[1]
    if number < 2:
        raise ValueError("all rows are of one unit: the spread between units needs at least two")
    return Auc(areas, number / (number - 1) * together @ together.T)


def components(positives: Floats, negatives: Floats) -> tuple[Components, Components]:
    """For each positive the share of negatives it beats, for each negative the share of positives that beat it.

    Ties count half.
    """
    ordered_positives, ordered_negatives = np.sort(positives), np.sort(negatives)
    return _below(ordered_negatives, positives), 1 - _below(ordered_positives, negatives)


def _below(ordered: Floats, values: Floats) -> Components:
    left = np.searchsorted(ordered, values, side="left")
    right = np.searchsorted(ordered, values, side="right")
    return (left + right) / (2 * len(ordered))
