"""Every number of a table by itself, for the CSV format.

How much of the way from the base loss to a ceiling, the same network with far more positives, each arm goes.

The label-noise table: arms by the share of flipped labels, one table per measure.

The paper's tables from records: ensembles beside the published values, single networks, paired differences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rankreg.operating import Estimate, Interval, mean_of, standard_deviation
from rankreg_bench.arms import ARMS
from rankreg_bench.contrasts import (
    AVERAGED,
    BELOW,
    BETTER,
    CHANCES,
    DIFFERENCES,
    ENSEMBLES,
    NOTHING,
    OTHERS,
    SINGLES,
    Gain,
    Paired,
    bracket,
    contrast_title,
    contrasts_of,
    count_of,
    difference_rows,
    ensemble_gains,
    gain_limits,
    growth_note,
    measure_draws,
    measure_title,
    multiplicity_note,
    pair,
    plain,
    power_note,
    preset_note,
    published_words,
    signed,
    single_entry,
    spread,
    test_title,
    verdict,
)
from rankreg_bench.estimates import (
    CONFIDENCE,
    RISK,
    higher_is_better,
    noise_of,
    published_gain,
    published_values,
    ranking_arm,
)
from rankreg_bench.grids import title_of
from rankreg_bench.pages import Block, Entry, Number, Page, Row
from rankreg_bench.records import Cell, Grid, Key, Selection, check_same_samples


def cell_numbers(
    experiment: str, grid: Grid, key: Key, cell: Cell, published: Mapping[str, float]
) -> Iterator[Number]:
    """A cell's ensemble, the mean of its splits and their standard deviation; what is missing has no row."""
    for measure in grid.measures(key[0]) if cell.scores else ():
        number = Number(experiment, key[0], grid.test, key[1], key[2], measure, "ensemble", 0.0)
        number = replace(number, splits=len(cell.splits), published=published.get(measure))
        found = cell.ensemble[measure]
        yield replace(number, value=found.estimate, low=found.low, high=found.high)
        values = [single[measure] for single in cell.singles.values()]
        mean, deviation = mean_of(values), standard_deviation(values)
        yield replace(number, kind="single", value=mean.mean, low=mean.low, high=mean.high)
        if deviation is not None:
            yield replace(number, kind="deviation", value=deviation, published=None)


def pooled_name(used: Sequence[str], losses: Sequence[str]) -> str:
    """Of which losses a number is the mean: "all" of several, or their names."""
    return "all" if len(used) == len(losses) > 1 else " ".join(used)


def difference_numbers(
    experiment: str, test: str, data: str, losses: Sequence[str], paired: Paired
) -> Iterator[Number]:
    """A contrast's mean difference, what it could have detected, and its p-value."""
    arm, loss = f"{paired.first} minus {paired.second}", pooled_name(paired.losses, losses)
    for measure in paired.values:
        found, count = paired.estimate(measure), len(paired.splits)
        number = Number(experiment, data, test, loss, arm, measure, "difference", found.mean, splits=count)
        yield replace(number, low=found.low, high=found.high)
        for kind, value in (("detectable", paired.detectable(measure)), ("p-value", paired.p_value(measure))):
            if value is not None:
                yield replace(number, kind=kind, value=value)


TITLE = (
    "Share of the gap to the ceiling that the ensemble closes, percent [95 % interval over test samples]; first the"
    " ceiling's own numbers: "
)


@dataclass(frozen=True, eq=False)
class Gap:
    """The arms of one data set and loss between the base loss and the ceiling, on one test set of two classes."""

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

    def block(self) -> Block:
        """A line for the ceiling and one for each arm."""
        known = self.ceiling.ensemble
        entries = [Entry(plain(one.estimate), bracket(one)) for one in known.values()]
        rows = [Row("ceiling", (*entries, Entry(count_of(self.ceiling))))]
        for arm, cell in self.arms.items():
            if arm != "base":
                shares = self.shares.get(arm, {})
                words = [_entry(shares[measure]) if shares else NOTHING for measure in known]
                rows.append(Row(ARMS[arm].title, (*words, Entry(count_of(cell)))))
        return Block(
            TITLE + title_of(self.ceiling.data, self.preset),
            ("", *map(measure_title, known), "splits"),
            tuple(rows),
        )

    def numbers(self, place: Number) -> Iterator[Number]:
        """The same, one by one; place: a number of the same experiment, data set, test set and loss."""
        for measure, found in self.ceiling.ensemble.items():
            here = replace(place, measure=measure, arm="ceiling", kind="ensemble", splits=len(self.ceiling.splits))
            yield replace(here, value=found.estimate, low=found.low, high=found.high)
            for arm, shares in self.shares.items():
                if share := shares[measure]:
                    row = replace(here, arm=arm, kind="share of the gap", splits=len(self.arms[arm].splits))
                    yield replace(row, value=share.estimate, low=share.low, high=share.high)


