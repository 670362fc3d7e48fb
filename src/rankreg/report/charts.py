"""Drawing: from numbers to places on the page. Charts are SVG, so they print sharply and need no library."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import Floats, Roc, auc, roc
from rankreg.notation import percent
from rankreg.operating import Interval, auc_interval, fpr_at_tpr_interval
from rankreg.report.scored_model import Model

Reals = NDArray[np.float64]
Ticks = tuple[tuple[float, str], ...]  # numbers with their labels
GRID: list[float] = np.unique(np.concatenate([np.linspace(0.01, 0.9, 90), np.linspace(0.9, 0.9995, 200)])).tolist()
LISTED = (0.80, 0.90, 0.95, 0.98, 0.99)
ACROSS, UP = (56.0, 408.0), (312.0, 12.0)  # where the axes of a ROC begin and end
SMALLEST = 0.25  # in units of the drawing: points closer together are drawn as one
POSITIVE_BASE, NEGATIVE_BASE, BAR = 98.0, 206.0, 78.0  # of a histogram
BINS = 60
TAIL = 0.005  # of either class, which the outermost bins gather


@dataclass(frozen=True)
class Axis:
    """A scale from numbers to places."""

    low: float
    high: float
    start: float
    stop: float
    ticks: Ticks = ()

    def at(self, values: Any) -> Any:
        """Places of numbers."""
        return self.start + (np.asarray(values) - self.low) / (self.high - self.low) * (self.stop - self.start)

    def placed(self) -> list[tuple[float, str]]:
        """Ticks by place."""
        return [(round(float(self.at(value)), 2), label) for value, label in self.ticks]

    @property
    def data(self) -> str:
        """What the page needs to place a number itself."""
        return f"{self.low!r} {self.high!r} {self.start!r} {self.stop!r}"


@dataclass(frozen=True)
class Frame:
    """A chart's size and axes."""

    name: str
    title: str
    width: int
    height: int
    x: Axis
    y: Axis


def roc_frames(lowest_target: float, farthest_fpr: float) -> tuple[Frame, Frame]:
    """The whole ROC, and the region of high TPRs up to the farthest FPR of interest."""
    shares = tuple((share / 5, percent(share / 5)) for share in range(6))
    bottom = 0.9 if lowest_target > 0.92 else max(0.0, math.floor(20 * (lowest_target - 0.05) + 1e-9) / 20)
    right = _ceiling(min(1.0, max(1.2 * farthest_fpr, 1e-4)))
    across = Axis(0, right, *ACROSS, _ticks(0, right, percent))
    up = Axis(bottom, 1, *UP, _ticks(bottom, 1, percent))
    whole = Frame("whole", "ROC curve", 420, 362, Axis(0, 1, *ACROSS, shares), Axis(0, 1, *UP, shares))
    enlarged = Frame("enlarged", "The region of high TPRs, enlarged", 420, 362, across, up)
    return whole, enlarged


def roc_charts(
    models: Sequence[Model], *, tprs: Sequence[float], confidence: float, farthest_fpr: float
) -> dict[str, Any]:
    """Both frames, with a curve and a band for each model."""
    frames = roc_frames(min(tprs), farthest_fpr)
    curves = [roc(model.labels, model.scores) for model in models]
    bands = [fpr_intervals(model, GRID, confidence) for model in models]
    return {
        "frames": frames,
        "curves": [[roc_path(curve, frame) for curve in curves] for frame in frames],
        "bands": [[band_path(band, frame) for band in bands] for frame in frames],
    }


def fpr_intervals(model: Model, tprs: Sequence[float], confidence: float) -> list[Interval]:
    """The FPR at each TPR, each interval by itself."""
    return fpr_at_tpr_interval(model.labels, model.scores, tpr=tprs, confidence=confidence, units=model.units)


def listed_tprs(targets: Sequence[float]) -> list[float]:
    """The TPRs of the table: usual ones and the targets."""
    return sorted({*LISTED, *targets})


def area(model: Model, confidence: float) -> Interval:
    """The AUC with its interval, which is all of [0, 1] for a class with a single sample."""
    if min(len(model.positives), len(model.negatives)) < 2:
        return Interval(auc(model.labels, model.scores), 0.0, 1.0, confidence)
    return auc_interval(model.labels, model.scores, confidence=confidence, units=model.units)


def roc_path(points: Roc, frame: Frame) -> str:
    """The curve inside the frame, thinned to what can be seen."""
    first = max(0, int(np.searchsorted(points.tpr, frame.y.low, side="left")) - 1)
    last = int(np.searchsorted(points.fpr, frame.x.high, side="right")) + 1
    x, y = frame.x.at(points.fpr[first:last]), frame.y.at(points.tpr[first:last])
    return _path(*_thin(x, y)) if len(x) else ""


