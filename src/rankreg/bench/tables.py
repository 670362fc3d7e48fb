"""The paper's tables from records: ensembles beside the published values, single networks, paired differences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rankreg.bench.arms import ARMS
from rankreg.bench.asking import Asked
from rankreg.bench.ceiling import Gap, gap_of
from rankreg.bench.gains import Gain, ensemble_gains
from rankreg.bench.noise import noise_page
from rankreg.bench.numbers import cell_numbers, difference_numbers, pooled_name
from rankreg.bench.pages import Block, Entry, Number, Page, Row
from rankreg.bench.planning import title_of
from rankreg.bench.published import higher_is_better, published_gain, published_values, ranking_arm
from rankreg.bench.results import Cell, Grid, Key
from rankreg.bench.statistics import BETTER, OTHERS, Paired, contrasts_of, pair
from rankreg.bench.wording import (
    AVERAGED,
    BELOW,
    CHANCES,
    DIFFERENCES,
    ENSEMBLES,
    NOTHING,
    SINGLES,
    bracket,
    count_of,
    difference_rows,
    gain_limits,
    growth_note,
    measure_title,
    multiplicity_note,
    plain,
    power_note,
    preset_note,
    published_words,
    single_entry,
    spread,
    test_title,
)
from rankreg.operating.repeats import Estimate

# The bottom rows of the main tables: RankReg's gain over the best of these, and the contrast of single networks.
GAINS = {"Δ over base/ALM": (OTHERS, BETTER), "Δ over buffer": (("buffer",), "buffer")}


def pages_of(asked: Asked, test: str | None = None) -> list[Page]:
    """One page for each test set and data set."""
    grids = asked.grids(test)
    if asked.experiment.layout == "noise":
        return [noise_page(asked, grid) for grid in grids]
    return [Sheet(asked, grid, data).page() for grid in grids for data in grid.names(0)]


@dataclass(frozen=True, eq=False)
class Sheet:
    """An experiment's results on one data set and one test set."""

    asked: Asked
    grid: Grid
    data: str

    def page(self) -> Page:
        """All of it."""
        blocks = [self.ensembles(), self.singles()] + [self.differences()] * bool(self.pairs)
        blocks += [self.gap.block()] if self.gap else []
        preset = self.asked.preset
        title = f"{title_of(self.data, preset)}, {test_title(self.grid, self.data)}, preset {preset}"
        if self.is_main:
            return Page(title, tuple(blocks), tuple(self.notes()), tuple(self.numbers()))
        return Page(
            f"{self.asked.experiment.title}: {title}", tuple(blocks), tuple(self.notes()), tuple(self.numbers())
        )

    @property
    def is_main(self) -> bool:
        """Whether it is one of the main tables: a group of rows for every loss, and Δ below."""
        return self.asked.experiment.layout == "main"

    @property
    def ranking(self) -> str:
        """The arm that is the paper's method."""
        return ranking_arm(self.asked.experiment)

    @cached_property
    def has_published(self) -> bool:
        """Whether the paper has any of it."""
        return any(published_values(self.asked.experiment, *key) for key in self.grid.cells if key[0] == self.data)

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
        wanted = contrasts_of(self.asked.experiment, self.grid.names(2))
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
        return gap_of(self.asked, self.grid, self.data)

    def cells(self, loss: str) -> dict[Key, Cell]:
        """The rows of a group."""
        return {key: cell for key, cell in self.grid.cells.items() if key[:2] == (self.data, loss)}

    def ensembles(self) -> Block:
        """Each arm's ensemble beside the published value; the best of a group, as printed, is underlined."""
        rows = []
        for loss in self.losses:
            best = {measure: self._best(loss, measure) for measure in self.measures}
            for place, (key, cell) in enumerate(self.cells(loss).items()):
                known = published_values(self.asked.experiment, *key)
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
        experiment = self.asked.experiment
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
        yield preset_note(self.asked.preset)
        yield from experiment.notes
        yield from filter(None, [self.asked.diverged([self.data]), self.asked.missing()])
        if experiment.ceiling and not self.gap:
            yield from filter(None, [replace(self.asked, name=experiment.ceiling, only=()).missing()])

    def numbers(self) -> Iterator[Number]:
        """All of it, one by one."""
        name, grid = self.asked.name, self.grid
        for loss in self.losses:
            for key, cell in self.cells(loss).items():
                yield from cell_numbers(name, grid, key, cell, published_values(self.asked.experiment, *key))
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
        return published_gain(self.asked.experiment, self.data, losses, measure) if second == BETTER else None

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