def gap_of(selection: Selection, grid: Grid, data: str) -> Gap | None:
    """The gap of an experiment that names a ceiling, on the splits that both its ends have for this test set."""
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


def _entry(share: Interval | None) -> Entry:
    return Entry("no gap") if share is None else Entry(plain(share.estimate), gain_limits(share))


MEAN = "cifar10-100-noise"  # in files of numbers, what is averaged over shares
SHORT = {"not told apart": "undecided"}  # seven columns leave little room


def noise_page(selection: Selection, grid: Grid) -> Page:
    """Ensembles, single networks and paired differences, measure by measure."""
    data, loss = grid.names(0), grid.names(1)[0]
    pairs = {one: _pairs(selection, grid, one, loss) for one in data}
    blocks = []
    for measure in grid.measures(data[0]):
        blocks += [_ensembles(selection, grid, loss, measure), _singles(grid, loss, measure)]
        blocks += [_differences(grid, pairs, measure)] * any(pairs.values())
    means = _means(pairs)
    blocks += [_mean_block(grid, means, loss)] if means else []
    flat = [paired for each in pairs.values() for paired in each]
    notes: list[str | None] = []
    if flat:
        first = next(one for one, each in pairs.items() if each)
        notes += [f"At {_share(first)} flipped labels: {power_note(pairs[first][0], [loss])}"]
        notes += [f"Averaged over shares: {power_note(means[0], [loss])}"] if means else []
        notes += [multiplicity_note([*flat, *means])]
    notes += [
        CHANCES,
        preset_note(selection.preset),
        *selection.experiment.notes,
        selection.diverged(data),
        selection.missing(),
    ]
    title = f"{selection.experiment.title}: {test_title(grid, data[0])}, preset {selection.preset}"
    return Page(
        title, tuple(blocks), tuple(filter(None, notes)), tuple(_numbers(selection, grid, loss, pairs, means))
    )


def _pairs(selection: Selection, grid: Grid, data: str, loss: str) -> list[Paired]:
    wanted = [(a, b) for a, b in contrasts_of(selection.experiment, grid.names(2)) if b != BETTER]
    return [found for a, b in wanted if (found := pair(grid, data, [loss], a, b)) is not None]


def _ensembles(selection: Selection, grid: Grid, loss: str, measure: str) -> Block:
    rows = []
    for arm in grid.names(2):
        values, intervals = [], []
        for data in grid.names(0):
            cell = grid.cells[data, loss, arm]
            printed = published_values(selection.experiment, data, loss, arm).get(measure)
            words = published_words(printed, others=True)
            found = cell.ensemble.get(measure)
            values.append(Entry(plain(found.estimate), words) if found else Entry(NOTHING.value, words))
            intervals.append(Entry(bracket(found)) if found else Entry(""))
        rows += [Row(ARMS[arm].title, tuple(values)), Row("", tuple(intervals), part=True)]
    title = f"{measure_title(measure)} of ensembles (published), below the 95 % interval over test samples"
    return Block(title, _head(grid), tuple(rows))


def _singles(grid: Grid, loss: str, measure: str) -> Block:
    def entry(cell: Cell) -> Entry:
        found = single_entry(cell, measure, deviation=False)
        short = f"n = {len(cell.splits)}" if 0 < len(cell.splits) < cell.planned else ""
        return Entry(found.value, f"{found.rest} {short}".strip())

    rows = [
        Row(ARMS[arm].title, tuple(entry(grid.cells[data, loss, arm]) for data in grid.names(0)))
        for arm in grid.names(2)
    ]
    title = f"{measure_title(measure)} of single networks: mean over splits ± half of Student's 95 % interval"
    return Block(title, _head(grid), tuple(rows))


