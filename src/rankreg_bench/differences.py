"""Differences between arms, paired over the splits that both have: in tables, and two arms compared everywhere.

All splits share the test set, and the losses of a split share its training data: losses are averaged within a split
first, and only splits count as repeats.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankreg.names import look_up
from rankreg.notation import plain, signed
from rankreg.operating import Interval
from rankreg.operating.comparison import detectable, p_value, still_significant
from rankreg.operating.intervals import mean_of
from rankreg_bench.arms import ARMS, PRESETS, TUNED
from rankreg_bench.estimates import difference_intervals, higher_is_better
from rankreg_bench.grids import (
    DATA,
    LOSSES,
    Experiment,
    RunPlan,
    TestSet,
    for_choosing,
    offers,
    plan_run,
    title_of,
)
from rankreg_bench.pages import (
    Number,
    Page,
    Row,
    TableBlock,
    TableEntry,
    difference_entry,
    head_of,
    judged,
    measure_title,
    short,
    verdict,
)
from rankreg_bench.records import TEST_TITLES, Grid, RecordFolder, grids_of, test_sets

BETTER = "better of base and ALM"
OTHERS = ("base", "alm")
ROUNDING = 0.0021  # measures have three decimals: equal differences may seem to be so much apart
BELOW = "; below: verdict; smallest detectable difference"
CHANCES = (
    "Intervals over test samples ignore the randomness of training. Intervals over splits ignore the randomness of"
    " the test samples, which all splits share."
)
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
class Paired:
    """One arm less another on the same splits, averaged over losses: by measure one difference per split.

    losses: those that have a split in both arms; asked: how many losses there are.
    """

    first: str
    second: str
    losses: tuple[str, ...]
    asked: int
    splits: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]

    @property
    def title(self) -> str:
        return f"{arm_title(self.first)} − {arm_title(self.second)}"

    def estimate(self, measure: str) -> Interval:
        """The mean difference and Student's interval."""
        return mean_of(self.values[measure])

    def detectable(self, measure: str) -> float | None:
        """The smallest true difference that would be found in four of five such experiments."""
        return detectable(self.values[measure])

    def p_value(self, measure: str) -> float | None:
        """Student's, two-sided; None if all splits have the same difference, and it is not 0."""
        values = self.values[measure]
        return None if np.ptp(values) == 0 and values[0] != 0 else p_value(values)

    def gain(self, measure: str) -> Interval:
        """The difference as a gain: positive means better."""
        found = self.estimate(measure)
        return found if higher_is_better(measure) else found.scaled(-1)

    @property
    def scope(self) -> str:
        """How many splits and losses a difference rests on."""
        splits, kept = f"{len(self.splits)} split" + "s" * (len(self.splits) != 1), len(self.losses)
        if self.asked == 1:
            return splits
        return f"{splits}, {kept} losses" if kept == self.asked else f"{splits}, {kept} of {self.asked} losses"

    def rows(self, label: str = "", *, rule: bool = False, last: Sequence[str] = ()) -> list[Row]:
        """The differences; below, verdict and smallest detectable difference. last: cells of further columns."""
        values, verdicts = [], []
        for measure in self.values:
            found, smallest = self.estimate(measure), self.detectable(measure)
            values.append(difference_entry(found))
            detected = "" if smallest is None else f"; {short(smallest, smallest)}"
            verdicts.append(TableEntry(verdict(found) + detected))
        kept = f"{len(self.losses)} of {self.asked} losses" if len(self.losses) < self.asked else ""
        values += map(TableEntry, (str(len(self.splits)), *last))
        verdicts += map(TableEntry, (kept, *[""] * len(last)))
        return [Row(label or self.title, tuple(values), rule=rule), Row("", tuple(verdicts), part=True)]

    def power_note(self) -> str:
        """Which difference could have been detected."""
        if len(self.splits) < 2:
            return f"{self.title}: one split gives no interval; more splits are needed."
        found = {measure: self.detectable(measure) for measure in self.values}
        parts = [f"{plain(value)} in {measure_title(m)}" for m, value in found.items() if value is not None]
        if not parts:
            return f"{self.title}: the differences do not vary over splits, so detectable differences are unknown."
        return (
            f"Detectable with 80 % power at the 5 % level, from {self.scope}: a true {self.title} of"
            f" {', '.join(parts)} points. Smaller differences would mostly be missed."
        )

    def numbers(self, experiment: str, test: str, data: str) -> Iterator[Number]:
        """For the CSV file: mean difference, what could have been detected, p-value."""
        arm, loss = f"{self.first} minus {self.second}", pooled_name(self.losses, self.asked)
        for measure in self.values:
            number = Number(experiment, data, test, loss, arm, measure, splits=len(self.splits))
            yield number.with_bounds("difference", self.estimate(measure))
            for kind, value in (("detectable", self.detectable(measure)), ("p-value", self.p_value(measure))):
                if value is not None:
                    yield replace(number, kind=kind, value=value)


