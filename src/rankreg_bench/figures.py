"""The paper's figures, and a chart of any other experiment, from records alone: no torch, no data sets.

matplotlib is used without pyplot, so that nothing is kept between two figures.
"""

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rankreg.metrics import roc
from rankreg.operating import Interval
from rankreg.operating.intervals import mean_of
from rankreg_bench.arms import ARMS
from rankreg_bench.estimates import published_values
from rankreg_bench.grids import DATA, noise_of, title_of
from rankreg_bench.pages import write
from rankreg_bench.records import Grid, Key, RecordFolder, Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARM_COLORS = {"base": 0, "alm": 1, "buffer": 2, "rankreg": 3}
TPR_COLORS = {"fpr@98": 0, "fpr@95": 3, "fpr@92": 2, "fpr@90": 1}
QUIET, GRID = "#888888", "#dddddd"
# Paul Tol's high-contrast colours, which colour-blind readers and grey printers tell apart, then some to spare
COLORS = tuple(
    zip(("#000000", "#DDAA33", "#004488", "#BB5566", "#44AA99", "#999999", "#882255"), "os^DvPX", strict=True)
)
WIDTHS = (2.3, 1.2, 1.6, 1.6, 1.6, 1.6, 1.6)  # a line on top of the first one leaves its edges visible
DASHES = (0, (4, 3))
SOLID: dict[str, Any] = {"markersize": 4, "zorder": 4, "clip_on": False}  # whole at 0 and 100 % too
BAR: dict[str, Any] = {"linewidth": 1.5, "solid_capstyle": "butt", "zorder": 3}
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
    "legend.borderpad": 0,
    "legend.columnspacing": 1.2,
    "legend.frameon": False,
}
LEGEND_WIDTH = 1.8  # inches of an entry


@dataclass(frozen=True)
class Mark:
    """One cell of a grid, as far as it is known: the mean over splits, their ensemble, the published number."""

    ours: Interval | None = None
    ensemble: float | None = None
    published: float | None = None


FEW_SPLITS = 5
Line = tuple[str, int, Mapping[float, Mark]]  # label, index of COLORS, marks by place


@dataclass(frozen=True, eq=False)
class FigureSource:
    """What is drawn: the recorded runs of an experiment, on one test set."""

    selection: Selection
    grid: Grid

    def names(self, place: int) -> list[str]:
        """The recorded data sets (0), losses (1) or arms (2), in the order of the experiment."""
        return list(dict.fromkeys(key[place] for key, cell in self.grid.cells.items() if cell.scores))

    def colors(self) -> dict[str, int]:
        return _colors(self.names(2), ARM_COLORS)

    def mark(self, key: Key, measure: str) -> Mark:
        """One number of one cell: over the splits, of their ensemble, as published."""
        published = published_values(self.selection.experiment, *key).get(measure)
        cell = self.grid.cells.get(key)
        if cell is None or not cell.scores:
            return Mark(published=published)
        ours = mean_of([single[measure] for single in cell.singles.values()])
        return Mark(ours, cell.ensemble[measure].estimate if len(cell.splits) > 1 else None, published)

    def splits(self) -> str:
        """How many splits every cell has, in words."""
        counts = [len(cell.splits) for cell in self.grid.cells.values()]
        planned = max(cell.planned for cell in self.grid.cells.values())
        low, high = min(counts), max(counts)
        words = f"{high} split{'s' * (high != 1)}" if low == high else f"{low} to {high} splits"
        return words if low == planned else f"{words} ({planned} planned, runs are missing)"

    def source(self) -> str:
        """For captions: splits, preset, test set and base loss."""
        losses = self.names(1)
        base = f" Base loss {losses[0]}." if len(losses) == 1 else ""
        return f"{self.splits()}, preset {self.selection.preset}, {self.grid.test} test set.{base}"

    def caption(self, published: str) -> str:
        """What solid, hollow and published marks mean."""
        beside = f"; {published}: published, at full size" if self.selection.experiment.published else ""
        return (
            f"Mean of single splits with its 95 % Student interval; hollow: their ensemble{beside}. {self.source()}"
        )