def _differences(grid: Grid, pairs: dict[str, list[Paired]], measure: str) -> Block:
    rows = []
    for contrast, known in _by_contrast(pairs).items():
        found = [known[data].estimate(measure) if data in known else None for data in grid.names(0)]
        values = [Entry(signed(one.mean), spread(one)) if one else NOTHING for one in found]
        words = [Entry(SHORT.get(verdict(one), verdict(one))) if one else Entry("") for one in found]
        rows += [Row(contrast_title(*contrast), tuple(values)), Row("", tuple(words), part=True)]
    return Block(
        f"{measure_title(measure)}: paired differences over the same splits (undecided: not told apart)",
        _head(grid),
        tuple(rows),
    )


def _by_contrast(pairs: Mapping[str, Sequence[Paired]]) -> dict[tuple[str, str], dict[str, Paired]]:
    found: dict[tuple[str, str], dict[str, Paired]] = {}
    for data, each in pairs.items():
        for paired in each:
            found.setdefault((paired.first, paired.second), {})[data] = paired
    return found


def _means(pairs: Mapping[str, Sequence[Paired]]) -> list[Paired]:
    """Every contrast averaged over the shares of flipped labels, within each split that all of several shares have.

    Shares of a split start from the same images: as fresh draws they would make the interval too small.
    """
    noisy, found = [data for data in pairs if noise_of(data)], []
    for (first, second), known in _by_contrast(pairs).items():
        each = [known[data] for data in noisy if data in known]
        splits = sorted(set.intersection(*(set(one.splits) for one in each))) if len(each) == len(noisy) > 1 else []
        if splits:
            values = {
                measure: tuple(
                    float(np.mean([one.values[measure][one.splits.index(split)] for one in each]))
                    for split in splits
                )
                for measure in each[0].values
            }
            found.append(Paired(first, second, each[0].losses, tuple(splits), values))
    return found


def _mean_block(grid: Grid, means: Sequence[Paired], loss: str) -> Block:
    noisy = [data for data in grid.names(0) if noise_of(data)]
    shares = f"{_share(noisy[0])} to {_share(noisy[-1])} of flipped labels"
    title = f"{DIFFERENCES}, averaged over {shares} within each split{BELOW}"
    head = ("", *map(measure_title, grid.measures(noisy[0])), "splits")
    return Block(title, head, tuple(row for paired in means for row in difference_rows(paired, [loss])))


def _head(grid: Grid) -> tuple[str, ...]:
    return ("flipped labels", *(_share(data) for data in grid.names(0)))


def _share(data: str) -> str:
    return f"{100 * noise_of(data):.0f} %"


def _numbers(
    selection: Selection, grid: Grid, loss: str, pairs: dict[str, list[Paired]], means: list[Paired]
) -> Iterator[Number]:
    for key, cell in grid.cells.items():
        yield from cell_numbers(selection.name, grid, key, cell, published_values(selection.experiment, *key))
    for data, each in {**pairs, MEAN: means}.items():
        for paired in each:
            yield from difference_numbers(selection.name, grid.test, data, [loss], paired)


# The bottom rows of the main tables: RankReg's gain over the best of these, and the contrast of single networks.
GAINS = {"Δ over base/ALM": (OTHERS, BETTER), "Δ over buffer": (("buffer",), "buffer")}


def pages_of(selection: Selection, test: str | None = None) -> list[Page]:
    """One page for each test set and data set."""
    grids = selection.grids(test)
    if selection.experiment.layout == "noise":
        return [noise_page(selection, grid) for grid in grids]
    return [Sheet(selection, grid, data).page() for grid in grids for data in grid.names(0)]


