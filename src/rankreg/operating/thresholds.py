"""The threshold of a fit: certified on held-out scores, or from out-of-fold scores; with more promises or none."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from rankreg.metrics import check_scores, empirical_thresholds, float32_below
from rankreg.notation import Record
from rankreg.operating.guarantees import (
    NotEnoughPositives,
    certified_rank,
    check_confidence,
    check_target,
    positives_needed,
)
from rankreg.operating.points import OperatingPoint, lowest, point_at
from rankreg.operating.promises import Promise, PromisedPoint, Promises, conflicts, promised_point
from rankreg.operating.reviews import Review, review_point, review_promises
from rankreg.operating.spans import Steps
from rankreg.operating.units import Per, Sample, independent_of, units_of

Kind = Literal["certified", "cross-fitted", "expected", "empirical"]
NETWORK_ROUNDING = 1e-5  # how much a float32 network's scores may differ between batches and machines


@dataclass(frozen=True)
class ChosenThreshold(Record):
    """The threshold to use: alarm when score ≥ value.

    Args:
        value: the threshold, lowered by what scores may differ when they are computed again. It is
            a float32 number if the scores are, so that every runtime compares with the same number.
        certified: with `confidence`, the recall on new positives is at least `tpr`, proven.
        tpr: the target recall.
        confidence: of the guarantee.
        per: "row" for the recall of rows, "unit" for the recall of units.
        positives: how many calibration positives there were.
        units: how many units they belong to; None if none were given.
        point: the certified operating point at `value`; None without a certificate.
        highest_tpr: the highest TPR these positives can certify; None if `tpr` is certified.
        needed: how many positives, or units where units were given, certify `tpr`; None if `tpr` is
            certified.
        because: why nothing is certified, in one sentence; None if `tpr` is certified.
        kind: "certified"; "cross-fitted" or "expected", see `cross_fitted_threshold`; or "empirical", the
            usual threshold, which guarantees nothing.
        expected_recall: what share of new positives is caught on average, where it is known.
    """

    value: float
    certified: bool
    tpr: float
    confidence: float
    per: Per
    positives: int
    units: int | None
    point: OperatingPoint | None = None
    highest_tpr: float | None = None
    needed: int | None = None
    because: str | None = None
    kind: Kind = "empirical"
    expected_recall: float | None = None


def choose_threshold(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tpr: float = 0.95,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    per: Per = "row",
    rounding: float = NETWORK_ROUNDING,
    scale: float = 1.0,
) -> ChosenThreshold:
    """The threshold to use after calibration: certified if the positives suffice, otherwise empirical.

        value = threshold − rounding · max(scale, |threshold|),    rounded down to float32 if the scores are float32

    The threshold is the score of one positive. Scores differ in the last digits when they are
    computed in another batch or on another machine, so it is lowered by more than that. A lower
    threshold never catches less.

    Args:
        y_true: labels of calibration samples that the model has not seen, 1 for the critical class.
        y_score: their scores, higher = more critical.
        tpr: the target recall, default 0.95.
        confidence: of the guarantee, default 0.95.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        per: "row" or "unit", as for `certify`.
        rounding: how much scores may differ, relative to their size; 1e-5 suits float32 networks.
        scale: size of the scores where it exceeds the threshold's, default 1; 0 for probabilities.

    Returns:
        The threshold, and what it promises or why it promises nothing.

    Raises:
        ValueError: the labels, scores, TPR or confidence make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> chosen = choose_threshold(labels, scores)
    >>> chosen.certified, round(chosen.value, 3), chosen.point.threshold == chosen.value
    (True, 800.992, True)
    >>> few = choose_threshold(labels[850:950], scores[850:950])
    >>> few.certified, few.needed
    (False, 59)
    """
    check_target(tpr)
    check_confidence(confidence)
    sample = Sample.of(y_true, y_score, units)
    scores, trials = sample.judged(per)
    settings: dict[str, Any] = {"tpr": tpr, "confidence": confidence, "per": per}
    rank = certified_rank(trials, tpr, confidence)
    threshold = lowest(scores, rank) if rank else float(empirical_thresholds(scores, np.array([tpr]))[0])
    value = float(rounded_down(lowered(threshold, rounding, scale), y_score))
    point = None
    if rank:
        point = point_at(sample, rank, threshold=value, fpr_confidence=confidence, prevalence=None, **settings)
    return ChosenThreshold(
        value=value,
        certified=point is not None,
        positives=len(sample.positives),
        units=units_of(trials),
        point=point,
        kind="empirical" if point is None else "certified",
        **settings,
        **({} if rank else _shortage(NotEnoughPositives(trials, tpr, confidence))),
    )


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
    size = len(scores) / independent_of(trials)
    certified = certified_rank(trials, tpr, confidence)
    rank = certified or max(1, int((1 - tpr) * (len(scores) + size) - size + 1 + 1e-9))
    return ChosenThreshold(
        value=float(rounded_down(lowered(lowest(scores, rank), rounding), y_score)),
        certified=False,
        tpr=tpr,
        confidence=confidence,
        per=per,
        positives=len(sample.positives),
        units=units_of(trials),
        kind="cross-fitted" if certified else "expected",
        expected_recall=1 - (rank - 1 + size) / (len(scores) + size),
        **({} if certified else _shortage(NotEnoughPositives(trials, tpr, confidence))),
    )


def _shortage(error: NotEnoughPositives) -> dict[str, Any]:
    """Why nothing is certified, and what would be."""
    return {"highest_tpr": error.highest_tpr, "needed": error.needed, "because": str(error)}


def rounded_down(values: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
    """The values, or the next lower float32 numbers where the scores are float32."""
    exact = np.asarray(values, dtype=np.float64)
    return float32_below(exact).astype(np.float64) if np.asarray(scores).dtype == np.float32 else exact


def lowered(thresholds: ArrayLike, rounding: float = NETWORK_ROUNDING, scale: float = 1.0) -> NDArray[np.float64]:
    """Thresholds less what scores may differ when they are computed again; infinite ones stay."""
    values = np.asarray(thresholds, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), values - rounding * np.maximum(scale, np.abs(values)), values)


@dataclass(frozen=True)
class PromisedThreshold(Record):
    """The threshold of a fit, and what became of its promises.

    Attributes:
        threshold: where to alarm; with a review, where the review begins. If the promises are not kept it keeps
            the recall alone.
        found: the promises with their bounds, a `Review`, or a `PromisedPoint` without threshold that says why
            they are not kept.
    """

    threshold: ChosenThreshold
    found: PromisedPoint | Review

    @property
    def kept(self) -> bool:
        """Whether all promises are kept."""
        return isinstance(self.found, Review) or self.found.threshold is not None

    @property
    def alarm_from(self) -> float | None:
        """The upper threshold of a review; None without one."""
        return self.found.alarm_from if isinstance(self.found, Review) else None


def promised_threshold(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    promises: Promises,
    held_out: bool,
    tpr: float = 0.95,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    per: Per = "row",
    rounding: float = NETWORK_ROUNDING,
) -> PromisedThreshold:
    """The threshold that keeps a recall and more promises; if none does, the recall's own and why.

    Scores differ in the last digits when they are computed again. So every positive is judged as if it scored
    lower by `rounding`, as in `choose_threshold`: the thresholds are lower by that, and false alarms are counted
    there.

    On held-out scores the promises are certified. On out-of-fold scores nothing is proven about an FPR, a
    precision or a number of alarms; simulations show how often they hold (docs/decisions/0041). The load of a
    review is then an estimate without a bound.

    Args:
        y_true: labels, 1 for the critical class.
        y_score: scores of samples that the judging model has not seen, higher = more critical.
        promises: what is promised beside the recall.
        held_out: whether no part of the model has seen the samples; otherwise the scores are out of fold.
        tpr: the target recall, default 0.95.
        confidence: of all promises together, default 0.95.
        units: one value per sample, the same for dependent samples.
        per: "row" or "unit", as for `certify`.
        rounding: how much scores may differ, relative to their size.

    Returns:
        The threshold, and the promises with their bounds or why they are not kept.

    Raises:
        ValueError: the labels, scores or promises make no sense, or a precision is asked of units of several
            rows without a prevalence.

    >>> labels, scores = [0] * 900 + [1] * 300, [*range(900), *range(700, 1000)]
    >>> asked = Promises(precision=0.8, review=True)
    >>> found = promised_threshold(labels, scores, promises=asked, held_out=True)
    >>> found.kept, round(found.threshold.value), round(found.alarm_from), found.threshold.kind
    (True, 707, 884, 'certified')
    >>> found = promised_threshold(labels, scores, promises=Promises(fpr=0.01), held_out=True)
    >>> found.kept, found.found.conflicts[0].between, found.threshold.certified
    (False, ('tpr', 'fpr'), True)
    """
    sample = Sample.of(y_true, y_score, units)
    lower = _positives_lowered(np.asarray(y_true), y_score, rounding)
    steps = Steps.of(Sample.of(y_true, lower, units), per)
    found: PromisedPoint | Review
    if promises.review:
        if per == "unit":
            raise ValueError('a review speaks of rows: it does not go with per="unit"')
        found = _reviewed(steps, promises, tpr, confidence)
    else:
        asked = promises.asked(tpr, confidence, per)
        found = promised_point(steps, asked)
        if found.threshold is None:
            found = replace(found, conflicts=conflicts(steps, asked))
    value = found.review_from if isinstance(found, Review) else found.threshold
    sure = confidence if value is None else promises.recall_confidence(tpr, confidence, mixed=sample.mixed)
    settings: dict[str, Any] = {"tpr": tpr, "confidence": sure, "per": per}
    choose = choose_threshold if held_out else cross_fitted_threshold
    chosen = choose(y_true, y_score, units=units, rounding=rounding, **settings)
    if value is None:
        return PromisedThreshold(chosen, found)
    if isinstance(found, Review) and not held_out:  # its bound did not hold in all simulations: claim nothing
        found = replace(found, review_per_1000_at_most=None)
    if chosen.point is not None and value < chosen.value:  # the precision asked for a lower one
        settings |= {"fpr_confidence": sure, "prevalence": None}
        chosen = replace(chosen, point=point_at(sample, chosen.point.rank, threshold=value, **settings))
    return PromisedThreshold(replace(chosen, value=value, confidence=confidence), found)


def _reviewed(steps: Steps, promises: Promises, tpr: float, confidence: float) -> PromisedPoint | Review:
    """The review, or which of its promises cannot be shown."""
    asked = promises.targets["precision"], tpr, promises.prevalence, confidence
    recall, alarms = review_promises(*asked)
    missing = alarms
    try:
        found = review_point(steps, *asked)
        if found.alarm_from is not None:
            return found
    except NotEnoughPositives:
        missing = recall
    both = tuple(
        Promise(name, target, one.confidence) for one in (recall, alarms) for name, target in one.targets.items()
    )
    return replace(
        promised_point(steps, missing),
        tpr=tpr,
        promises=both,
        confidence=confidence,
        review=True,
        conflicts=conflicts(steps, missing),
    )


def _positives_lowered(labels: NDArray[Any], y_score: ArrayLike, rounding: float) -> NDArray[Any]:
    """The scores, those of positives lower by what they may differ when they are computed again."""
    scores = check_scores(y_score)
    positive = labels == 1
    changed = np.array(scores)
    changed[positive] = rounded_down(lowered(scores[positive], rounding), scores)
    return changed


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
