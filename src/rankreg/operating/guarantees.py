"""The arithmetic under every guarantee: order statistics and bounds on shares, distribution-free.

Where every row is independent they are binomial and exact (Clopper–Pearson). Where rows share
units, the functions take the `UnitSizes` in place of the number of rows and are safe
(`rankreg.operating.units`).
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankreg.notation import percent
from rankreg.operating.units import Trials, UnitSizes, independent_of, rows_of, shares_units, units_of

PER_DECADE = 50
LARGEST_EXACT = 100_000  # positives beyond which the exact share gains nothing over the product rule
SMALLEST_RISK = 1e-15
ROUNDING = 1 + 1e-9  # 1 - 0.9 is 0.09999999999999998, yet one positive does certify a TPR of 10 % at 90 %


class NotEnoughPositives(ValueError):  # noqa: N818 - it names what is missing, not that something is wrong
    """So few positives that no threshold carries the guarantee; says how many are needed and what these certify.

    positives: how many, or the sizes of their units; then `units` and `needed` count units.
    """

    def __init__(self, positives: Trials, tpr: float, confidence: float, where: str = "", shared: str = "") -> None:
        self.tpr, self.confidence = tpr, confidence
        self.units, self.positives = units_of(positives), rows_of(positives)
        self.needed = units_needed(positives, tpr, confidence)
        self.highest_tpr = highest_tpr(positives, confidence) if self.positives else 0.0
        best = math.floor(self.highest_tpr * 1000) / 10  # rounded down: what the message names must be certifiable
        held, noun = (self.positives, "positive") if self.units is None else (self.units, "unit")
        count = {0: f"0 {noun}s are", 1: f"1 {noun} is"}.get(held, f"{held} {noun}s are")
        subject, verb = count.rsplit(" ", 1)
        rows = f" with {self.positives} positives" if self.units not in (None, self.positives) else ""
        more = "" if self.units is None else f" units like these ({self.needed - self.units} more)"
        best_text = f"; the highest TPR {held} can certify is {best:.1f} %" if best > 0 else ""
        super().__init__(
            f"{subject}{rows}{where} {verb} too few to certify a TPR of {percent(tpr)} with"
            f" {percent(confidence)} confidence{shared}: {self.needed}{more} are needed{best_text}"
        )


def positives_needed(tpr: float, confidence: float) -> int:
    """The fewest positives that certify a TPR: the least n with tprⁿ ≤ 1 − confidence.

    Args:
        tpr: the target recall.
        confidence: of the guarantee.

    Returns:
        Their number.

    >>> positives_needed(0.95, 0.95), positives_needed(0.98, 0.95)
    (59, 149)
    """
    check_target(tpr)
    check_confidence(confidence)
    needed = max(1, math.ceil(math.log1p(-confidence) / math.log(tpr) - 1e-6))
    return needed if certified_rank(needed, tpr, confidence) else needed + 1


def units_needed(positives: Trials, tpr: float, confidence: float) -> int:
    """The fewest units of such sizes that certify a TPR; `positives_needed` if all have one size."""
    if not isinstance(positives, UnitSizes) or len(positives.sizes) < 2:
        return positives_needed(tpr, confidence)
    log_risk = math.log(positives.tail(0, 1 - check_target(tpr)))  # grows in proportion to the units
    return math.ceil(positives.units * math.log1p(-check_confidence(confidence)) / log_risk - 1e-6)


def highest_tpr(positives: Trials, confidence: float) -> float:
    """The highest TPR that so many positives can certify: (1 − confidence)^(1/n), by their lowest score.

    Args:
        positives: how many, or the sizes of their units.
        confidence: of the guarantee.

    Returns:
        The TPR.

    Raises:
        ValueError: there are no positives.

    >>> round(highest_tpr(59, 0.95), 3)
    0.95
    """
    check_confidence(confidence)
    if isinstance(positives, UnitSizes) and len(positives.sizes) > 1:
        return float(1 - positives.largest_share(0, 1 - confidence))
    count = independent_of(positives)
    if count < 1:
        raise ValueError(f"no TPR can be certified with {count} positives")
    return float((1 - confidence) ** (1 / count))


def shortfall_risk(positives: Trials, rank: int, tpr: float) -> float:
    """The chance that the rank-th lowest positive score, taken as threshold, has a recall below the TPR.

        P(Bin(n, 1 − tpr) ≤ rank − 1)

    It is exact for continuous scores. With ties, and where positives share units, the chance is at
    most this.
    """
    if shares_units(positives):
        return float(positives.tail(rank - 1, 1 - tpr))
    return float(special.bdtr(rank - 1, rows_of(positives), 1 - tpr)) if rank > 0 else 0.0


def certified_rank(positives: Trials, tpr: float, confidence: float) -> int:
    """The largest rank k whose shortfall risk is at most 1 − confidence.

    1 is the lowest positive score; 0 means that no score is low enough.
    """
    allowed = (1 - confidence) * ROUNDING
    if shares_units(positives):
        return int(positives.largest_count(1 - tpr, allowed)) + 1
    rows = rows_of(positives)
    return bisect_right(range(rows), allowed, key=lambda misses: float(special.bdtr(misses, rows, 1 - tpr)))


def certified_ranks(
    positives: Trials, tprs: Sequence[float] | NDArray[np.float64], confidences: Sequence[float]
) -> NDArray[np.int64]:
    """`certified_rank` for every pair of a TPR, in rows, and a confidence, in columns."""
    if shares_units(positives):
        allowed = (1 - np.asarray(confidences)) * ROUNDING
        return positives.largest_count(1 - np.asarray(tprs)[:, None], allowed) + 1
    return np.array([[certified_rank(positives, tpr, sure) for sure in confidences] for tpr in tprs])


def upper_bound(successes: int, trials: Trials, confidence: float) -> float:
    """The one-sided upper bound of a share: Clopper–Pearson, or over units."""
    return float(bounds(np.array(successes), trials, confidence)[1])


def lower_bound(successes: int, trials: Trials, confidence: float) -> float:
    """The one-sided lower bound of a share: Clopper–Pearson, or over units."""
    return float(bounds(np.array(successes), trials, confidence)[0])


def bounds(
    successes: NDArray[np.integer],
    trials: Trials,
    confidence: NDArray[np.float64] | float,
    *,
    anywhere: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two one-sided bounds of many shares at once: Clopper–Pearson, or over units.

    anywhere: the bounds hold also if the thresholds were chosen by looking at these very rows. They
    are proved at fixed shares, from one row to 1 and fifty to the decade, all at once; between two of
    them the outer one holds.
    """
    if anywhere:
        steps = np.arange(int(PER_DECADE * math.log10(rows_of(trials))) + 1)
        levels = 10.0 ** (-steps[::-1] / PER_DECADE)
        low, high = bounds(successes, trials, 1 - (1 - np.asarray(confidence)) / len(levels))
        below = np.searchsorted(levels, low, side="right") - 1
        return np.where(below >= 0, levels[below], 0.0), levels[np.searchsorted(levels, high)]
    if shares_units(trials):
        risk = 1 - np.asarray(confidence)
        return 1 - trials.largest_share(trials.rows - successes, risk), trials.largest_share(successes, risk)
    rows, sure = rows_of(trials), np.asarray(confidence, dtype=np.float64)
    most = special.betaincinv(successes + 1, np.maximum(rows - successes, 1), sure)
    return least_share(successes, rows, sure), np.where(successes < rows, most, 1.0)


