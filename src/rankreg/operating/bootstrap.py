"""Draws from what two paired samples say about the FPRs at one TPR (docs/decisions/0023).

The gaps between n ordered positives hold shares of the population that are spread like n + 1
exponential numbers over their sum, whatever the distribution. Each draw gives every positive such a
share, the same one for both models, and finds where the lower 1 − tpr of the population ends:
between two neighbouring scores, or below the lowest. The FPR there is interpolated between the two,
and the negatives that only one model flags are drawn from their Dirichlet distribution.

Rows that share a unit share its draw, so whole units are resampled; copies of one row in a unit are
one row that counts as many times. The spread of the negatives is widened by their design effect:
how much more the difference varies between units than it would between as many independent rows.

Only positives near the threshold can be next to it: all others are drawn as sums, which have the
same distribution. A million negatives cost one pass.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import Floats, empirical_thresholds, error_at_tpr, likeliest_other, positive_score
from rankreg.names import renamed
from rankreg.operating.guarantees import check_confidence
from rankreg.operating.intervals import Interval
from rankreg.operating.units import Sample

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


class Gaps(NamedTuple):
    """How to draw the shares of the population: single gaps near the thresholds, then the four corners' sums.

    Gamma numbers of these shapes are drawn; a cell's gap is the number of its unit times how often
    it counts, and the corners' sums are the numbers times `corners`.
    """

    shapes: Reals
    units: Places
    times: Reals
    corners: Reals

    def draw(self, draws: int, random: np.random.Generator) -> Reals:
        """One row per draw, one column per cell and corner."""
        numbers = random.standard_gamma(self.shapes, size=(draws, len(self.shapes)))
        return np.concatenate([numbers[:, self.units] * self.times, numbers @ self.corners], axis=1)


def fpr_differences(
    positives: tuple[Floats, Floats],
    negatives: tuple[Floats, Floats],
    tpr: float,
    draws: int,
    seed: int,
    units: tuple[Places, Places] | None = None,
) -> Reals:
    """The FPR of the first model less that of the second, draw by draw; units: of the positives and negatives."""
    random = np.random.default_rng(seed)
    if units is None:
        return _differences(_brackets(positives, 1 - tpr, draws, random), negatives, random, 1.0)
    effect = _design_effect(positives, negatives, tpr, units[1])
    rows = np.rec.fromarrays([units[0], *positives])
    distinct, times = np.unique(rows, return_counts=True)
    members = np.unique(distinct["f0"], return_inverse=True)[1]
    firsts: tuple[Floats, Floats] = (distinct["f1"], distinct["f2"])
    return _differences(_brackets(firsts, 1 - tpr, draws, random, members, times), negatives, random, effect)


def _brackets(
    positives: tuple[Floats, Floats],
    miss: float,
    draws: int,
    random: np.random.Generator,
    units: Places | None = None,
    times: Places | None = None,
) -> tuple[Bracket, Bracket]:
    members = np.arange(len(positives[0])) if units is None else units
    counts = np.ones(len(members)) if times is None else times.astype(np.float64)
    windows = [_window(scores, counts, members, miss) for scores in positives]
    cells = np.union1d(windows[0].members, windows[1].members)
    corner = 2 * windows[0].below + windows[1].below
    corner[cells] = -1
    gaps = _single_gaps(cells, corner) if units is None else _unit_gaps(cells, corner, members, counts)
    below = [
        np.append(windows[0].below[cells], [False, False, True, True]),
        np.append(windows[1].below[cells], [False, True, False, True]),
    ]
    columns = [np.searchsorted(cells, window.members) for window in windows]
    found: list[list[tuple[Places, Reals]]] = [[], []]
    size = max(1, CHUNK // (len(cells) + len(gaps.shapes)))
    for start in range(0, draws, size):
        drawn = gaps.draw(min(size, draws - start), random)
        total = drawn.sum(axis=1)
        for model in (0, 1):
            under = drawn[:, below[model]].sum(axis=1)
            gap_ends = drawn[:, columns[model]].cumsum(axis=1)
            edges = np.concatenate([np.zeros((len(drawn), 1)), gap_ends], axis=1) + under[:, None]
            found[model].append(_bracket(edges, miss * total, total))
    first, second = (
        Bracket(window.levels, *(np.concatenate(parts) for parts in zip(*chunks, strict=True)))
        for window, chunks in zip(windows, found, strict=True)
    )
    return first, second


def _single_gaps(cells: Places, corner: Places) -> Gaps:
    """Positives near the thresholds are drawn one by one, the others in four sums."""
    sizes = [np.count_nonzero(corner == which) for which in range(4)]
    sizes[0] += 1  # the gap above the highest positive
    return Gaps(
        shapes=np.append(np.ones(len(cells)), sizes).astype(np.float64),
        units=np.arange(len(cells)),
        times=np.ones(len(cells)),
        corners=np.concatenate([np.zeros((len(cells), 4)), np.eye(4)]),
    )


def _unit_gaps(cells: Places, corner: Places, units: Places, times: Reals) -> Gaps:
    """Units near the thresholds are drawn one by one, the others in sums of those with the same corners."""
    places = np.flatnonzero(corner >= 0)
    in_corners = np.zeros((int(units.max()) + 1, 4))
    np.add.at(in_corners, (units[places], corner[places]), times[places])
    near = np.unique(units[cells])
    far = np.setdiff1d(units[places], near)
    patterns, alike = np.unique(in_corners[far], axis=0, return_counts=True)
    top = np.array([[times.sum() / len(in_corners), 0, 0, 0]])  # the gap above the highest positive
    return Gaps(
        shapes=np.concatenate([np.ones(len(near)), alike, [1.0]]),
        units=np.searchsorted(near, units[cells]),
        times=times[cells],
        corners=np.concatenate([in_corners[near], patterns, top]),
    )


def _window(scores: Floats, times: Reals, units: Places, miss: float) -> Window:
    order = np.argsort(scores, kind="stable")
    total, counted = len(scores), times[order].cumsum()
    of_unit = np.bincount(units, times)
    centre, effect = miss * counted[-1], (of_unit @ of_unit) / counted[-1]
    reach = 8 * np.sqrt(centre * effect) + 30 * of_unit.max()  # a draw's threshold is beyond it once in 10¹²
    first, last = np.searchsorted(counted, [centre - reach, centre + reach + 1], side="right").tolist()
    below = np.zeros(total, dtype=bool)
    below[order[:first]] = True
    ordered = scores[order]
    ends = ordered[first - 1] if first else -np.inf, ordered[last] if last < total else np.inf
    levels = np.concatenate([ends[:1], ordered[first:last], ends[1:]]).astype(scores.dtype)
    return Window(order[first:last], levels, below)


def _bracket(edges: Reals, wanted: Reals, total: Reals) -> tuple[Places, Reals]:
    """The last level whose cumulated share stays within the wanted one, and the way to the next.

    edges: the share below each level, one row per draw.
    """
    last = edges.shape[1] - 1
    lower = np.count_nonzero(edges[:, 1:] <= wanted[:, None], axis=1)
    draws = np.arange(len(edges))
    start = edges[draws, lower]
    stop = np.where(lower == last, total, edges[draws, np.minimum(lower + 1, last)])
    return lower, np.clip((wanted - start) / (stop - start), 0, 1)


def _design_effect(
    positives: tuple[Floats, Floats], negatives: tuple[Floats, Floats], tpr: float, units: Places
) -> float:
    """How many times more the difference of the FPRs varies than it would if the negatives were independent."""
    flagged = [
        scores >= empirical_thresholds(caught, np.array([tpr]))[0]
        for caught, scores in zip(positives, negatives, strict=True)
    ]
    differ = flagged[0].astype(np.float64) - flagged[1]
    apart = differ - differ.mean()
    if not apart.any():  # nothing is known of how the flags of a unit go together: all or none, at worst
        sizes = np.bincount(units)
        return float(sizes @ sizes / len(units))
    together = np.bincount(units, apart)
    return max(1.0, float(together @ together / (apart @ apart)))


def _differences(
    brackets: tuple[Bracket, Bracket],
    negatives: tuple[Floats, Floats],
    random: np.random.Generator,
    effect: float,
) -> Reals:
    """Count the negatives beyond each pair of levels once; then interpolate and draw.

    effect: by how much the counts are divided, since rows of one unit tell less than as many
    independent ones.
    """
    total = len(negatives[0])
    lows = [int(bracket.lower.min()) for bracket in brackets]
    levels = [b.levels[low : int(b.lower.max()) + 2] for b, low in zip(brackets, lows, strict=True)]
    rows, columns = (
        np.searchsorted(level, scores, side="right") for level, scores in zip(levels, negatives, strict=True)
    )
    shape = len(levels[0]) + 1, len(levels[1]) + 1
    table = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)
    flagged = table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]  # [i + 1, j + 1]: both reach levels i, j
    fractions = brackets[0].fraction, brackets[1].fraction
    first, second = np.zeros(len(fractions[0])), np.zeros(len(fractions[0]))
    for step, other in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row = brackets[0].lower - lows[0] + step + 1
        column = brackets[1].lower - lows[1] + other + 1
        weight = (fractions[0] if step else 1 - fractions[0]) * (fractions[1] if other else 1 - fractions[1])
        both = flagged[row, column]
        first += weight * (flagged[row, 0] - both)
        second += weight * (flagged[0, column] - both)
    rest = np.maximum(total - first - second, 0)
    only_first, only_second, others = (
        random.standard_gamma(part / effect + JEFFREYS) for part in (first, second, rest)
    )
    return (only_first - only_second) / (only_first + only_second + others)


def population_draws(
    y_true: ArrayLike, y_score: ArrayLike, tprs: Sequence[float], *, draws: int = 500, seed: int = 0
) -> tuple[Reals, Reals]:
    """The FPR at each TPR, shape (draws, tprs), and the AUC, shape (draws,), in drawn populations.

    Models with the same samples meet the same populations, so differences of their draws are
    paired. A draw gives each gap between ordered positives a share of the population, finds where
    the lower 1 − tpr of it ends, and interpolates the FPR between the two scores around it
    (docs/decisions/0023). Negatives are resampled with replacement.

    The same seed and class counts give the same populations.
    """
    sample = Sample.of(y_true, y_score)
    positives, negatives = sample.positives, sample.negatives
    of_positives = _gaps(len(positives) + 1, draws, seed)
    of_negatives = _resampled(len(negatives), draws, seed)
    order, rising = np.argsort(positives), np.argsort(negatives)
    start = np.zeros((draws, 1))
    below = np.concatenate([start, of_negatives[:, rising].cumsum(axis=1)], axis=1)
    less, more = (np.searchsorted(negatives[rising], positives, side=side) for side in ("left", "right"))
    alarms_above = np.concatenate([[0], less[order], [len(negatives)]])  # of a threshold at −∞, each positive, ∞
    edges = np.concatenate([start, of_positives[:, order].cumsum(axis=1)], axis=1)
    each, rates = np.arange(draws), np.empty((draws, len(tprs)))
    for column, tpr in enumerate(tprs):
        lower, way = _bracket(edges, np.full(draws, 1 - tpr), np.ones(draws))
        before, after = (1 - below[each, alarms_above[lower + step]] for step in (0, 1))
        rates[:, column] = (1 - way) * before + way * after
    weights = of_positives[:, :-1] / of_positives[:, :-1].sum(axis=1, keepdims=True)
    return rates, (weights * (below[:, less] + below[:, more])).sum(axis=1) / 2


@lru_cache(maxsize=8)
def _gaps(count: int, draws: int, seed: int) -> Reals:
    """The share of the population that falls into each of so many gaps, in every draw."""
    drawn: Reals = np.random.default_rng([seed, 0, count]).standard_exponential((draws, count))
    drawn /= drawn.sum(axis=1, keepdims=True)
    return drawn


@lru_cache(maxsize=8)
def _resampled(count: int, draws: int, seed: int) -> Reals:
    """The share of each sample in every draw, with replacement."""
    chosen = np.random.default_rng([seed, 1, count]).integers(count, size=(draws, count))
    places = chosen + count * np.arange(draws)[:, None]
    return np.bincount(places.ravel(), minlength=draws * count).reshape(draws, count) / count


@renamed(critical="positive")
def error_at_tpr_intervals(
    y_true: ArrayLike,
    logits: ArrayLike,
    tprs: Sequence[float],
    *,
    positive: int,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """The mean error of the other classes at each TPR of the critical one, with intervals by resampling.

    The critical class decides the threshold; given that, the errors of another class are a binomial
    count.
    """
    check_confidence(confidence)
    labels, values = np.asarray(y_true), np.asarray(logits, dtype=np.float64)
    odds, best = positive_score(values, positive), likeliest_other(values, positive)
    random = np.random.default_rng(seed)
    own_odds, targets = odds[labels == positive], np.asarray(tprs, dtype=np.float64)
    drawn = [empirical_thresholds(random.choice(own_odds, len(own_odds)), targets) for _ in range(draws)]
    thresholds = np.array(drawn, dtype=np.float64)
    errors = np.zeros_like(thresholds)
    classes = [label for label in np.unique(labels) if label != positive]
    for label in classes:
        own = labels == label
        right = np.sort(odds[own & (best == label)])
        kept = np.searchsorted(right, thresholds, side="left")  # right and below the threshold
        errors += random.binomial(own.sum(), 1 - kept / own.sum()) / own.sum() / len(classes)
    risk = (1 - confidence) / 2
    low, high = np.quantile(errors, [risk, 1 - risk], axis=0)
    estimates = error_at_tpr(labels, values, tprs, positive=positive)
    return [
        Interval(float(e), float(a), float(b), confidence) for e, a, b in zip(estimates, low, high, strict=True)
    ]
