"""What is drawn on the page: curves and histograms from numbers, and the samples worth looking at.

Charts are SVG, so they print sharply and need no library.
"""

import base64
import io
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import Roc, alarm_counts
from rankreg.notation import percent
from rankreg.operating import Interval, auc_interval, fpr_at_tpr_interval
from rankreg.report.scored_model import BINS, Reals, Scale, ScoreBins, ScoredModel, on_scale

if TYPE_CHECKING:
    from PIL import Image

Ticks = tuple[tuple[float, str], ...]  # numbers with their labels
GRID: list[float] = np.unique(np.concatenate([np.linspace(0.01, 0.9, 90), np.linspace(0.9, 0.9995, 200)])).tolist()
LISTED = (0.80, 0.90, 0.95, 0.98, 0.99)
ACROSS, UP = (56.0, 408.0), (312.0, 12.0)  # where the axes of a ROC begin and end
SMALLEST = 0.25  # in units of the drawing: points closer together are drawn as one
POSITIVE_BASE, NEGATIVE_BASE, BAR = 146.0, 312.0, 118.0  # of a histogram
SCALED = 0.9  # from this AUC on the FPR has a log scale: a good curve hugs the edge of a linear one
LEAST = 1e-5  # the lowest FPR of a log scale
THUMBNAIL = 160  # pixels along the longer side of a picture
TINY = 64  # up to here every pixel is kept, and shown enlarged
LONGEST = 120  # characters of a cell


@dataclass(frozen=True)
class Axis:
    """A scale from numbers to places; low and high are on the scale: logarithms (base 10), or log-odds."""

    low: float
    high: float
    start: float
    stop: float
    ticks: Ticks = ()
    scale: Scale = "linear"

    def at(self, values: Any) -> Any:
        """Places of numbers; a scale that is not linear ends with the axis, since it has no place for 0."""
        on = on_scale(self.scale, np.asarray(values, dtype=np.float64))
        if self.scale != "linear":
            on = np.clip(on, self.low, self.high)
        return self.start + (on - self.low) / (self.high - self.low) * (self.stop - self.start)

    def placed(self) -> list[tuple[float, str]]:
        """Ticks by place."""
        return [(round(float(self.at(value)), 2), label) for value, label in self.ticks]

    @property
    def data(self) -> str:
        """What the page needs to place a number itself."""
        return f"{self.low!r} {self.high!r} {self.start!r} {self.stop!r} {self.scale}"


@dataclass(frozen=True)
class Frame:
    """A chart's size and axes."""

    name: str
    title: str
    width: int
    height: int
    x: Axis
    y: Axis


def roc_frames(lowest_target: float, farthest_fpr: float, least_fpr: float | None = None) -> tuple[Frame, Frame]:
    """The whole ROC, and the region of high TPRs up to the farthest FPR. least_fpr: from it on, on a log scale."""
    shares = tuple((share / 5, percent(share / 5)) for share in range(6))
    bottom = 0.9 if lowest_target > 0.92 else max(0.0, math.floor(20 * (lowest_target - 0.05) + 1e-9) / 20)
    right = _ceiling(min(1.0, max(1.2 * farthest_fpr, 1e-4)))
    across, title = Axis(0, 1, *ACROSS, shares), "ROC curve, both scales linear"
    if least_fpr is not None:
        power = min(-1, math.floor(math.log10(max(least_fpr, LEAST)) + 1e-9))
        powers = tuple((10.0**place, percent(10.0**place)) for place in range(power, 1))
        across, title = Axis(power, 0, *ACROSS, powers, "log"), "ROC curve, false positive rate on a log scale"
    whole = Frame("whole", title, 420, 362, across, Axis(0, 1, *UP, shares))
    enlarged = Frame(
        "enlarged",
        f"Enlarged: TPR above {percent(bottom)}, both scales linear",
        420,
        362,
        Axis(0, right, *ACROSS, _ticks(0, right, percent)),
        Axis(bottom, 1, *UP, _ticks(bottom, 1, percent)),
    )
    return whole, enlarged


def roc_charts(
    models: Sequence[ScoredModel], *, tprs: Sequence[float], confidence: float, farthest_fpr: float, best_auc: float
) -> dict[str, Any]:
    """Both frames, with a curve and a band for each model, and the curve of alarms at random."""
    least = 1 / models[0].summary.negative_trials if best_auc >= SCALED else None
    frames = roc_frames(min(tprs), farthest_fpr, least)
    curves = [model.summary.roc() for model in models]
    bands = [fpr_intervals(model, GRID, confidence) for model in models]
    chance = np.append(0.0, np.geomspace(LEAST, 1.0, 200))
    return {
        "frames": frames,
        "curves": [[roc_path(curve, frame) for curve in curves] for frame in frames],
        "bands": [[band_path(band, frame) for band in bands] for frame in frames],
        "chance": [_path(frame.x.at(chance), frame.y.at(chance)) for frame in frames],
    }


def fpr_intervals(model: ScoredModel, tprs: Sequence[float], confidence: float) -> list[Interval]:
    """The FPR at each TPR, each interval by itself."""
    return fpr_at_tpr_interval(*model.data, tpr=tprs, confidence=confidence, units=model.units)


def listed_tprs(targets: Sequence[float]) -> list[float]:
    """The TPRs of the table: usual ones and the targets."""
    return sorted({*LISTED, *targets})


def area(model: ScoredModel, confidence: float) -> Interval:
    """The AUC with its interval, which is all of [0, 1] for a class with a single sample."""
    if min(model.summary.class_sizes()) < 2:
        return Interval(model.summary.auc(), 0.0, 1.0, confidence)
    return auc_interval(*model.data, confidence=confidence, units=model.units)


