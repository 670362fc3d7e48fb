"""The paper's tables from records: ensembles beside the published values, single networks, paired differences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rankreg.notation import plain
from rankreg.operating.comparison import standard_deviation
from rankreg.operating.intervals import mean_of
from rankreg_bench.arms import ARMS
from rankreg_bench.differences import (
    BELOW,
    BETTER,
    Paired,
    arm_title,
    caveats,
    contrasts_of,
    multiplicity_note,
    pair,
    pooled_name,
)
from rankreg_bench.estimates import higher_is_better, published_gain, published_values
from rankreg_bench.gains import Gain, ensemble_gain, gap_of
from rankreg_bench.grids import DATA, noise_of, title_of
from rankreg_bench.pages import (
    NOTHING,
    Number,
    Page,
    Row,
    TableBlock,
    TableEntry,
    estimate_entry,
    head_of,
    judged,
    mean_entry,
    measure_title,
    published_text,
)
from rankreg_bench.records import Cell, Grid, Key, Selection

ENSEMBLES = "Ensembles of the splits' networks: ours [95 % interval over test samples]"
SINGLES = "Single networks: mean over splits ± half of Student's 95 % interval (standard deviation)"
DIFFERENCES = "Paired differences of single networks (Student's 95 % interval over splits)"
# The bottom rows of the main tables: the gain of RankReg over one arm or the better of two
GAINS = {"Δ over base/ALM": BETTER, "Δ over buffer": "buffer"}
DELTA = (
    "Δ: gain of {}. Positive means fewer false alarms or higher AUC. Base/ALM is the better of the two on the same"
    " numbers, so this Δ is slightly too small."
)
MEAN = "cifar10-100-noise"  # in CSV files, the name of what is averaged over shares of flipped labels


def pages_of(selection: Selection, test: str | None = None) -> list[Page]:
    """One page for each test set and data set; for label noise one for each test set.

    Args:
        selection: the runs.
        test: "official", "extended" or "tuning", default the test sets that the experiment is judged on.

    Returns:
        The pages, for `rendered`.
    """
    pages = []
    for grid in selection.grids(test):
        sheets = [Sheet(selection, grid, data) for data in grid.names(0)]
        noise = selection.experiment.layout == "noise"
        pages += [noise_page(sheets)] if noise else [sheet.page() for sheet in sheets]
    return pages


class Sheet:
    """The results of an experiment on one data set and one test set.

    losses: the groups of rows; measures: the columns; pairs: all contrasts that share a split; gap: how far the
    arms get to the ceiling of the experiment, if it has one; is_main: a main table, with the rows `gains` below;
    ranking: the arm that is the paper's method.
    """

    def __init__(self, selection: Selection, grid: Grid, data: str) -> None:
        self.selection, self.grid, self.data, self.experiment = selection, grid, data, selection.experiment
        self.losses, self.measures = grid.names(1), DATA[data].measures
        self.is_main, self.ranking = self.experiment.layout == "main", self.experiment.ranking_arm
        keys = [key for loss in self.losses for key in grid.cells if key[:2] == (data, loss)]
        self.cells = {key: grid.cells[key] for key in keys}
        wanted = contrasts_of(self.experiment, grid.names(2))
        found = [pair(grid, data, self.losses, first, second) for first, second in wanted]
        self.pairs = [paired for paired in found if paired is not None]
        self.gap = gap_of(selection, grid, data)
        seconds = GAINS.values() if self.is_main else ()
        self.gains = [ensemble_gain(grid, data, self.losses, self.ranking, second) for second in seconds]
        self.head = head_of(self.measures)

    def page(self) -> Page:
        preset = self.selection.preset
        title = f"{title_of(self.data, preset)}, {self.grid.title(self.data)}, preset {preset}"
        title = title if self.is_main else f"{self.experiment.title}: {title}"
        blocks = [self.ensembles(), self.singles()] + [self.differences()] * bool(self.pairs)
        blocks += [self.gap.block()] if self.gap else []
        return Page(title, tuple(blocks), tuple(self.notes()), tuple(self.numbers()))

    def ensembles(self) -> TableBlock:
        """The ensemble of each arm beside the published value; the best of a group, as printed, is underlined."""
        published = {key: published_values(self.experiment, *key) for key in self.cells}
        has_published = any(published.values())
        rows = []
        for key, cell in self.cells.items():
            entries = []
            for measure in self.measures:
                printed = published_text(published[key].get(measure), others=has_published)
                entry = estimate_entry(cell.ensemble.get(measure), printed)
                best = cell.scores and round(cell.ensemble[measure].estimate, 1) == self._best(key[1], measure)
                entries.append(replace(entry, best=bool(best)))
            rows.append(self._row(key, cell, entries))
        for label, gain in zip(GAINS, self.gains, strict=False):
            entries = []
            for measure in self.measures:
                printed = published_text(self._published(gain, measure), others=True)
                entries.append(estimate_entry(gain.by_measure.get(measure), printed))
            few = f"{len(gain.losses)}/{len(self.losses)} losses" * (len(gain.losses) < len(self.losses))
            count = TableEntry(str(len(gain.splits)), few) if gain.splits else NOTHING
            rows.append(Row(label, (*entries, count), rule=gain.second == BETTER))
        return TableBlock(ENSEMBLES + " (published)" * has_published, self.head, tuple(rows))

    def singles(self) -> TableBlock:
        """The mean over splits with its interval, and their spread."""
        rows = []
        for key, cell in self.cells.items():
            entries = []
            for measure in self.measures:
                values = [single[measure] for single in cell.singles.values()]
                deviation = standard_deviation(values) if values else None
                around = "" if deviation is None else f" ({plain(deviation)})"
                entries.append(mean_entry(mean_of(values), around) if values else NOTHING)
            rows.append(self._row(key, cell, entries))
        for label, gain in zip(GAINS, self.gains, strict=False):
            if paired := self._pair(self.ranking, gain.second):
                found = [paired.gain(measure) for measure in self.measures]
                entries = [mean_entry(one) for one in found]
                count = TableEntry(str(len(paired.splits)))
                rows.append(Row(label, (*entries, count), rule=gain.second == BETTER))
        return TableBlock(SINGLES, self.head, tuple(rows))

    def differences(self) -> TableBlock:
        averaged = ", averaged over the base losses within each split" * (len(self.losses) > 1)
        rows = [row for paired in self.pairs for row in paired.rows()]
        return TableBlock(DIFFERENCES + averaged + BELOW, self.head, tuple(rows))

    def notes(self) -> Iterator[str]:
        """What could be detected, how many comparisons there are, what is missing."""
        if self.pairs:
            about_ranking = (paired for paired in self.pairs if ARMS[paired.first].ranks)
            decisive = self._pair(self.ranking, "buffer") or next(about_ranking, self.pairs[0])
            yield decisive.power_note()
            yield from multiplicity_note(self.pairs)
        over = self._pair(self.ranking, BETTER)
        if self.is_main and over is not None:
            yield from _growth_note(over)
            averaged = ", averaged over the base losses" * (len(self.losses) > 1)
            yield DELTA.format(arm_title(self.ranking) + averaged)
        yield from closing_notes(self.selection, [self.data])
        ceiling = self.experiment.ceiling
        if ceiling and not self.gap:
            yield from replace(self.selection, name=ceiling, only=()).missing()

    def numbers(self) -> Iterator[Number]:
        """The rows of the CSV file."""
        for key, cell in self.cells.items():
            yield from self._cell_numbers(key, cell)
        for paired in self.pairs:
            yield from paired.numbers(self.selection.name, self.grid.test, self.data)
        if self.gap:
            yield from self.gap.numbers(self._number(self.losses[0], "", "", ()))
        for gain in self.gains:
            if over := self._pair(self.ranking, gain.second):
                loss, arm = pooled_name(gain.losses, len(self.losses)), f"{self.ranking} over {gain.second}"
                for measure, found in gain.by_measure.items():
                    number = self._number(loss, arm, measure, gain.splits, self._published(gain, measure))
                    yield number.with_bounds("ensemble gain", found)
                    yield number.with_bounds("single gain", over.gain(measure))

    def _cell_numbers(self, key: Key, cell: Cell) -> Iterator[Number]:
        """The ensemble, the mean of the splits and their standard deviation; nothing without a record."""
        published = published_values(self.experiment, *key)
        for measure in self.measures if cell.scores else ():
            number = self._number(*key[1:], measure, cell.splits, published.get(measure))
            yield number.with_bounds("ensemble", cell.ensemble[measure])
            values = [single[measure] for single in cell.singles.values()]
            yield number.with_bounds("single", mean_of(values))
            if (deviation := standard_deviation(values)) is not None:
                yield replace(number, kind="deviation", value=deviation, published=None)

    def _number(
        self, loss: str, arm: str, measure: str, splits: Sequence[int], published: float | None = None
    ) -> Number:
        place = (self.selection.name, self.data, self.grid.test, loss, arm, measure)
        return Number(*place, splits=len(splits), published=published)

    def _row(self, key: Key, cell: Cell, entries: Sequence[TableEntry]) -> Row:
        _, loss, arm = key
        label = loss.upper() if self.is_main and arm == "base" else ARMS[arm].title
        if "base" not in self.grid.names(2) if self.is_main else len(self.losses) > 1:
            label = f"{loss.upper()} {label}"
        starts_group = loss != self.losses[0] and arm == self.grid.names(2)[0]
        part = self.is_main and arm != "base"
        return Row(label, (*entries, TableEntry(cell.count)), rule=starts_group, part=part)

    def _best(self, loss: str, measure: str) -> float | None:
        """The best ensemble as printed; None if fewer than two, or with different splits, are there."""
        cells = [cell for key, cell in self.cells.items() if key[1] == loss and cell.scores]
        if len(cells) < 2 or len({cell.splits for cell in cells}) > 1:
            return None
        return (max if higher_is_better(measure) else min)(round(c.ensemble[measure].estimate, 1) for c in cells)

    def _pair(self, first: str, second: str) -> Paired | None:
        return next((p for p in self.pairs if (p.first, p.second) == (first, second)), None)

    def _published(self, gain: Gain, measure: str) -> float | None:
        """The paper's gain over the better of base and ALM, over the same losses as ours."""
        losses = gain.losses or self.losses
        return published_gain(self.experiment, self.data, losses, measure) if gain.second == BETTER else None


