"""The threshold of a fit that promises more than its recall, from held-out or out-of-fold scores."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.metrics import check_scores
from rankreg.notation import Record
from rankreg.operating.guarantees import NotEnoughPositives
from rankreg.operating.points import point_at
from rankreg.operating.promises import Promise, PromisedPoint, Promises, conflicts, promised_point
from rankreg.operating.reviews import Review, review_point, review_promises
from rankreg.operating.spans import Steps
from rankreg.operating.thresholds import (
    NETWORK_ROUNDING,
    ChosenThreshold,
    choose_threshold,
    cross_fitted_threshold,
    lowered,
    rounded_down,
)
from rankreg.operating.units import Per, Sample


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
    changed[positive] = [rounded_down(lowered(value, rounding), scores) for value in scores[positive].tolist()]
    return changed