def roc_path(points: Roc, frame: Frame) -> str:
    """The curve inside the frame, thinned to what can be seen."""
    first = max(0, int(np.searchsorted(points.tpr, frame.y.low, side="left")) - 1)
    x, y = frame.x.at(points.fpr[first:]), frame.y.at(points.tpr[first:])
    last = int(np.searchsorted(x, frame.x.stop, side="right")) + 1
    x, y = x[:last], y[:last]
    return _path(*_thin(x, y)) if len(x) else ""


def band_path(band: Sequence[Interval], frame: Frame) -> str:
    """The band over GRID as an outline, along the upper bounds and back along the lower ones."""
    tprs, low, high = np.array([(tpr, one.low, one.high) for tpr, one in zip(GRID, band, strict=True)]).T
    keep = tprs >= frame.y.low - 0.02
    y = frame.y.at(tprs[keep])
    right, left = (np.minimum(frame.x.at(side[keep]), 2 * frame.x.stop) for side in (high, low))
    return _path(np.append(right, left[::-1]), np.append(y, y[::-1])) + "Z"


@dataclass(frozen=True)
class Histogram:
    """Two rows of bars over one axis of scores: positives above, linear, and negatives below, on a log scale."""

    x: Axis
    up: Axis
    down: Axis
    positives: str
    negatives: str

    def start_of(self, threshold: str) -> float:
        """Where alarms begin."""
        return round(float(np.clip(self.x.at(float(threshold)), self.x.start, self.x.stop)), 2)


def histogram(model: ScoredModel, bins: ScoreBins) -> Histogram:
    """Bars for each class; those of the many negatives on a log scale, so that the few false alarms can be seen."""
    scale, positives, negatives = bins.scale, model.positives, model.summary.negative_trials
    low, high = float(bins.edges[0]), float(bins.edges[-1])
    ticks = _ticks(low, high, _plain) if scale == "linear" else _odds_ticks(low, high)
    x = Axis(low, high, *ACROSS, ticks, scale)
    caught = bins.counts(alarm_counts(positives, bins.levels), len(positives))
    false = bins.counts(model.false_alarms(bins.levels), negatives)
    most, powers = int(caught.max()), range(int(math.log10(false.max())) + 1)
    up = Axis(0, most, POSITIVE_BASE, POSITIVE_BASE - BAR, ((0, "0"), (most, f"{most:,}")))
    whole = tuple((10.0**power, f"{10**power:,}") for power in powers)
    down = Axis(math.log10(0.5), math.log10(false.max()), NEGATIVE_BASE, NEGATIVE_BASE - BAR, whole, "log")
    ends = on_scale(scale, np.array([positives[0], model.summary.highest[0]]))
    return Histogram(x, up, down, _bars(caught, x, up, start=ends[0]), _bars(false, x, down, stop=ends[1]))


def _bars(counts: NDArray[np.int64], x: Axis, up: Axis, start: float = -math.inf, stop: float = math.inf) -> str:
    """Bars over the bins; none begins before start or ends after stop (on the scale): no score lies there."""
    base = up.start
    heights = np.where(counts > 0, np.maximum(base - up.at(np.maximum(counts, 1)), 2.0), 0.0)
    edges = np.linspace(x.start, x.stop, BINS + 1)
    on_scale = replace(x, scale="linear")
    first, last = (float(np.clip(on_scale.at(value), x.start, x.stop)) for value in (start, stop))
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
    inside = [(share, text) for share, text in shares if low <= math.log(share / (1 - share)) <= high]
    return tuple(inside[:: -(-len(inside) // 6)]) if inside else ()


@dataclass(frozen=True)
class Example:
    """One sample: its name, its score, its row in the table and its picture, where there are any."""

    name: str
    score: float
    cells: tuple[str, ...]
    picture: str | None


@dataclass(frozen=True)
class Examples:
    """The hardest of both classes, hardest first; columns: headings of the cells."""

    positives: tuple[Example, ...]
    negatives: tuple[Example, ...]
    columns: tuple[str, ...]
    pictures: bool


def hardest(model: ScoredModel, most: int) -> Examples | None:
    """At most so many of either class; None if single samples are not known."""
    chosen = model.hardest(most)
    if chosen is None:
        return None
    places = [int(place) for part in chosen for place in part.places]
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = [()] * len(places)
    if model.details is not None:
        found = model.details(places)
        columns = tuple(map(str, found))
        rows = list(zip(*([_cell(value) for value in found[name]] for name in found), strict=True)) or rows
    pictures = [None if model.image is None else picture(model.image(place)) for place in places]
    if model.image is not None and not any(pictures):
        raise ValueError(
            f"{model.name}: no image of the {len(places)} samples to show could be read, such as that of"
            f" {model.sample_name(places[0])}: check where the images are"
        )
    scores = [float(score) for part in chosen for score in part.scores]
    shown = [
        Example(model.sample_name(place), score, cells, image)
        for place, score, cells, image in zip(places, scores, rows, pictures, strict=True)
    ]
    count = len(chosen.positives.places)
    return Examples(tuple(shown[:count]), tuple(shown[count:]), columns, model.image is not None)


def picture(image: "Image.Image | None") -> str | None:
    """A small picture as a data URI; tiny ones keep every pixel."""
    if image is None:
        return None
    content = io.BytesIO()
    if max(image.size) <= TINY:
        image.convert("RGB").save(content, "PNG", optimize=True)
        return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
    small = image.convert("RGB")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    small.save(content, "JPEG", quality=80, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    if "." in text and len(text) > 9:  # a table of scores is read, not calculated with
        with suppress(ValueError):
            text = f"{float(text):.6g}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
