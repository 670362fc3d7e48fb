"""How the scores of either class are spread: shares in bins that all fit on the page."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import Floats
from rankreg.report.models import Model

BINS = 60
TAIL = 0.005  # of either class, which the outermost bins gather


@dataclass(frozen=True, eq=False)
class Distribution:
    """Shares per bin of either class; bins are equally wide between low and high on the scale.

    lowest_positive, highest_negative: where on the scale the bars of positives begin and those of negatives end.
    """

    scale: Literal["linear", "logit"]
    low: float
    high: float
    positives: NDArray[np.float64]
    negatives: NDArray[np.float64]
    lowest_positive: float
    highest_negative: float


def distribution(model: Model, threshold: float) -> Distribution:
    """Shares per bin; on a scale of log-odds where scores are probabilities that crowd at 0 or 1.

    The threshold is the edge of a bin, so that no bar holds both alarms and others.
    """
    scale: Literal["linear", "logit"] = "logit" if _crowded(model) else "linear"
    positives, negatives = (_on(scale, scores) for scores in (model.positives, model.negatives))
    ends = [np.quantile(scores[np.isfinite(scores)], [TAIL, 1 - TAIL]) for scores in (positives, negatives)
            if np.isfinite(scores).any()]  # fmt: skip
    low, high = (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else (0.0, 1.0)
    if not low < high:
        low, high = low - 0.5, high + 0.5
    margin = 0.02 * (high - low)
    edges = _edges(float(low - margin), float(high + margin), float(_on(scale, np.array([threshold]))[0]))
    return Distribution(
        scale,
        float(edges[0]),
        float(edges[-1]),
        _shares(positives, edges),
        _shares(negatives, edges),
        float(positives[0]),
        float(negatives[-1]),
    )


def _edges(low: float, high: float, threshold: float) -> NDArray[np.float64]:
    """Equally wide bins, moved by one at most so that the threshold is an edge, to the last bit."""
    width = (high - low) / BINS
    if not low < threshold < high:
        return np.linspace(low, high, BINS + 1)
    start = low - (width - (threshold - low) % width)
    edges: NDArray[np.float64] = start + width * np.arange(BINS + 1.0)
    edges[np.argmin(np.abs(edges - threshold))] = threshold
    return edges


def _crowded(model: Model) -> bool:
    """Probabilities of which most lie within 5 % of an end."""
    ordered = model.negatives
    if min(ordered[0], model.positives[0]) < 0 or max(ordered[-1], model.positives[-1]) > 1:
        return False
    inner = np.searchsorted(ordered, 0.95, side="right") - np.searchsorted(ordered, 0.05, side="left")
    return bool(inner < 0.5 * len(ordered))


def _on(scale: str, scores: Floats) -> NDArray[np.float64]:
    values = scores.astype(np.float64)
    if scale == "linear":
        return values
    with np.errstate(divide="ignore"):
        return np.log(values) - np.log1p(-values)


def _shares(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = np.clip(values, edges[0], np.nextafter(edges[-1], edges[0]))
    return np.histogram(inside, bins=edges)[0] / len(values)
