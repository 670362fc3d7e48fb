"""Intervals: the one type for a number with bounds, and the intervals of shares, FPRs, AUCs and means.

References: FPR at a TPR: docs/decisions/0022. AUC: DeLong, DeLong, Clarke-Pearson, Biometrics 1988;
by ranks: Sun and Xu, IEEE Signal Proc. Letters 2014; units: Obuchowski, Biometrics 1997; a
proportion by an effective number of trials: Korn and Graubard, Survey Methodology 1998.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rankreg.metrics import Bools, Floats, check_tprs, empirical_thresholds
from rankreg.notation import Record
from rankreg.operating.guarantees import bounds, certified_ranks, check_confidence
from rankreg.operating.score_summary import Evidence, ScoreSummary, evidence
from rankreg.operating.units import Sample, Trials, independent_of, rows_of

Components = NDArray[np.float64]
CONFIDENCE = 0.95
EQUAL = 1e-10  # equal components differ from their mean by less, others by more
TINY = 1e-12  # of trials, the inverse: no sample knows an area better


@dataclass(frozen=True)
class Interval(Record):
    """A number with the bounds of an interval. The bounds are infinite where nothing is known.

    Args:
        estimate: the number found in the sample.
        low: the lower bound.
        high: the upper bound.
        confidence: how often such intervals hold the true number, default 0.95.

    >>> gain = Interval(0.8, 0.2, 1.3)
    >>> gain.excludes_zero, gain.scaled(-100)
    (True, Interval(estimate=-80.0, low=-130.0, high=-20.0, confidence=0.95))
    """

    estimate: float
    low: float
    high: float
    confidence: float = CONFIDENCE

    @property
    def bounded(self) -> bool:
        """Whether both bounds are finite. They are not for the mean of a single value."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds, infinite where they are."""
        return (self.high - self.low) / 2

    def scaled(self, factor: float) -> "Interval":
        """The interval of the number times a factor, e.g. 100 for percent or −1 for the opposite sign.

        Args:
            factor: any number but 0.
        """
        low, high = sorted((factor * self.low, factor * self.high))
        return Interval(factor * self.estimate, low, high, self.confidence)


def share_interval(successes: int, trials: Trials, *, confidence: float = CONFIDENCE) -> Interval:
    """A share with its two-sided interval: exact (Clopper–Pearson), or over units.

    Args:
        successes: how many of the trials succeeded, e.g. how many positives raised an alarm.
        trials: how many trials there were, or the units to which their rows belong.
        confidence: of the interval.

    Returns:
        The share and its bounds.

    >>> share = share_interval(38, 40)
    >>> f"{share.estimate:.3f} ({share.low:.3f} to {share.high:.3f})"
    '0.950 (0.831 to 0.994)'
    """
    each_side = (1 + check_confidence(confidence)) / 2
    low, high = bounds(np.array(successes), trials, each_side)
    return Interval(successes / rows_of(trials), float(low), float(high), confidence)


def mean_of(values: ArrayLike) -> Interval:
    """The mean of repeats, such as training splits, with Student's 95 % interval.

        mean ± t · s / √n

    The bounds of a single value are infinite.
    """
    numbers = np.asarray(values, dtype=np.float64)
    mean, count = float(numbers.mean()), len(numbers)
    if count < 2:
        return Interval(mean, -math.inf, math.inf)
    reach = float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2) * numbers.std(ddof=1) / math.sqrt(count))
    return Interval(mean, mean - reach, mean + reach)