@dataclass(frozen=True, eq=False)
class Sheet:
    """An experiment's results on one data set and one test set."""

    selection: Selection
    grid: Grid
    data: str

    def page(self) -> Page:
        """All of it."""
        blocks = [self.ensembles(), self.singles()] + [self.differences()] * bool(self.pairs)
        blocks += [self.gap.block()] if self.gap else []
        preset = self.selection.preset
        title = f"{title_of(self.data, preset)}, {test_title(self.grid, self.data)}, preset {preset}"
        if self.is_main:
            return Page(title, tuple(blocks), tuple(self.notes()), tuple(self.numbers()))
        return Page(
            f"{self.selection.experiment.title}: {title}", tuple(blocks), tuple(self.notes()), tuple(self.numbers())
        )

    @property
    def is_main(self) -> bool:
        """Whether it is one of the main tables: a group of rows for every loss, and Δ below."""
        return self.selection.experiment.layout == "main"

    @property
    def ranking(self) -> str:
        """The arm that is the paper's method."""
        return ranking_arm(self.selection.experiment)

    @cached_property
    def has_published(self) -> bool:
        """Whether the paper has any of it."""
        return any(
            published_values(self.selection.experiment, *key) for key in self.grid.cells if key[0] == self.data
        )

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns."""
        return self.grid.measures(self.data)

    @property
    def losses(self) -> list[str]:
        """The groups of rows."""
        return self.grid.names(1)

    @cached_property
    def pairs(self) -> list[Paired]:
        """All contrasts of which there is something."""
        wanted = contrasts_of(self.selection.experiment, self.grid.names(2))
        found = [pair(self.grid, self.data, self.losses, first, second) for first, second in wanted]
        return [paired for paired in found if paired is not None]

    @cached_property
    def gains(self) -> dict[str, dict[str, Gain]]:
        """The ensembles' Δ by what it is over."""
        return {
            second: ensemble_gains(self.grid, self.data, self.losses, self.ranking, others)
            for others, second in GAINS.values()
        }

    @cached_property
    def gap(self) -> Gap | None:
        """How far the arms get to the experiment's ceiling, if it has one."""
        return gap_of(self.selection, self.grid, self.data)

    def cells(self, loss: str) -> dict[Key, Cell]:
        """The rows of a group."""
        return {key: cell for key, cell in self.grid.cells.items() if key[:2] == (self.data, loss)}

    def ensembles(self) -> Block:
        """Each arm's ensemble beside the published value; the best of a group, as printed, is underlined."""
        rows = []
        for loss in self.losses:
            best = {measure: self._best(loss, measure) for measure in self.measures}
            for place, (key, cell) in enumerate(self.cells(loss).items()):
                known = published_values(self.selection.experiment, *key)
                entries = [self._ensemble_entry(cell, known, m, best[m]) for m in self.measures]
                rows.append(self._row(key, cell, entries, rule=place == 0 and loss != self.losses[0]))
        rows += self._gain_rows()
        return Block(ENSEMBLES + " (published)" * self.has_published, self._head(), tuple(rows))

    def singles(self) -> Block:
        """The spread over splits."""
        rows = []
        for loss in self.losses:
            for place, (key, cell) in enumerate(self.cells(loss).items()):
                entries = [single_entry(cell, measure) for measure in self.measures]
                rows.append(self._row(key, cell, entries, rule=place == 0 and loss != self.losses[0]))
        for label, (_, second) in GAINS.items():
            paired = self._pair(self.ranking, second)
            if self.is_main and paired is not None:
                gains = [self._gain_estimate(paired, measure) for measure in self.measures]
                entries = [Entry(plain(gain.mean), spread(gain)) for gain in gains]
                count = Entry(str(len(paired.splits)))
                rows.append(Row(label, (*entries, count), rule=second == BETTER))
        return Block(SINGLES, self._head(), tuple(rows))

    def differences(self) -> Block:
        """Two lines for every contrast."""
        title = DIFFERENCES + AVERAGED * (len(self.losses) > 1) + BELOW
        rows = [row for paired in self.pairs for row in difference_rows(paired, self.losses)]
        return Block(title, self._head(), tuple(rows))

    def notes(self) -> Iterator[str]:
        """What could be detected, how many comparisons there are, what is missing."""
        experiment = self.selection.experiment
        if self.pairs:
            about_ranking = (paired for paired in self.pairs if ARMS[paired.first].ranks)
            decisive = self._pair(self.ranking, "buffer") or next(about_ranking, self.pairs[0])
            yield power_note(decisive, self.losses)
            yield from filter(None, [multiplicity_note(self.pairs)])
        over = self._pair(self.ranking, BETTER)
        if self.is_main and over is not None:
            yield from filter(None, [growth_note(over)])
            yield (
                "Δ: RankReg's gain, averaged over the base losses; positive: fewer false alarms, more AUC. Base/ALM"
                " is the better of the two, read off the same numbers, which makes that Δ a little too small."
            )
        yield CHANCES
        yield preset_note(self.selection.preset)
        yield from experiment.notes
        yield from filter(None, [self.selection.diverged([self.data]), self.selection.missing()])
        if experiment.ceiling and not self.gap:
            yield from filter(None, [replace(self.selection, name=experiment.ceiling, only=()).missing()])

    def numbers(self) -> Iterator[Number]:
        """All of it, one by one."""
        name, grid = self.selection.name, self.grid
        for loss in self.losses:
            for key, cell in self.cells(loss).items():
                yield from cell_numbers(name, grid, key, cell, published_values(self.selection.experiment, *key))
        for paired in self.pairs:
            yield from difference_numbers(name, grid.test, self.data, self.losses, paired)
        if self.gap:
            yield from self.gap.numbers(Number(name, self.data, grid.test, self.losses[0], "", "", "", 0.0))
        for _, second in GAINS.values() if self.is_main else ():
            arm, over = f"{self.ranking} over {second}", self._pair(self.ranking, second)
            if over is None:
                continue
            for measure in self.measures:
                gain, found = self.gains[second][measure], self._gain_estimate(over, measure)
                row = (name, self.data, grid.test, pooled_name(gain.losses, self.losses), arm, measure)
                rest = (len(gain.splits), self._published_gain(second, gain.losses, measure))
                yield Number(*row, "ensemble gain", gain.value, gain.low, gain.high, *rest)
                yield Number(*row, "single gain", found.mean, found.low, found.high, *rest)

    def _head(self) -> tuple[str, ...]:
        return ("", *map(measure_title, self.measures), "splits")

    def _row(self, key: Key, cell: Cell, entries: Sequence[Entry], *, rule: bool) -> Row:
        _, loss, arm = key
        label = loss.upper() if self.is_main and arm == "base" else ARMS[arm].title
        if self.is_main and "base" not in self.grid.names(2):
            label = f"{loss.upper()} {label}"
        part = self.is_main and arm != "base"
        return Row(label, (*entries, Entry(count_of(cell))), rule=rule, part=part)

    def _ensemble_entry(self, cell: Cell, known: dict[str, float], measure: str, best: float | None) -> Entry:
        printed = published_words(known.get(measure), others=self.has_published)
        if not cell.scores:
            return Entry(NOTHING.value, printed)
        found = cell.ensemble[measure]
        is_best = best is not None and round(found.estimate, 1) == best
        return Entry(plain(found.estimate), f"{bracket(found)} {printed}".strip(), is_best)

    def _best(self, loss: str, measure: str) -> float | None:
        """The best ensemble as printed; None where fewer than two, or of different splits, could be compared."""
        cells = [cell for cell in self.cells(loss).values() if cell.scores]
        if len(cells) < 2 or len({cell.splits for cell in cells}) > 1:
            return None
        return (max if higher_is_better(measure) else min)(round(c.ensemble[measure].estimate, 1) for c in cells)

    def _pair(self, first: str, second: str) -> Paired | None:
        return next((p for p in self.pairs if (p.first, p.second) == (first, second)), None)

    def _published_gain(self, second: str, losses: Sequence[str], measure: str) -> float | None:
        """The paper's, over the same losses as ours."""
        return published_gain(self.selection.experiment, self.data, losses, measure) if second == BETTER else None

    def _gain_rows(self) -> Iterator[Row]:
        for label, (_, second) in GAINS.items() if self.is_main else ():
            gains, entries = self.gains[second], []
            losses = gains["auc"].losses if gains else tuple(self.losses)
            for measure in self.measures:
                printed = published_words(self._published_gain(second, losses, measure), others=True)
                words = f"{gain_limits(gains[measure])} {printed}" if gains else printed
                entries.append(Entry(plain(gains[measure].value) if gains else NOTHING.value, words))
            few = f"{len(losses)}/{len(self.losses)} losses" if len(losses) < len(self.losses) else ""
            count = Entry(str(len(gains["auc"].splits)), few) if gains else NOTHING
            yield Row(label, (*entries, count), rule=second == BETTER)

    @staticmethod
    def _gain_estimate(paired: Paired, measure: str) -> Estimate:
        found = paired.estimate(measure)
        if higher_is_better(measure):
            return found
        low, high = (None if end is None else -end for end in (found.high, found.low))
        return Estimate(-found.mean, low, high)
