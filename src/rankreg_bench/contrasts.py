"""Differences between arms, paired over the splits that both have.

All splits share the test set, and the losses of a split share its training data: losses are averaged within a split
first, and only splits count as repeats.


The ensembles' average gain Δ over others, as in the paper's bottom rows, with an interval over test samples.

Numbers and verdicts as words; a difference is never called more than its interval allows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rankreg.operating import (
    Estimate,
    Interval,
    aucs,
    detectable,
    mean_of,
    p_value,
    standard_deviation,
    still_significant,
)
from rankreg_bench.arms import ARMS, PRESETS, TUNING
from rankreg_bench.estimates import RISK, higher_is_better, ranking_arm
from rankreg_bench.grids import DATA, Experiment, TestSet
from rankreg_bench.pages import Entry, Row
from rankreg_bench.records import Cell, Grid

BETTER = "better of base and ALM"
OTHERS = ("base", "alm")
ROUNDING = 0.0021  # measures have three decimals: equal differences may seem to be so much apart


@dataclass(frozen=True)
class Paired:
    """One arm less another on the same splits, averaged over losses: by measure one difference per split."""

    first: str
    second: str
    losses: tuple[str, ...]
    splits: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]

    def estimate(self, measure: str) -> Estimate:
        """The mean difference and Student's interval."""
        return mean_of(self.values[measure])

    def detectable(self, measure: str) -> float | None:
        """The smallest true difference that would be found in four of five such experiments."""
        return detectable(self.values[measure])

    def p_value(self, measure: str) -> float | None:
        """Student's, two-sided; None where all splits happen to have one and the same difference."""
        values = self.values[measure]
        return None if np.ptp(values) == 0 and values[0] != 0 else p_value(values)


def pair(grid: Grid, data: str, losses: Sequence[str], first: str, second: str) -> Paired | None:
    """The first arm less the second, an arm or `BETTER`, on the splits that every loss has in both.

    Losses without any such split are left out. Which of base and ALM is the better one is decided for each loss and
    measure by its mean over the same splits.
    """
    arms = (first, *(OTHERS if second == BETTER else (second,)))
    used, splits = grid.shared(data, losses, arms)
    if not splits:
        return None
    values = {}
    for measure in grid.measures(data):
        rows = []
        for loss in used:
            ours, *others = (
                [grid.cells[data, loss, arm].singles[split][measure] for split in splits] for arm in arms
            )
            rows.append(np.subtract(ours, _better(others, measure)))
        found = np.mean(rows, axis=0)
        if np.ptp(found) <= ROUNDING:
            found[:] = found[0]
        values[measure] = tuple(float(value) for value in found)
    return Paired(first, second, used, splits, values)


def _better(rows: Sequence[Sequence[float]], measure: str) -> Sequence[float]:
    return (max if higher_is_better(measure) else min)(rows, key=np.mean)


def contrasts_of(experiment: Experiment, arms: Sequence[str]) -> list[tuple[str, str]]:
    """What is compared with what, as far as there are such arms.

    The main tables: what the ranking term adds to the buffer, the buffer to the base loss, and both. Elsewhere a
    method's other budgets with its own, everything with the base loss, and what ranks with its buffer alone, or the
    usual one; without these, with the paper's own choice.
    """
    if experiment.layout in ("main", "noise"):
        ours = ranking_arm(experiment)
        wanted = [(ours, "buffer"), (ours, BETTER), (ours, "base"), ("buffer", "base")]
        return [(a, b) for a, b in wanted if {a, *(OTHERS if b == BETTER else (b,))} <= set(arms)]
    found: list[tuple[str, str]] = []
    papers = "rankreg" if "rankreg" in arms else arms[0]
    base = "base-last" if "base-last" in arms else "base"
    for arm in arms:
        own = [other for other in arms if arm in TUNING and arm.startswith(f"{other}-")]
        if own:
            found.append((arm, own[0]))
            continue
        alone = [_control_of(arm, arms)] if ARMS[arm].ranks else []
        against = [*alone, base] if {base, "buffer"} & set(arms) else [papers]
        found += [(arm, other) for other in against if other in arms and other != arm]
    return found


def _control_of(arm: str, arms: Sequence[str]) -> str:
    """The arm that is the same without the ranking term: the one it names, or with its buffer, or the usual."""
    ours = ARMS[arm]
    if ours.control is not None:
        return ours.control
    wanted = {**ours.config, "method": {"name": "buffer", "buffer": ours.config["method"]["buffer"]}}
    return next((other for other in arms if ARMS[other].config == wanted), "buffer")


