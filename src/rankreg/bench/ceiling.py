"""How much of the way from the base loss to a ceiling, the same network with far more positives, each arm goes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rankreg.bench.arms import ARMS
from rankreg.bench.asking import Asked
from rankreg.bench.gains import measure_draws
from rankreg.bench.intervals import CONFIDENCE, RISK
from rankreg.bench.pages import Block, Entry, Number, Row
from rankreg.bench.planning import title_of
from rankreg.bench.results import Cell, Grid, check_same_samples
from rankreg.bench.wording import NOTHING, bracket, count_of, gain_limits, measure_title, plain
from rankreg.operating import Interval

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


def gap_of(asked: Asked, grid: Grid, data: str) -> Gap | None:
    """The gap of an experiment that names a ceiling, on the splits that both its ends have for this test set."""
    named = asked.experiment.ceiling
    if named is None:
        return None
    loss = grid.names(1)[0]
    arms = {arm: cell for (one, of, arm), cell in grid.cells.items() if (one, of) == (data, loss)}
    other = replace(asked, name=named, only=()).grids(grid.test)[0]
    far = next((cell for cell in other.cells.values() if cell.scores), None)
    splits = sorted(set(arms["base"].splits) & set(far.splits)) if far and "base" in arms else []
    if far is None or not splits:
        return None
    check_same_samples(arms["base"].mean, far.mean, named, data)
    whole = {arm: cell.on(splits) if set(splits) <= set(cell.splits) else cell for arm, cell in arms.items()}
    return Gap(whole, far.on(splits), asked.preset)


def _entry(share: Interval | None) -> Entry:
    return Entry("no gap") if share is None else Entry(plain(share.estimate), gain_limits(share))