def pooled_name(used: Sequence[str], asked: int) -> str:
    """The losses that a number is the mean of: "all" of several, or their names."""
    return "all" if len(used) == asked > 1 else " ".join(used)


def pair(grid: Grid, data: str, losses: Sequence[str], first: str, second: str) -> Paired | None:
    """The first arm less the second, an arm or `BETTER`, on the splits that every loss has in both.

    Losses without any such split are left out. The better of base and ALM is chosen for each loss and measure, by
    its mean over the same splits.
    """
    arms = (first, *(OTHERS if second == BETTER else (second,)))
    used, splits = grid.shared(data, losses, arms)
    if not splits:
        return None
    values = {}
    for measure in DATA[data].measures:
        best = max if higher_is_better(measure) else min
        rows = []
        for loss in used:
            cells = [grid.cells[data, loss, arm] for arm in arms]
            ours, *others = ([cell.singles[split][measure] for split in splits] for cell in cells)
            rows.append(np.subtract(ours, best(others, key=np.mean)))
        found = np.mean(rows, axis=0)
        if np.ptp(found) <= ROUNDING:
            found[:] = found[0]
        values[measure] = tuple(float(value) for value in found)
    return Paired(first, second, used, len(losses), splits, values)


def contrasts_of(experiment: Experiment, arms: Sequence[str]) -> list[tuple[str, str]]:
    """Which arm is compared with which, as far as these arms are there.

    Main tables: ranking term against buffer, base loss and the better of base and ALM; buffer against base loss.
    Elsewhere: another budget against the method's own; every arm against the base loss; every ranking arm also
    against its control. Without base loss and buffer: against the published choice.
    """
    if experiment.layout in ("main", "noise"):
        ours = experiment.ranking_arm
        wanted = [(ours, "buffer"), (ours, BETTER), (ours, "base"), ("buffer", "base")]
        wanted = [both for both in wanted if experiment.layout == "main" or BETTER not in both]
        return [(a, b) for a, b in wanted if {a, *(OTHERS if b == BETTER else (b,))} <= set(arms)]
    found: list[tuple[str, str]] = []
    published = "rankreg" if "rankreg" in arms else arms[0]
    base = "base-last" if "base-last" in arms else "base"
    for arm in arms:
        own = [other for other in arms if arm in TUNED and arm.startswith(f"{other}-")]
        control = [_control_of(arm, arms)] if ARMS[arm].ranks else []
        against = own[:1] or ([*control, base] if {base, "buffer"} & set(arms) else [published])
        found += [(arm, other) for other in against if other in arms and other != arm]
    return found


def _control_of(arm: str, arms: Sequence[str]) -> str:
    """The same arm without the ranking term: the one it names, or the one with its buffer, or the usual buffer."""
    ours = ARMS[arm]
    if ours.control is not None:
        return ours.control
    wanted = {**ours.config, "method": {"name": "buffer", "buffer": ours.config["method"]["buffer"]}}
    return next((other for other in arms if ARMS[other].config == wanted), "buffer")


def arm_title(arm: str) -> str:
    return {"base": "base", BETTER: "base/ALM"}.get(arm) or ARMS[arm].title.removeprefix("+ ")


def multiplicity_note(pairs: Sequence[Paired]) -> list[str]:
    """How many differences are shown, and how many would stand out by chance; none for a single difference."""
    values = [p for one in pairs for m in one.values if (p := one.p_value(m)) is not None]
    if len(values) < 2:
        return []
    return [
        f"{len(values)} differences are shown. If none were real, about {0.05 * len(values):.1f} would be told"
        f" apart by chance. Told apart: {sum(value < 0.05 for value in values)}; after Holm's correction:"
        f" {still_significant(values)}."
    ]