DRAWS, SEED, QUANTILE = 500, 0, 1.96

Reals = NDArray[np.float64]
Pairs = Sequence[tuple[Cell, Cell]]  # ours and the rival, for each loss


@dataclass(frozen=True)
class Gain:
    """Δ of one measure: the mean over losses of how much one arm beats the best of others; positive is a gain."""

    value: float
    low: float
    high: float
    losses: tuple[str, ...]
    splits: tuple[int, ...]


def ensemble_gains(
    grid: Grid, data: str, losses: Sequence[str], ours: str, others: Sequence[str]
) -> dict[str, Gain]:
    """By measure, from the splits that all arms have with every loss; empty without any. Two classes only.

    The interval: DeLong's for the AUC; for an FPR the central part of what `measure_draws` says. All ensembles meet
    the same drawn populations, so that what they share cancels out. Which of the others is the best one stays as it
    is in the real test set.
    """
    used, splits = grid.shared(data, losses, (ours, *others))
    if not splits:
        return {}
    rows = [[grid.cells[data, loss, arm].on(splits) for arm in (ours, *others)] for loss in used]
    found = {}
    for measure in grid.measures(data):
        up = higher_is_better(measure)
        best, sign = (max, 1) if up else (min, -1)
        pairs = [(first, best(rest, key=lambda cell: cell.ensemble[measure].estimate)) for first, *rest in rows]
        gaps = [a.ensemble[measure].estimate - b.ensemble[measure].estimate for a, b in pairs]
        value = sign * float(np.mean(gaps))
        low, high = _auc_limits(pairs, value) if up else _fpr_limits(pairs, measure)
        found[measure] = Gain(value, low, high, used, splits)
    return found


def _auc_limits(pairs: Pairs, value: float) -> tuple[float, float]:
    """By the standard error of the mean difference, in percent."""
    cells = [cell for both in pairs for cell in both]
    covariance = aucs(cells[0].mean.labels == 1, [cell.mean.values for cell in cells]).covariance
    contrast = np.tile([1.0, -1.0], len(pairs)) / len(pairs)
    reach = QUANTILE * 100 * math.sqrt(max(0.0, float(contrast @ covariance @ contrast)))
    return value - reach, value + reach


def _fpr_limits(pairs: Pairs, measure: str) -> tuple[float, float]:
    drawn = [measure_draws(rival)[measure] - measure_draws(ours)[measure] for ours, rival in pairs]
    low, high = np.quantile(np.mean(drawn, axis=0), [RISK, 1 - RISK])
    return float(low), float(high)


@lru_cache(maxsize=256)
def measure_draws(cell: Cell) -> dict[str, Reals]:
    """The ensemble's measures in percent in drawn populations, the same ones for every cell with these samples.

    A draw gives each gap between ordered positives a share of the population, finds where the lower 1 − tpr of it
    ends, and interpolates the FPR between the two neighbouring scores (docs/decisions/0023). Negatives are
    resampled.
    """
    scores = cell.mean
    positives, negatives = (scores.values[scores.labels == label] for label in (1, 0))
    of_positives, of_negatives = _gaps(len(positives) + 1), _resampled(len(negatives))
    order, rising = np.argsort(positives), np.argsort(negatives)
    below = np.concatenate([np.zeros((DRAWS, 1)), of_negatives[:, rising].cumsum(axis=1)], axis=1)
    less, more = (np.searchsorted(negatives[rising], positives, side=side) for side in ("left", "right"))
    alarms_above = np.concatenate([[0], less[order], [len(negatives)]])  # of a threshold at −∞, each positive, ∞
    edges = of_positives[:, order].cumsum(axis=1)
    edges = np.concatenate([np.zeros((DRAWS, 1)), edges, np.ones((DRAWS, 1))], axis=1)
    each = np.arange(DRAWS)
    found = {}
    for tpr in DATA[cell.data].tprs:
        lower = np.count_nonzero(edges[:, 1:-1] <= 1 - tpr, axis=1)
        start, stop = edges[each, lower], edges[each, lower + 1]
        way = (1 - tpr - start) / (stop - start)
        rates = [1 - below[each, alarms_above[lower + step]] for step in (0, 1)]
        found[f"fpr@{100 * tpr:.0f}"] = 100 * ((1 - way) * rates[0] + way * rates[1])
    weights = of_positives[:, :-1] / of_positives[:, :-1].sum(axis=1, keepdims=True)
    return {**found, "auc": 50 * (weights * (below[:, less] + below[:, more])).sum(axis=1)}


