"""An exact interval for the FPR at a TPR (docs/decisions/0022)."""

import numpy as np
from numpy.typing import ArrayLike

from rankreg.metrics import fpr_at_tpr
from rankreg.operating._records import Interval, check_confidence
from rankreg.operating.exact import Trials, certified_rank, lower_bound, upper_bound
from rankreg.operating.points import Sample
from rankreg.operating.units import UnitSizes


def fpr_at_tpr_interval(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tpr: float = 0.98,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
) -> Interval:
    """The FPR at the threshold where the true recall is the TPR, with bounds that hold for any distribution.

        q = the highest threshold with P(s⁺ ≥ q) ≥ tpr;    the quantity bounded is P(s⁻ ≥ q)

        s⁺_(a) ≤ q ≤ s⁺_(b)    by order statistics of the positives, each side with risk α⁺ / 2

        lower Clopper–Pearson of #{s⁻ ≥ s⁺_(b)} ≤ P(s⁻ ≥ q) ≤ upper Clopper–Pearson of #{s⁻ ≥ s⁺_(a)},
        each side with risk α⁻ / 2;    α⁺ + α⁻ = 1 − confidence

    Both the threshold and the count of false alarms are random, and both are paid for. The larger share of the risk
    goes to the rarer class, where it shortens the interval most; the shares depend on the two counts only. With too
    few positives to bound the quantile, the bound is 0 or 1 and the interval still true. units: one value per
    sample; rows with the same value need not be independent of each other, and both bounds are taken over units.
    """
    check_confidence(confidence)
    sample = Sample.of(y_true, y_score, units)
    estimate = fpr_at_tpr(sample.positive, sample.scores, tpr)
    ordered, negatives = np.sort(sample.positives), sample.negatives
    of_positives, of_negatives = sample.positive_trials, sample.negative_trials
    quantile_risk, count_risk = divided_risks(of_positives, of_negatives, confidence)

    n = len(ordered)
    lowest = certified_rank(of_positives, tpr, 1 - quantile_risk) if tpr < 1 else 0
    # From the other end: s⁺_(b) < q has the chance that n − b or fewer of n reach q, each with chance tpr.
    highest = n + 1 - (certified_rank(of_positives, 1 - tpr, 1 - quantile_risk) if tpr < 1 else n)
    high, low = 1.0, 0.0
    if lowest >= 1:
        high = upper_bound(int(np.count_nonzero(negatives >= ordered[lowest - 1])), of_negatives, 1 - count_risk)
    if highest <= n:
        low = lower_bound(int(np.count_nonzero(negatives >= ordered[highest - 1])), of_negatives, 1 - count_risk)
    return Interval(estimate, low, high, confidence)


def divided_risks(positives: Trials, negatives: Trials, confidence: float) -> tuple[float, float]:
    """The risk of each bound of the quantile, and of each bound of the share of negatives beyond it."""
    n, m = (found.units if isinstance(found, UnitSizes) else found for found in (positives, negatives))
    share = min(max(m / (n + m), 0.05), 0.95)
    return share * (1 - confidence) / 2, (1 - share) * (1 - confidence) / 2
