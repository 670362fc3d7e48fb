"""`certify_promises` and `certify_review`: labels and scores in, thresholds that keep promises out."""

from collections.abc import Sequence
from typing import overload

from numpy.typing import ArrayLike

from rankreg.operating.groups import Groups
from rankreg.operating.guarantees import check_confidence, check_prevalence, check_share, check_target
from rankreg.operating.promise_groups import PromisedGroups, ReviewGroups, promised_groups, review_groups
from rankreg.operating.promises import PromisedPoint, Review, check_alarms, promised_point, review_point
from rankreg.operating.score_summary import ScoreSummary, evidence
from rankreg.operating.spans import Asked, Steps
from rankreg.operating.units import Per, Sample


@overload
def certify_promises(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    tpr: float | None = None,
    fpr: float | None = None,
    precision: float | None = None,
    alarms: float | None = None,
    prevalence: float | None = None,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    per: Per = "row",
    groups: None = None,
    names: None = None,
) -> PromisedPoint: ...
@overload
def certify_promises(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    tpr: float | None = None,
    fpr: float | None = None,
    precision: float | None = None,
    alarms: float | None = None,
    prevalence: float | None = None,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    per: Per = "row",
    groups: ArrayLike,
    names: Sequence[str] | None = None,
) -> PromisedGroups: ...
def certify_promises(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    tpr: float | None = None,
    fpr: float | None = None,
    precision: float | None = None,
    alarms: float | None = None,
    prevalence: float | None = None,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    per: Per = "row",
    groups: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> PromisedPoint | PromisedGroups:
    """The threshold that keeps every promise with one confidence; or which promises conflict and what would help.

    Recall and FPR are exact order statistics. Alarms are bounded by class, or counted if the sample is
    representative. A precision is tested from high thresholds down (docs/decisions/0028). With a recall
    promise the highest threshold that keeps all is taken, otherwise the lowest. Fix the promises before
    you look at the scores.

    Args:
        y_true: labels, 1 for the critical class; or a `ScoreSummary` alone.
        y_score: scores, higher = more critical.
        tpr: recall at least this.
        fpr: share of negatives that raise an alarm, at most this.
        precision: share of alarms that are real, at least this.
        alarms: alarms per 1,000 rows, at most this.
        prevalence: share of positives where it will be used. Without it, `precision` and `alarms` hold
            for rows drawn like those of the sample.
        confidence: of all promises together, default 0.95.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        per: "row" or "unit", as for `certify`.
        groups: one value per sample, or with `names` an index into the names. The promises are kept in each
            group, with one confidence for all groups together. A group that cannot keep them is named and
            left uncertified; it does not block the others.
        names: the names of the groups; default: their values as text.

    Returns:
        The threshold and every promise with its bound; without a threshold, the conflicts. With `groups`, the
        same for each group.

    Raises:
        ValueError: no promise was given, or the labels, scores or settings make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> point = certify_promises(labels, scores, tpr=0.9, fpr=0.2)
    >>> point.threshold, [round(promise.bound, 3) for promise in point.promises]
    (804.0, [0.901, 0.129])
    >>> conflict = certify_promises(labels, scores, tpr=0.9, fpr=0.05).conflicts[0]
    >>> conflict.between, [round(one.target, 3) for one in conflict.closest]
    (('tpr', 'fpr'), [0.23, 0.129])
    >>> found = certify_promises(labels, scores, tpr=0.8, fpr=0.2, groups=["a", "b"] * 500)
    >>> {name: point.threshold for name, point in found.points.items()}, found.everyone.threshold
    ({'a': 806.0, 'b': 807.0}, 806.0)
    """
    check_alarms(alarms)
    asked = Asked(
        None if tpr is None else check_target(tpr),
        None if fpr is None else check_share(fpr, "fpr", "write 0.05 for 5 % of the negatives"),
        None if precision is None else check_share(precision, "precision", "write 0.8 for 80 % of the alarms"),
        alarms,
        None if prevalence is None else check_prevalence(prevalence),
        check_confidence(confidence),
        per,
    )
    if not asked.names:
        raise ValueError("nothing is promised: give at least one of tpr, fpr, precision and alarms")
    if groups is not None:
        sample = _in_memory(y_true, y_score, units)
        return promised_groups(sample, Groups.of(sample, groups, names), asked)
    return promised_point(Steps.of(evidence(y_true, y_score, units), per), asked)


@overload
def certify_review(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    precision: float,
    tpr: float = 0.95,
    prevalence: float | None = None,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    groups: None = None,
    names: None = None,
) -> Review: ...
@overload
def certify_review(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    precision: float,
    tpr: float = 0.95,
    prevalence: float | None = None,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    groups: ArrayLike,
    names: Sequence[str] | None = None,
) -> ReviewGroups: ...
def certify_review(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    precision: float,
    tpr: float = 0.95,
    prevalence: float | None = None,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> Review | ReviewGroups:
    """Two thresholds: the lower keeps the recall, the upper the precision; between them a person looks.

    The recall, the precision and the bound of the review load get a third of the risk each.

    Args:
        y_true: labels, 1 for the critical class; or a `ScoreSummary` alone.
        y_score: scores, higher = more critical.
        precision: share of alarms that are real, at least this.
        tpr: share of positives that are alarmed or reviewed, at least this; default 0.95.
        prevalence: share of positives where it will be used. Without it, the promises hold for rows
            drawn like those of the sample.
        confidence: of both promises and the bound of the load together, default 0.95.
        units: one value per sample, the same for dependent samples, e.g. those of one patient. Units of
            several rows need a prevalence.
        groups: one value per sample, or with `names` an index into the names, as for `certify_promises`.
        names: the names of the groups; default: their values as text.

    Returns:
        Both thresholds and the review load; with `groups`, the same for each group.

    Raises:
        NotEnoughPositives: no threshold keeps the recall; the message says how many positives are needed. With
            `groups` such a group is left uncertified instead.
        ValueError: the labels, scores or settings make no sense.

    >>> labels, scores = [0] * 900 + [1] * 300, [*range(900), *range(700, 1000)]
    >>> found = certify_review(labels, scores, precision=0.8)
    >>> found.review_from, found.alarm_from, round(found.review_per_1000)
    (707.0, 884.0, 295)
    """
    check_target(tpr)
    check_share(precision, "precision", "write 0.8 for 80 % of the alarms")
    check_confidence(confidence)
    if prevalence is not None:
        check_prevalence(prevalence)
    if groups is not None:
        parts = Groups.of(_in_memory(y_true, y_score, units), groups, names)
        return review_groups(parts, precision, tpr, prevalence, confidence)
    return review_point(Steps.of(evidence(y_true, y_score, units)), precision, tpr, prevalence, confidence)


def _in_memory(
    y_true: ArrayLike | ScoreSummary, y_score: ArrayLike | None, units: ArrayLike | None = None
) -> Sample:
    """Labels and scores, which groups need."""
    if isinstance(y_true, ScoreSummary):
        raise ValueError("a ScoreSummary knows no groups: pass labels and scores, or a summary of each group alone")
    if y_score is None:
        raise ValueError("pass labels and scores: y_score is missing")
    return Sample.of(y_true, y_score, units)
