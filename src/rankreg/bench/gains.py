"""The ensembles' average gain Δ over others, as in the paper's bottom rows, with an interval over test samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rankreg.bench.grids import DATA
from rankreg.bench.intervals import RISK
from rankreg.bench.published import higher_is_better
from rankreg.bench.results import Cell, Grid
from rankreg.operating.delong import aucs

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
