"""One score per row from any classifier, higher = more critical."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating]

METHODS = {  # what is asked for → what is tried, in this order: scores tie less than probabilities do
    "auto": ("decision_function", "predict_proba"),
    "decision_function": ("decision_function",),
    "predict_proba": ("predict_proba",),
}
ROUNDINGS = 64  # how many roundings a sum may differ by when computed in another order


def response(estimator: Any, wanted: str) -> str:
    """The method that gives scores."""
    for method in METHODS[wanted]:
        if hasattr(estimator, method):
            return method
    raise AttributeError(
        f"{type(estimator).__name__} has none of the following attributes: {', '.join(METHODS[wanted])}."
    )


def scores_of(estimator: Any, rows: Any, method: str, place: int) -> Scores:
    """The scores of the class at that place of `classes_`, all of them finite: any other is an error.

    An array of predictions has no room for a problem beside a row, and NaN ≥ threshold would read as "no alarm".
    """
    values = np.asarray(getattr(estimator, method)(rows))
    if method == "predict_proba":
        values = values[:, place]
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(
            f"{type(estimator).__name__}.{method} gave {values[bad[0]]} for X[{bad[0]}], and no finite score for"
            f" {len(bad):,} rows in all: no alarm can be told from a miss there; mend or leave out those rows"
        )
    return values if place == 1 or method == "predict_proba" else -values


def lowered(threshold: float, scores: Scores, method: str) -> float:
    """The threshold less a few roundings.

    It is a positive's own score, which others may share. A sum over trees or features computed in another order
    ends in other digits, and would put all of them below it. A lower threshold never catches less.
    """
    finite = np.abs(scores[np.isfinite(scores)])
    scale = abs(threshold) if method == "predict_proba" or not len(finite) else float(finite.max())
    kind = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
    return threshold - ROUNDINGS * float(np.finfo(kind).eps) * scale if np.isfinite(threshold) else threshold
