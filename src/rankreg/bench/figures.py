"""The paper's figures, and a chart of any other experiment, from records alone: no torch, no data sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING

from rankreg._names import look_up
from rankreg.bench import drawing
from rankreg.bench.arms import ARMS
from rankreg.bench.asking import Asked
from rankreg.bench.drawing import Curves, Mark, Panel, RocPanel, Series, Words
from rankreg.bench.grids import DATA, LOSSES, Experiment
from rankreg.bench.measures import names_of
from rankreg.bench.planning import Plan, experiment_of, plan_run, title_of
from rankreg.bench.published import noise_of, published_values
from rankreg.bench.records import Records
from rankreg.bench.results import Grid, Key, grid_of, read_runs
from rankreg.metrics import roc
from rankreg.operating.repeats import mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    asked = Asked(name, preset, records, splits, tuple(only))
    experiment, place, plans = asked.experiment, asked.tests(test)[0], asked.plans
    missing = asked.command()
    if loss is not None:
        if name != "roc":
            raise ValueError(f"--loss is for roc, got {name}: --only {loss} chooses among an experiment's losses")
        look_up(dict.fromkeys(LOSSES), loss, "loss")
        plans = [plan_run(preset, plan.data, loss, plan.arm, plan.split) for plan in plans]
        data = [name for name in experiment.data if name in only] or experiment.data
        kept = [name for name in only if name not in experiment.data]
        missing = replace(asked, only=(*kept, loss)).command(*data)  # the runs are those of the main tables
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
    with drawing.drawing():
        drawing.save(figure_of(chosen), path)


def check_path(path: Path) -> None:
    """Refuse a kind of file that cannot be drawn, before anything is."""
    if path.suffix.lower() not in drawing.METADATA:
        raise ValueError(f"cannot draw into {path}: its name must end in {', '.join(drawing.METADATA)}")


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
    return drawing.draw_roc(panels, Words(chosen.experiment.title, caption))


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
    return drawing.draw_curves(panels, Words(chosen.experiment.title, caption, "epochs of the base loss"))


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
    return drawing.draw_lines(panels, words)


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
    return drawing.draw_lines(panels, words)


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
    return drawing.draw_dots(panels, words)


def _colors(names: Sequence[str], own: Mapping[str, int]) -> dict[str, int]:
    """The colour of each name: its own, or the next one that is nobody's own."""
    spare = cycle(number for number in range(len(drawing.COLORS)) if number not in own.values())
    return {name: own[name] if name in own else next(spare) for name in names}


def _caption(chosen: Chosen, published: str) -> str:
    beside = f"; {published}: published, at full size" if chosen.experiment.published else ""
    return f"Mean of single splits with its 95 % Student interval; hollow: their ensemble{beside}. {_where(chosen)}"


def _where(chosen: Chosen) -> str:
    losses = chosen.names(1)
    base = f" Base loss {losses[0]}." if len(losses) == 1 else ""
    return f"{chosen.splits()}, preset {chosen.preset}, {chosen.grid.test} test set.{base}"
