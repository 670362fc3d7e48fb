"""Means over splits and paired differences, with Student intervals."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import auc, fpr_at_tpr
from rankreg.operating.repeats import Estimate, mean_of
from rankreg.scores import Scores

TPRS = (0.98, 0.95, 0.90)
METRICS = (*(f"FPR@{100 * tpr:.0f}" for tpr in TPRS), "AUC")  # in percent

# What is compared with what: each is the first less the second, on the same splits.
CONTRASTS: dict[str, tuple[str, str]] = {
    "buffer": ("buffer", "bce"),
    "ranking": ("rankreg", "buffer"),
    "both": ("rankreg", "bce"),
}

Results = NDArray[np.float64]


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
