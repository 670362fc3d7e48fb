"""The binomial arithmetic under every guarantee: order statistics and Clopper–Pearson, exact, distribution-free."""

import math

from scipy import special

from rankreg.operating._records import check_confidence, check_share, check_target

ROUNDING = 1 + 1e-9  # 1 - 0.9 is 0.09999999999999998, yet one positive does certify a TPR of 10 % at 90 %


class NotEnoughPositives(ValueError):  # noqa: N818 - it names what is missing, not that something is wrong
    """So few positives that no threshold carries the guarantee; says how many are needed and what these certify."""

    def __init__(self, positives: int, tpr: float, confidence: float, where: str = "", shared: str = "") -> None:
        self.positives, self.tpr, self.confidence = positives, tpr, confidence
        self.needed = positives_needed(tpr, confidence)
        self.highest_tpr = highest_tpr(positives, confidence) if positives else 0.0
        best = math.floor(self.highest_tpr * 1000) / 10  # rounded down: what the message names must be certifiable
        count = {0: "no positives are", 1: "1 positive is"}.get(positives, f"{positives} positives are")
        noun, verb = count.rsplit(" ", 1)
        best_text = f"; the highest TPR {positives} can certify is {best:.1f} %" if best > 0 else ""
        super().__init__(
            f"{noun}{where} {verb} too few to certify a TPR of {percent(tpr)} with"
            f" {percent(confidence)} confidence{shared}: {self.needed} are needed{best_text}"
        )


def percent(share: float) -> str:
    """A share for a sentence: 0.98 is "98 %"."""
    return f"{100 * share:.6g} %"


def positives_needed(tpr: float, confidence: float) -> int:
    """The fewest positives that certify a TPR: the least n with tprⁿ ≤ 1 − confidence."""
    check_target(tpr)
    check_confidence(confidence)
    needed = max(1, math.ceil(math.log1p(-confidence) / math.log(tpr) - 1e-6))
    return needed if certified_rank(needed, tpr, confidence) else needed + 1


def highest_tpr(positives: int, confidence: float) -> float:
    """The highest TPR that so many positives can certify: (1 − confidence)^(1/n), by their lowest score."""
    if positives < 1:
        raise ValueError(f"no TPR can be certified with {positives} positives")
    return float((1 - check_confidence(confidence)) ** (1 / positives))


def shortfall_risk(positives: int, rank: int, tpr: float) -> float:
    """The chance that the rank-th lowest positive score, taken as threshold, has a recall below the TPR.

        P(Bin(n, 1 − tpr) ≤ rank − 1)

    Exact for continuous scores; with ties the chance is smaller.
    """
    return float(special.bdtr(rank - 1, positives, 1 - tpr)) if rank > 0 else 0.0


def certified_rank(positives: int, tpr: float, confidence: float) -> int:
    """The largest rank k whose shortfall risk is at most 1 − confidence; 0 if there is none."""
    allowed = (1 - confidence) * ROUNDING
    low, high = 0, positives + 1  # the risk grows with the rank: low always qualifies, high never does
    while high - low > 1:
        middle = (low + high) // 2
        if shortfall_risk(positives, middle, tpr) <= allowed:
            low = middle
        else:
            high = middle
    return low


def upper_bound(successes: int, trials: int, confidence: float) -> float:
    """The one-sided Clopper–Pearson bound that a proportion stays below with that confidence."""
    return 1.0 if successes >= trials else float(special.betaincinv(successes + 1, trials - successes, confidence))


def lower_bound(successes: int, trials: int, confidence: float) -> float:
    """The one-sided Clopper–Pearson bound that a proportion stays above with that confidence."""
    return 0.0 if successes <= 0 else float(special.betaincinv(successes, trials - successes + 1, 1 - confidence))


def check_prevalence(value: float) -> float:
    """A share of positives in the field."""
    return check_share(value, "prevalence", "write 0.006 for 6 positives in 1,000")
