"""Promises kept in each group, with one confidence for all groups together.

Groups are independent samples, so each gets confidence^(1/#groups); where a unit has rows in several
groups, the risk is divided. A group whose size could not keep the promises with any scores takes no
share. A group whose scores do not keep them is left uncertified too, but its share stays taken: to
give it to the others after a look at the scores would cost confidence (docs/decisions/0028).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from rankreg.notation import Record
from rankreg.operating.groups import Groups, share_confidence
from rankreg.operating.guarantees import NotEnoughPositives, dependent_share
from rankreg.operating.promises import (
    Conflict,
    Promise,
    PromisedPoint,
    Review,
    alone,
    check_promise_units,
    counted,
    observed_shares,
    promised_point,
    review_point,
)
from rankreg.operating.spans import Asked, PromiseName, Steps
from rankreg.operating.units import Per, Sample, rows_of

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


def promised_groups(sample: Sample, groups: Groups, asked: Asked, *, advise: bool = True) -> PromisedGroups:
    """The threshold of each group that keeps the promises, and one for all these groups if there is one.

    advise: look for the conflicts of the other groups.
    """
    check_promise_units(Steps.of(sample, asked.per), asked)
    steps = {name: Steps.of(part, asked.per) for name, part in groups.parts.items()}

    def judge(some: Steps, confidence: float) -> tuple[PromisedPoint | None, tuple[Conflict, ...]]:
        point = promised_point(some, replace(asked, confidence=confidence), advise=advise)
        return (None, point.conflicts) if point.threshold is None else (point, ())

    def possible(best: Steps, confidence: float) -> bool:
        return not any(span.empty for span in replace(asked, confidence=confidence).spans(best).values())

    free = asked.prevalence is None and (asked.precision is not None or asked.alarms is not None)
    points, uncertified = _certified(steps, asked.confidence, judge, possible, by_rows=free, spread=groups.spread)
    covered = sample.part(groups.rows_in(points)) if points else sample
    return PromisedGroups(
        confidence=asked.confidence,
        targets={name: asked.target(name) for name in asked.names},
        prevalence=asked.prevalence,
        per=asked.per,
        points=points,
        everyone=_everyone(points, covered, asked),
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

    def asked(sure: float) -> tuple[Asked, Asked]:
        third = dependent_share(sure, 3)
        return alone("tpr", tpr, prevalence, third), alone("precision", precision, prevalence, third)

    def judge(some: Steps, sure: float) -> tuple[Review | None, tuple[Conflict, ...]]:
        try:
            point = review_point(some, precision, tpr, prevalence, sure, advise=advise)
        except NotEnoughPositives:
            found = (promised_point(some, one, advise=advise).conflicts for one in asked(sure))
            return None, tuple(chain.from_iterable(found))
        return (None, point.conflicts) if point.alarm_from is None else (point, ())

    def possible(best: Steps, sure: float) -> bool:
        return not any(one.kept(best).empty for one in asked(sure))

    found = _certified(steps, confidence, judge, possible, by_rows=prevalence is None, spread=groups.spread)
    return ReviewGroups(confidence, {"tpr": tpr, "precision": precision}, prevalence, *found)


def _certified(
    steps: dict[str, Steps],
    confidence: float,
    judge: Callable[[Steps, float], tuple[Point | None, tuple[Conflict, ...]]],
    possible: Callable[[Steps, float], bool],
    *,
    by_rows: bool,
    spread: bool,
) -> tuple[dict[str, Point], dict[str, UncertifiedGroup]]:
    """The point of each certified group, and the others.

    judge: the point at a confidence, or the conflicts. possible: whether a perfect model could keep the
    promises. by_rows: whether a promise is about rows drawn together. Then the number of positives is part of
    what was drawn, and only the number of rows may choose the groups that share the confidence.
    """
    sizes = {
        name: (rows_of(one.rows) - rows_of(one.negatives), rows_of(one.negatives)) for name, one in steps.items()
    }
    sharing = [name for name in steps if by_rows or all(sizes[name])]
    least = 1 - dependent_share(confidence, max(1, len(sharing)))
    risks = {name: _least_risk(_perfect(steps[name], by_rows=by_rows), possible, least) for name in sharing}
    each, short = share_confidence(risks, confidence, independent=not spread)
    points: dict[str, Point] = {}
    uncertified = {}
    for name, size in sizes.items():
        sure = short[name].confidence if name in short else each
        point, conflicts = judge(steps[name], sure) if all(size) else (None, ())
        if point is not None and name not in short:
            points[name] = point
        else:
            uncertified[name] = UncertifiedGroup(*size, sure, conflicts, *_more(conflicts))
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


def _everyone(points: dict[str, PromisedPoint], covered: Sample, asked: Asked) -> PromisedPoint | None:
    """The threshold in the intervals of all groups, if there is one; the promises hold in each group."""
    ends = [(one.lowest, one.highest) for one in points.values()]
    lowest = max((low for low, _ in ends if low is not None), default=None)
    highest = min((high for _, high in ends if high is not None), default=None)
    if lowest is None or highest is None or lowest > highest:
        return None
    threshold = lowest if asked.tpr is None else highest
    caught, false = covered.alarms(threshold)
    judged = covered.judged(asked.per).scores
    counts = counted(Steps.of(covered, asked.per), asked.prevalence)
    observed: dict[str, Any] = observed_shares(
        int(np.count_nonzero(judged >= threshold)) / len(judged),
        caught / counts["positives"],
        false / counts["negatives"],
        counts["prevalence"],
    )
    seen = observed | {"tpr": observed["recall"], "alarms": observed["alarms_per_1000"]}
    sure = [{promise.name: promise.confidence for promise in one.promises} for one in points.values()]
    return PromisedPoint(
        threshold=threshold,
        tpr=asked.tpr,
        confidence=asked.confidence,
        promises=tuple(
            Promise(name, asked.target(name), min(one[name] for one in sure), asked.target(name), seen[name])
            for name in asked.names
        ),
        conflicts=(),
        lowest=lowest,
        highest=highest,
        per=asked.per,
        **observed,
        **counts,
    )
