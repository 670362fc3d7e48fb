"""The paper's tables from records: ensembles beside the published values, single networks, paired differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rankreg.notation import plain, signed
from rankreg.operating import Interval
from rankreg.operating.comparison import standard_deviation
from rankreg.operating.intervals import mean_of
from rankreg_bench.arms import ARMS
from rankreg_bench.differences import (
    BELOW,
    BETTER,
    CHANCES,
    OTHERS,
    Paired,
    contrasts_of,
    ensemble_gains,
    measure_draws,
    measure_title,
    multiplicity_note,
    pair,
    pooled_name,
    preset_note,
    verdict,
)
from rankreg_bench.estimates import (
    CONFIDENCE,
    RISK,
    higher_is_better,
    measures_of,
    published_gain,
    published_values,
    ranking_arm,
)
from rankreg_bench.grids import DATA, noise_of, title_of
from rankreg_bench.pages import (
    Number,
    Page,
    Row,
    TableBlock,
    TableEntry,
    bracket,
    limits,
    published_text,
    spread,
)
from rankreg_bench.records import Cell, Grid, Key, Selection, check_same_samples

ENSEMBLES = "Ensembles of the splits' networks: ours [95 % interval over test samples]"
SINGLES = "Single networks: mean over splits ± half of Student's 95 % interval (standard deviation)"
DIFFERENCES = "Paired differences of single networks (Student's 95 % interval over splits)"
SHARES = "Share of the gap to the ceiling that the ensemble closes, percent [95 % interval over test samples]"
NOTHING = TableEntry("–")
# The bottom rows of the main tables: the gain of RankReg over the best of these; and the single networks' contrast
GAINS = {"Δ over base/ALM": (OTHERS, BETTER), "Δ over buffer": (("buffer",), "buffer")}
DELTA = (
    "Δ: gain of RankReg (scores), averaged over the base losses. Positive means fewer false alarms or higher"
    " AUC. Base/ALM is the better of the two on the same numbers, so this Δ is slightly too small."
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


def estimated(found: Interval | None, rest: str = "") -> TableEntry:
    """An estimate with its interval, then the rest; without an estimate, a dash."""
    return (
        TableEntry("–", rest)
        if found is None
        else TableEntry(plain(found.estimate), f"{bracket(found)} {rest}".strip())
    )


def count_of(cell: Cell) -> str:
    """How many splits are recorded, of how many if some are missing."""
    have = len(cell.splits)
    return str(have) if have == cell.planned else f"{have}/{cell.planned}"


class Sheet:
    """The results of an experiment on one data set and one test set.

    losses: the groups of rows; measures: the columns; pairs: all contrasts that share a split; gap: how far the
    arms get to the ceiling of the experiment, if it has one; is_main: a main table, with Δ below; ranking: the arm
    that is the paper's method.
    """

    def __init__(self, selection: Selection, grid: Grid, data: str) -> None:
        self.selection, self.grid, self.data, self.experiment = selection, grid, data, selection.experiment
        self.losses, self.measures = grid.names(1), measures_of(DATA[data])
        self.is_main, self.ranking = self.experiment.layout == "main", ranking_arm(self.experiment)
        keys = [key for loss in self.losses for key in grid.cells if key[:2] == (data, loss)]
        self.cells = {key: grid.cells[key] for key in keys}
        wanted = contrasts_of(self.experiment, grid.names(2))
        found = [pair(grid, data, self.losses, first, second) for first, second in wanted]
        self.pairs = [paired for paired in found if paired is not None]
        self.gap = gap_of(selection, grid, data)
        self.head = ("", *map(measure_title, self.measures), "splits")

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
                entry = estimated(cell.ensemble.get(measure), printed)
                best = cell.scores and round(cell.ensemble[measure].estimate, 1) == self._best(key[1], measure)
                entries.append(replace(entry, best=bool(best)))
            rows.append(self._row(key, cell, entries))
        for label, (others, second) in GAINS.items() if self.is_main else ():
            gains, losses, splits = self._gains(others)
            entries = []
            for measure in self.measures:
                paper = self._published_gain(second, losses or self.losses, measure)
                entries.append(estimated(gains.get(measure), published_text(paper, others=True)))
            few = f"{len(losses)}/{len(self.losses)} losses" if len(losses) < len(self.losses) else ""
            count = TableEntry(str(len(splits)), few) if gains else NOTHING
            rows.append(Row(label, (*entries, count), rule=second == BETTER))
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
                found = mean_of(values) if values else None
                entries.append(TableEntry(plain(found.estimate), spread(found) + around) if found else NOTHING)
            rows.append(self._row(key, cell, entries))
        for label, (_, second) in GAINS.items() if self.is_main else ():
            if paired := self._pair(self.ranking, second):
                gains = [paired.gain(measure) for measure in self.measures]
                entries = [TableEntry(plain(gain.estimate), spread(gain)) for gain in gains]
                count = TableEntry(str(len(paired.splits)))
                rows.append(Row(label, (*entries, count), rule=second == BETTER))
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
            yield DELTA
        yield from closing_notes(self.selection, [self.data])
        ceiling = self.experiment.ceiling
        if ceiling and not self.gap:
            yield from replace(self.selection, name=ceiling, only=()).missing()

    def numbers(self) -> Iterator[Number]:
        """The rows of the CSV file."""
        name, test = self.selection.name, self.grid.test
        for key, cell in self.cells.items():
            yield from self._cell_numbers(key, cell)
        for paired in self.pairs:
            yield from paired.numbers(name, test, self.data)
        if self.gap:
            yield from self.gap.numbers(Number(name, self.data, test, self.losses[0], ""))
        for others, second in GAINS.values() if self.is_main else ():
            over = self._pair(self.ranking, second)
            if over is None:
                continue
            gains, losses, splits = self._gains(others)
            for measure, gain in gains.items():
                arm, loss = f"{self.ranking} over {second}", pooled_name(losses, len(self.losses))
                published = self._published_gain(second, losses, measure)
                place = (name, self.data, test, loss, arm, measure)
                number = Number(*place, splits=len(splits), published=published)
                yield number.with_bounds("ensemble gain", gain)
                yield number.with_bounds("single gain", over.gain(measure))

    def _cell_numbers(self, key: Key, cell: Cell) -> Iterator[Number]:
        """The ensemble, the mean of the splits and their standard deviation; nothing without a record."""
        for measure in self.measures if cell.scores else ():
            data, loss, arm = key
            published = published_values(self.experiment, *key).get(measure)
            place = (self.selection.name, data, self.grid.test, loss, arm, measure)
            number = Number(*place, splits=len(cell.splits), published=published)
            yield number.with_bounds("ensemble", cell.ensemble[measure])
            values = [single[measure] for single in cell.singles.values()]
            yield number.with_bounds("single", mean_of(values))
            if (deviation := standard_deviation(values)) is not None:
                yield replace(number, kind="deviation", value=deviation, published=None)

    def _row(self, key: Key, cell: Cell, entries: Sequence[TableEntry]) -> Row:
        _, loss, arm = key
        label = loss.upper() if self.is_main and arm == "base" else ARMS[arm].title
        if self.is_main and "base" not in self.grid.names(2):
            label = f"{loss.upper()} {label}"
        starts_group = loss != self.losses[0] and arm == self.grid.names(2)[0]
        part = self.is_main and arm != "base"
        return Row(label, (*entries, TableEntry(count_of(cell))), rule=starts_group, part=part)

    def _best(self, loss: str, measure: str) -> float | None:
        """The best ensemble as printed; None if fewer than two, or with different splits, are there."""
        cells = [cell for key, cell in self.cells.items() if key[1] == loss and cell.scores]
        if len(cells) < 2 or len({cell.splits for cell in cells}) > 1:
            return None
        return (max if higher_is_better(measure) else min)(round(c.ensemble[measure].estimate, 1) for c in cells)

    def _pair(self, first: str, second: str) -> Paired | None:
        return next((p for p in self.pairs if (p.first, p.second) == (first, second)), None)

    def _gains(self, others: Sequence[str]) -> tuple[dict[str, Interval], tuple[str, ...], tuple[int, ...]]:
        """The gains of the ensembles by measure, and the losses and splits that they rest on."""
        arms, where = (self.ranking, *others), (self.grid, self.data, self.losses)
        return ensemble_gains(*where, self.ranking, others), *self.grid.shared(self.data, self.losses, arms)

    def _published_gain(self, second: str, losses: Sequence[str], measure: str) -> float | None:
        """The paper's, over the same losses as ours."""
        return published_gain(self.experiment, self.data, losses, measure) if second == BETTER else None


