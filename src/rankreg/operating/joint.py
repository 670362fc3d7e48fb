"""Confidence shared among several guarantees (docs/decisions/0021)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankreg.operating.exact import ROUNDING, certified_rank

LARGEST_EXACT = 100_000  # positives beyond which the exact share gains nothing over the product rule


def independent_share(confidence: float, parts: int) -> float:
    """The confidence each part needs so that all hold together: confidence^(1/parts).

    Exact for independent parts, and safe for events that all favour the same direction (Harris' inequality).
    """
    return float(confidence ** (1 / parts))


def joint_confidence(positives: int, tprs: Sequence[float], ranks: Sequence[int]) -> float:
    """The chance that every rank-th lowest score keeps its TPR at once, exactly, for continuous scores.

        N_i = how many of n uniform numbers fall below 1 − tpr_i;    all is well when N_i ≥ rank_i for every i

    N_i, ordered by 1 − tpr_i, is a Markov chain of binomial steps, followed here over the counts it can take.
    """
    order = np.argsort(tprs)[::-1]
    miss = 1 - np.asarray(tprs, dtype=np.float64)[order]
    return _follow(_chain(positives, miss), np.asarray(ranks)[order])


def shared_confidence(positives: int, tprs: Sequence[float], confidence: float) -> float:
    """The least confidence to ask of each TPR so that all are kept at once with the confidence wanted."""
    safe = independent_share(confidence, len(tprs))
    if positives > LARGEST_EXACT or len(tprs) == 1:
        return safe
    ordered = sorted(tprs, reverse=True)
    chain = _chain(positives, 1 - np.array(ordered))
    low, high = confidence, safe  # high always suffices
    for _ in range(30):
        middle = (low + high) / 2
        ranks = np.array([certified_rank(positives, tpr, middle) for tpr in ordered])
        if 1 - _follow(chain, ranks) <= (1 - confidence) * ROUNDING:
            high = middle
        else:
            low = middle
    return high


Step = tuple[NDArray[np.int64], NDArray[np.float64]]  # the counts possible, and the chances of reaching them


def _chain(positives: int, miss: NDArray[np.float64]) -> list[Step]:
    """First the distribution of N_1, then the matrices from N_i to N_(i+1)."""
    before, reached, steps = np.array([0]), 0.0, list[Step]()
    for share in miss:
        spread = 8 * np.sqrt(positives * share * (1 - share)) + 30  # what lies beyond counts as failure: safe
        lowest, highest = np.floor(positives * share - spread), np.ceil(positives * share + spread)
        counts = np.arange(max(0, int(lowest)), min(positives, int(highest)) + 1)
        step = max(0.0, (share - reached) / (1 - reached))
        steps.append((counts, _binomial(counts[None, :] - before[:, None], positives - before[:, None], step)))
        before, reached = counts, share
    return steps


def _follow(chain: list[Step], ranks: NDArray[np.int64]) -> float:
    alive = np.ones(1)
    for (counts, chances), rank in zip(chain, ranks, strict=True):
        alive = np.where(counts >= rank, alive @ chances, 0.0)
    return float(alive.sum())


def _binomial(successes: NDArray[np.int64], trials: NDArray[np.int64], share: float) -> NDArray[np.float64]:
    """P(Bin(trials, share) = successes), 0 where that is impossible."""
    possible = (successes >= 0) & (successes <= trials)
    k, n = np.where(possible, successes, 0), np.broadcast_to(trials, successes.shape)
    log = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    chances: NDArray[np.float64] = np.exp(log + special.xlogy(k, share) + special.xlog1py(n - k, -share))
    return np.where(possible, chances, 0.0)
