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
    """The scores of the class at that place of `classes_`."""
    values = np.asarray(getattr(estimator, method)(rows))
    if method == "predict_proba":
        return values[:, place]
    return values if place == 1 else -values


def lowered(threshold: float, scores: Scores, method: str) -> float:
    """The threshold less a few roundings.

    It is a positive's own score, which others may share. A sum over trees or features computed in another order
    ends in other digits, and would put all of them below it. A lower threshold never catches less.
    """
    finite = np.abs(scores[np.isfinite(scores)])
    scale = abs(threshold) if method == "predict_proba" or not len(finite) else float(finite.max())
    kind = scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)
    return threshold - ROUNDINGS * float(np.finfo(kind).eps) * scale if np.isfinite(threshold) else threshold