def closing_notes(selection: Selection, data: Sequence[str]) -> Iterator[str]:
    """What holds for the whole page: chances, preset, the experiment's notes, divergence, missing runs."""
    yield from (*caveats(selection.preset), *selection.experiment.notes)
    yield from selection.diverged(data)
    yield from selection.missing()


def _growth_note(paired: Paired) -> Iterator[str]:
    """The paper's claim that gains grow with the TPR, as a difference of differences."""
    rates = [measure for measure in paired.values if measure.startswith("fpr")]
    if len(rates) > 1:
        pairs = zip(paired.values[rates[-1]], paired.values[rates[0]], strict=True)
        growth = mean_of([easy - strict for easy, strict in pairs])
        yield (
            f"Does Δ grow with the TPR? Δ in {measure_title(rates[0])} less Δ in {measure_title(rates[-1])}, single"
            f" networks: {judged(growth)}."
        )


def noise_page(sheets: Sequence[Sheet]) -> Page:
    """The sheets of all shares of flipped labels side by side: for each measure the tables, a column a share."""
    selection, grid = sheets[0].selection, sheets[0].grid
    data, measures = [sheet.data for sheet in sheets], sheets[0].measures
    by_kind = [[sheet.ensembles() for sheet in sheets], [sheet.singles() for sheet in sheets]]
    by_kind += [[sheet.differences() for sheet in sheets]] * any(sheet.pairs for sheet in sheets)
    head = ("flipped labels", *(f"{100 * noise_of(one):.0f} %" for one in data))
    blocks = [
        TableBlock(f"{measure_title(measure)}. {blocks[0].title}", head, tuple(_side_by_side(blocks, column)))
        for column, measure in enumerate(measures)
        for blocks in by_kind
    ]
    blocks.append(TableBlock("Splits", head, tuple(_side_by_side(by_kind[1], len(measures)))))
    means, notes = _means(sheets), []
    if means:
        rows = [row for paired in means for row in paired.rows()]
        title = f"{DIFFERENCES}, averaged over the shares of flipped labels within each split{BELOW}"
        blocks.append(TableBlock(title, head_of(measures), tuple(rows)))
        notes = [f"Averaged over shares: {means[0].power_note()}"]
    pairs = [paired for sheet in sheets for paired in sheet.pairs]
    if pairs:
        first = next(sheet for sheet in sheets if sheet.pairs)
        notes.insert(0, f"At {100 * noise_of(first.data):.0f} % flipped labels: {first.pairs[0].power_note()}")
    notes += [*multiplicity_note([*pairs, *means]), *closing_notes(selection, data)]
    numbers = [number for sheet in sheets for number in sheet.numbers()]
    numbers += [number for paired in means for number in paired.numbers(selection.name, grid.test, MEAN)]
    title = f"{selection.experiment.title}: {grid.title(data[0])}, preset {selection.preset}"
    return Page(title, tuple(blocks), tuple(notes), tuple(numbers))


