"""`certify_promises` and `certify_review`: thresholds that keep promises, for a sample and for each group of it.

Groups are independent samples, so each gets confidence^(1/#groups); where a unit has rows in several
groups, the risk is divided. A group whose size could not keep the promises with any scores takes no
share. A group whose scores do not keep them is left uncertified too, but its share stays taken: to
give it to the others after a look at the scores would cost confidence (docs/decisions/0028).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from rankreg.notation import Record
from rankreg.operating.guarantees import (
    NotEnoughPositives,
    check_confidence,
    check_target,
    dependent_share,
    share_confidence,
)
from rankreg.operating.promises import (
    OBSERVED,
    Conflict,
    Promise,
    PromisedPoint,
    Promises,
    check_promise_units,
    conflicts,
    counted,
    observed_shares,
    promised_point,
)
from rankreg.operating.reviews import Review, check_review_units, review_conflicts, review_point, review_promises
from rankreg.operating.score_summary import ScoreSummary, evidence
from rankreg.operating.spans import Asked, PromiseName, Steps
from rankreg.operating.units import Groups, Per, rows_of

HALVINGS = 40
Point = TypeVar("Point", PromisedPoint, Review)


@dataclass(frozen=True)
class UncertifiedGroup(Record):
    """A group for which nothing is promised, and what would help.

    Attributes:
        positives: how many positives it has.
        negatives: how many negatives it has.
        confidence: what it would need, so that one confidence holds for all groups together.
        conflicts: which promises it cannot keep; empty if it has no positives or no negatives.
        more_positives: how many more labelled positives would do, if the shares stay as they are.
        more_negatives: and how many more negatives. Both are None if no number will, or if it is not known.
    """

    positives: int
    negatives: int
    confidence: float
    conflicts: tuple[Conflict, ...]
    more_positives: int | None
    more_negatives: int | None


@dataclass(frozen=True)
class PromisedGroups(Record):
    """A threshold for each group: with `confidence` all promises hold in all these groups together.

    Attributes:
        confidence: of all promises in all certified groups together.
        targets: what is promised in each group, by the name of the promise.
        prevalence: the share of positives that was given for all groups; None if each has that of its sample.
        per: "row" or "unit", as for `certify`.
        points: the point of each certified group by its name.
        everyone: one threshold that keeps the promises in every certified group, with the shares observed
            in all of them together; None if there is no such threshold.
        uncertified: the other groups by name. No threshold above covers them.
    """

    confidence: float
    targets: dict[PromiseName, float]
    prevalence: float | None
    per: Per
    points: dict[str, PromisedPoint]
    everyone: PromisedPoint | None
    uncertified: dict[str, UncertifiedGroup]


@dataclass(frozen=True)
class ReviewGroups(Record):
    """Two thresholds for each group: with `confidence` all promises and loads hold in all these groups together.

    Attributes:
        confidence: of all promises and bounds of the load in all certified groups together.
        targets: the recall ("tpr") and the precision that are promised in each group.
        prevalence: the share of positives that was given for all groups; None if each has that of its sample.
        points: the review of each certified group by its name.
        uncertified: the other groups by name.
    """

    confidence: float
    targets: dict[PromiseName, float]
    prevalence: float | None
    points: dict[str, Review]
    uncertified: dict[str, UncertifiedGroup]


class PromiseSettings(TypedDict, total=False):
    """The keyword arguments of `certify_promises` with and without groups."""

    tpr: float | None
    fpr: float | None
    precision: float | None
    alarms: float | None
    prevalence: float | None
    confidence: float
    units: ArrayLike | None
    per: Per


@overload
def certify_promises(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    groups: None = None,
    **settings: Unpack[PromiseSettings],
) -> PromisedPoint: ...
@overload
def certify_promises(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    groups: ArrayLike,
    names: Sequence[str] | None = None,
    **settings: Unpack[PromiseSettings],
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
    asked = Promises(fpr, precision, alarms, prevalence).asked(tpr, confidence, per)
    if not asked.targets:
        raise ValueError("nothing is promised: give at least one of tpr, fpr, precision and alarms")
    sample = evidence(y_true, y_score, units)
    if groups is not None:
        return promised_groups(Groups.of(sample, groups, names), asked)
    steps = Steps.of(sample, per)
    point = promised_point(steps, asked)
    return point if point.threshold is not None else replace(point, conflicts=conflicts(steps, asked))


class ReviewSettings(TypedDict, total=False):
    """The keyword arguments of `certify_review` with and without groups."""

    tpr: float
    prevalence: float | None
    confidence: float
    units: ArrayLike | None


@overload
def certify_review(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    precision: float,
    groups: None = None,
    **settings: Unpack[ReviewSettings],
) -> Review: ...
@overload
def certify_review(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    precision: float,
    groups: ArrayLike,
    names: Sequence[str] | None = None,
    **settings: Unpack[ReviewSettings],
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
    Promises(precision=precision, prevalence=prevalence, review=True)  # checks both
    asked = precision, check_target(tpr), prevalence, check_confidence(confidence)
    sample = evidence(y_true, y_score, units)
    if groups is not None:
        return review_groups(Groups.of(sample, groups, names), *asked)
    steps = Steps.of(sample)
    found = review_point(steps, *asked)
    if found.alarm_from is not None:
        return found
    why = review_conflicts(steps, *asked)
    highest = next((one.target for conflict in why for one in conflict.closest), None)
    return replace(found, conflicts=why, highest_precision=highest)


def promised_groups(groups: Groups, asked: Asked, *, advise: bool = True) -> PromisedGroups:
    """The threshold of each group that keeps the promises, and one for all these groups if there is one.

    advise: look for the conflicts of the other groups.
    """
    steps = {name: Steps.of(part, asked.per) for name, part in groups.parts.items()}
    check_promise_units(groups.sample.row_trials, asked)

    def at(confidence: float) -> Asked:
        return replace(asked, confidence=confidence)

    def judge(some: Steps, confidence: float) -> PromisedPoint | None:
        point = promised_point(some, at(confidence))
        return None if point.threshold is None else point

    points, uncertified = _certified(
        steps,
        asked.confidence,
        judge=judge,
        possible=lambda best, sure: not any(at(sure).span(name, best).empty for name in asked.targets),
        explain=lambda some, sure: conflicts(some, at(sure)) if advise else (),
        by_rows=asked.free,
        spread=groups.spread,
    )
    return PromisedGroups(
        confidence=asked.confidence,
        targets=asked.targets,
        prevalence=asked.prevalence,
        per=asked.per,
        points=points,
        everyone=_everyone(points, groups, asked),
        uncertified=uncertified,
    )


def review_groups(
    groups: Groups,
    precision: float,
    tpr: float,
    prevalence: float | None,
    confidence: float,
    *,
    advise: bool = True,
) -> ReviewGroups:
    """The two thresholds of each group that keep the recall and the precision; advise: as for `promised_groups`."""
    steps = {name: Steps.of(part) for name, part in groups.parts.items()}
    for one in steps.values():
        check_review_units(one.rows, prevalence)
    asked = precision, tpr, prevalence

    def judge(some: Steps, sure: float) -> Review | None:
        try:
            point = review_point(some, *asked, sure)
        except NotEnoughPositives:
            return None
        return None if point.alarm_from is None else point

    found = _certified(
        steps,
        confidence,
        judge=judge,
        possible=lambda best, sure: not any(one.kept(best).empty for one in review_promises(*asked, sure)),
        explain=lambda some, sure: review_conflicts(some, *asked, sure) if advise else (),
        by_rows=prevalence is None,
        spread=groups.spread,
    )
    return ReviewGroups(confidence, {"tpr": tpr, "precision": precision}, prevalence, *found)


def _certified(
    steps: dict[str, Steps],
    confidence: float,
    *,
    judge: Callable[[Steps, float], Point | None],
    possible: Callable[[Steps, float], bool],
    explain: Callable[[Steps, float], tuple[Conflict, ...]],
    by_rows: bool,
    spread: bool,
) -> tuple[dict[str, Point], dict[str, UncertifiedGroup]]:
    """The point of each certified group, and the others.

    judge: the point at a confidence. possible: whether a perfect model could keep the promises. explain: why
    there is no point. by_rows: whether a promise is about rows drawn together. Then the number of positives is
    part of what was drawn, and only the number of rows may choose the groups that share the confidence.
    """
    sizes = {
        name: (rows_of(one.rows) - rows_of(one.negatives), rows_of(one.negatives)) for name, one in steps.items()
    }
    sharing = [name for name in steps if by_rows or all(sizes[name])]
    least = 1 - dependent_share(confidence, max(1, len(sharing)))
    risks = {name: _least_risk(_perfect(steps[name], by_rows=by_rows), possible, least) for name in sharing}
    each, short = share_confidence(risks, confidence, independent=not spread)
    points, uncertified = dict[str, Point](), dict[str, UncertifiedGroup]()
    for name, one in steps.items():
        sure = short[name][0] if name in short else each
        both = all(sizes[name])
        point = judge(one, sure) if both and name not in short else None
        if point is not None:
            points[name] = point
        else:
            why = explain(one, sure) if both else ()
            uncertified[name] = UncertifiedGroup(*sizes[name], sure, why, *_more(why))
    return points, uncertified


def _more(conflicts: tuple[Conflict, ...]) -> tuple[int | None, int | None]:
    """How many more samples settle all conflicts; None if some cannot be settled, or if there are none."""
    positives = [one.more_positives for one in conflicts]
    negatives = [one.more_negatives for one in conflicts]
    if not conflicts or None in positives:
        return None, None
    return max(filter(None, positives), default=0), max(filter(None, negatives), default=0)


def _perfect(steps: Steps, *, by_rows: bool) -> Steps:
    """The steps of a perfect model on as many samples; by_rows: any of the rows may be of either class."""
    positives, negatives = (steps.rows, steps.rows) if by_rows else (steps.positives, steps.negatives)
    count = np.arange(1, rows_of(positives) + 1)
    return replace(
        steps,
        thresholds=count[::-1].astype(np.float64),
        caught=count,
        true=count,
        false=np.zeros_like(count),
        positives=positives,
        negatives=negatives,
    )


def _least_risk(best: Steps, possible: Callable[[Steps, float], bool], lowest: float) -> float:
    """The least risk, from `lowest` on, at which a perfect model could keep the promises; 1 if there is none."""
    if possible(best, 1 - lowest):
        return lowest
    low, high = lowest, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if possible(best, 1 - middle) else (middle, high)
    return high


def _everyone(points: dict[str, PromisedPoint], groups: Groups, asked: Asked) -> PromisedPoint | None:
    """The threshold in the intervals of all groups, if there is one; the promises hold in each group."""
    lowest = max((one.lowest for one in points.values() if one.lowest is not None), default=None)
    highest = min((one.highest for one in points.values() if one.highest is not None), default=None)
    if lowest is None or highest is None or lowest > highest:
        return None
    threshold, covered = highest if "tpr" in asked.targets else lowest, groups.together(points)
    caught, false = covered.alarms(threshold)
    judged = covered.judged(asked.per).scores
    counts = counted(Steps.of(covered, asked.per), asked.prevalence)
    observed: dict[str, Any] = observed_shares(
        int(np.count_nonzero(judged >= threshold)) / len(judged),
        caught / counts["positives"],
        false / counts["negatives"],
        counts["prevalence"],
    )
    sure = [{promise.name: promise.confidence for promise in one.promises} for one in points.values()]
    return PromisedPoint(
        threshold=threshold,
        tpr=asked.targets.get("tpr"),
        confidence=asked.confidence,
        promises=tuple(
            Promise(name, target, min(one[name] for one in sure), target, observed[OBSERVED[name]])
            for name, target in asked.targets.items()
        ),
        conflicts=(),
        lowest=lowest,
        highest=highest,
        per=asked.per,
        **observed,
        **counts,
    )
