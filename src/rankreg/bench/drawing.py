"""The bench's charts, from plain numbers: matplotlib without pyplot, so nothing is kept between two of them."""

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rankreg._files import write_whole
from rankreg.metrics import Roc
from rankreg.operating.repeats import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUIET, GRID = "#888888", "#dddddd"
# Paul Tol's high-contrast colours, which colour-blind readers and grey printers tell apart, then two to spare
COLORS = (
    ("#000000", "o"),
    ("#DDAA33", "s"),
    ("#004488", "^"),
    ("#BB5566", "D"),
    ("#44AA99", "v"),
    ("#999999", "P"),
    ("#882255", "X"),
)
WIDTHS = (2.3, 1.2, 1.6, 1.6, 1.6, 1.6, 1.6)  # what lies on the first line leaves its edges to be seen
DASHES = (0, (4, 3))
SOLID: dict[str, Any] = {"markersize": 4, "zorder": 4, "clip_on": False}  # whole at 0 and 100 % too
HOLLOW: dict[str, Any] = {**SOLID, "markersize": 6, "markerfacecolor": "none", "zorder": 5}  # around a solid one
METADATA: dict[str, dict[str, None]] = {  # nothing in a file may tell when it was drawn
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
LOOK: dict[Any, Any] = {
    "svg.hashsalt": "rankreg",  # names inside the file are drawn at random otherwise
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Mark:
    """One cell of a grid, as far as it is known: the mean over splits, their ensemble, the published number."""

    ours: Estimate | None = None
    ensemble: float | None = None
    published: float | None = None


@dataclass(frozen=True, eq=False)
class Series:
    """Cells of one colour, by place; color: an index of COLORS."""

    label: str
    marks: Mapping[float, Mark]
    color: int


@dataclass(frozen=True, eq=False)
class Curves:
    """The ROC curve of an arm's ensemble, and those of its single splits."""

    label: str
    ensemble: Roc
    singles: Sequence[Roc]
    color: int


@dataclass(frozen=True, eq=False)
class Panel:
    """One chart of a figure; words: the names of places 0, 1, …, where places have names."""

    title: str
    series: Sequence[Series]
    words: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class RocPanel:
    """The ROC curves on one data set, and the TPRs that its table reports."""

    title: str
    curves: Sequence[Curves]
    tprs: Sequence[float]


@dataclass(frozen=True)
class Words:
    """What stands around the charts."""

    title: str
    caption: str
    across: str = ""
    up: str = ""


@contextmanager
def drawing() -> Iterator[None]:
    """The bench's look while it draws and saves; matplotlib's own settings come back afterwards."""
    try:
        from matplotlib import rc_context
    except ModuleNotFoundError as error:
        raise ValueError("figures need matplotlib: pip install 'rankreg[figures]'") from error
    with rc_context(LOOK):
        yield


def draw_roc(panels: Sequence[RocPanel], words: Words) -> "Figure":
    """Above the whole curves, below their upper fifth, where misses are rare; bold: ensembles, thin: splits."""
    figure, axes = _canvas(words, rows=2, columns=len(panels), width=4.4, height=3.1, sharex="col")
    for (whole, upper), panel in zip(axes.T, panels, strict=True):
        for curves, chart in product(panel.curves, (whole, upper)):
            color, width = COLORS[curves.color][0], WIDTHS[curves.color]
            for single in curves.singles if len(curves.singles) > 1 else ():
                chart.plot(single.fpr, single.tpr, color=color, linewidth=0.7, alpha=0.35, zorder=2)
            chart.plot(curves.ensemble.fpr, curves.ensemble.tpr, color=color, linewidth=width + 0.4, zorder=3)
        whole.plot([0, 1], [0, 1], color=QUIET, linewidth=0.7, linestyle=":")
        whole.axhspan(0.8, 1.01, color="#f2f2f2", zorder=0)
        whole.set(title=panel.title, ylim=(0, 1.01), ylabel="true positive rate")
        for tpr in panel.tprs:
            upper.axhline(tpr, color=QUIET, linewidth=0.7, linestyle=DASHES, zorder=1)
            upper.annotate(f"{100 * tpr:.0f} %", (0.005, tpr), color=QUIET, fontsize=7, va="bottom")
        upper.set(xlim=(0, 1), ylim=(0.8, 1.002), xlabel="false positive rate", ylabel="true positive rate")
        upper.set_yticks([0.8, 0.85, 0.9, 0.95, 1.0])
        for chart in (whole, upper):
            chart.xaxis.set_major_formatter(_percent)
            chart.yaxis.set_major_formatter(_percent)
    _legend(figure, {curves.label: curves.color for panel in panels for curves in panel.curves}, marks=False)
    return figure


def draw_lines(panels: Sequence[Panel], words: Words) -> "Figure":
    """Means over the splits as lines in the band of their interval, ensembles as marks, published values dashed."""
    figure, axes = _canvas(words, columns=len(panels), width=3.2, height=3.2, sharey=True)
    for chart, panel in zip(axes[0], panels, strict=True):
        for series in panel.series:
            color, marker = COLORS[series.color]
            ours = {x: mark.ours for x, mark in sorted(series.marks.items()) if mark.ours is not None}
            if ours:
                ends = np.array([(one.mean, one.low, one.high) for one in ours.values()], dtype=np.float64)
                chart.fill_between(list(ours), ends[:, 1], ends[:, 2], color=color, alpha=0.11, linewidth=0)
                chart.plot(list(ours), ends[:, 0], color=color, linewidth=WIDTHS[series.color], zorder=3)
                if len(ours) == 1:  # a line of one point cannot be seen
                    chart.plot(list(ours), ends[:, 0], marker, color=color, **SOLID)
            for x, mark in series.marks.items():
                if mark.ensemble is not None:
                    chart.plot(x, mark.ensemble, marker, color=color, **HOLLOW)
            known = [(x, mark.published) for x, mark in sorted(series.marks.items()) if mark.published is not None]
            if known:
                chart.plot(*zip(*known, strict=True), color=color, linewidth=1.1, linestyle=DASHES, zorder=2)
        chart.set(title=panel.title, xlabel=words.across, ylim=(0, 100))
        chart.grid(axis="y")
    axes[0, 0].set_ylabel(words.up)
    _legend(figure, {series.label: series.color for panel in panels for series in panel.series})
    return figure


def draw_curves(panels: Sequence[Panel], words: Words) -> "Figure":
    """A row of charts for each measure: means over the splits by samples seen, in the band of their interval."""
    titles = list(dict.fromkeys(panel.title for panel in panels))
    measures = list(dict.fromkeys(panel.words[0] for panel in panels))
    figure, axes = _canvas(words, rows=len(measures), columns=len(titles), width=4.4, height=2.9, sharex="col")
    for panel in panels:
        chart = axes[measures.index(panel.words[0]), titles.index(panel.title)]
        for series in panel.series:
            known = {x: mark.ours for x, mark in sorted(series.marks.items()) if mark.ours is not None}
            ends = np.array([(one.mean, one.low, one.high) for one in known.values()], dtype=np.float64)
            color = COLORS[series.color][0]
            if np.isfinite(ends[:, 1:]).all():  # one split has no interval
                chart.fill_between(list(known), ends[:, 1], ends[:, 2], color=color, alpha=0.11, linewidth=0)
            chart.plot(list(known), ends[:, 0], color=color, linewidth=1.4, zorder=3)
        chart.set(title=panel.title, ylabel=panel.words[0])
        chart.grid(axis="y")
    for chart in axes[-1]:
        chart.set_xlabel(words.across)
    _legend(figure, {series.label: series.color for panel in panels for series in panel.series}, marks=False)
    return figure


def draw_dots(panels: Sequence[Panel], words: Words) -> "Figure":
    """A row per word: mean over the splits with its interval, the ensemble hollow, the published value a bar."""
    rows, arms = max(len(panel.words) for panel in panels), max(len(panel.series) for panel in panels)
    height = 0.7 + rows * (0.18 + 0.14 * arms)
    figure, axes = _canvas(words, columns=len(panels), width=4.4, height=height, legend=arms > 1, sharey=True)
    for chart, panel in zip(axes[0], panels, strict=True):
        for number, series in enumerate(panel.series):
            color, marker = COLORS[series.color]
            for place, mark in series.marks.items():
                y = place + 0.8 * ((number + 0.5) / len(panel.series) - 0.5)
                if mark.ours is not None:
                    ends = (mark.ours.low, mark.ours.high)
                    chart.plot(ends, [y, y], color=color, linewidth=1.5, solid_capstyle="butt", zorder=3)
                    chart.plot(mark.ours.mean, y, marker, color=color, **SOLID)
                if mark.ensemble is not None:
                    chart.plot(mark.ensemble, y, marker, color=color, **HOLLOW)
                if mark.published is not None:
                    chart.plot(mark.published, y, "|", color=color, markersize=9, markeredgewidth=1.5, zorder=2)
        chart.set(title=panel.title, xlabel=words.across, xlim=(0, 100), ylim=(rows - 0.5, -0.5))
        chart.set_yticks(range(len(panel.words)), panel.words)
        chart.tick_params(axis="y", length=0)
        chart.grid(axis="x")
        for edge in range(1, rows):
            chart.axhline(edge - 0.5, color=GRID, linewidth=0.6)
    _legend(figure, {series.label: series.color for panel in panels for series in panel.series if arms > 1})
    return figure


def save(figure: "Figure", path: Path) -> None:
    """Write a PNG, SVG or PDF: whole or not at all, and the same bytes for the same numbers."""
    content, suffix = io.BytesIO(), path.suffix.lower()
    metadata: Any = METADATA[suffix]
    figure.savefig(content, format=suffix[1:], dpi=130, metadata=metadata)
    if suffix == ".png":
        content = _fewer_colors(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.getvalue())


def _fewer_colors(content: io.BytesIO) -> io.BytesIO:
    """The picture with a palette: half the size, and nobody sees it."""
    picture, smaller = Image.open(content).convert("RGB"), io.BytesIO()
    picture.quantize(128, dither=Image.Dither.NONE).save(smaller, "PNG", optimize=True)
    return smaller


def _canvas(
    words: Words, *, columns: int, width: float, height: float, rows: int = 1, legend: bool = True, **shared: Any
) -> "tuple[Figure, NDArray[Any]]":
    """Charts in rows and columns, with the title above and the caption below them."""
    from matplotlib.figure import Figure

    across = 1.2 + max(width * columns, 4.4)
    title = textwrap.wrap(words.title, width=round(10 * across))
    caption = textwrap.wrap(words.caption, width=round(17 * across))
    below, above = 0.12 + 0.16 * len(caption), 0.15 + 0.2 * len(title) + 0.3 * legend
    down = 0.4 + height * rows + below + above
    figure = Figure(figsize=(across, down), layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, below / down, 1, 1 - (below + above) / down))
    figure.text(0.02, 1 - 0.08 / down, "\n".join(title), fontsize=11, fontweight="bold", va="top")
    figure.text(0.02, 0.06 / down, "\n".join(caption), fontsize=8, color="#444444", va="bottom")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def _legend(figure: "Figure", shown: Mapping[str, int], *, marks: bool = True) -> None:
    """One legend for all charts, under the title."""
    from matplotlib.lines import Line2D

    handles = []
    for label, number in shown.items():
        color, marker = COLORS[number]
        style: dict[str, Any] = {"marker": marker, "markersize": 5} if marks else {}
        handles.append(Line2D([], [], color=color, linewidth=WIDTHS[number] + 0.4, label=label, **style))
    if handles:
        place = (0.01, 1 - 0.3 / figure.get_figheight())
        legend = figure.legend(handles=handles, loc="upper left", bbox_to_anchor=place, ncols=len(handles))
        legend.set_in_layout(False)  # its room is kept free already


def _percent(value: float, place: int) -> str:
    return f"{100 * value:.0f} %"