@overload
def fpr_at_tpr_interval(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    tpr: float = 0.95,
    confidence: float = CONFIDENCE,
    units: ArrayLike | None = None,
) -> Interval: ...
@overload
def fpr_at_tpr_interval(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    tpr: Sequence[float],
    confidence: float = CONFIDENCE,
    units: ArrayLike | None = None,
) -> list[Interval]: ...
def fpr_at_tpr_interval(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    tpr: float | Sequence[float] = 0.95,
    confidence: float = CONFIDENCE,
    units: ArrayLike | None = None,
) -> Interval | list[Interval]:
    """The FPR at the threshold where the true recall is the TPR, with bounds that hold for any distribution.

        q = the highest threshold with P(s⁺ ≥ q) ≥ tpr;    the quantity bounded is P(s⁻ ≥ q)

        s⁺_(a) ≤ q ≤ s⁺_(b)    by order statistics of the positives, each side with risk α⁺ / 2

        lower Clopper–Pearson of #{s⁻ ≥ s⁺_(b)} ≤ P(s⁻ ≥ q) ≤ upper Clopper–Pearson of #{s⁻ ≥ s⁺_(a)},
        each side with risk α⁻ / 2;    α⁺ + α⁻ = 1 − confidence

    Both the threshold and the count of false alarms are random, and both are paid for. The rarer
    class gets the larger share of the risk, because that shortens the interval most. The shares
    depend on the two counts only. Too few positives to bound the quantile give a bound of 0 or 1:
    wide, but still true.

    Args:
        y_true: labels, 1 for the critical class; or a `ScoreSummary` in place of labels and scores.
        y_score: scores, higher = more critical.
        tpr: in (0, 1], default 0.95; or several, each with its own interval.
        confidence: of each interval, default 0.95.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.

    Returns:
        The interval, or a list with one interval per TPR.

    Raises:
        ValueError: the labels, scores, TPR or confidence make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> found = fpr_at_tpr_interval(labels, scores)
    >>> found.low < found.estimate < found.high
    True
    """
    check_confidence(confidence)
    sample, levels = evidence(y_true, y_score, units), check_tprs(tpr)
    negatives = sample.negative_trials
    estimates = sample.false_alarms(empirical_thresholds(sample.positives, levels)) / rows_of(negatives)
    ordered, n = np.sort(sample.positives), len(sample.positives)
    quantile_risk, count_risk = _divided_risks(sample.positive_trials, negatives, confidence)
    possible, sure = np.where(levels < 1, levels, 0.5), [1 - quantile_risk]
    lowest = np.where(levels < 1, certified_ranks(sample.positive_trials, possible, sure)[:, 0], 0)
    # From the other end: s⁺_(b) < q has the chance that n − b or fewer of n reach q, each with chance tpr.
    highest = n + 1 - np.where(levels < 1, certified_ranks(sample.positive_trials, 1 - possible, sure)[:, 0], n)

    def ends(ranks: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        beyond = sample.false_alarms(ordered[np.clip(ranks, 1, n) - 1])
        return bounds(beyond, negatives, 1 - count_risk)

    high = np.where(lowest >= 1, ends(lowest)[1], 1.0)
    low = np.where(highest <= n, ends(highest)[0], 0.0)
    rows = zip(estimates.tolist(), low.tolist(), high.tolist(), strict=True)
    found = [Interval(*row, confidence) for row in rows]
    return found if np.ndim(tpr) else found[0]


def _divided_risks(positives: Trials, negatives: Trials, confidence: float) -> tuple[float, float]:
    """The risk of each bound of the quantile, and of each bound of the share of negatives beyond it."""
    n, m = independent_of(positives), independent_of(negatives)
    share = min(max(m / (n + m), 0.05), 0.95)
    return share * (1 - confidence) / 2, (1 - share) * (1 - confidence) / 2


class Auc(NamedTuple):
    """The areas of one or more score columns on the same samples, and their covariance matrix."""

    areas: NDArray[np.float64]
    covariance: NDArray[np.float64]


def auc_interval(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
) -> Interval:
    """The area under the ROC curve, with an interval that holds for few positives and for areas near 1 too.

        N = A (1 − A) / V: how many independent trials would know the area A as well

        low, high = the quantiles (1 − confidence) / 2 and (1 + confidence) / 2 of Beta(N A + ½, N (1 − A) + ½)

    low is 0 if A = 0, high is 1 if A = 1. V is DeLong's variance, except that each class's part of
    it is mixed with its largest possible value, A (1 − A) / n. The largest value weighs as much as
    one sample. DeLong's part weighs as much as the samples that determine it: (Σ u²)² / Σ u⁴, where
    u are the structural components less A. If no positive is below a negative, no sample determines
    it, and N is the size of the rarer class. In simulations of ten kinds of scores, 8 to 1,000
    positives and areas of 0.6 to 1, the 95 % interval missed the area at most 6.5 % of the time,
    and 2.5 % on average (docs/decisions/0027).

    Args:
        y_true: labels, 1 for the critical class, at least two samples of each class; or a `ScoreSummary`
            in place of labels and scores.
        y_score: scores, higher = more critical.
        confidence: how often such intervals hold the true area.
        units: one value per sample, the same for samples that are not independent of each other,
            e.g. those of one patient. Then V is Obuchowski's (1997), and each class needs two
            units.

    Raises:
        ValueError: fewer than two samples or units of a class.

    >>> perfect = auc_interval([0] * 50 + [1] * 20, [0.1] * 50 + [0.9] * 20)
    >>> round(perfect.low, 2), perfect.high
    (0.88, 1.0)
    """
    check_confidence(confidence)
    return interval_of_auc(evidence(y_true, y_score, units), confidence)


def interval_of_auc(sample: Evidence, confidence: float) -> Interval:
    """`auc_interval` of checked samples."""
    if not isinstance(sample, Sample) or sample.units is None:
        summary = ScoreSummary.of(sample.positive, sample.scores) if isinstance(sample, Sample) else sample
        area = summary.auc()
        spread_of = [
            Spread.of(values - area, np.ones(1, np.int64), counts) for values, counts in summary.components()
        ]
        low, high = area_bounds(np.array(area), spread_of, confidence)
        return Interval(area, float(low), float(high), confidence)
    parts = components(sample.positives, sample.negatives)
    area = float(parts[0].mean())
    own = sample.units[sample.positive], sample.units[~sample.positive]
    sums: list[NDArray[np.float64]] = [
        np.bincount(place, values - area).astype(np.float64) for place, values in zip(own, parts, strict=True)
    ]
    spreads = [Spread.of(one, np.bincount(place)) for one, place in zip(sums, own, strict=True)]
    both = min(map(len, sums))
    covariance = float(sums[0][:both] @ sums[1][:both]) / (len(parts[0]) * len(parts[1]))
    low, high = area_bounds(np.array(area), spreads, confidence, covariance)
    return Interval(area, float(low), float(high), confidence)


class Spread(NamedTuple):
    """What one class says about the variance of the area; numbers, or arrays over many samples of one design.

    trials: how many units of equal size would be as good as its units. variance: DeLong's part.
    weight: how many units determine it.
    """

    trials: float
    variance: NDArray[np.float64]
    weight: NDArray[np.float64]

    @classmethod
    def of(
        cls, deviations: NDArray[np.float64], sizes: NDArray[np.integer], counts: NDArray[np.int64] | None = None
    ) -> "Spread":
        """From each unit's sum of structural components less the area (along the last axis), and its size.

        counts: how many units are alike, default 1.
        """
        counts = np.ones(1, np.int64) if counts is None else counts
        samples, number = int((sizes * counts).sum()), int(((sizes > 0) * counts).sum())
        trials = samples**2 / int((np.square(sizes, dtype=np.int64) * counts).sum())
        if number < 2:
            raise ValueError(f"the interval of an AUC needs two samples or units of each class, got {number}")
        squares = np.square(np.where(np.abs(deviations) > EQUAL, deviations, 0.0))
        total, fourths = (counts * squares).sum(axis=-1), (counts * np.square(squares)).sum(axis=-1)
        weight = np.divide(total**2, fourths, out=np.zeros_like(total), where=fourths > 0)
        return cls(trials, number / (number - 1) * total / samples**2, weight)


def area_bounds(
    area: NDArray[np.float64], spreads: Sequence[Spread], confidence: float, covariance: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of the area's interval; covariance: of the two classes' parts, by units with samples of both."""
    most = area * (1 - area)
    inverse = np.zeros_like(area)
    for one in spreads:
        share = np.divide(one.variance * one.trials, most, out=np.zeros_like(area), where=most > 0)
        inverse += (one.weight * share + 1) / (one.weight + 1) / one.trials
    least = min(one.trials for one in spreads)
    trials = np.maximum(1 / inverse, least)  # V ≤ A (1 − A) / least, whatever the scores (van Dantzig 1951)
    if covariance and most > 0:
        trials = 1 / np.maximum(inverse + 2 * covariance / most, TINY)
    ends = [
        special.betaincinv(trials * area + 0.5, trials * (1 - area) + 0.5, (1 + s * confidence) / 2)
        for s in (-1, 1)
    ]
    return np.where(area > 0, np.minimum(ends[0], area), 0.0), np.where(area < 1, np.maximum(ends[1], area), 1.0)


def difference_ends(a: Interval, b: Interval, correlation: float) -> tuple[float, float]:
    """Both ends of the interval of a − b, from those of a and b (Zou and Donner, Statistics in Medicine 2008).

        low = a − b − √(x² + y² − 2 r x y),    x = a − low of a,  y = high of b − b

    high likewise; r: the correlation of the estimates. It is as safe as its parts, also where both
    areas are 1.
    """

    def reach(x: float, y: float) -> float:
        return float(np.sqrt(max(0.0, x * x + y * y - 2 * correlation * x * y)))

    difference = a.estimate - b.estimate
    low = difference - reach(a.estimate - a.low, b.high - b.estimate)
    high = difference + reach(a.high - a.estimate, b.estimate - b.low)
    return max(-1.0, low), min(1.0, high)


def aucs(positive: Bools, columns: list[Floats], units: NDArray[np.int64] | None = None) -> Auc:
    """Areas of several models on the same samples, with DeLong's covariance; over units, Obuchowski's."""
    counts = np.count_nonzero(positive), np.count_nonzero(~positive)
    if min(counts) < 2:
        raise ValueError(f"DeLong's variance needs two samples of each class, got {counts[0]} and {counts[1]}")
    parts = [components(scores[positive], scores[~positive]) for scores in columns]
    of_positives = np.array([part[0] for part in parts])
    of_negatives = np.array([part[1] for part in parts])
    areas = of_positives.mean(axis=1)
    if units is None:
        covariance = np.cov(of_positives) / counts[0] + np.cov(of_negatives) / counts[1]
        return Auc(areas, np.atleast_2d(covariance))
    apart = np.zeros((len(columns), len(positive)))
    apart[:, positive] = (of_positives - areas[:, None]) / counts[0]
    apart[:, ~positive] = (of_negatives - areas[:, None]) / counts[1]
    together = np.array([np.bincount(units, row) for row in apart])  # both classes of a unit: with their covariance
    number = together.shape[1]
    if number < 2:
        raise ValueError("all rows are of one unit: the spread between units needs at least two")
    return Auc(areas, number / (number - 1) * together @ together.T)


def components(positives: Floats, negatives: Floats) -> tuple[Components, Components]:
    """For each positive the share of negatives it beats, for each negative the share of positives that beat it.

    Ties count half.
    """
    ordered_positives, ordered_negatives = np.sort(positives), np.sort(negatives)
    return _below(ordered_negatives, positives), 1 - _below(ordered_positives, negatives)


def _below(ordered: Floats, values: Floats) -> Components:
    left = np.searchsorted(ordered, values, side="left")
    right = np.searchsorted(ordered, values, side="right")
    return (left + right) / (2 * len(ordered))
