"""Draws from what two paired samples say about the FPRs at one TPR (docs/decisions/0023).

The gaps between n ordered positives hold shares of the population that are spread like n + 1 exponential numbers
over their sum, whatever the distribution. Each draw gives every positive such a share, the same one for both
models, and finds where the lower 1 − tpr of the population ends: between two neighbouring scores, or below the
lowest. The FPR there is interpolated between the two, and the negatives that only one model flags are drawn from
their Dirichlet distribution.

Only positives near the threshold can be next to it: all others are drawn as four sums, which have the same
distribution. A million negatives cost one pass.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import Floats

Reals = NDArray[np.float64]
Places = NDArray[np.int64]
CHUNK = 4_000_000  # numbers held at once
JEFFREYS = 0.5  # what an empty cell counts, so that no false alarm in m negatives is not taken for never


class Window(NamedTuple):
    """The positives of one model near its threshold, in ascending order with a neighbour at either end."""

    members: Places
    levels: Floats
    below: NDArray[np.bool_]


class Bracket(NamedTuple):
    """Between which two levels each draw's threshold lies, and how far along."""

    levels: Floats
    lower: Places
    fraction: Reals


def fpr_differences(
    positives: tuple[Floats, Floats], negatives: tuple[Floats, Floats], tpr: float, draws: int, seed: int
) -> Reals:
    """The FPR of the first model less that of the second, draw by draw."""
    random = np.random.default_rng(seed)
    return _differences(_brackets(positives, 1 - tpr, draws, random), negatives, random)


def _brackets(
    positives: tuple[Floats, Floats], miss: float, draws: int, random: np.random.Generator
) -> tuple[Bracket, Bracket]:
    windows = [_window(scores, miss) for scores in positives]
    cells = np.union1d(windows[0].members, windows[1].members)
    corner = 2 * windows[0].below + windows[1].below
    corner[cells] = -1
    sizes = [np.count_nonzero(corner == which) for which in range(4)]
    sizes[0] += 1  # the gap above the highest positive
    shapes = np.append(np.ones(len(cells)), sizes).astype(np.float64)
    below = [
        np.append(windows[0].below[cells], [False, False, True, True]),
        np.append(windows[1].below[cells], [False, True, False, True]),
    ]
    columns = [np.searchsorted(cells, window.members) for window in windows]
    found: list[list[tuple[Places, Reals]]] = [[], []]
    size = max(1, CHUNK // len(shapes))
    for start in range(0, draws, size):
        gaps = random.standard_gamma(shapes, size=(min(size, draws - start), len(shapes)))
        wanted = miss * gaps.sum(axis=1)
        for model in (0, 1):
            under = gaps[:, below[model]].sum(axis=1)
            found[model].append(_bracket(under, gaps[:, columns[model]], wanted, gaps.sum(axis=1)))
    first, second = (
        Bracket(window.levels, *(np.concatenate(parts) for parts in zip(*chunks, strict=True)))
        for window, chunks in zip(windows, found, strict=True)
    )
    return first, second


def _window(scores: Floats, miss: float) -> Window:
    order = np.argsort(scores, kind="stable")
    centre, total = miss * len(scores), len(scores)
    reach = 8 * np.sqrt(centre) + 30  # a draw's threshold lies further away less than once in 10¹²
    first, last = max(0, int(centre - reach)), min(total, int(centre + reach) + 1)
    below = np.zeros(total, dtype=bool)
    below[order[:first]] = True
    ordered = scores[order]
    ends = ordered[first - 1] if first else -np.inf, ordered[last] if last < total else np.inf
    levels = np.concatenate([ends[:1], ordered[first:last], ends[1:]]).astype(scores.dtype)
    return Window(order[first:last], levels, below)


def _bracket(under: Reals, gaps: Reals, wanted: Reals, total: Reals) -> tuple[Places, Reals]:
    """The last level whose cumulated share stays within the wanted one, and the way from there to the next."""
    edges = np.concatenate([np.zeros((len(gaps), 1)), gaps.cumsum(axis=1)], axis=1) + under[:, None]
    lower = np.count_nonzero(edges[:, 1:] <= wanted[:, None], axis=1)
    draws = np.arange(len(gaps))
    start = edges[draws, lower]
    beyond = lower == gaps.shape[1]
    stop = np.where(beyond, total, edges[draws, np.minimum(lower + 1, gaps.shape[1])])
    return lower, np.clip((wanted - start) / (stop - start), 0, 1)


def _differences(
    brackets: tuple[Bracket, Bracket], negatives: tuple[Floats, Floats], random: np.random.Generator
) -> Reals:
    """Count the negatives beyond each pair of levels once; then interpolate and draw."""
    total = len(negatives[0])
    lows = [int(bracket.lower.min()) for bracket in brackets]
    levels = [b.levels[low : int(b.lower.max()) + 2] for b, low in zip(brackets, lows, strict=True)]
    rows, columns = (
        np.searchsorted(level, scores, side="right") for level, scores in zip(levels, negatives, strict=True)
    )
    shape = len(levels[0]) + 1, len(levels[1]) + 1
    table = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)
    flagged = table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]  # [i + 1, j + 1]: both reach levels i, j
    first, second = np.zeros(len(brackets[0].lower)), np.zeros(len(brackets[0].lower))
    for step, other in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row = brackets[0].lower - lows[0] + step + 1
        column = brackets[1].lower - lows[1] + other + 1
        weight = _weight(brackets[0].fraction, step) * _weight(brackets[1].fraction, other)
        both = flagged[row, column]
        first += weight * (flagged[row, 0] - both)
        second += weight * (flagged[0, column] - both)
    rest = np.maximum(total - first - second, 0)
    only_first, only_second, others = (random.standard_gamma(part + JEFFREYS) for part in (first, second, rest))
    return (only_first - only_second) / (only_first + only_second + others)


def _weight(fraction: Reals, step: int) -> Reals:
    return fraction if step else 1 - fraction