def closing_notes(selection: Selection, data: Sequence[str]) -> Iterator[str]:
    """What holds for the whole page: chances, preset, the experiment's notes, divergence, missing runs."""
    yield from (CHANCES, preset_note(selection.preset), *selection.experiment.notes)
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
            f" networks: {signed(growth.estimate)} {limits(growth)}: {verdict(growth)}."
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
        blocks.append(TableBlock(title, ("", *map(measure_title, measures), "splits"), tuple(rows)))
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


@dataclass(frozen=True, eq=False)
class Gap:
    """The arms of one data set between the base loss and a ceiling: the same network with more positives."""

    arms: Mapping[str, Cell]
    ceiling: Cell
    preset: str

    @cached_property
    def shares(self) -> dict[str, dict[str, Interval | None]]:
        """By arm and measure; arms that lack a split of the base loss are left out."""
        base = self.arms["base"]
        return {
            arm: {measure: self._share(cell, measure) for measure in base.ensemble}
            for arm, cell in self.arms.items()
            if arm != "base" and cell.splits == base.splits
        }

    def _share(self, cell: Cell, measure: str) -> Interval | None:
        """None where the gap itself may be nothing.

        100 · (base − arm) / (base − ceiling), all three on the same resampled test sets
        """
        base, arm, far = (measure_draws(one)[measure] for one in (self.arms["base"], cell, self.ceiling))
        if np.prod(np.quantile(base - far, [RISK, 1 - RISK])) <= 0:
            return None
        low, high = np.quantile(100 * (base - arm) / (base - far), [RISK, 1 - RISK])
        start, here, end = (one.ensemble[measure].estimate for one in (self.arms["base"], cell, self.ceiling))
        return Interval(100 * (start - here) / (start - end), float(low), float(high), CONFIDENCE)

    def block(self) -> TableBlock:
        known = self.ceiling.ensemble
        entries = [estimated(one) for one in known.values()]
        rows = [Row("ceiling", (*entries, TableEntry(count_of(self.ceiling))))]
        for arm, cell in self.arms.items():
            if arm != "base":
                shares = self.shares.get(arm)
                found = [shares[measure] for measure in known] if shares else []
                entries = [TableEntry("no gap") if one is None else estimated(one) for one in found]
                entries = entries or [NOTHING] * len(known)
                rows.append(Row(ARMS[arm].title, (*entries, TableEntry(count_of(cell)))))
        title = f"{SHARES}; first the ceiling's own numbers: {title_of(self.ceiling.data, self.preset)}"
        return TableBlock(title, ("", *map(measure_title, known), "splits"), tuple(rows))

    def numbers(self, place: Number) -> Iterator[Number]:
        """For the CSV file; place: a number of the same experiment, data set, test set and loss."""
        for measure, found in self.ceiling.ensemble.items():
            here = replace(place, measure=measure, arm="ceiling", splits=len(self.ceiling.splits))
            yield here.with_bounds("ensemble", found)
            for arm, shares in self.shares.items():
                if share := shares[measure]:
                    here = replace(here, arm=arm, splits=len(self.arms[arm].splits))
                    yield here.with_bounds("share of the gap", share)


def gap_of(selection: Selection, grid: Grid, data: str) -> Gap | None:
    """The gap of an experiment that names a ceiling, on the splits that base loss and ceiling share."""
    named = selection.experiment.ceiling
    if named is None:
        return None
    loss = grid.names(1)[0]
    arms = {arm: cell for (one, of, arm), cell in grid.cells.items() if (one, of) == (data, loss)}
    other = replace(selection, name=named, only=()).grids(grid.test)[0]
    far = next((cell for cell in other.cells.values() if cell.scores), None)
    splits = sorted(set(arms["base"].splits) & set(far.splits)) if far and "base" in arms else []
    if far is None or not splits:
        return None
    check_same_samples(arms["base"].mean, far.mean, named, data)
    whole = {arm: cell.on(splits) if set(splits) <= set(cell.splits) else cell for arm, cell in arms.items()}
    return Gap(whole, far.on(splits), selection.preset)