def choose(selection: Selection, test: str | None = None) -> FigureSource:
    """The recorded runs on a test set, default the first one of the experiment; ValueError without a run."""
    grid = selection.grids(test)[0]
    if not any(cell.scores for cell in grid.cells.values()):
        what = f"{selection.folder} has no such record of {selection.name}, preset {selection.preset}"
        raise ValueError(f"{what}: make them with `{selection.command()}`")
    return FigureSource(selection, grid)


def write_figure(chosen: FigureSource, path: Path) -> None:
    """Draw the figure of the experiment into a PNG, SVG or PDF file: the same bytes for the same numbers."""
    check_path(path)
    with look():
        save(figure_of(chosen), path)


def check_path(path: Path) -> None:
    """Refuse a kind of file that cannot be drawn, before anything is."""
    if path.suffix.lower() not in METADATA:
        raise ValueError(f"cannot draw into {path}: its name must end in {', '.join(METADATA)}")


@contextmanager
def look() -> Iterator[None]:
    """The bench's look while it draws and saves; matplotlib's own settings come back afterwards."""
    try:
        from matplotlib import rc_context
    except ModuleNotFoundError as error:
        raise ValueError("figures need matplotlib: pip install 'rankreg[figures]'") from error
    with rc_context(LOOK):
        yield