def band_path(band: Sequence[Interval], frame: Frame) -> str:
    """The band over GRID as an outline, along the upper bounds and back along the lower ones."""
    tprs, low, high = np.array([(tpr, one.low, one.high) for tpr, one in zip(GRID, band, strict=True)]).T
    keep = tprs >= frame.y.low - 0.02
    y = frame.y.at(tprs[keep])
    right, left = (frame.x.at(np.minimum(side[keep], 2 * frame.x.high)) for side in (high, low))
    return _path(np.append(right, left[::-1]), np.append(y, y[::-1])) + "Z"


@dataclass(frozen=True)
class Histogram:
    """Two rows of bars over one axis of scores: positives above, negatives below. scale: "linear" or "logit"."""

    x: Axis
    scale: str
    positives: str
    negatives: str

    def start_of(self, threshold: str) -> float:
        """Where alarms begin."""
        value = float(
            _on(self.scale, np.clip([float(threshold)], *((0, 1) if self.scale == "logit" else (None, None))))[0]
        )
        return round(float(np.clip(self.x.at(value), self.x.start, self.x.stop)), 2)


def histogram(model: Model, threshold: float) -> Histogram:
    """Bars for each class, as high as its own highest bar; none is thinner than the eye can see.

    Probabilities that crowd at 0 or 1 get a scale of log-odds. The threshold is the edge of a bin, so no bar holds
    both alarms and other samples.
    """
    scale = "logit" if _crowded(model) else "linear"
    positives, negatives = (_on(scale, scores) for scores in (model.positives, model.negatives))
    finite = [scores[np.isfinite(scores)] for scores in (positives, negatives)]
    ends = [np.quantile(scores, [TAIL, 1 - TAIL]) for scores in finite if len(scores)]
    low, high = (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else (0.0, 1.0)
    if not low < high:
        low, high = low - 0.5, high + 0.5
    margin = 0.02 * (high - low)
    edges = _edges(float(low - margin), float(high + margin), float(_on(scale, np.array([threshold]))[0]))
    low, high = float(edges[0]), float(edges[-1])
    x = Axis(low, high, 12.0, 408.0, _ticks(low, high, _plain) if scale == "linear" else _odds_ticks(low, high))
    return Histogram(
        x,
        scale,
        _bars(_shares(positives, edges), x, POSITIVE_BASE, start=float(positives[0])),
        _bars(_shares(negatives, edges), x, NEGATIVE_BASE, stop=float(negatives[-1])),
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


def _bars(shares: Reals, x: Axis, base: float, start: float = -math.inf, stop: float = math.inf) -> str:
    """Bars over the bins; none begins before start or ends after stop, since no score lies there."""
    heights = np.where(shares > 0, np.maximum(BAR * shares / shares.max(), 2.0), 0.0)
    edges = np.linspace(x.start, x.stop, BINS + 1)
    first, last = (float(np.clip(x.at(value), x.start, x.stop)) for value in (start, stop))
    lefts, rights = (np.clip(side, first, last) for side in (edges[:-1] + 0.4, edges[1:] - 0.4))
    short = np.maximum(0.5 - (rights - lefts), 0)  # a bar cut to nothing keeps a hair, where its scores are
    lefts, rights = (lefts, rights + short) if math.isinf(stop) else (lefts - short, rights)
    bars = zip(lefts, rights, heights, strict=True)
    return "".join(
        f"M{left:.2f} {base:g}V{base - height:.1f}H{right:.2f}V{base:g}Z" for left, right, height in bars if height
    )


def _thin(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    """Drop points that fall on their neighbour, and those on a straight line between neighbours."""
    x, y = (np.round(values / SMALLEST) * SMALLEST for values in (x, y))
    keep = np.append(True, (np.diff(x) != 0) | (np.diff(y) != 0))
    x, y = x[keep], y[keep]
    if len(x) < 3:
        return x, y
    across, up = np.diff(x), np.diff(y)
    corner = across[1:] * up[:-1] != across[:-1] * up[1:]
    keep = np.concatenate([[True], corner, [True]])
    return x[keep], y[keep]


def _path(x: Reals, y: Reals) -> str:
    return "M" + "L".join(f"{a:.2f} {b:.2f}" for a, b in zip(x, y, strict=True))


def _ceiling(value: float) -> float:
    """The next number of the form 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    steps: Sequence[float] = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(step * power for step in steps if step * power >= value * (1 - 1e-9))


def _ticks(low: float, high: float, label: Callable[[float], str]) -> Ticks:
    """About five round numbers."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((whole * step, label(whole * step)) for whole in range(first, last + 1))


def _plain(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _odds_ticks(low: float, high: float) -> Ticks:
    """Probabilities on a scale of log-odds, at most seven."""
    powers = range(15, 0, -1)
    shares = [(10.0**-power, f"{10.0**-power:g}") for power in powers] + [(0.5, "0.5")]
    shares += [(1 - 10.0**-power, f"{1 - 10.0**-power:.15g}") for power in reversed(powers)]
    inside = [(math.log(share / (1 - share)), text) for share, text in shares]
    inside = [(value, text) for value, text in inside if low <= value <= high]
    return tuple(inside[:: -(-len(inside) // 6)]) if inside else ()