@lru_cache(maxsize=8)
def _gaps(count: int) -> Reals:
    """The share of the population that falls into each of so many gaps, in every draw."""
    drawn: Reals = np.random.default_rng([SEED, 0, count]).standard_exponential((DRAWS, count))
    drawn /= drawn.sum(axis=1, keepdims=True)
    return drawn


@lru_cache(maxsize=8)
def _resampled(count: int) -> Reals:
    """The share of each sample in every draw, with replacement."""
    chosen = np.random.default_rng([SEED, 1, count]).integers(count, size=(DRAWS, count))
    places = chosen + count * np.arange(DRAWS)[:, None]
    return np.bincount(places.ravel(), minlength=DRAWS * count).reshape(DRAWS, count) / count


ENSEMBLES = "Ensembles of the splits' networks: ours [95 % interval over test samples]"
SINGLES = "Single networks: mean over splits ± half of Student's 95 % interval (standard deviation)"
DIFFERENCES = "Paired differences of single networks (Student's 95 % interval over splits)"
AVERAGED = ", averaged over the base losses within each split"
BELOW = "; below: what the interval allows to say; the smallest difference that could be detected"
CHANCES = (
    "Intervals over test samples leave out the chance of training; those over splits leave out the chance of the"
    " test samples, which all splits share."
)
NOTHING = Entry("–")
TEST_TITLES: Mapping[TestSet, str] = {
    "official": "official test set",
    "extended": "extended test set (official and fresh positives)",
    "tuning": "validation and tuning pool",
}


def measure_title(measure: str) -> str:
    """As the tables head it: FPR@98, AUC, error@80."""
    return measure.upper() if measure.startswith(("fpr", "auc")) else measure.removesuffix("tpr")


def arm_title(arm: str) -> str:
    """Inside a sentence."""
    names = {"base": "base", BETTER: "base/ALM"}
    return names[arm] if arm in names else ARMS[arm].title.removeprefix("+ ")


def contrast_title(first: str, second: str) -> str:
    """One arm less another."""
    return f"{arm_title(first)} − {arm_title(second)}"


def test_title(grid: Grid, data: str) -> str:
    """Which test set, and how many samples it has."""
    counts, words = grid.counts(data), TEST_TITLES[grid.test]
    if counts is None:
        return words
    kinds = ("critical", "others") if DATA[data].several_classes else ("positives", "negatives")
    return f"{words}: {counts[0]:,} {kinds[0]}, {counts[1]:,} {kinds[1]}"


def plain(value: float) -> str:
    """One decimal, with a real minus."""
    return _digits(value, 1)


def _digits(value: float, count: int) -> str:
    return f"{value:z.{count}f}".replace("-", "−")  # z: no negative zero


def short(value: float, reach: float) -> str:
    """Without decimals where the interval is too wide for them to mean anything."""
    return plain(value) if reach < 20 else _digits(value, 0)


def signed(value: float) -> str:
    """The same with its sign."""
    text = plain(value)
    return text if text == "0.0" or text.startswith("−") else f"+{text}"


def bracket(interval: Interval) -> str:
    """An interval in few characters: decimals only where it is narrow."""
    digits = 0 if interval.high - interval.low >= 3 else 1
    return f"[{interval.low:.{digits}f}–{interval.high:.{digits}f}]"


def gain_limits(gain: Gain | Interval) -> str:
    """The interval of a gain, which may be a loss."""
    digits = 0 if gain.high - gain.low >= 3 else 1
    low, high = (_digits(end, digits) for end in (gain.low, gain.high))
    return f"[{low} to {high}]" if gain.low < 0 else f"[{low}–{high}]"


def spread(estimate: Estimate) -> str:
    """± half the interval, or nothing from one split."""
    return "" if estimate.reach is None else f"± {short(estimate.reach, estimate.reach)}"


def limits(estimate: Estimate) -> str:
    """The interval of a difference."""
    if estimate.low is None or estimate.high is None or estimate.reach is None:
        return "(one split)"
    return f"({short(estimate.low, estimate.reach)} to {short(estimate.high, estimate.reach)})"


def verdict(estimate: Estimate) -> str:
    """What the interval allows to say."""
    if estimate.reach is None:
        return "no interval"
    if estimate.reach < 1e-9:  # a few splits that agree to the digit are no certainty
        return "no spread" if estimate.mean else "identical"
    if not estimate.excludes_zero:
        return "not told apart"
    return "lower" if estimate.mean < 0 else "higher"


