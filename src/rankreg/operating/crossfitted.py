"""Thresholds from out-of-fold scores: every positive judges, and nothing is held out."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from rankreg.operating.certification import NETWORK_ROUNDING, ChosenThreshold, lowered, rounded_down
from rankreg.operating.guarantees import (
    NotEnoughPositives,
    certified_rank,
    check_confidence,
    check_target,
    positives_needed,
)
from rankreg.operating.units import Per, Sample, units_of


def cross_fitted_threshold(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tpr: float = 0.95,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    per: Per = "row",
    rounding: float = NETWORK_ROUNDING,
) -> ChosenThreshold:
    """The threshold for an ensemble of fold models, from the out-of-fold scores of all positives.

        threshold = the k-th lowest positive score, k as for `certify`

    Every positive is scored by members that have not seen it. New samples are scored by all members, which
    are not quite the same scores. So nothing is certified. Proven is only that the recall is at least
    2 · tpr − 1 on average (Barber et al. 2021). Simulations show that it falls short of `tpr` no more often
    than 1 − confidence (docs/decisions/0045).

    Where the positives are too few for the confidence, the threshold keeps the recall on average instead:
    k is the largest with k ≤ (1 − tpr) · (n + 1), or 1.

    Args:
        y_true: labels, 1 for the critical class.
        y_score: out-of-fold scores, higher = more critical.
        tpr: the target recall, default 0.95.
        confidence: that the recall is reached, default 0.95.
        units: one value per sample, the same for dependent samples, which must share a fold.
        per: "row" or "unit", as for `certify`.
        rounding: as for `choose_threshold`.

    Returns:
        The threshold; its `kind` is "cross-fitted", or "expected" where there are too few positives.

    Raises:
        ValueError: the labels, scores, TPR or confidence make no sense.

    Reference: Barber, Candès, Ramdas, Tibshirani, Predictive inference with the jackknife+, Annals of
    Statistics 2021.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> cross_fitted_threshold(labels, scores).kind
    'cross-fitted'
    >>> few = cross_fitted_threshold(labels[850:950], scores[850:950])
    >>> few.kind, round(few.expected_recall, 3), round(few.value)
    ('expected', 0.961, 801)
    """
    check_target(tpr)
    check_confidence(confidence)
    sample = Sample.of(y_true, y_score, units)
    scores, trials = sample.judged(per)
    rank, kind = certified_rank(trials, tpr, confidence), "cross-fitted"
    size = len(scores) / (units_of(trials) or len(scores))
    if not rank:
        rank, kind = max(1, int((1 - tpr) * (len(scores) + size) - size + 1 + 1e-9)), "expected"
    shortage = None if kind == "cross-fitted" else NotEnoughPositives(trials, tpr, confidence)
    threshold = float(np.partition(scores, rank - 1)[rank - 1])
    return ChosenThreshold(
        value=rounded_down(lowered(threshold, rounding), y_score),
        certified=False,
        tpr=tpr,
        confidence=confidence,
        per=per,
        positives=len(sample.positives),
        units=units_of(trials),
        highest_tpr=None if shortage is None else shortage.highest_tpr,
        needed=None if shortage is None else shortage.needed,
        because=None if shortage is None else str(shortage),
        kind="expected" if kind == "expected" else "cross-fitted",
        expected_recall=1 - (rank - 1 + size) / (len(scores) + size),
    )


def price_of_certifying(
    y_true: ArrayLike, y_score: ArrayLike, *, tpr: float = 0.95, confidence: float = 0.95, share: float = 0.2
) -> float | None:
    """The FPR to expect if a share of the positives were held out to certify the threshold.

    The share grows until it suffices. The model is taken to be as good without those positives, so this is
    a lower bound of the price. Rows must be independent.

    Args:
        y_true: labels, 1 for the critical class.
        y_score: scores that judge the samples, higher = more critical.
        tpr: the target recall, default 0.95.
        confidence: of the certificate, default 0.95.
        share: of the positives to hold out, default a fifth.

    Returns:
        The mean FPR over all ways to draw these positives; None if half of the positives are not enough.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> price_of_certifying(labels, scores), round(price_of_certifying(labels, scores, tpr=0.9), 3)
    (None, 0.108)
    """
    sample = Sample.of(y_true, y_score)
    n = len(sample.positives)
    held = max(math.ceil(share * n), positives_needed(tpr, confidence))
    if held > n / 2:
        return None
    rank = certified_rank(held, tpr, confidence)
    place = np.arange(n)  # positives in rising order: how likely is each the rank-th lowest of those held
    chance = np.exp(
        _log_choose(place, rank - 1) + _log_choose(n - 1 - place, held - rank) - _log_choose(np.array(n), held)
    )
    ordered, negatives = np.sort(sample.positives), np.sort(sample.negatives)
    rates = 1 - np.searchsorted(negatives, ordered, "left") / len(negatives)
    return float(chance @ rates)


def _log_choose(n: NDArray[Any], k: int) -> NDArray[np.float64]:
    """log of n over k; −∞ where k > n."""
    possible = n >= k
    safe = np.where(possible, n, k)
    found: NDArray[np.float64] = gammaln(safe + 1) - gammaln(k + 1) - gammaln(safe - k + 1)
    return np.where(possible, found, -np.inf)
