"""The arithmetic under every guarantee: order statistics and bounds on shares, distribution-free.

Where every row is independent they are binomial and exact (Clopper–Pearson). Where rows share units, the functions
take the `UnitSizes` in place of the number of rows and are safe (`rankreg.operating.units`).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankreg.operating._records import check_confidence, check_share, check_target
from rankreg.operating.units import UnitSizes

Trials = int | UnitSizes
PER_DECADE = 50
ROUNDING = 1 + 1e-9  # 1 - 0.9 is 0.09999999999999998, yet one positive does certify a TPR of 10 % at 90 %


class NotEnoughPositives(ValueError):  # noqa: N818 - it names what is missing, not that something is wrong
    """So few positives that no threshold carries the guarantee; says how many are needed and what these certify.

    positives: how many, or the sizes of their units; then `units` and `needed` count units.
    """

    def __init__(self, positives: Trials, tpr: float, confidence: float, where: str = "", shared: str = "") -> None:
        self.tpr, self.confidence = tpr, confidence
        self.units = positives.units if isinstance(positives, UnitSizes) else None
        self.positives = positives.rows if isinstance(positives, UnitSizes) else positives
        self.needed = units_needed(positives, tpr, confidence)
        self.highest_tpr = highest_tpr(positives, confidence) if self.positives else 0.0
        best = math.floor(self.highest_tpr * 1000) / 10  # rounded down: what the message names must be certifiable
        held, noun = (self.positives, "positive") if self.units is None else (self.units, "unit")
        count = {0: f"no {noun}s are", 1: f"1 {noun} is"}.get(held, f"{held} {noun}s are")
        subject, verb = count.rsplit(" ", 1)
        rows = f" with {self.positives} positives" if self.units not in (None, self.positives) else ""
        more = "" if self.units is None else f" units like these ({self.needed - self.units} more)"
        best_text = f"; the highest TPR {held} can certify is {best:.1f} %" if best > 0 else ""
        super().__init__(
            f"{subject}{rows}{where} {verb} too few to certify a TPR of {percent(tpr)} with"
            f" {percent(confidence)} confidence{shared}: {self.needed}{more} are needed{best_text}"
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


def units_needed(positives: Trials, tpr: float, confidence: float) -> int:
    """The fewest units of such sizes that certify a TPR; `positives_needed` if they are all of one size."""
    if not isinstance(positives, UnitSizes) or len(positives.sizes) < 2:
        return positives_needed(tpr, confidence)
    log_risk = math.log(positives.tail(0, 1 - check_target(tpr)))  # grows in proportion to the units
    return math.ceil(positives.units * math.log1p(-check_confidence(confidence)) / log_risk - 1e-6)


def highest_tpr(positives: Trials, confidence: float) -> float:
    """The highest TPR that so many positives can certify: (1 − confidence)^(1/n), by their lowest score."""
    check_confidence(confidence)
    if isinstance(positives, UnitSizes):
        if len(positives.sizes) > 1:
            return float(1 - positives.largest_share(0, 1 - confidence))
        positives = positives.units
    if positives < 1:
        raise ValueError(f"no TPR can be certified with {positives} positives")
    return float((1 - confidence) ** (1 / positives))


def shortfall_risk(positives: Trials, rank: int, tpr: float) -> float:
    """The chance that the rank-th lowest positive score, taken as threshold, has a recall below the TPR.

        P(Bin(n, 1 − tpr) ≤ rank − 1)

    Exact for continuous scores; with ties the chance is smaller. Where positives share units, at most this.
    """
    if isinstance(positives, UnitSizes):
        if not positives.single:
            return float(positives.tail(rank - 1, 1 - tpr))
        positives = positives.rows
    return float(special.bdtr(rank - 1, positives, 1 - tpr)) if rank > 0 else 0.0


def certified_rank(positives: Trials, tpr: float, confidence: float) -> int:
    """The largest rank k whose shortfall risk is at most 1 − confidence; 0 if there is none."""
    allowed = (1 - confidence) * ROUNDING
    if isinstance(positives, UnitSizes):
        if not positives.single:
            return int(positives.largest_count(1 - tpr, allowed)) + 1
        positives = positives.rows
    low, high = 0, positives + 1  # the risk grows with the rank: low always qualifies, high never does
    while high - low > 1:
        middle = (low + high) // 2
        if shortfall_risk(positives, middle, tpr) <= allowed:
            low = middle
        else:
            high = middle
    return low


def certified_ranks(
    positives: Trials, tprs: Sequence[float] | NDArray[np.float64], confidences: Sequence[float]
) -> NDArray[np.int64]:
    """`certified_rank` for every pair of a TPR, in rows, and a confidence, in columns."""
    if isinstance(positives, UnitSizes) and not positives.single:
        allowed = (1 - np.asarray(confidences)) * ROUNDING
        return positives.largest_count(1 - np.asarray(tprs)[:, None], allowed) + 1
    return np.array([[certified_rank(positives, tpr, sure) for sure in confidences] for tpr in tprs])


def upper_bound(successes: int, trials: Trials, confidence: float) -> float:
    """The one-sided bound that a share stays below with that confidence: Clopper–Pearson, or over units."""
    if isinstance(trials, UnitSizes):
        if not trials.single:
            return float(trials.largest_share(successes, 1 - confidence))
        trials = trials.rows
    return 1.0 if successes >= trials else float(special.betaincinv(successes + 1, trials - successes, confidence))


def lower_bound(successes: int, trials: Trials, confidence: float) -> float:
    """The one-sided bound that a share stays above with that confidence: Clopper–Pearson, or over units."""
    if isinstance(trials, UnitSizes):
        if not trials.single:
            return 1 - upper_bound(trials.rows - successes, trials, confidence)
        trials = trials.rows
    return 0.0 if successes <= 0 else float(special.betaincinv(successes, trials - successes + 1, 1 - confidence))


def upper_bound_anywhere(successes: int, trials: Trials, confidence: float) -> float:
    """The same upper bound for a threshold that was chosen by looking at these very rows.

    It is proved at fixed shares, fifty to the decade, all at once; between two of them the higher one holds.
    """
    levels = proved_shares(trials)
    bound = upper_bound(successes, trials, 1 - (1 - confidence) / len(levels))
    return float(levels[levels >= bound].min())


def proved_shares(trials: Trials) -> NDArray[np.float64]:
    """The shares at which a bound is proved that holds at any threshold, from 1 down to one row."""
    steps = np.arange(int(PER_DECADE * math.log10(rows_of(trials))) + 1)
    return np.asarray(10.0 ** (-steps / PER_DECADE))


def rows_of(trials: Trials) -> int:
    """How many rows were tried."""
    return trials.rows if isinstance(trials, UnitSizes) else trials


def units_of(trials: Trials) -> int | None:
    """How many units they belong to; None if none were given."""
    return trials.units if isinstance(trials, UnitSizes) else None


def shares_units(trials: Trials) -> bool:
    """Whether some unit has several rows, so that the binomial is not exact."""
    return isinstance(trials, UnitSizes) and not trials.single


def check_prevalence(value: float) -> float:
    """A share of positives in the field."""
    return check_share(value, "prevalence", "write 0.006 for 6 positives in 1,000")
