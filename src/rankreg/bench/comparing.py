"""Two arms on the same splits: what one adds to the other, for every base loss and over all of them."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path

from rankreg._names import look_up
from rankreg.bench.arms import ARMS
from rankreg.bench.curves import curves_page
from rankreg.bench.grids import DATA, LOSSES, TestSet, for_choosing
from rankreg.bench.intervals import difference_intervals
from rankreg.bench.numbers import difference_numbers
from rankreg.bench.overview import overview_page
from rankreg.bench.pages import Block, Entry, Number, Page, Row
from rankreg.bench.planning import Plan, offers, plan_run, title_of
from rankreg.bench.presets import PRESETS
from rankreg.bench.records import Records
from rankreg.bench.results import PARTS, Grid, grid_of, read_runs
from rankreg.bench.statistics import Paired, pair
from rankreg.bench.wording import (
    BELOW,
    CHANCES,
    TEST_TITLES,
    contrast_title,
    difference_rows,
    limits,
    measure_title,
    multiplicity_note,
    power_note,
    preset_note,
    sentence,
    signed,
    test_title,
)
from rankreg.operating.repeats import Estimate


@dataclass(frozen=True)
class Question:
    """Which two arms, on which data sets and losses; none named: all of which both arms have records."""

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
        """Arms that settings are chosen among are compared on the tuning pool only."""
        chosen = any(for_choosing(arm) for arm in (self.first, self.second))
        if test is None:
            return ("tuning",) if chosen else ("official", "extended")
        look_up({str(name): name for name in PARTS}, test, "test set")
        if chosen and test != "tuning":
            raise ValueError(
                f"{self.first} and {self.second} are compared to choose settings: on the tuning pool only, never on"
                " a test set; leave out --test"
            )
        return [one for one in PARTS if one == test]

    def plans(self) -> list[Plan]:
        """The recorded runs of either arm."""
        records, found = Records(self.folder), []
        for data in self.data or DATA:
            if not offers(self.preset, data):
                continue
            losses = self.losses or (("ce",) if DATA[data].several_classes else LOSSES)
            for split in range(_splits(self.folder / self.preset / data, self.splits)):
                both = [
                    plan_run(self.preset, data, loss, arm, split)
                    for loss in losses
                    for arm in (self.first, self.second)
                ]
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
            f" {question.folder}: `rankreg bench status --records {shlex.quote(str(question.folder))}` shows what"
            " is there and what is left to run"
        )
    by_test = [list(group) for _, group in groupby(shown, lambda sheet: sheet.grid.test)]
    if brief:
        return [replace(_overview(group), numbers=_numbers(group)) for group in by_test]
    pages = []
    for group in by_test:
        pages += [_overview(group)] if len(group) > 1 else []
        pages += [sheet.page() for sheet in group]
    records, arms = Records(question.folder), (question.first, question.second)
    curves = [curves_page(plans, records, data, arms) for data in dict.fromkeys(sheet.data for sheet in sheets)]
    return pages + [page for page in curves if page is not None]


def _overview(sheets: Sequence["Contrast"]) -> Page:
    found = {sheet.data: sheet.main for sheet in sheets}
    return overview_page(found, TEST_TITLES[sheets[0].grid.test], sheets[0].question.preset)


def _numbers(sheets: Sequence["Contrast"]) -> tuple[Number, ...]:
    return tuple(number for sheet in sheets for number in sheet.numbers())


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two arms on one data set and one test set."""

    question: Question
    grid: Grid
    data: str

    @cached_property
    def pairs(self) -> dict[str, Paired]:
        """By loss, where both arms share a split."""
        arms = (self.question.first, self.question.second)
        found = {loss: pair(self.grid, self.data, [loss], *arms) for loss in self.grid.names(1)}
        return {loss: paired for loss, paired in found.items() if paired is not None}

    @cached_property
    def pooled(self) -> Paired | None:
        """All losses, averaged within each split; None where there is but one, or no split that all have."""
        if len(self.pairs) < 2:
            return None
        return pair(self.grid, self.data, list(self.pairs), self.question.first, self.question.second)

    @property
    def main(self) -> Paired:
        """Over all losses where they share splits enough for an interval, or of the loss with the most splits."""
        longest = max(self.pairs.values(), key=lambda paired: len(paired.splits))
        enough = min(2, len(longest.splits))
        return self.pooled if self.pooled is not None and len(self.pooled.splits) >= enough else longest

    def page(self) -> Page:
        """All of it."""
        title = contrast_title(self.question.first, self.question.second)
        blocks = [self.differences(title), *self.by_split()]
        if not DATA[self.data].several_classes:
            blocks.insert(1, self.ensembles())
        preset = self.question.preset
        heading = f"{title}: {title_of(self.data, preset)}, {test_title(self.grid, self.data)}, preset {preset}"
        return Page(heading, tuple(blocks), tuple(self.notes()), tuple(self.numbers()))

    def differences(self, title: str) -> Block:
        """A row for every loss, and one over all."""
        rows = [row for loss, paired in self.pairs.items() for row in difference_rows(paired, [loss], loss.upper())]
        if self.pooled is not None:
            first, second = difference_rows(self.pooled, list(self.pairs), "all losses")
            rows += [Row(first.label, first.entries, rule=True), second]
        head = ("", *map(measure_title, self.grid.measures(self.data)), "splits")
        return Block(f"{title} of single networks (Student's 95 % interval over splits){BELOW}", head, tuple(rows))

    def ensembles(self) -> Block:
        """The same of ensembles of the splits that both arms have, over test samples."""
        rows = []
        for loss, paired in self.pairs.items():
            cells = (self.grid.cells[self.data, loss, arm] for arm in (paired.first, paired.second))
            first, second = (cell.on(paired.splits).mean for cell in cells)
            found = difference_intervals(DATA[self.data], first, second).values()
            entries = [
                Entry(signed(one.estimate), limits(Estimate(one.estimate, one.low, one.high))) for one in found
            ]
            rows.append(Row(loss.upper(), (*entries, Entry(str(len(paired.splits))))))
        head = ("", *map(measure_title, self.grid.measures(self.data)), "splits")
        return Block("Ensembles of these splits (paired 95 % interval over test samples)", head, tuple(rows))

    def by_split(self) -> Iterator[Block]:
        """Every single difference."""
        splits = sorted({split for paired in self.pairs.values() for split in paired.splits})
        shown = {loss.upper(): paired for loss, paired in self.pairs.items()}
        if self.pooled is not None:
            shown["all losses"] = self.pooled
        for measure in self.grid.measures(self.data):
            rows = []
            for label, paired in shown.items():
                values = dict(zip(paired.splits, paired.values[measure], strict=True))
                entries = tuple(Entry(signed(values[s]) if s in values else "–") for s in splits)
                rows.append(Row(label, entries, rule=label == "all losses"))
            head = ("", *(f"split {split}" for split in splits))
            yield Block(f"{measure_title(measure)}, split by split", head, tuple(rows))

    def notes(self) -> Iterator[str]:
        """The answer in words, what could be detected, how many comparisons there are."""
        losses = list(self.main.losses)
        yield sentence(self.main, losses)
        yield power_note(self.main, losses)
        shown = [*self.pairs.values(), *([self.pooled] if self.pooled is not None else [])]
        yield from filter(None, [multiplicity_note(shown)])
        if self.pooled is not None:
            yield "All losses: averaged within each split first, since losses share a split's training data."
        yield CHANCES
        yield preset_note(self.question.preset)

    def numbers(self) -> Iterator[Number]:
        """Difference, what could be detected and p-value, for every loss and over all."""
        for loss, paired in self.pairs.items():
            yield from difference_numbers("compare", self.grid.test, self.data, [loss], paired)
        if self.pooled is not None:
            yield from difference_numbers("compare", self.grid.test, self.data, list(self.pairs), self.pooled)


def _splits(folder: Path, wanted: int | None) -> int:
    """One more than the highest split that a record's name ends with, or fewer if so wanted."""
    numbers = [path.stem.rsplit("-", 2)[-2] for path in folder.glob("*-*-*.json")]
    there = max((int(number) + 1 for number in numbers if number.isdigit()), default=0)
    return there if wanted is None else min(there, wanted)
