"""Two arms on the same splits: what one adds to the other, for every base loss and over all of them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankreg.names import look_up
from rankreg.notation import plain, signed
from rankreg_bench.arms import ARMS, PRESETS
from rankreg_bench.differences import (
    BELOW,
    CHANCES,
    Paired,
    arm_title,
    measure_title,
    multiplicity_note,
    pair,
    preset_note,
    verdict,
)
from rankreg_bench.estimates import difference_intervals, measures_of
from rankreg_bench.grids import DATA, LOSSES, RunPlan, TestSet, for_choosing, offers, plan_run, title_of
from rankreg_bench.pages import Number, Page, Row, TableBlock, TableEntry, limits
from rankreg_bench.records import TEST_TITLES, Grid, RecordFolder, checked_test, grid_of, read_runs

SHARED = "Ratios and noise levels of one data set use the same images, so these rows are not independent repeats."
KEPT = "epoch kept"
LAST_KEPT = "Each network keeps its last epoch, whatever its validation results. The other pages show that epoch."
BEST_KEPT = (
    "Each network keeps the epoch with the {}. The other pages show that epoch. Without a validation part, only the"
    " last epoch would be available."
)
FLATTERS = (
    "The validation samples choose the epoch, so the row of the kept epoch looks too good for both arms. All splits"
    " share these samples."
)


@dataclass(frozen=True)
class Question:
    """Which two arms, on which data sets and losses; none named: all that both arms have records of."""

    first: str
    second: str
    preset: str
    folder: Path
    data: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    splits: int | None = None

    def __post_init__(self) -> None:
        look_up(PRESETS, self.preset, "preset")
        for arm in (self.first, self.second):
            look_up(ARMS, arm, "arm")
        for name in self.data:
            look_up(DATA, name, "data set")
        for name in self.losses:
            look_up(dict.fromkeys((*LOSSES, "ce")), name, "loss")
        if self.first == self.second:
            raise ValueError(f"both arms are {self.first!r}: name two, such as rankreg buffer")

    def tests(self, test: str | None) -> Sequence[TestSet]:
        """The named test set; by default both. Arms that settings are chosen among: the tuning pool only."""
        chosen = for_choosing(self.first) or for_choosing(self.second)
        if test is None:
            return ("tuning",) if chosen else ("official", "extended")
        return [checked_test(test, f"the comparison of {self.first} and {self.second}", chosen)]

    def plans(self) -> list[RunPlan]:
        """The recorded runs of both arms."""
        records, found = RecordFolder(self.folder), []
        for data in self.data or DATA:
            if not offers(self.preset, data):
                continue
            losses = self.losses or (("ce",) if DATA[data].several_classes else LOSSES)
            files = (self.folder / self.preset / data).glob("*-*-*.json")
            splits = {int(number) for file in files if (number := file.stem.rsplit("-", 2)[-2]).isdigit()}
            for split in sorted(splits if self.splits is None else splits & set(range(self.splits))):
                for loss in losses:
                    both = [plan_run(self.preset, data, loss, arm, split) for arm in (self.first, self.second)]
                    found += [plan for plan in both if records.has(plan)]
        return found


def compare_pages(question: Question, test: str | None = None, *, brief: bool = False) -> list[Page]:
    """For each test set an overview of several data sets, then each on its own; last, the validation curves.

    brief: the overviews alone.
    """
    plans = question.plans()
    runs, tests = read_runs(plans, question.folder), question.tests(test)
    grids = [grid for one in tests if runs and (grid := grid_of(plans, runs, one)) is not None]
    sheets = [Contrast(question, grid, data) for grid in grids for data in grid.names(0)]
    shown = [sheet for sheet in sheets if sheet.pairs]
    if not shown:
        raise ValueError(
            f"no split is recorded for both {question.first} and {question.second} with preset {question.preset} in"
            f" {question.folder}: see `rankreg bench status --records {shlex.quote(str(question.folder))}`"
        )
    by_test = [list(group) for _, group in groupby(shown, lambda sheet: sheet.grid.test)]
    if brief:
        return [_overview(group, [number for sheet in group for number in sheet.numbers()]) for group in by_test]
    pages = []
    for group in by_test:
        pages += [_overview(group)] if len(group) > 1 else []
        pages += [sheet.page() for sheet in group]
    for data in dict.fromkeys(sheet.data for sheet in sheets):
        pages += curves_page(plans, RecordFolder(question.folder), data, (question.first, question.second))
    return pages


class Contrast:
    """Two arms on one data set and one test set.

    pairs: by loss, where both arms share a split; pooled: all losses, averaged within each split, None for a single
    loss or without a split that all have; shown: all of these by their label.
    """

    def __init__(self, question: Question, grid: Grid, data: str) -> None:
        self.question, self.grid, self.data = question, grid, data
        arms = (question.first, question.second)
        found = {loss: pair(grid, data, [loss], *arms) for loss in grid.names(1)}
        self.pairs = {loss: paired for loss, paired in found.items() if paired is not None}
        self.pooled = pair(grid, data, list(self.pairs), *arms) if len(self.pairs) > 1 else None
        self.shown = {loss.upper(): paired for loss, paired in self.pairs.items()}
        self.shown |= {} if self.pooled is None else {"all losses": self.pooled}
        self.head = ("", *map(measure_title, measures_of(DATA[data])), "splits")

    @property
    def main(self) -> Paired:
        """All losses where they share enough splits for an interval, otherwise the loss with the most splits."""
        longest = max(self.pairs.values(), key=lambda paired: len(paired.splits))
        enough = min(2, len(longest.splits))
        return self.pooled if self.pooled is not None and len(self.pooled.splits) >= enough else longest

    def page(self) -> Page:
        blocks = [self.differences()]
        blocks += [] if DATA[self.data].several_classes else [self.ensembles()]
        preset = self.question.preset
        heading = f"{self.main.title}: {title_of(self.data, preset)}, {self.grid.title(self.data)}, preset {preset}"
        return Page(heading, (*blocks, *self.by_split()), tuple(self.notes()), tuple(self.numbers()))

    def differences(self) -> TableBlock:
        rows = []
        for label, paired in self.shown.items():
            first, second = paired.rows(label)
            rows += [replace(first, rule=paired is self.pooled), second]
        title = f"{self.main.title} of single networks (Student's 95 % interval over splits){BELOW}"
        return TableBlock(title, self.head, tuple(rows))

    def ensembles(self) -> TableBlock:
        """The same of ensembles of the splits that both arms have, over test samples."""
        rows = []
        for loss, paired in self.pairs.items():
            cells = (self.grid.cells[self.data, loss, arm] for arm in (paired.first, paired.second))
            first, second = (cell.on(paired.splits).mean for cell in cells)
            found = difference_intervals(DATA[self.data], first, second).values()
            entries = [TableEntry(signed(one.estimate), limits(one)) for one in found]
            rows.append(Row(loss.upper(), (*entries, TableEntry(str(len(paired.splits))))))
        title = "Ensembles of these splits (paired 95 % interval over test samples)"
        return TableBlock(title, self.head, tuple(rows))

    def by_split(self) -> Iterator[TableBlock]:
        splits = sorted({split for paired in self.pairs.values() for split in paired.splits})
        for measure in measures_of(DATA[self.data]):
            rows = []
            for label, paired in self.shown.items():
                values = dict(zip(paired.splits, paired.values[measure], strict=True))
                entries = tuple(TableEntry(signed(values[s]) if s in values else "–") for s in splits)
                rows.append(Row(label, entries, rule=paired is self.pooled))
            head = ("", *(f"split {split}" for split in splits))
            yield TableBlock(f"{measure_title(measure)}, split by split", head, tuple(rows))

    def notes(self) -> Iterator[str]:
        """The answer in words, what could be detected, how many comparisons there are."""
        main, parts = self.main, []
        for measure in main.values:
            found = main.estimate(measure)
            parts.append(f"{measure_title(measure)} {signed(found.estimate)} {limits(found)}: {verdict(found)}")
        yield f"{main.title}, {main.scope}: {'; '.join(parts)}."
        yield main.power_note()
        yield from multiplicity_note(list(self.shown.values()))
        if self.pooled is not None:
            yield "All losses: averaged within each split first, since losses share a split's training data."
        yield CHANCES
        yield preset_note(self.question.preset)

    def numbers(self) -> Iterator[Number]:
        """For the CSV file: every loss and all of them together."""
        for paired in self.shown.values():
            yield from paired.numbers("compare", self.grid.test, self.data)


def _overview(sheets: Sequence[Contrast], numbers: Sequence[Number] = ()) -> Page:
    """One row for each data set; several classes are measured otherwise and have a table of their own."""
    preset, title = sheets[0].question.preset, sheets[0].main.title
    blocks, shown = [], []
    for several in (False, True):
        kind = {sheet.data: sheet.main for sheet in sheets if DATA[sheet.data].several_classes == several}
        every = [paired.values for paired in kind.values()]
        common = [measure for measure in every[0] if all(measure in one for one in every)] if every else []
        rows: list[Row] = []
        for data, whole in kind.items():
            paired = replace(whole, values={measure: whole.values[measure] for measure in common})
            first, second = paired.rows(title_of(data, preset))
            used = f"{len(paired.losses)} losses" if len(paired.losses) > 1 else paired.losses[0].upper()
            rows += [replace(first, entries=(*first.entries, TableEntry(used)))]
            rows += [replace(second, entries=(*second.entries, TableEntry("")))]
            shown.append(paired)
        if kind:
            head = ("", *map(measure_title, common), "splits", "base loss")
            heading = f"{title} of single networks (Student's 95 % interval over splits){BELOW}"
            blocks.append(TableBlock(heading, head, tuple(rows)))
    several_sets = len(sheets) > 1
    names = f"{len(sheets)} data sets" if several_sets else title_of(sheets[0].data, preset)
    notes = [*multiplicity_note(shown), *[SHARED] * several_sets, CHANCES, preset_note(preset)]
    heading = f"{title}: {names}, {TEST_TITLES[sheets[0].grid.test]}, preset {preset}"
    return Page(heading, tuple(blocks), tuple(notes), tuple(numbers))


def curves_page(plans: Sequence[RunPlan], records: RecordFolder, data: str, arms: tuple[str, str]) -> list[Page]:
    """A page: validation AUC of both arms after every epoch, and the difference; none for unequal lengths."""
    first, second = (_curves(plans, records, data, arm) for arm in arms)
    both = [key for key in first if key in second and len(first[key]) == len(second[key])]
    losses = tuple(dict.fromkeys(loss for loss, _ in both))
    shared = set.intersection(*({split for of, split in both if of == loss} for loss in losses)) if both else set()
    if not shared or len({len(first[key]) for key in both}) > 1:
        return []
    splits = tuple(sorted(shared))
    means = [
        np.array([np.mean([curves[loss, split] for loss in losses], axis=0) for split in splits])
        for curves in (first, second)
    ]
    gaps = np.round(means[0] - means[1], 6)  # equal ones stay equal
    paired = Paired(*arms, losses, len(losses), splits, _by_epoch(gaps))
    levels = [_by_epoch(mean) for mean in means]
    rows = []
    for name in paired.values:
        found = paired.estimate(name)
        before = [TableEntry(plain(float(np.mean(level[name])))) for level in levels]
        entries = (*before, TableEntry(signed(found.estimate), limits(found)), TableEntry(verdict(found)))
        rows.append(Row(name, entries, rule=name == KEPT))
    notes = [LAST_KEPT]
    if any(ARMS[arm].config.get("selection") != "last" for arm in arms):
        several = DATA[data].several_classes
        kept = "lowest validation error of the other classes" if several else "highest validation AUC"
        notes = [BEST_KEPT.format(kept), FLATTERS]
    what = f"{title_of(data, plans[0].preset)}, validation AUC epoch by epoch, {paired.scope}"
    head = ("", *map(arm_title, arms), paired.title, "")
    block = TableBlock(f"{paired.title} (Student's 95 % interval over splits)", head, tuple(rows))
    numbers = paired.numbers("compare", "validation", data)
    return [Page(f"{paired.title}: {what}", (block,), (*notes, *multiplicity_note([paired])), tuple(numbers))]


def _curves(
    plans: Sequence[RunPlan], records: RecordFolder, data: str, arm: str
) -> dict[tuple[str, int], NDArray[np.float64]]:
    """By loss and split, in percent: the value of every epoch, then that of the epoch that was kept."""
    found = {}
    for plan in plans:
        record = records.read(plan) if (plan.data, plan.arm) == (data, arm) else {}
        if values := record.get("validation_auc"):
            found[plan.loss, plan.split] = 100 * np.array([*values, values[record["best_epoch"]]])
    return found


def _by_epoch(values: NDArray[np.float64]) -> Mapping[str, tuple[float, ...]]:
    """One value per split for every epoch and the one kept, from (splits, epochs + 1)."""
    names = [*(f"epoch {epoch + 1}" for epoch in range(values.shape[1] - 1)), KEPT]
    return {name: tuple(map(float, column)) for name, column in zip(names, values.T, strict=True)}
