"""Confidence shared among several guarantees (docs/decisions/0021)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankreg.operating.exact import ROUNDING, NotEnoughPositives, Trials, certified_rank, rows_of, shares_units

LARGEST_EXACT = 100_000  # positives beyond which the exact share gains nothing over the product rule
SMALLEST_RISK = 1e-15


def independent_share(confidence: float, parts: int) -> float:
    """The confidence each part needs so that all hold together: confidence^(1/parts).

    Exact for independent parts, and safe for events that all favour the same direction (Harris' inequality).
    """
    return float(confidence ** (1 / parts))


def dependent_share(confidence: float, parts: int) -> float:
    """The confidence each part needs so that all hold together, however they depend: the risk is divided."""
    return 1 - (1 - confidence) / parts


def fpr_share(trials: Trials, confidence: float, parts: int) -> float:
    """How sure the FPR's bound at each of several thresholds must be."""
    return dependent_share(confidence, parts) if shares_units(trials) else independent_share(confidence, parts)


def joint_confidence(positives: int, tprs: Sequence[float], ranks: Sequence[int]) -> float:
    """The chance that every rank-th lowest score keeps its TPR at once, exactly, for continuous scores.

        N_i = how many of n uniform numbers fall below 1 − tpr_i;    all is well when N_i ≥ rank_i for every i

    N_i, ordered by 1 − tpr_i, is a Markov chain of binomial steps, followed here over the counts it can take.
    """
    order = np.argsort(tprs)[::-1]
    miss = 1 - np.asarray(tprs, dtype=np.float64)[order]
    return _follow(_chain(positives, miss), np.asarray(ranks)[order])


def joint_ranks(trials: Trials, tprs: Sequence[float], confidence: float) -> list[int]:
    """The ranks to take so that every TPR is kept at once with the confidence wanted.

    Each TPR gets the same risk, the largest with which all hold together, but always at least the lowest score.
    So as many positives suffice for all the TPRs as for the highest alone. Where positives share units, the risk is
    divided by the number of TPRs; if the highest gets no score then, all take the lowest, which is one claim.
    """
    if not certified_rank(trials, max(tprs), confidence):
        raise NotEnoughPositives(trials, max(tprs), confidence)
    if len(tprs) == 1:
        return [certified_rank(trials, tprs[0], confidence)]
    if shares_units(trials):
        divided = [certified_rank(trials, tpr, dependent_share(confidence, len(tprs))) for tpr in tprs]
        return divided if all(divided) else [1] * len(tprs)
    positives = rows_of(trials)
    if positives > LARGEST_EXACT:
        each = independent_share(confidence, len(tprs))
        ranks = [certified_rank(positives, tpr, each) for tpr in tprs]
        if not all(ranks):
            raise NotEnoughPositives(positives, max(tprs), each)
        return ranks
    order = np.argsort(tprs)[::-1]
    chain = _chain(positives, 1 - np.asarray(tprs, dtype=np.float64)[order])
    allowed = 1 - confidence

    def ranks_at(risk: float) -> NDArray[np.int64]:
        return np.array([max(1, certified_rank(positives, tprs[place], 1 - risk)) for place in order])

    high, low = np.log(allowed), np.log(SMALLEST_RISK)  # at low all take the lowest score, which suffices
    for _ in range(40):
        middle = (low + high) / 2
        if 1 - _follow(chain, ranks_at(np.exp(middle))) <= allowed * ROUNDING:
            low = middle
        else:
            high = middle
    ranks_in_order = np.empty(len(tprs), dtype=np.int64)
    ranks_in_order[order] = ranks_at(np.exp(low))
    return ranks_in_order.tolist()


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
