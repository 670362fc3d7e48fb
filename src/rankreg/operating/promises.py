"""Any promise a threshold must keep: recall, FPR, precision, alarms; alone, together, or with a review between.

One confidence holds for all promises together (docs/decisions/0028). The computations need only the
`Steps`: the positives' scores and how many negatives reach each. `certify_promises` and
`certify_review` call them, for a sample and for each group of it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rankreg.notation import Record
from rankreg.operating.guarantees import (
    NotEnoughPositives,
    dependent_share,
    upper_bound,
)
from rankreg.operating.spans import (
    WEAKEST,
    Asked,
    PromiseName,
    Span,
    Steps,
    conflicting,
    enough_samples,
    nearest,
    precision_span,
    recall_at_least,
    recall_span,
    review_at_most,
)
from rankreg.operating.units import Per, rows_of, shares_units, units_of


@dataclass(frozen=True)
class Promise(Record):
    """One promise and what the samples show about it.

    Attributes:
        name: "tpr" and "precision" are at least, "fpr" and "alarms" at most the target.
        target: what was promised; alarms are per 1,000 rows.
        confidence: what this promise got of the common confidence.
        bound: what is shown at the threshold, at least as good as the target; None without a threshold.
        observed: the value in the sample at the threshold; None without a threshold.
    """

    name: PromiseName
    target: float
    confidence: float
    bound: float | None = None
    observed: float | None = None


@dataclass(frozen=True)
class Closest(Record):
    """What could have been promised instead. It was found by looking: certify it on fresh samples.

    Attributes:
        keeps: the promise that stays as it is; None if one promise alone was too much.
        name: the promise that has to give way.
        target: the nearest target that these samples keep.
        threshold: the threshold that keeps both.
    """

    keeps: PromiseName | None
    name: PromiseName
    target: float
    threshold: float


@dataclass(frozen=True)
class Conflict(Record):
    """Promises that no threshold keeps.

    Attributes:
        between: the two promises, or the one that cannot be kept even alone.
        closest: what could have been promised instead, for each that may give way.
        more_positives: how many more labelled positives would settle it, if the shares stay as they are.
        more_negatives: and how many more negatives. Both are None if no number will: the shares
            observed in this sample conflict too.
    """

    between: tuple[PromiseName, ...]
    closest: tuple[Closest, ...]
    more_positives: int | None
    more_negatives: int | None


@dataclass(frozen=True)
class PromisedPoint(Record):
    """Alarm when score ≥ threshold: with `confidence` all promises hold together. Or why no threshold keeps them.

    Attributes:
        threshold: the threshold; None if none keeps all promises.
        tpr: the recall that is promised; None if none is.
        confidence: of all promises together.
        promises: each promise with its bound.
        conflicts: which promises conflict; empty if there is a threshold.
        lowest: the lowest threshold that keeps all promises.
        highest: the highest one.
        recall: the share of positives observed at the threshold, of rows or of units (see `per`).
        fpr: the share of negatives observed.
        precision: the share of alarms that are real, at the prevalence, from the observed shares.
        alarms_per_1000: alarms per 1,000 rows at the prevalence, from the observed shares.
        prevalence: the share of positives that these numbers assume.
        prevalence_given: whether the caller gave it; otherwise it is that of the sample.
        positives: how many positives there were.
        negatives: how many negatives there were.
        units: how many units the positives belong to; None if none were given.
        per: "row" or "unit", as for `certify`.
        review: the promises are those of a review, which needs two thresholds; then there is no threshold.
    """

    threshold: float | None
    tpr: float | None
    confidence: float
    promises: tuple[Promise, ...]
    conflicts: tuple[Conflict, ...]
    lowest: float | None
    highest: float | None
    recall: float | None
    fpr: float | None
    precision: float | None
    alarms_per_1000: float | None
    prevalence: float
    prevalence_given: bool
    positives: int
    negatives: int
    units: int | None = None
    per: Per = "row"
    review: bool = False


@dataclass(frozen=True)
class Review(Record):
    """Three answers: alarm when score ≥ `alarm_from`, review when score ≥ `review_from`, else dismiss.

    Attributes:
        review_from: the lower threshold. At least `tpr` of the positives are alarmed or reviewed.
        alarm_from: the upper threshold. At least `precision` of the alarms are real. It equals
            `review_from` if one threshold keeps both promises, and is None if no precision was shown.
        tpr: the recall that is promised.
        precision: the precision that is promised.
        confidence: of both promises and of `review_per_1000_at_most` together.
        review_per_1000: rows to review per 1,000 rows, from the observed shares.
        review_per_1000_at_most: the upper bound of the same.
        alarms_per_1000: alarms per 1,000 rows, from the observed shares.
        recall: the share of positives observed at or above `review_from`.
        alarm_recall: the share of positives observed at or above `alarm_from`.
        alarm_precision: the share of alarms that are real, from the observed shares; None without alarms.
        highest_precision: the highest precision that could have been promised; None if `precision` is kept.
        prevalence: the share of positives that these numbers assume.
        prevalence_given: whether the caller gave it; otherwise it is that of the sample.
        positives: how many positives there were.
        negatives: how many negatives there were.
        units: how many units the positives belong to; None if none were given.
        conflicts: why no precision was shown and what would help; empty if `precision` is kept.
    """

    review_from: float
    alarm_from: float | None
    tpr: float
    precision: float
    confidence: float
    review_per_1000: float
    review_per_1000_at_most: float
    alarms_per_1000: float
    recall: float
    alarm_recall: float
    alarm_precision: float | None
    highest_precision: float | None
    prevalence: float
    prevalence_given: bool
    positives: int
    negatives: int
    units: int | None = None
    conflicts: tuple[Conflict, ...] = ()


def review_point(
    steps: Steps, precision: float, tpr: float, prevalence: float | None, confidence: float, *, advise: bool = True
) -> Review:
    """The two thresholds. advise: look for the highest precision if the one asked for is not shown."""
    if shares_units(steps.rows) and prevalence is None:
        raise ValueError("a review of units of several rows needs a prevalence: give it too")
    sure = dependent_share(confidence, 3)
    kept = recall_span(steps, tpr, sure)
    if kept.empty:
        raise NotEnoughPositives(steps.positives, tpr, sure, shared=", a third of the risk")
    shown = precision_span(steps, precision, prevalence, sure)
    lower, upper, conflicts = kept.first, -1, tuple[Conflict, ...]()
    if shown.empty and advise:
        conflicts = promised_point(steps, alone("precision", precision, prevalence, sure)).conflicts
    elif not shown.empty:
        upper = shown.last if shown.last < lower else max(lower, shown.first)
        lower = max(lower, upper)  # the walk may have started below the threshold that keeps the recall
    at_lower, at_upper = (observed_at(steps, step, prevalence) for step in (lower, upper))
    most = 0.0 if upper == lower else review_at_most(steps, lower, upper, prevalence, sure)
    return Review(
        review_from=float(steps.thresholds[lower]),
        alarm_from=None if upper < 0 else float(steps.thresholds[upper]),
        tpr=tpr,
        precision=precision,
        confidence=confidence,
        review_per_1000=at_lower["alarms_per_1000"] - at_upper["alarms_per_1000"],
        review_per_1000_at_most=1000 * most,
        alarms_per_1000=at_upper["alarms_per_1000"],
        recall=at_lower["recall"],
        alarm_recall=at_upper["recall"],
        alarm_precision=at_upper["precision"] if upper >= 0 else None,
        highest_precision=next((one.target for conflict in conflicts for one in conflict.closest), None),
        conflicts=conflicts,
        **counted(steps, prevalence),
    )


def alone(name: PromiseName, target: float, prevalence: float | None, confidence: float) -> Asked:
    """One promise about rows."""
    return Asked(None, None, None, None, prevalence, confidence, "row").instead(name, target)


def promised_point(steps: Steps, asked: Asked, *, advise: bool = True) -> PromisedPoint:
    """The threshold that keeps the promises. advise: look for the conflicts if none does."""
    check_promise_units(steps, asked)
    common, sure = asked.kept(steps), asked.shares(steps)
    promises = tuple(Promise(name, asked.target(name), sure[name]) for name in asked.names)
    if common.empty:
        nothing: dict[str, None] = dict.fromkeys(("recall", "fpr", "precision", "alarms_per_1000"))
        found: dict[str, Any] = {"threshold": None, "lowest": None, "highest": None, **nothing}
        pairs = conflicting(asked.spans(steps)) if advise else []
        conflicts = tuple(_conflict(steps, asked, between) for between in pairs)
    else:
        step = common.last if asked.tpr is None else common.first
        lowest, highest = (float(steps.thresholds[place]) for place in (common.last, common.first))
        observed = observed_at(steps, step, asked.prevalence)
        found = {"threshold": float(steps.thresholds[step]), "lowest": lowest, "highest": highest, **observed}
        bound = _bounds_at(steps, step, asked, sure)
        seen = {"tpr": observed["recall"], "alarms": observed["alarms_per_1000"]}
        promises = tuple(
            replace(one, bound=bound[one.name], observed=seen.get(one.name, observed.get(one.name)))
            for one in promises
        )
        conflicts = ()
    return PromisedPoint(
        tpr=asked.tpr,
        confidence=asked.confidence,
        promises=promises,
        conflicts=conflicts,
        per=asked.per,
        **found,
        **counted(steps, asked.prevalence),
    )


def check_alarms(alarms: float | None) -> None:
    """Alarms per 1,000 rows."""
    if alarms is not None and not 0 < alarms < 1000:
        raise ValueError(f"alarms are per 1,000 rows and must lie between 0 and 1,000, got {alarms!r}")


def _bounds_at(steps: Steps, step: int, asked: Asked, sure: dict[PromiseName, float]) -> dict[PromiseName, float]:
    """What is shown of each promise: its target, or more where only positives chose the threshold."""
    shown = {name: asked.target(name) for name in asked.names}
    if asked.tpr is not None:
        shown["tpr"] = recall_at_least(steps, asked.tpr, sure["tpr"])
    if asked.at_the_recall and not steps.mixed:
        others = next(value for name, value in sure.items() if name != "tpr")
        fpr = upper_bound(int(steps.false[step]), steps.negatives, others)
        share = asked.prevalence or 0.0
        real = share * shown["tpr"]
        better = {
            "fpr": fpr,
            "alarms": 1000 * (share + (1 - share) * fpr),
            "precision": real / (real + (1 - share) * fpr) if real else 0.0,
        }
        shown |= {name: better[name] for name in asked.names if name != "tpr"}
    return shown


def observed_at(steps: Steps, step: int, prevalence: float | None) -> dict[str, float]:
    """The shares in the sample at a step; at step −1 nothing raises an alarm."""
    rows, negatives = rows_of(steps.rows), rows_of(steps.negatives)
    caught, true, false = (
        int(counts[step]) if step >= 0 else 0 for counts in (steps.caught, steps.true, steps.false)
    )
    share = (rows - negatives) / rows if prevalence is None else prevalence
    return observed_shares(caught / rows_of(steps.positives), true / (rows - negatives), false / negatives, share)


def observed_shares(recall: float, row_recall: float, fpr: float, prevalence: float) -> dict[str, float]:
    """Recall, FPR, precision and alarms. row_recall: the recall of rows, where `recall` is that of units."""
    real = prevalence * row_recall
    alarms = real + (1 - prevalence) * fpr
    return {
        "recall": recall,
        "fpr": fpr,
        "precision": real / alarms if alarms else 0.0,
        "alarms_per_1000": 1000 * alarms,
    }


def counted(steps: Steps, prevalence: float | None) -> dict[str, Any]:
    """The prevalence, and how many positives, negatives and units there are."""
    rows, negatives = rows_of(steps.rows), rows_of(steps.negatives)
    return {
        "prevalence": (rows - negatives) / rows if prevalence is None else prevalence,
        "prevalence_given": prevalence is not None,
        "positives": rows - negatives,
        "negatives": negatives,
        "units": units_of(steps.positives),
    }


def _conflict(steps: Steps, asked: Asked, between: tuple[PromiseName, ...]) -> Conflict:
    """What could have been promised instead, and how many samples would settle it."""

    def common(changed: Asked, some: Steps, names: Iterable[PromiseName] = between, *, walk: bool = True) -> Span:
        spans, found = changed.spans(some, walk=walk), steps.all
        for name in names:
            found = found.within(spans[name])
        return found

    closest = []
    for name in between:

        def kept(target: float, name: PromiseName = name) -> bool:
            return not common(asked.instead(name, target), steps).empty

        target = nearest(asked.target(name), WEAKEST[name], kept)
        if target is not None:
            span = common(asked.instead(name, target), steps)
            step = span.first if "tpr" in between else span.last
            keeps = next((other for other in between if other != name), None)
            closest.append(Closest(keeps, name, target, float(steps.thresholds[step])))
    wanted = asked.names if len(between) == 1 else between  # one that fails alone may conflict with others as well
    factors = enough_samples(
        steps,
        lambda some: not common(asked, some, wanted, walk=False).empty,
        together=asked.prevalence is None and not {"precision", "alarms"}.isdisjoint(wanted),
    )
    if factors is None:
        return Conflict(between, tuple(closest), None, None)
    counts = rows_of(steps.positives), rows_of(steps.negatives)
    more = [math.ceil((factor - 1) * count) for factor, count in zip(factors, counts, strict=True)]
    return Conflict(between, tuple(closest), *more)


def check_promise_units(steps: Steps, asked: Asked) -> None:
    """A precision counts rows. Where rows depend on each other, only the bounds by class know what they show."""
    if asked.precision is None:
        return
    if asked.per == "unit":
        raise ValueError('a precision is a share of rows: it does not go with per="unit"')
    if shares_units(steps.rows) and asked.prevalence is None:
        raise ValueError("a precision with units of several rows needs a prevalence beside it: give prevalence too")
