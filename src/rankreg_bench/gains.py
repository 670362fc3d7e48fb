"""What the ensembles of an arm gain: over other arms, and of the way from the base loss to a ceiling."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from rankreg.operating import Interval
from rankreg.operating.bootstrap import population_draws
from rankreg.operating.intervals import aucs
from rankreg_bench.arms import ARMS
from rankreg_bench.differences import BETTER, OTHERS
from rankreg_bench.estimates import CONFIDENCE, RISK, higher_is_better
from rankreg_bench.grids import DATA, title_of
from rankreg_bench.pages import NOTHING, Number, Row, TableBlock, TableEntry, estimate_entry, head_of
from rankreg_bench.records import Cell, Grid, Selection, check_same_samples

SHARES = "Share of the gap to the ceiling that the ensemble closes, percent [95 % interval over test samples]"
QUANTILE = 1.96


@dataclass(frozen=True)
class Gain:
    """How much the ensemble of an arm beats the second one, or the better of base and ALM: the mean over losses.

    losses, splits: what it rests on; by_measure: the gains, empty if no split is recorded for all.
    """

    second: str
    losses: tuple[str, ...]
    splits: tuple[int, ...]
    by_measure: Mapping[str, Interval]


def ensemble_gain(grid: Grid, data: str, losses: Sequence[str], first: str, second: str) -> Gain:
    """The gain of the first arm over the second, or `BETTER`, on the splits that all arms have with every loss.

    Two classes only. The interval: DeLong's for the AUC; for an FPR, quantiles of `measure_draws`: all ensembles
    meet the same drawn populations, so that what they share cancels out. The better of two is the better one in the
    real test set.
    """
    arms = (first, *(OTHERS if second == BETTER else (second,)))
    used, splits = grid.shared(data, losses, arms)
    rows = [[grid.cells[data, loss, arm].on(splits) for arm in arms] for loss in used]
    found = {}
    for measure in DATA[data].measures if splits else ():
        up = higher_is_better(measure)
        best, sign = (max, 1) if up else (min, -1)
        pairs = [(ours, best(rest, key=lambda cell: cell.ensemble[measure].estimate)) for ours, *rest in rows]
        gaps = [a.ensemble[measure].estimate - b.ensemble[measure].estimate for a, b in pairs]
        value = sign * float(np.mean(gaps))
        low, high = _auc_limits(pairs, value) if up else _fpr_limits(pairs, measure)
        found[measure] = Interval(value, low, high, CONFIDENCE)
    return Gain(second, used, splits, found)


def _auc_limits(pairs: Sequence[tuple[Cell, Cell]], value: float) -> tuple[float, float]:
    """By the standard error of the mean difference, in percent."""
    cells = [cell for both in pairs for cell in both]
    covariance = aucs(cells[0].mean.labels == 1, [cell.mean.values for cell in cells]).covariance
    contrast = np.tile([1.0, -1.0], len(pairs)) / len(pairs)
    reach = QUANTILE * 100 * math.sqrt(max(0.0, float(contrast @ covariance @ contrast)))
    return value - reach, value + reach


def _fpr_limits(pairs: Sequence[tuple[Cell, Cell]], measure: str) -> tuple[float, float]:
    drawn = [measure_draws(rival)[measure] - measure_draws(ours)[measure] for ours, rival in pairs]
    low, high = np.quantile(np.mean(drawn, axis=0), [RISK, 1 - RISK])
    return float(low), float(high)


@lru_cache(maxsize=256)
def measure_draws(cell: Cell) -> dict[str, NDArray[np.float64]]:
    """The measures of the ensemble, in percent, in drawn populations, which cells with the same samples share."""
    rates, area = population_draws(cell.mean.labels, cell.mean.values, DATA[cell.data].tprs)
    return dict(zip(DATA[cell.data].measures, 100 * np.column_stack([rates, area]).T, strict=True))


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
        entries = [estimate_entry(one) for one in known.values()]
        rows = [Row("ceiling", (*entries, TableEntry(self.ceiling.count)))]
        for arm, cell in self.arms.items():
            if arm != "base":
                shares = self.shares.get(arm)
                found = [shares[measure] for measure in known] if shares else []
                entries = [TableEntry("no gap") if one is None else estimate_entry(one) for one in found]
                entries = entries or [NOTHING] * len(known)
                rows.append(Row(ARMS[arm].title, (*entries, TableEntry(cell.count))))
        title = f"{SHARES}; first the ceiling's own numbers: {title_of(self.ceiling.data, self.preset)}"
        return TableBlock(title, head_of(known), tuple(rows))

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
