"""Numbers of a model in drawn populations, to compare several models or averages of them on the same test samples.

`rankreg.operating.compare` is for two models at one TPR; this is for any function of many models' numbers.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import empirical_thresholds, error_at_tpr, positive_score
from rankreg.operating._records import Interval, check_confidence
from rankreg.operating.exact import lower_bound, upper_bound
from rankreg.operating.points import Sample

Reals = NDArray[np.float64]


def population_draws(
    y_true: ArrayLike, y_score: ArrayLike, tprs: Sequence[float], *, draws: int = 500, seed: int = 0
) -> tuple[Reals, Reals]:
    """The FPR at each TPR, shape (draws, tprs), and the AUC, shape (draws,), in drawn populations.

    Models with the same samples meet the same populations, so differences of their draws are paired. A draw gives
    each gap between ordered positives a share of the population, finds where the lower 1 − tpr of it ends, and
    interpolates the FPR between the two scores around it (docs/decisions/0023). Negatives are resampled with
    replacement.

    Args:
        y_true: labels, 1 for the critical class.
        y_score: raw scores, higher means more critical.
        tprs: true positive rates between 0 and 1.
        draws: how many populations.
        seed: the same seed and class counts give the same populations.
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
    edges = np.concatenate([start, of_positives[:, order].cumsum(axis=1), start + 1], axis=1)
    each, rates = np.arange(draws), np.empty((draws, len(tprs)))
    for column, tpr in enumerate(tprs):
        lower = np.count_nonzero(edges[:, 1:-1] <= 1 - tpr, axis=1)
        left, right = edges[each, lower], edges[each, lower + 1]
        way = (1 - tpr - left) / (right - left)
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


def error_at_tpr_intervals(
    y_true: ArrayLike,
    logits: ArrayLike,
    tprs: Sequence[float],
    *,
    critical: int,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """The mean error of the other classes at each TPR of the critical one, with intervals by resampling.

    The critical class decides the threshold; given that, the errors of another class are a binomial count.

    Args:
        y_true: class indices.
        logits: shape (samples, classes).
        tprs: true positive rates of the critical class.
        critical: the index of the critical class.
        confidence: of each interval.
        draws: how many resampled test sets.
        seed: of the resampling.
    """
    check_confidence(confidence)
    labels, values = np.asarray(y_true), np.asarray(logits, dtype=np.float64)
    others = np.delete(values, critical, axis=1)
    odds = positive_score(values, critical)
    best = others.argmax(axis=1)
    best += best >= critical  # back to the original class index
    random = np.random.default_rng(seed)
    own_odds, targets = odds[labels == critical], np.asarray(tprs, dtype=np.float64)
    drawn = [empirical_thresholds(random.choice(own_odds, len(own_odds)), targets) for _ in range(draws)]
    thresholds = np.array(drawn, dtype=np.float64)
    errors = np.zeros_like(thresholds)
    classes = [label for label in np.unique(labels) if label != critical]
    for label in classes:
        own = labels == label
        right = np.sort(odds[own & (best == label)])
        kept = np.searchsorted(right, thresholds, side="left")  # right and below the threshold
        errors += random.binomial(own.sum(), 1 - kept / own.sum()) / own.sum() / len(classes)
    risk = (1 - confidence) / 2
    low, high = np.quantile(errors, [risk, 1 - risk], axis=0)
    estimates = error_at_tpr(labels, values, tprs, critical=critical)
    return [
        Interval(float(e), float(a), float(b), confidence) for e, a, b in zip(estimates, low, high, strict=True)
    ]


def share_interval(successes: int, total: int, *, confidence: float = 0.95) -> Interval:
    """A share with its exact Clopper–Pearson interval.

    Args:
        successes: how many of the total.
        total: how many in all.
        confidence: of the interval.
    """
    side = 1 - (1 - check_confidence(confidence)) / 2
    low, high = lower_bound(successes, total, side), upper_bound(successes, total, side)
    return Interval(successes / total, low, high, confidence)