def caveats(preset: str) -> tuple[str, str]:
    """What intervals ignore, and how large the networks were, since the paper's were larger."""
    size = PRESETS[preset].title
    return CHANCES, f"Preset {preset}: {size}. Published: full width, 100 epochs, ensembles of 10 splits."


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
        judged_on: Sequence[TestSet] = ("tuning",) if chosen else ("official", "extended")
        return test_sets(test, judged_on, f"the comparison of {self.first} and {self.second}")

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
    grids = grids_of(plans, question.folder, question.tests(test)) if plans else []
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
        self.head = head_of(DATA[data].measures)

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
        shown = self.shown.items()
        rows = [row for label, paired in shown for row in paired.rows(label, rule=paired is self.pooled)]
        title = f"{self.main.title} of single networks (Student's 95 % interval over splits){BELOW}"
        return TableBlock(title, self.head, tuple(rows))

    def ensembles(self) -> TableBlock:
        """The same of ensembles of the splits that both arms have, over test samples."""
        rows = []
        for loss, paired in self.pairs.items():
            cells = (self.grid.cells[self.data, loss, arm] for arm in (paired.first, paired.second))
            first, second = (cell.on(paired.splits).mean for cell in cells)
            entries = map(difference_entry, difference_intervals(DATA[self.data], first, second).values())
            rows.append(Row(loss.upper(), (*entries, TableEntry(str(len(paired.splits))))))
        title = "Ensembles of these splits (paired 95 % interval over test samples)"
        return TableBlock(title, self.head, tuple(rows))

    def by_split(self) -> Iterator[TableBlock]:
        splits = sorted({split for paired in self.pairs.values() for split in paired.splits})
        for measure in DATA[self.data].measures:
            rows = []
            for label, paired in self.shown.items():
                values = dict(zip(paired.splits, paired.values[measure], strict=True))
                entries = tuple(TableEntry(signed(values[s]) if s in values else "–") for s in splits)
                rows.append(Row(label, entries, rule=paired is self.pooled))
            head = ("", *(f"split {split}" for split in splits))
            yield TableBlock(f"{measure_title(measure)}, split by split", head, tuple(rows))

    def notes(self) -> Iterator[str]:
        """The answer in words, what could be detected, how many comparisons there are."""
        main = self.main
        parts = [f"{measure_title(measure)} {judged(main.estimate(measure))}" for measure in main.values]
        yield f"{main.title}, {main.scope}: {'; '.join(parts)}."
        yield main.power_note()
        yield from multiplicity_note(list(self.shown.values()))
        if self.pooled is not None:
            yield "All losses: averaged within each split first, since losses share a split's training data."
        yield from caveats(self.question.preset)

    def numbers(self) -> Iterator[Number]:
        """For the CSV file: every loss and all of them together."""
        for paired in self.shown.values():
            yield from paired.numbers("compare", self.grid.test, self.data)


def _overview(sheets: Sequence[Contrast], numbers: Sequence[Number] = ()) -> Page:
    """One row for each data set; several classes are measured otherwise and have a table of their own."""
    preset, title = sheets[0].question.preset, sheets[0].main.title
    blocks, shown = [], []
    for several in sorted({DATA[sheet.data].several_classes for sheet in sheets}):
        kind = {sheet.data: sheet.main for sheet in sheets if DATA[sheet.data].several_classes == several}
        common = [m for m in DATA[next(iter(kind))].measures if all(m in one.values for one in kind.values())]
        rows = []
        for data, whole in kind.items():
            paired = replace(whole, values={measure: whole.values[measure] for measure in common})
            used = f"{len(paired.losses)} losses" if len(paired.losses) > 1 else paired.losses[0].upper()
            rows += paired.rows(title_of(data, preset), last=[used])
            shown.append(paired)
        heading = f"{title} of single networks (Student's 95 % interval over splits){BELOW}"
        blocks.append(TableBlock(heading, (*head_of(common), "base loss"), tuple(rows)))
    several_sets = len(sheets) > 1
    names = f"{len(sheets)} data sets" if several_sets else title_of(sheets[0].data, preset)
    notes = [*multiplicity_note(shown), *[SHARED] * several_sets, *caveats(preset)]
    heading = f"{title}: {names}, {TEST_TITLES[sheets[0].grid.test]}, preset {preset}"
    return Page(heading, tuple(blocks), tuple(notes), tuple(numbers))


def curves_page(plans: Sequence[RunPlan], records: RecordFolder, data: str, arms: tuple[str, str]) -> list[Page]:
    """A page: validation AUC of both arms after every epoch, and the difference; none for unequal lengths."""
    first, second = (_curves(plans, records, data, arm) for arm in arms)
    both = {k: (first[k], second[k]) for k in first if k in second and len(first[k]) == len(second[k])}
    losses = tuple(dict.fromkeys(loss for loss, _ in both))
    shared = set.intersection(*({split for of, split in both if of == loss} for loss in losses)) if both else set()
    if not shared or len({len(one) for one, _ in both.values()}) > 1:
        return []
    splits = tuple(sorted(shared))
    means = np.array([np.mean([both[loss, split] for loss in losses], axis=0) for split in splits])
    gaps = np.round(means[:, 0] - means[:, 1], 6)  # equal ones stay equal
    names = [*(f"epoch {epoch + 1}" for epoch in range(gaps.shape[1] - 1)), KEPT]
    values = {name: tuple(column) for name, column in zip(names, gaps.T.tolist(), strict=True)}
    paired, rows = Paired(*arms, losses, len(losses), splits, values), []
    for name, levels in zip(names, means.mean(axis=0).T, strict=True):
        found, before = paired.estimate(name), [TableEntry(plain(float(level))) for level in levels]
        entries = (*before, difference_entry(found), TableEntry(verdict(found)))
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