def least_share(
    successes: NDArray[np.integer], trials: int, confidence: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """The lower bound of many shares of independent rows: Clopper–Pearson."""
    least = special.betaincinv(np.maximum(successes, 1), trials - successes + 1, 1 - np.asarray(confidence))
    return np.where(successes > 0, least, 0.0)


def check_prevalence(value: float) -> float:
    """A share of positives in the field."""
    return check_share(value, "prevalence", "write 0.006 for 6 positives in 1,000")


def check_share(value: float, name: str, example: str) -> float:
    """A number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}: {example}")
    return float(value)


def check_confidence(value: float) -> float:
    """A confidence level."""
    return check_share(value, "confidence", "write 0.95 for 95 %")


def check_target(value: float) -> float:
    """A TPR that a sample can certify; 1 never is, since no sample is proof against every miss."""
    return check_share(value, "tpr", "write 0.95 for 95 %; 100 % cannot be certified from a sample")


def independent_share(confidence: float, parts: int) -> float:
    """The confidence each part needs so that all hold together: confidence^(1/parts).

    Exact for independent parts, and safe for events that all favour the same direction (Harris'
    inequality).
    """
    return float(confidence ** (1 / parts))


def dependent_share(confidence: float, parts: int) -> float:
    """The confidence each part needs so that all hold together, however they depend: the risk is divided."""
    return 1 - (1 - confidence) / parts


def share_confidence(
    risks: Mapping[str, float], confidence: float, *, independent: bool
) -> tuple[float, dict[str, tuple[float, int]]]:
    """The confidence of each certified group, and the groups that are left out.

    The group that could show least is left out until the others share the confidence. With each such
    group come the confidence that it would have needed, and how many groups shared it then.

    risks: for each group the least risk at which a sample of its size could keep the promise. It may
    not depend on the scores: then nothing is paid for the choice.
    """
    share = independent_share if independent else dependent_share
    left, short = dict(risks), dict[str, tuple[float, int]]()
    while left:
        each = share(confidence, len(left))
        worst = max(left, key=left.__getitem__)
        if left[worst] <= (1 - each) * ROUNDING:
            return each, short
        short[worst] = each, len(left)
        del left[worst]
    return confidence, short


def fpr_share(trials: Trials, confidence: float, parts: int) -> float:
    """The confidence that the FPR bound at each of several thresholds needs, so that all hold together."""
    return dependent_share(confidence, parts) if shares_units(trials) else independent_share(confidence, parts)


def joint_confidence(positives: int, tprs: Sequence[float], ranks: Sequence[int]) -> float:
    """The chance that every rank-th lowest score keeps its TPR at once, exactly, for continuous scores.

        N_i = how many of n uniform numbers fall below 1 − tpr_i;    all is well when N_i ≥ rank_i for every i

    N_i, ordered by 1 − tpr_i, is a Markov chain of binomial steps, followed here over the counts it
    can take.
    """
    order = np.argsort(tprs)[::-1]
    miss = 1 - np.asarray(tprs, dtype=np.float64)[order]
    return _follow(_chain(positives, miss), np.asarray(ranks)[order])


def joint_ranks(trials: Trials, tprs: Sequence[float], confidence: float) -> list[int]:
    """The ranks to take so that every TPR is kept at once with the confidence.

    Each TPR gets the same risk, the largest with which all hold together, but always at least the
    lowest score. So as many positives suffice for all the TPRs as for the highest alone. Where
    positives share units, the risk is divided by the number of TPRs. If the highest gets no score
    then, all take the lowest, which is one claim.
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