def save(figure: "Figure", path: Path) -> None:
    """Write the file, whole or not at all; a PNG with a palette, which halves its size."""
    content, suffix = io.BytesIO(), path.suffix.lower()
    metadata: Any = METADATA[suffix]
    figure.savefig(content, format=suffix[1:], dpi=130, metadata=metadata)
    if suffix == ".png":
        picture, content = Image.open(content).convert("RGB"), io.BytesIO()
        picture.quantize(128, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    write(path, content.getvalue())


def figure_of(chosen: FigureSource) -> "Figure":
    """The figure that fits the experiment: curves, lines where a number is varied, dots otherwise."""
    experiment = chosen.selection.experiment
    if chosen.selection.name == "roc":
        return _roc(chosen)
    if chosen.selection.name == "learning-curves":
        return _learning(chosen)
    if experiment.layout == "noise":
        return _over_noise(chosen)
    if all(row is not None and row.isdigit() for row in experiment.arms.values()):
        return _over_sizes(chosen)
    return _by_arm(chosen)


def _roc(chosen: FigureSource) -> "Figure":
    """Above the whole curves, below their upper fifth, where misses are rare; bold: ensembles, thin: splits."""
    colors, data_sets = chosen.colors(), chosen.names(0)
    caption = (
        f"Bold: ensembles, thin: their single splits. {chosen.source()} Below: the shaded part of the curves above;"
        " dashed: the TPRs that the tables report."
    )
    sizes: dict[str, Any] = {"rows": 2, "columns": len(data_sets), "width": 4.4, "height": 3.1}
    figure, axes = _canvas(chosen, caption, _arm_colors(colors), marks=False, **sizes, sharex="col")
    for (whole, upper), data in zip(axes.T, data_sets, strict=True):
        for (of, _, arm), cell in chosen.grid.cells.items():
            for chart in (whole, upper) if of == data and cell.scores else ():
                color, width = COLORS[colors[arm]][0], WIDTHS[colors[arm]]
                for one in cell.scores.values() if len(cell.scores) > 1 else ():
                    curve = roc(one.labels, one.values)
                    chart.plot(curve.fpr, curve.tpr, color=color, linewidth=0.7, alpha=0.35, zorder=2)
                curve = roc(cell.mean.labels, cell.mean.values)
                chart.plot(curve.fpr, curve.tpr, color=color, linewidth=width + 0.4, zorder=3)
        positives, others = chosen.grid.counts(data) or (0, 0)
        title = f"{title_of(data, chosen.selection.preset)}: {positives:,} positives, {others:,} negatives"
        whole.plot([0, 1], [0, 1], color=QUIET, linewidth=0.7, linestyle=":")
        whole.axhspan(0.8, 1.01, color="#f2f2f2", zorder=0)
        whole.set(title=title, ylim=(0, 1.01), ylabel="true positive rate")
        for tpr in DATA[data].tprs:
            upper.axhline(tpr, color=QUIET, linewidth=0.7, linestyle=DASHES, zorder=1)
            upper.annotate(f"{100 * tpr:.0f} %", (0.005, tpr), color=QUIET, fontsize=7, va="bottom")
        upper.set(xlim=(0, 1), ylim=(0.8, 1.002), xlabel="false positive rate", ylabel="true positive rate")
        upper.set_yticks([0.8, 0.85, 0.9, 0.95, 1.0])
        for axis in (whole.xaxis, whole.yaxis, upper.xaxis, upper.yaxis):
            axis.set_major_formatter(lambda value, place: f"{100 * value:.0f} %")
    return figure


def _learning(chosen: FigureSource) -> "Figure":
    """AUC and FPR at 95 % TPR by epoch, for every arm with its band over splits.

    Epochs of arms with a buffer have twice the samples, so the axis counts epochs of the base loss.
    """
    colors, data_sets, measures = chosen.colors(), chosen.names(0), ("auc", "fpr@95")
    curves = {
        (measure, data, arm): marks
        for measure in measures
        for data in data_sets
        for arm in colors
        if (marks := _curve(chosen, data, arm, measure))
    }
    if not curves:
        raise ValueError(f"no record of preset {chosen.selection.preset} holds curves: use preset converged")
    caption = (
        "Means of single networks after every epoch; bands: Student's 95 % interval over splits, or with fewer than"
        f" {FEW_SPLITS} splits the lowest and the highest."
        f" Epochs with a buffer hold twice the samples and count twice. {chosen.source()}"
    )
    sizes: dict[str, Any] = {"rows": 2, "columns": len(data_sets), "width": 4.4, "height": 2.9}
    figure, axes = _canvas(chosen, caption, _arm_colors(colors), marks=False, **sizes, sharex="col")
    for (measure, data, arm), marks in curves.items():
        chart = axes[measures.index(measure), data_sets.index(data)]
        _line(chart, colors[arm], marks)
        chart.set(title=title_of(data, chosen.selection.preset), ylabel=f"{measure.upper()} (%)")
        chart.grid(axis="y", visible=True)
    for chart in axes[-1]:
        chart.set_xlabel("epochs of the base loss")
    return figure


def _curve(chosen: FigureSource, data: str, arm: str, measure: str) -> dict[float, Mark]:
    """The mean after every epoch, over the splits whose records hold curves.

    With its interval; of few splits, whose interval would hide the lines, with their range.
    """
    found, records, step = [], RecordFolder(chosen.selection.folder), 1.0
    for plan in chosen.selection.plans:
        if (plan.data, plan.arm) == (data, arm) and records.has(plan):
            record = records.read(plan)
            if "curves" in record:
                found.append(record["curves"][chosen.grid.test][measure])
                step = plan.cost / plan.config["epochs"]
    shared = min((len(values) for values in found), default=0)  # a run that diverged is shorter
    means = [mean_of([values[k] for values in found]) for k in range(shared)]
    if len(found) < FEW_SPLITS:
        ends = [[values[k] for values in found] for k in range(shared)]
        means = [replace(mean, low=min(own), high=max(own)) for mean, own in zip(means, ends, strict=True)]
    means = [replace(mean, low=max(mean.low, 0.0), high=min(mean.high, 100.0)) for mean in means]  # no area beyond
    return {step * (k + 1): Mark(mean) for k, mean in enumerate(means)}


def _over_noise(chosen: FigureSource) -> "Figure":
    """A chart for each FPR, a line for each arm."""
    loss, data_sets, panels = chosen.names(1)[0], chosen.grid.names(0), {}
    for measure in DATA[data_sets[0]].measures[:-1]:
        panels[measure.upper()] = [
            (ARMS[arm].title, color, {100 * noise_of(d): chosen.mark((d, loss, arm), measure) for d in data_sets})
            for arm, color in chosen.colors().items()
        ]
    return _lines(chosen, panels, "flipped share of training labels (%)")


def _over_sizes(chosen: FigureSource) -> "Figure":
    """A chart for each data set, a line for each FPR."""
    loss, arms, panels = chosen.names(1)[0], chosen.grid.names(2), {}
    sizes = {arm: float(row) for arm, row in chosen.selection.experiment.arms.items() if row is not None}
    for data in chosen.names(0):
        panels[title_of(data, chosen.selection.preset)] = [
            (measure.upper(), color, {sizes[arm]: chosen.mark((data, loss, arm), measure) for arm in arms})
            for measure, color in _colors(DATA[data].measures[:-1], TPR_COLORS).items()
        ]
    return _lines(chosen, panels, "size")


def _lines(chosen: FigureSource, panels: Mapping[str, Sequence[Line]], across: str) -> "Figure":
    """Means over the splits as lines in the band of their interval, ensembles as marks, published values dashed."""
    caption = chosen.caption("dashed")
    legend = {label: number for lines in panels.values() for label, number, _ in lines}
    figure, axes = _canvas(chosen, caption, legend, columns=len(panels), width=3.2, height=3.2, sharey=True)
    for chart, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for _, number, marks in lines:
            _line(chart, number, marks)
        chart.set(title=title, xlabel=across, ylim=(0, 100))
        chart.grid(axis="y")
    axes[0, 0].set_ylabel("false positive rate (%)")
    return figure


def _ends(found: Interval) -> tuple[float, float]:
    """The bounds to draw; nothing is drawn at NaN."""
    return (found.low, found.high) if found.bounded else (np.nan, np.nan)


def _line(chart: Any, number: int, marks: Mapping[float, Mark]) -> None:
    color, marker = COLORS[number]
    marks = dict(sorted(marks.items()))
    ours = {x: (mark.ours.estimate, *_ends(mark.ours)) for x, mark in marks.items() if mark.ours is not None}
    if ours:
        places, ends = list(ours), np.array(list(ours.values()), dtype=np.float64)
        chart.fill_between(places, ends[:, 1], ends[:, 2], color=color, alpha=0.11, linewidth=0)
        chart.plot(places, ends[:, 0], color=color, linewidth=WIDTHS[number], zorder=3)
        if len(ours) == 1:  # a line of one point cannot be seen
            chart.plot(places, ends[:, 0], marker, color=color, **SOLID)
    for x, mark in marks.items():
        if mark.ensemble is not None:
            chart.plot(x, mark.ensemble, marker, color=color, **HOLLOW)
    known = [(x, mark.published) for x, mark in marks.items() if mark.published is not None]
    if known:
        chart.plot(*zip(*known, strict=True), color=color, linewidth=1.1, linestyle=DASHES, zorder=2)


def _by_arm(chosen: FigureSource) -> "Figure":
    """Rows are losses with a colour for each arm; with one loss, arms, by the paper's names if it has all.

    Solid: the mean over the splits with its interval; hollow: their ensemble; a bar: the published value.
    """
    data_sets, losses, arms = (chosen.names(place) for place in range(3))
    several, measure = DATA[data_sets[0]].several_classes, DATA[data_sets[0]].measures[1]
    if len(losses) > 1:
        rows, legend = losses, chosen.colors()
        series = [(color, [(loss, arm) for loss in losses]) for arm, color in legend.items()]
    else:
        papers = chosen.selection.experiment.arms
        rows, legend = [(all(papers.values()) and papers[arm]) or ARMS[arm].title for arm in arms], {}
        series = [(0, [(losses[0], arm) for arm in arms])]
    height = 0.7 + len(rows) * (0.18 + 0.14 * len(series))
    sizes: dict[str, Any] = {"columns": len(data_sets), "width": 4.4, "height": height}
    figure, axes = _canvas(chosen, chosen.caption("a bar"), _arm_colors(legend), **sizes, sharey=True)
    what = "mean error of the other classes" if several else "false positive rate"
    across = f"{what} at {measure.partition('@')[2].removesuffix('tpr')} % TPR (%)"
    for chart, data in zip(axes[0], data_sets, strict=True):
        for number, (index, keys) in enumerate(series):
            color, marker = COLORS[index]
            for place, key in enumerate(keys):
                mark, y = chosen.mark((data, *key), measure), place + 0.8 * ((number + 0.5) / len(series) - 0.5)
                if mark.ours is not None:
                    chart.plot(_ends(mark.ours), [y, y], color=color, **BAR)
                    chart.plot(mark.ours.estimate, y, marker, color=color, **SOLID)
                if mark.ensemble is not None:
                    chart.plot(mark.ensemble, y, marker, color=color, **HOLLOW)
                if mark.published is not None:
                    chart.plot(mark.published, y, "|", color=color, markersize=9, markeredgewidth=1.5, zorder=2)
        title = title_of(data, chosen.selection.preset)
        chart.set(title=title, xlabel=across, xlim=(0, 100), ylim=(len(rows) - 0.5, -0.5))
        chart.set_yticks(range(len(rows)), rows)
        chart.tick_params(axis="y", length=0)
        chart.grid(axis="x")
        for edge in range(1, len(rows)):
            chart.axhline(edge - 0.5, color=GRID, linewidth=0.6)
    return figure


def _colors(names: Sequence[str], own: Mapping[str, int]) -> dict[str, int]:
    """The colour of each name: its own, or the next spare one."""
    spare = cycle(number for number in range(len(COLORS)) if number not in own.values())
    return {name: own[name] if name in own else next(spare) for name in names}


def _arm_colors(colors: Mapping[str, int]) -> dict[str, int]:
    """The same by the arms' titles, for a legend."""
    return {ARMS[arm].title: color for arm, color in colors.items()}


def _canvas(
    chosen: FigureSource,
    caption: str,
    legend: Mapping[str, int],
    *,
    columns: int,
    width: float,
    height: float,
    rows: int = 1,
    marks: bool = True,
    **shared: Any,
) -> "tuple[Figure, NDArray[Any]]":
    """Charts in rows and columns, with the title and one legend above and the caption below them.

    legend: the number of its colour by label; it takes as many lines as it needs. marks: whether lines have marks.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    across = 1.2 + max(width * columns, 4.4)
    title = textwrap.wrap(chosen.selection.experiment.title, width=round(10 * across))
    lines = textwrap.wrap(caption, width=round(17 * across))
    entries = max(1, int(across / LEGEND_WIDTH))  # in a line of the legend
    legend_lines = -(-len(legend) // entries)
    below, above = 0.12 + 0.16 * len(lines), 0.23 + 0.2 * len(title) + 0.22 * legend_lines
    down = 0.4 + height * rows + below + above
    figure = Figure(figsize=(across, down), layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, below / down, 1, 1 - (below + above) / down))
    figure.text(0.02, 1 - 0.08 / down, "\n".join(title), fontsize=11, fontweight="bold", va="top")
    figure.text(0.02, 0.06 / down, "\n".join(lines), fontsize=8, color="#444444", va="bottom")
    if legend:
        handles = []
        for label, number in legend.items():
            color, marker = COLORS[number]
            style: dict[str, Any] = {"color": color, "linewidth": WIDTHS[number] + 0.4, "marker": marker * marks}
            handles.append(Line2D([], [], label=label, markersize=5, **style))
        place = (0.01, 1 - (0.1 + 0.2 * len(title)) / down)
        drawn = figure.legend(handles=handles, loc="upper left", bbox_to_anchor=place, ncols=entries)
        drawn.set_in_layout(False)  # its room is kept free already
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)
