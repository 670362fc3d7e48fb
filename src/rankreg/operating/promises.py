"""Any promise a threshold must keep: recall, FPR, precision, alarms; alone or together.

One confidence holds for all promises together (docs/decisions/0028). The computations need only the
`Steps`: the positives' scores and how many negatives reach each.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rankreg.notation import Record
from rankreg.operating.guarantees import (
    check_confidence,
    check_prevalence,
    check_share,
    check_target,
    dependent_share,
    upper_bound,
)
from rankreg.operating.points import alarms_per_1000
from rankreg.operating.spans import WEAKEST, Asked, PromiseName, Steps, recall_at_least
from rankreg.operating.units import Per, Trials, rows_of, shares_units, units_of

REVIEW_PARTS = 3  # recall, precision and the load of a review share the risk
TARGETS = 40  # that are tried to find the closest that is kept
MOST_OF_ONE, MOST_OF_BOTH = 100, 10_000  # times as many samples as there are, to look for what would suffice
OBSERVED = {"tpr": "recall", "fpr": "fpr", "precision": "precision", "alarms": "alarms_per_1000"}


@dataclass(frozen=True)
class Promises(Record):
    """What is promised beside a recall. One confidence holds for the recall and all of these.

    Args:
        fpr: share of negatives that raise an alarm, at most this.
        precision: share of alarms that are real, at least this.
        alarms: alarms per 1,000 rows, at most this.
        prevalence: share of positives where it will be used; default: as in the sample.
        review: three answers. The recall speaks of what is alarmed or reviewed, `precision` of the alarms.

    Raises:
        ValueError: a share makes no sense, or a review has no precision or another promise.

    >>> bool(Promises()), bool(Promises(precision=0.5, review=True))
    (False, True)
    """

    fpr: float | None = None
    precision: float | None = None
    alarms: float | None = None
    prevalence: float | None = None
    review: bool = False

    def __post_init__(self) -> None:
        if self.fpr is not None:
            check_share(self.fpr, "fpr", "write 0.05 for 5 % of the negatives")
        if self.precision is not None:
            check_share(self.precision, "precision", "write 0.8 for 80 % of the alarms")
        if self.prevalence is not None:
            check_prevalence(self.prevalence)
        if self.alarms is not None and not 0 < self.alarms < 1000:
            raise ValueError(f"alarms are per 1,000 rows and must lie between 0 and 1,000, got {self.alarms!r}")
        if self.review and (self.precision is None or self.fpr is not None or self.alarms is not None):
            raise ValueError("a review takes a precision and a recall, and no other promise")

    def __bool__(self) -> bool:
        return bool(self.targets)

    @property
    def targets(self) -> dict[PromiseName, float]:
        """What is promised, by name."""
        given: dict[PromiseName, float | None] = {
            "fpr": self.fpr,
            "precision": self.precision,
            "alarms": self.alarms,
        }
        return {name: float(value) for name, value in given.items() if value is not None}

    def recall_confidence(self, tpr: float, confidence: float, *, mixed: bool = False) -> float:
        """The confidence that the recall needs, so that all promises hold together.

        Args:
            tpr: the target recall.
            confidence: of all promises together.
            mixed: whether a unit has rows of both classes, default False.

        Returns:
            A higher confidence.
        """
        if self.review:
            return dependent_share(confidence, REVIEW_PARTS)
        return self.asked(tpr, confidence).divided(mixed=mixed)["tpr"]

    def asked(self, tpr: float | None, confidence: float, per: Per = "row") -> Asked:
        """With a recall, at one threshold.

        Args:
            tpr: the target recall; None if none is promised.
            confidence: of all promises together.
            per: "row" or "unit", as for `certify`.

        Returns:
            The promises as the computations take them.
        """
        recall: dict[PromiseName, float] = {} if tpr is None else {"tpr": check_target(tpr)}
        return Asked(recall | self.targets, self.prevalence, check_confidence(confidence), per)


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


def promised_point(steps: Steps, asked: Asked) -> PromisedPoint:
    """The threshold that keeps the promises, if there is one. `conflicts` says why there is none."""
    check_promise_units(steps.rows, asked)
    common, sure = asked.kept(steps), asked.divided(mixed=steps.mixed)
    found: dict[str, Any] = dict.fromkeys(("threshold", "lowest", "highest", *OBSERVED.values()))
    shown: dict[PromiseName, float] = {}
    if not common.empty:
        step = common.first if "tpr" in asked.targets else common.last
        for name, place in (("threshold", step), ("lowest", common.last), ("highest", common.first)):
            found[name] = float(steps.thresholds[place])
        found |= observed_at(steps, step, asked.prevalence)
        shown = _bounds_at(steps, step, asked, sure)
    return PromisedPoint(
        tpr=asked.targets.get("tpr"),
        confidence=asked.confidence,
        promises=tuple(
            Promise(name, target, sure[name], shown.get(name), found[OBSERVED[name]])
            for name, target in asked.targets.items()
        ),
        conflicts=(),
        per=asked.per,
        **found,
        **counted(steps, asked.prevalence),
    )


def _bounds_at(steps: Steps, step: int, asked: Asked, sure: dict[PromiseName, float]) -> dict[PromiseName, float]:
    """What is shown of each promise: its target, or more where only positives chose the threshold."""
    shown = dict(asked.targets)
    if "tpr" in shown:
        shown["tpr"] = recall_at_least(steps, shown["tpr"], sure["tpr"])
    if asked.at_the_recall and not steps.mixed:
        others = next(value for name, value in sure.items() if name != "tpr")
        fpr = upper_bound(int(steps.false[step]), steps.negatives, others)
        share = asked.prevalence or 0.0
        real = share * shown["tpr"]
        better: dict[PromiseName, float] = {
            "fpr": fpr,
            "alarms": alarms_per_1000(share, 1.0, fpr),
            "precision": real / (real + (1 - share) * fpr) if real else 0.0,
        }
        shown |= {name: value for name, value in better.items() if name in shown}
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
    alarms = alarms_per_1000(prevalence, row_recall, fpr)
    return {
        "recall": recall,
        "fpr": fpr,
        "precision": 1000 * prevalence * row_recall / alarms if alarms else 0.0,
        "alarms_per_1000": alarms,
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


def check_promise_units(rows: Trials, asked: Asked) -> None:
    """A precision counts rows. Where rows depend on each other, only the bounds by class know what they show."""
    if "precision" not in asked.targets:
        return
    if asked.per == "unit":
        raise ValueError('a precision is a share of rows: it does not go with per="unit"')
    if shares_units(rows) and asked.prevalence is None:
        raise ValueError("a precision with units of several rows needs a prevalence beside it: give prevalence too")


def conflicts(steps: Steps, asked: Asked) -> tuple[Conflict, ...]:
    """The promises that cannot be kept alone, and the pairs that cannot be kept together.

    Spans are intervals, so if no step lies in all of them, two of them have none in common.
    """
    spans = {name: asked.span(name, steps) for name in asked.targets}
    alone = [name for name, span in spans.items() if span.empty]
    pairs = combinations([name for name in spans if name not in alone], 2)
    apart = [pair for pair in pairs if spans[pair[0]].within(spans[pair[1]]).empty]
    return tuple(_conflict(steps, asked, between) for between in [*((name,) for name in alone), *apart])


def _conflict(steps: Steps, asked: Asked, between: tuple[PromiseName, ...]) -> Conflict:
    """What could have been promised instead, and how many samples would settle it."""
    closest = []
    for name in between:

        def kept(target: float, name: PromiseName = name) -> bool:
            return not asked.instead(name, target).kept(steps, between).empty

        target = nearest(asked.targets[name], WEAKEST[name], kept)
        if target is not None:
            span = asked.instead(name, target).kept(steps, between)
            step = span.first if "tpr" in between else span.last
            keeps = next((other for other in between if other != name), None)
            closest.append(Closest(keeps, name, target, float(steps.thresholds[step])))
    wanted = tuple(asked.targets) if len(between) == 1 else between  # one that fails alone may conflict with others
    factors = enough_samples(
        steps,
        lambda some: not asked.kept(some, wanted, walk=False).empty,
        together=asked.prevalence is None and not {"precision", "alarms"}.isdisjoint(wanted),
    )
    if factors is None:
        return Conflict(between, tuple(closest), None, None)
    counts = rows_of(steps.positives), rows_of(steps.negatives)
    more = [math.ceil((factor - 1) * count) for factor, count in zip(factors, counts, strict=True)]
    return Conflict(between, tuple(closest), *more)


def nearest(target: float, weakest: float, keeps: Callable[[float], bool]) -> float | None:
    """The target nearest to the one given that is kept, to 1 part in 10⁴; None if nothing is.

    Weaker targets are not always easier: hardly any recall shows no precision. So the way to the
    weakest is searched in steps, and then the step of the first that is kept.
    """
    good, bad = target, target
    for part in np.linspace(0, 1, TARGETS)[1:-1]:
        good = weakest + (target - weakest) * (1 - part) if weakest == 0 else target ** (1 - part) * weakest**part
        if keeps(good):
            break
        bad = good
    else:
        return None
    while abs(bad - good) > 1e-4 * good:
        middle = (good + bad) / 2
        if keeps(middle):
            good = middle
        else:
            bad = middle
    return float(good)


def enough_samples(steps: Steps, settled: Callable[[Steps], bool], *, together: bool) -> tuple[float, float] | None:
    """How many times as many positives and negatives, with the same shares, would keep the promises.

    None if none would. together: more of one class alone would not be representative.
    """
    ways: list[tuple[int, Callable[[float], tuple[float, float]]]] = [
        (MOST_OF_ONE, lambda factor: (1.0, factor)),
        (MOST_OF_ONE, lambda factor: (factor, 1.0)),
        (MOST_OF_BOTH, lambda factor: (factor, factor)),
    ]
    for most, way in ways[2:] if together else ways:
        few, many = 1.0, 2.0
        while not settled(steps.times(*way(many))):
            few, many = many, 2 * many
            if many > most:
                break
        else:
            while many / few > 1.02:
                middle = (few + many) / 2
                few, many = (few, middle) if settled(steps.times(*way(middle))) else (middle, many)
            return way(many)
    return None
