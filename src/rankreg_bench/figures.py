"""The bench's charts, from plain numbers: matplotlib without pyplot, so nothing is kept between two of them.

The paper's figures, and a chart of any other experiment, from records alone: no torch, no data sets.
"""

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rankreg.extension import look_up, write_whole
from rankreg.metrics import Roc, roc
from rankreg.operating import Estimate, mean_of
from rankreg_bench.arms import ARMS
from rankreg_bench.estimates import names_of, noise_of, published_values
from rankreg_bench.grids import DATA, LOSSES, Experiment, Plan, experiment_of, plan_run, title_of
from rankreg_bench.records import Grid, Key, Records, Selection, grid_of, read_runs

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


ARM_COLORS = {"base": 0, "alm": 1, "buffer": 2, "rankreg": 3}
TPR_COLORS = {"fpr@98": 0, "fpr@95": 3, "fpr@92": 2, "fpr@90": 1}


@dataclass(frozen=True, eq=False)
class Chosen:
    """What is drawn: an experiment's runs that are recorded, on one test set."""

    name: str
    experiment: Experiment
    preset: str
    grid: Grid
    plans: Sequence[Plan]
    folder: Path

    def names(self, place: int) -> list[str]:
        """The data sets (0), losses (1) or arms (2) of which there is something, in the experiment's order."""
        return list(dict.fromkeys(key[place] for key, cell in self.grid.cells.items() if cell.scores))

    def mark(self, key: Key, measure: str) -> Mark:
        """One number of one cell: over the splits, of their ensemble, as published."""
        published = published_values(self.experiment, *key).get(measure)
        cell = self.grid.cells.get(key)
        if cell is None or not cell.scores:
            return Mark(published=published)
        ours = mean_of([single[measure] for single in cell.singles.values()])
        return Mark(ours, cell.ensemble[measure].estimate if len(cell.splits) > 1 else None, published)

    def splits(self) -> str:
        """How many splits there are of every cell, in words."""
        counts, planned = [len(cell.splits) for cell in self.grid.cells.values()], self._planned()
        low, high = min(counts), max(counts)
        words = f"{high} split{'s' * (high != 1)}" if low == high else f"{low} to {high} splits"
        return words if low == planned else f"{words} ({planned} planned, runs are missing)"

    def _planned(self) -> int:
        return max(cell.planned for cell in self.grid.cells.values())


def choose(
    name: str,
    records: Path,
    *,
    preset: str | None = None,
    test: str | None = None,
    splits: int | None = None,
    only: Sequence[str] = (),
    loss: str | None = None,
) -> Chosen:
    """What there is of an experiment; preset: by default the experiment's.

    test: "official", "extended" or "tuning"; by default the first that the experiment is judged on. loss: ROC
    curves of runs with that base loss; they are those of the main tables.
    """
    preset = preset or experiment_of(name).preset
    selection = Selection(name, preset, records, splits, tuple(only))
    experiment, place, plans = selection.experiment, selection.tests(test)[0], selection.plans
    missing = selection.command()
    if loss is not None:
        if name != "roc":
            raise ValueError(f"--loss is for roc, got {name}: --only {loss} chooses among an experiment's losses")
        look_up(dict.fromkeys(LOSSES), loss, "loss")
        plans = [plan_run(preset, plan.data, loss, plan.arm, plan.split) for plan in plans]
        missing = f"rankreg bench run {' '.join(experiment.data)} --only {loss} --preset {preset}"
    runs = read_runs(plans, records)
    if not runs:
        raise ValueError(f"{records} has no such record of {name}, preset {preset}: make them with `{missing}`")
    grid = grid_of(plans, runs, place)
    if grid is None:
        raise ValueError(
            f"no recorded run of {name}, preset {preset}, was scored on the {place} test set: use another"
        )
    return Chosen(name, experiment, preset, grid, plans, records)


def write_figure(chosen: Chosen, path: Path) -> None:
    """Draw the experiment's figure into a PNG, SVG or PDF file."""
    check_path(path)
    with drawing():
        save(figure_of(chosen), path)


def check_path(path: Path) -> None:
    """Refuse a kind of file that cannot be drawn, before anything is."""
    if path.suffix.lower() not in METADATA:
        raise ValueError(f"cannot draw into {path}: its name must end in {', '.join(METADATA)}")


def figure_of(chosen: Chosen) -> "Figure":
    """The figure that fits the experiment: curves, lines where a number is varied, dots otherwise."""
    rows = chosen.experiment.arms.values()
    if chosen.name == "roc":
        return _roc(chosen)
    if chosen.name == "learning-curves":
        return _learning(chosen)
    if chosen.experiment.layout == "noise":
        return _over_noise(chosen)
    if all(row is not None and row.isdigit() for row in rows):
        return _over_sizes(chosen)
    return _by_arm(chosen)


def _roc(chosen: Chosen) -> "Figure":
    panels, colors = [], _colors(chosen.names(2), ARM_COLORS)
    for data in chosen.names(0):
        curves = []
        for (of, _, arm), cell in chosen.grid.cells.items():
            if of == data and cell.scores:
                singles = [roc(one.labels, one.values) for one in cell.scores.values()]
                bold = roc(cell.mean.labels, cell.mean.values)
                curves.append(Curves(ARMS[arm].title, bold, singles, colors[arm]))
        positives, others = chosen.grid.counts(data) or (0, 0)
        title = f"{title_of(data, chosen.preset)}: {positives:,} positives, {others:,} negatives"
        panels.append(RocPanel(title, curves, DATA[data].tprs))
    caption = (
        f"Bold: ensembles, thin: their single splits. {_where(chosen)} Below: the shaded part of the curves above;"
        " dashed: the TPRs that the tables report."
    )
    return draw_roc(panels, Words(chosen.experiment.title, caption))


