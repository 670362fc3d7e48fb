"""Differences between arms, paired over the splits that both have, and what they allow to say.

All splits share the test set, and the losses of a split share its training data: losses are averaged within a split
first, and only splits count as repeats.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rankreg.notation import plain, signed
from rankreg.operating import Interval
from rankreg.operating.bootstrap import population_draws
from rankreg.operating.comparison import detectable, p_value, still_significant
from rankreg.operating.intervals import aucs, mean_of
from rankreg_bench.arms import ARMS, PRESETS, TUNED
from rankreg_bench.estimates import CONFIDENCE, RISK, higher_is_better, measures_of, ranking_arm
from rankreg_bench.grids import DATA, Experiment
from rankreg_bench.pages import Number, Row, TableEntry, limits, short
from rankreg_bench.records import Cell, Grid

BETTER = "better of base and ALM"
OTHERS = ("base", "alm")
ROUNDING = 0.0021  # measures have three decimals: equal differences may seem to be so much apart
QUANTILE = 1.96
BELOW = "; below: verdict; smallest detectable difference"
CHANCES = (
    "Intervals over test samples ignore the randomness of training. Intervals over splits ignore the randomness of"
    " the test samples, which all splits share."
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

    def rows(self, label: str | None = None) -> list[Row]:
        """The differences; below, verdict and smallest detectable difference."""
        values, verdicts = [], []
        for measure in self.values:
            found, smallest = self.estimate(measure), self.detectable(measure)
            values.append(TableEntry(signed(found.estimate), limits(found)))
            detected = "" if smallest is None else f"; {short(smallest, smallest)}"
            verdicts.append(TableEntry(verdict(found) + detected))
        kept = f"{len(self.losses)} of {self.asked} losses" if len(self.losses) < self.asked else ""
        return [
            Row(label or self.title, (*values, TableEntry(str(len(self.splits))))),
            Row("", (*verdicts, TableEntry(kept)), part=True),
        ]

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
    for measure in measures_of(DATA[data]):
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
        ours = ranking_arm(experiment)
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


def ensemble_gains(
    grid: Grid, data: str, losses: Sequence[str], ours: str, others: Sequence[str]
) -> dict[str, Interval]:
    """By measure, the mean over losses of how much the ensemble of an arm beats the best of the others.

    Two classes only. From the splits that all arms have with every loss (`grid.shared`); empty without any. The
    interval: DeLong's for the AUC; for an FPR, quantiles of `measure_draws`: all ensembles meet the same drawn
    populations, so that what they share cancels out. The best of the others is the best in the real test set.
    """
    used, splits = grid.shared(data, losses, (ours, *others))
    rows = [[grid.cells[data, loss, arm].on(splits) for arm in (ours, *others)] for loss in used] if splits else []
    found = {}
    for measure in measures_of(DATA[data]) if rows else ():
        up = higher_is_better(measure)
        best, sign = (max, 1) if up else (min, -1)
        pairs = [(first, best(rest, key=lambda cell: cell.ensemble[measure].estimate)) for first, *rest in rows]
        gaps = [a.ensemble[measure].estimate - b.ensemble[measure].estimate for a, b in pairs]
        value = sign * float(np.mean(gaps))
        low, high = _auc_limits(pairs, value) if up else _fpr_limits(pairs, measure)
        found[measure] = Interval(value, low, high, CONFIDENCE)
    return found


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
    return dict(zip(measures_of(DATA[cell.data]), 100 * np.column_stack([rates, area]).T, strict=True))


def measure_title(measure: str) -> str:
    """As the head of a column: FPR@98, AUC, error@80."""
    return measure.upper() if measure.startswith(("fpr", "auc")) else measure.removesuffix("tpr")


def arm_title(arm: str) -> str:
    names = {"base": "base", BETTER: "base/ALM"}
    return names[arm] if arm in names else ARMS[arm].title.removeprefix("+ ")


def verdict(found: Interval) -> str:
    """What the interval allows to say."""
    if not found.bounded:
        return "no interval"
    if found.half_width < 1e-9:  # a few splits that agree to the digit are no certainty
        return "no spread" if found.estimate else "identical"
    if not found.excludes_zero:
        return "not told apart"
    return "lower" if found.estimate < 0 else "higher"


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


def preset_note(preset: str) -> str:
    """How large the networks were, since the paper's were larger."""
    return f"Preset {preset}: {PRESETS[preset].title}. Published: full width, 100 epochs, ensembles of 10 splits."
