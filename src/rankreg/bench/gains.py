"""The ensembles' average gain Δ over others, as in the paper's bottom rows, with an interval over test samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rankreg.bench.grids import DATA
from rankreg.bench.published import higher_is_better
from rankreg.bench.results import Cell, Grid
from rankreg.operating.delong import aucs

DRAWS, SEED, QUANTILE = 200, 0, 1.96

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Gain:
    """Δ of one measure: the mean over losses of how much one arm beats the best of others; positive is a gain."""

    value: float
    low: float
    high: float
    losses: tuple[str, ...]


def ensemble_gains(
    grid: Grid, data: str, losses: Sequence[str], ours: str, others: Sequence[str]
) -> dict[str, Gain]:
    """By measure, from losses whose ensembles have the same splits; empty without any. Two classes only.

        Δ ± 1.96 standard errors, by DeLong for the AUC, by resampling test samples for an FPR

    All ensembles meet the same resampled test set, so that what they share cancels out. Which of the others is the
    best one stays as it is in the real one.
    """
    rows = {}
    for loss in losses:
        cells = [grid.cells.get((data, loss, arm)) for arm in (ours, *others)]
        if len({cell.splits if cell else () for cell in cells}) == 1 and cells[0] and cells[0].scores:
            rows[loss] = [cell for cell in cells if cell]
    return {measure: _gain(rows, measure) for measure in grid.measures(data)} if rows else {}


def _gain(rows: dict[str, list[Cell]], measure: str) -> Gain:
    up = higher_is_better(measure)
    best = max if up else min
    pairs = [
        (ours, best(rivals, key=lambda cell: cell.ensemble[measure].estimate)) for ours, *rivals in rows.values()
    ]
    sign = 1 if up else -1
    value = float(np.mean([sign * (a.ensemble[measure].estimate - b.ensemble[measure].estimate) for a, b in pairs]))
    reach = QUANTILE * (_auc_error(pairs) if up else _fpr_error(pairs, measure))
    return Gain(value, value - reach, value + reach, tuple(rows))


def _auc_error(pairs: Sequence[tuple[Cell, Cell]]) -> float:
    """The standard error of the mean difference of the AUCs, in percent."""
    cells = [cell for both in pairs for cell in both]
    covariance = aucs(cells[0].mean.labels == 1, [cell.mean.values for cell in cells]).covariance
    contrast = np.tile([1.0, -1.0], len(pairs)) / len(pairs)
    return 100 * math.sqrt(max(0.0, float(contrast @ covariance @ contrast)))


def _fpr_error(pairs: Sequence[tuple[Cell, Cell]], measure: str) -> float:
    differences = [measure_draws(ours)[measure] - measure_draws(rival)[measure] for ours, rival in pairs]
    return float(np.std(np.mean(differences, axis=0), ddof=1))


@lru_cache(maxsize=128)
def measure_draws(cell: Cell) -> dict[str, Reals]:
    """The ensemble's measures in percent on resampled test sets, the same for every cell with these samples."""
    scores = cell.mean
    positives, negatives = (scores.values[scores.labels == label] for label in (1, 0))
    of_positives, of_negatives = _resampled(len(positives), 0), _resampled(len(negatives), 1)
    falling, rising = np.argsort(-positives), np.argsort(negatives)
    caught = np.cumsum(of_positives[:, falling], axis=1)
    below = np.cumsum(of_negatives[:, rising], axis=1)
    below = np.concatenate([np.zeros((DRAWS, 1), below.dtype), below], axis=1)
    found = {}
    for tpr in DATA[cell.data].tprs:
        last = np.count_nonzero(caught < math.ceil(tpr * len(positives) - 1e-9), axis=1)
        places = np.searchsorted(negatives[rising], positives[falling[last]], side="left")
        found[f"fpr@{100 * tpr:.0f}"] = 100 * (1 - below[np.arange(DRAWS), places] / len(negatives))
    less, more = (np.searchsorted(negatives[rising], positives, side=side) for side in ("left", "right"))
    beaten = (of_positives * (below[:, less] + below[:, more])).sum(axis=1) / 2
    return {**found, "auc": 100 * beaten / (len(positives) * len(negatives))}


@lru_cache(maxsize=8)
def _resampled(count: int, stream: int) -> NDArray[np.int32]:
    """How often each sample occurs in every draw."""
    random = np.random.default_rng([SEED, stream, count])
    chosen = random.integers(count, size=(DRAWS, count)) + count * np.arange(DRAWS)[:, None]
    return np.bincount(chosen.ravel(), minlength=DRAWS * count).reshape(DRAWS, count).astype(np.int32)
