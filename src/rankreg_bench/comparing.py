"""Two arms on many data sets at a glance: one row for each, before the pages that go into detail.

Two arms epoch by epoch: what the choice of the epoch hides, read off the validation AUC that records keep.

Two arms on the same splits: what one adds to the other, for every base loss and over all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankreg.extension import look_up
from rankreg.operating import Estimate
from rankreg_bench.arms import ARMS, PRESETS
from rankreg_bench.contrasts import (
    BELOW,
    CHANCES,
    TEST_TITLES,
    Paired,
    arm_title,
    contrast_title,
    difference_rows,
    limits,
    measure_title,
    multiplicity_note,
    pair,
    plain,
    power_note,
    preset_note,
    scope,
    sentence,
    signed,
    test_title,
    verdict,
)
from rankreg_bench.estimates import difference_intervals
from rankreg_bench.grids import DATA, LOSSES, Plan, TestSet, for_choosing, offers, plan_run, title_of
from rankreg_bench.pages import Block, Entry, Number, Page, Row
from rankreg_bench.records import PARTS, Grid, Records, grid_of, read_runs
from rankreg_bench.sheets import difference_numbers

SHARED = (
    "Rows share images: ratios and label noise of one data set are drawn from the same ones and are no repeats."
)


def overview_page(found: Mapping[str, Paired], test: str, preset: str) -> Page:
    """By data set the difference over all its losses; several classes are measured otherwise and stand apart."""
    kinds = [{d: found[d] for d in found if DATA[d].several_classes == several} for several in (False, True)]
    shown = [_comparable(kind) for kind in kinds if kind]
    blocks = tuple(_block(kind, preset) for kind in shown)
    many = multiplicity_note([paired for kind in shown for paired in kind.values()])
    names = f"{len(found)} data sets" if len(found) > 1 else title_of(next(iter(found)), preset)
    notes = (many, SHARED if len(found) > 1 else None, CHANCES, preset_note(preset))
    return Page(f"{_title(found)}: {names}, {test}, preset {preset}", blocks, tuple(filter(None, notes)))


def _comparable(found: Mapping[str, Paired]) -> dict[str, Paired]:
    """The same with the measures that all of them have."""
    every = [paired.values for paired in found.values()]
    common = [measure for measure in every[0] if all(measure in values for values in every)]
    return {d: replace(paired, values={m: paired.values[m] for m in common}) for d, paired in found.items()}


def _block(found: Mapping[str, Paired], preset: str) -> Block:
    rows: list[Row] = []
    for data, paired in found.items():
        first, second = difference_rows(paired, paired.losses, title_of(data, preset))
        used = f"{len(paired.losses)} losses" if len(paired.losses) > 1 else paired.losses[0].upper()
        rows += [
            replace(first, entries=(*first.entries, Entry(used))),
            replace(second, entries=(*second.entries, Entry(""))),
        ]
    measures = next(iter(found.values())).values
    head = ("", *map(measure_title, measures), "splits", "base loss")
    title = f"{_title(found)} of single networks (Student's 95 % interval over splits){BELOW}"
    return Block(title, head, tuple(rows))


def _title(found: Mapping[str, Paired]) -> str:
    first = next(iter(found.values()))
    return contrast_title(first.first, first.second)


Curve = NDArray[np.float64]
KEPT = "epoch kept"
WHICH = (
    "Of each network the epoch with the {} is kept: the other pages are about that one. Without a validation part"
    " to choose by, the last epoch is what one has."
)
HIGHEST, LOWEST = "highest validation AUC", "lowest validation error of the other classes"
FLATTERS = (
    "Validation samples choose the epoch, so the row of the one kept flatters both arms; all splits share them."
)
UNSEEN = (
    "Of each network the last epoch is kept, whatever its validation results: the other pages are about that one."
)


def curves_page(plans: Sequence[Plan], records: Records, data: str, arms: tuple[str, str]) -> Page | None:
    """Validation AUC of both arms after every epoch, and its paired difference; None without runs as long."""
    first, second = (_curves(plans, records, data, arm) for arm in arms)
    both = [key for key in first if key in second and len(first[key]) == len(second[key])]
    losses = tuple(dict.fromkeys(loss for loss, _ in both))
    shared = set.intersection(*({split for of, split in both if of == loss} for loss in losses)) if both else set()
    if not shared or len({len(first[key]) for key in both}) > 1:
        return None
    splits = tuple(sorted(shared))
    means = [
        np.array([np.mean([curves[loss, split] for loss in losses], axis=0) for split in splits])
        for curves in (first, second)
    ]
    paired = Paired(*arms, losses, splits, _by_epoch(np.round(means[0] - means[1], 6)))  # equal ones stay equal
    levels = [_by_epoch(mean) for mean in means]
    rows = []
    for name in paired.values:
        found = paired.estimate(name)
        before = [Entry(plain(float(np.mean(level[name])))) for level in levels]
        entries = (*before, Entry(signed(found.mean), limits(found)), Entry(verdict(found)))
        rows.append(Row(name, entries, rule=name == KEPT))
    title, many = contrast_title(*arms), multiplicity_note([paired])
    head = ("", *map(arm_title, arms), title, "")
    return Page(
        f"{title}: {title_of(data, plans[0].preset)}, validation AUC epoch by epoch, {scope(paired, losses)}",
        (Block(f"{title} (Student's 95 % interval over splits)", head, tuple(rows)),),
        (*_how_kept(data, arms), *filter(None, [many])),
        tuple(difference_numbers("compare", "validation", data, losses, paired)),
    )


def _how_kept(data: str, arms: tuple[str, str]) -> tuple[str, ...]:
    if all(ARMS[arm].config.get("selection") == "last" for arm in arms):
        return (UNSEEN,)
    return (WHICH.format(LOWEST if DATA[data].several_classes else HIGHEST), FLATTERS)


def _curves(plans: Sequence[Plan], records: Records, data: str, arm: str) -> dict[tuple[str, int], Curve]:
    """By loss and split, in percent: every epoch's, then that of the epoch that was kept."""
    found = {}
    for plan in plans:
        record = records.read(plan) if (plan.data, plan.arm) == (data, arm) else {}
        if values := record.get("validation_auc"):
            found[plan.loss, plan.split] = 100 * np.array([*values, values[record["best_epoch"]]])
    return found


def _by_epoch(values: Curve) -> Mapping[str, tuple[float, ...]]:
    """One value per split for every epoch and the one kept, from (splits, epochs + 1)."""
    names = [*(f"epoch {epoch + 1}" for epoch in range(values.shape[1] - 1)), KEPT]
    return {name: tuple(map(float, column)) for name, column in zip(names, values.T, strict=True)}


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
            f" {question.folder}: `rankreg bench status` shows what is there, `rankreg bench run` trains it"
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