def _learning(chosen: Chosen) -> "Figure":
    """AUC and FPR at 95 % TPR by epoch, for every arm with its band over splits.

    Epochs of arms with a buffer have twice the samples, so the axis counts epochs of the base loss.
    """
    panels, colors = [], _colors(chosen.names(2), ARM_COLORS)
    for data, measure in product(chosen.names(0), ("auc", "fpr@95")):
        series = [
            Series(ARMS[arm].title, marks, colors[arm])
            for arm in chosen.names(2)
            if (marks := _curve(chosen, data, arm, measure))
        ]
        if series:
            panels.append(Panel(title_of(data, chosen.preset), series, [f"{measure.upper()} (%)"]))
    if not panels:
        raise ValueError(f"no record of preset {chosen.preset} holds curves: use preset converged")
    caption = (
        "Means of single networks after every epoch; bands: Student's 95 % interval over splits."
        f" Epochs with a buffer hold twice the samples and count twice. {_where(chosen)}"
    )
    return draw_curves(panels, Words(chosen.experiment.title, caption, "epochs of the base loss"))


def _curve(chosen: Chosen, data: str, arm: str, measure: str) -> dict[float, Mark]:
    """The measure after every epoch, over the splits that have records with curves."""
    found, records, step = [], Records(chosen.folder), 1.0
    for plan in chosen.plans:
        if (plan.data, plan.arm) == (data, arm) and records.has(plan):
            record = records.read(plan)
            if "curves" in record:
                found.append(record["curves"][chosen.grid.test][measure])
                step = plan.cost / plan.config["epochs"]
    if not found:
        return {}
    shared = min(len(values) for values in found)  # a run that diverged is shorter
    return {step * (k + 1): Mark(mean_of([values[k] for values in found])) for k in range(shared)}


def _over_noise(chosen: Chosen) -> "Figure":
    panels, loss, colors = [], chosen.names(1)[0], _colors(chosen.names(2), ARM_COLORS)
    for measure in names_of(DATA[chosen.names(0)[0]])[:-1]:
        series = []
        for arm in chosen.names(2):
            marks = {100 * noise_of(data): chosen.mark((data, loss, arm), measure) for data in chosen.grid.names(0)}
            series.append(Series(ARMS[arm].title, marks, colors[arm]))
        panels.append(Panel(measure.upper(), series))
    words = Words(
        chosen.experiment.title,
        _caption(chosen, "dashed"),
        "flipped share of training labels (%)",
        "false positive rate (%)",
    )
    return draw_lines(panels, words)


def _over_sizes(chosen: Chosen) -> "Figure":
    panels, loss = [], chosen.names(1)[0]
    sizes = {arm: float(row) for arm, row in chosen.experiment.arms.items() if row is not None}
    for data in chosen.names(0):
        series = []
        for measure in names_of(DATA[data])[:-1]:
            marks = {sizes[arm]: chosen.mark((data, loss, arm), measure) for arm in chosen.grid.names(2)}
            colors = _colors(names_of(DATA[data])[:-1], TPR_COLORS)
            series.append(Series(measure.upper(), marks, colors[measure]))
        panels.append(Panel(title_of(data, chosen.preset), series))
    words = Words(chosen.experiment.title, _caption(chosen, "dashed"), "size", "false positive rate (%)")
    return draw_lines(panels, words)


def _by_arm(chosen: Chosen) -> "Figure":
    """Rows are losses with a colour for each arm; with one loss, arms, by the paper's names if it has all."""
    data_sets, losses, arms = (chosen.names(place) for place in range(3))
    measure = names_of(DATA[data_sets[0]])[1]
    by_loss = len(losses) > 1
    papers = chosen.experiment.arms
    rows = losses if by_loss else [(all(papers.values()) and papers[arm]) or ARMS[arm].title for arm in arms]
    panels = []
    for data in data_sets:
        series = []
        for arm in arms if by_loss else arms[:1]:
            keys = [(data, loss, arm) for loss in losses] if by_loss else [(data, losses[0], one) for one in arms]
            marks = {float(row): chosen.mark(key, measure) for row, key in enumerate(keys)}
            series.append(Series(ARMS[arm].title, marks, _colors(arms, ARM_COLORS)[arm] if by_loss else 0))
        panels.append(Panel(title_of(data, chosen.preset), series, rows))
    what = "mean error of the other classes" if DATA[data_sets[0]].several_classes else "false positive rate"
    tpr = measure.partition("@")[2].removesuffix("tpr")
    words = Words(chosen.experiment.title, _caption(chosen, "a bar"), f"{what} at {tpr} % TPR (%)")
    return draw_dots(panels, words)


def _colors(names: Sequence[str], own: Mapping[str, int]) -> dict[str, int]:
    """The colour of each name: its own, or the next one that is nobody's own."""
    spare = cycle(number for number in range(len(COLORS)) if number not in own.values())
    return {name: own[name] if name in own else next(spare) for name in names}


def _caption(chosen: Chosen, published: str) -> str:
    beside = f"; {published}: published, at full size" if chosen.experiment.published else ""
    return f"Mean of single splits with its 95 % Student interval; hollow: their ensemble{beside}. {_where(chosen)}"


def _where(chosen: Chosen) -> str:
    losses = chosen.names(1)
    base = f" Base loss {losses[0]}." if len(losses) == 1 else ""
    return f"{chosen.splits()}, preset {chosen.preset}, {chosen.grid.test} test set.{base}"
