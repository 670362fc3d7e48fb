"""Means over splits and paired differences, with Student intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import auc, fpr_at_tpr
from rankreg.scores import Scores

TPRS = (0.98, 0.95, 0.90)
METRICS = (*(f"FPR@{100 * tpr:.0f}" for tpr in TPRS), "AUC")  # in percent
CONFIDENCE = 0.95

# What is compared with what: each is the first less the second, on the same splits.
CONTRASTS: dict[str, tuple[str, str]] = {
    "buffer": ("buffer", "bce"),
    "ranking": ("rankreg", "buffer"),
    "both": ("rankreg", "bce"),
}

Results = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean over splits and its 95 % interval; None where one split leaves no interval."""

    mean: float
    low: float | None
    high: float | None

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def mean_of(values: ArrayLike) -> Estimate:
    """mean ± t · s / √n, the usual interval for the mean of n normal values."""
    from scipy.special import stdtrit

    numbers = np.asarray(values, dtype=np.float64)
    mean, count = float(numbers.mean()), len(numbers)
    if count < 2:
        return Estimate(mean, None, None)
    reach = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2) * numbers.std(ddof=1) / math.sqrt(count))
    return Estimate(mean, mean - reach, mean + reach)


def results_of(scores: Mapping[str, Sequence[Scores]]) -> dict[str, Results]:
    """For every arm one row per split and one column per metric, in percent."""
    return {
        name: np.asarray(
            [[*(100 * fpr_at_tpr(one.labels, one.values, TPRS)), 100 * auc(one.labels, one.values)] for one in each]
        )
        for name, each in scores.items()
    }


def contrasts(results: Mapping[str, Results]) -> dict[str, dict[str, Estimate]]:
    """Paired differences by contrast and metric, as far as the arms were run."""
    return {
        name: {metric: mean_of((results[a] - results[b])[:, k]) for k, metric in enumerate(METRICS)}
        for name, (a, b) in CONTRASTS.items()
        if a in results and b in results
    }