def _side_by_side(blocks: Sequence[TableBlock], column: int) -> Iterator[Row]:
    """The same column of several tables; a row that a table lacks is a dash there."""
    found: dict[tuple[str, bool], list[Row | None]] = {}
    for place, block in enumerate(blocks):
        label = ""
        for row in block.rows:
            label = row.label or label  # the row below a contrast has no label of its own
            found.setdefault((label, bool(row.label)), [None] * len(blocks))[place] = row
    for (label, named), rows in found.items():
        entries = [NOTHING if row is None else row.entries[column] for row in rows]
        yield Row(label if named else "", tuple(entries), part=not named)


def _means(sheets: Sequence[Sheet]) -> list[Paired]:
    """Every contrast averaged over the shares of flipped labels, within each split that all shares have.

    The shares of a split start from the same images: as separate repeats they would make the interval too small.
    """
    noisy = [sheet for sheet in sheets if noise_of(sheet.data)]
    contrasts = dict.fromkeys((paired.first, paired.second) for sheet in noisy for paired in sheet.pairs)
    found = []
    for first, second in contrasts:
        each = [paired for sheet in noisy if (paired := sheet._pair(first, second))]
        splits = sorted(set.intersection(*(set(one.splits) for one in each))) if len(each) == len(noisy) > 1 else []
        if splits:
            values = {
                measure: tuple(
                    float(np.mean([one.values[measure][one.splits.index(split)] for one in each]))
                    for split in splits
                )
                for measure in each[0].values
            }
            found.append(replace(each[0], splits=tuple(splits), values=values))
    return found