def published_words(value: float | None, *, others: bool) -> str:
    """A published value in brackets; a dash for none in a table that has others."""
    return f"({plain(value)})" if value is not None else "(–)" if others else ""


def single_entry(cell: Cell, measure: str, *, deviation: bool = True) -> Entry:
    """The mean over splits with its interval and spread; from one split the value alone."""
    values = [single[measure] for single in cell.singles.values()]
    if not values:
        return NOTHING
    found, around = mean_of(values), standard_deviation(values)
    rest = f" ({plain(around)})" if deviation and around is not None else ""
    return Entry(plain(found.mean), spread(found) + rest)


def difference_rows(paired: Paired, losses: Sequence[str], label: str | None = None) -> list[Row]:
    """A contrast's differences, and below what they allow to say and could have shown."""
    found = {measure: paired.estimate(measure) for measure in paired.values}
    values = [Entry(signed(one.mean), limits(one)) for one in found.values()]
    words = []
    for measure, one in found.items():
        smallest = paired.detectable(measure)
        words.append(Entry(verdict(one) + ("" if smallest is None else f"; {short(smallest, smallest)}")))
    kept = f"{len(paired.losses)} of {len(losses)} losses" if len(paired.losses) < len(losses) else ""
    return [
        Row(label or contrast_title(paired.first, paired.second), (*values, Entry(str(len(paired.splits))))),
        Row("", (*words, Entry(kept)), part=True),
    ]


def count_of(cell: Cell) -> str:
    """How many splits there are, of how many if some are missing."""
    have = len(cell.splits)
    return str(have) if have == cell.planned else f"{have}/{cell.planned}"


def scope(paired: Paired, losses: Sequence[str]) -> str:
    """What a difference rests on."""
    splits = f"{len(paired.splits)} split" + "s" * (len(paired.splits) != 1)
    if len(losses) == 1:
        return splits
    kept = len(paired.losses)
    return f"{splits}, {kept} losses" if kept == len(losses) else f"{splits}, {kept} of {len(losses)} losses"


def power_note(paired: Paired, losses: Sequence[str]) -> str:
    """Which difference could have been detected."""
    title = contrast_title(paired.first, paired.second)
    if len(paired.splits) < 2:
        return f"{title}: one split leaves no interval and nothing that could be detected; more splits are needed."
    found = {measure: paired.detectable(measure) for measure in paired.values}
    parts = [f"{plain(value)} in {measure_title(m)}" for m, value in found.items() if value is not None]
    if not parts:
        return f"{title}: the differences do not vary over splits; what could be detected cannot be said."
    return (
        f"Detectable: with {scope(paired, losses)} and their spread, a true {title} of {', '.join(parts)} points"
        " would be found with 80 % power at the 5 % level; smaller ones would mostly go unseen."
    )


def multiplicity_note(pairs: Sequence[Paired]) -> str | None:
    """How many differences are shown, and how many would stand out by chance alone."""
    values = [p for one in pairs for m in one.values if (p := one.p_value(m)) is not None]
    if len(values) < 2:
        return None
    found, kept = sum(value < 0.05 for value in values), still_significant(values)
    return (
        f"{len(values)} differences are shown: without any true one about {0.05 * len(values):.1f} would be told"
        f" apart by chance. Told apart: {found}; by Holm's correction for {len(values)}: {kept}."
    )


def preset_note(preset: str) -> str:
    """How large the networks were, since the paper's were larger."""
    return f"Preset {preset}: {PRESETS[preset].title}. Published: full width, 100 epochs, ensembles of 10 splits."


def sentence(paired: Paired, losses: Sequence[str]) -> str:
    """A contrast in words, measure by measure."""
    parts = []
    for measure in paired.values:
        found = paired.estimate(measure)
        parts.append(f"{measure_title(measure)} {signed(found.mean)} {limits(found)}: {verdict(found)}")
    return f"{contrast_title(paired.first, paired.second)}, {scope(paired, losses)}: {'; '.join(parts)}."


def growth_note(paired: Paired) -> str | None:
    """The paper's claim that gains grow with the TPR, as a difference of differences."""
    rates = [measure for measure in paired.values if measure.startswith("fpr")]
    if len(rates) < 2 or paired.second != BETTER:
        return None
    pairs = zip(paired.values[rates[-1]], paired.values[rates[0]], strict=True)
    growth = mean_of([easy - strict for easy, strict in pairs])
    return (
        f"Does Δ grow with the TPR? Δ in {measure_title(rates[0])} less Δ in {measure_title(rates[-1])}, single"
        f" networks: {signed(growth.mean)} {limits(growth)}: {verdict(growth)}."
    )
