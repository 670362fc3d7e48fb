"""Which thresholds keep a promise: from the positives' scores and how many negatives reach each.

Recall changes only at a positive's score, so these scores are all the thresholds to try. Recall, FPR
and alarms fall as the threshold rises. So a bound that holds at one fixed threshold decides about all
thresholds at once. Precision need not be monotone: it is tested from a start that is fixed in advance
downwards, and the first test that fails ends the walk (docs/decisions/0028).
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankreg.metrics import Floats, alarm_counts
from rankreg.operating.guarantees import (
    ROUNDING,
    bounds,
    certified_rank,
    dependent_share,
    least_share,
    lower_bound,
    upper_bound,
)
from rankreg.operating.score_summary import Evidence
from rankreg.operating.units import Per, Trials, UnitSizes, rows_of, shares_units

Counts = NDArray[np.int64]
SPARED = 3  # the walk for a precision starts where so many false alarms would not yet end it
CAUGHT_SHARE = 0.1  # of the risk of an alarm promise, for the true alarms; the rest is for the false ones
PromiseName = Literal["tpr", "fpr", "precision", "alarms"]
AT_LEAST = ("tpr", "precision")  # the other promises are upper bounds
WEAKEST: dict[PromiseName, float] = {"tpr": 0.0, "fpr": 1.0, "precision": 0.0, "alarms": 1000.0}  # asks nothing


class Span(NamedTuple):
    """The steps first to last, both included; empty if last < first."""

    first: int
    last: int

    @property
    def empty(self) -> bool:
        """Whether no threshold is in it."""
        return self.last < self.first

    def within(self, other: "Span") -> "Span":
        """The steps of both."""
        return Span(max(self.first, other.first), min(self.last, other.last))


@dataclass(frozen=True, eq=False)
class Steps:
    """Thresholds to choose from, with what reaches each: all that a promise depends on.

    thresholds: the distinct scores of positives, highest first; with a recall of units, the distinct
    highest scores of units. caught: positives (or units) at or above each. true, false: positive and
    negative rows at or above each. positives, negatives, rows: how many there are, or the sizes of
    their units. mixed: a unit has rows of both classes.
    """

    thresholds: Floats
    caught: Counts
    true: Counts
    false: Counts
    positives: Trials
    negatives: Trials
    rows: Trials
    mixed: bool = False

    @classmethod
    def of(cls, sample: Evidence, per: Per = "row") -> "Steps":
        """The steps of a sample or of its summary."""
        judged = sample.judged(per)
        candidates = np.unique(judged.scores)
        caught, true = (alarm_counts(scores, candidates)[::-1] for scores in (judged.scores, sample.positives))
        false = sample.false_alarms(candidates)[::-1]
        trials = judged.trials, sample.negative_trials, sample.row_trials
        return cls(candidates[::-1], caught, true, false, *trials, sample.mixed)

    @cached_property
    def above(self) -> Counts:
        """Positives strictly above each threshold."""
        return np.concatenate([[0], self.caught[:-1]])

    def times(self, positives: float, negatives: float) -> "Steps":
        """The steps of a sample with so many times as many positives and negatives, and the same shares."""
        trials = _times(self.positives, positives), _times(self.negatives, negatives)
        true = rows_of(self.rows) - rows_of(self.negatives)
        rows = true * positives + rows_of(trials[1])
        return replace(
            self,
            caught=np.floor(self.caught * positives).astype(np.int64),
            true=np.floor(self.true * positives).astype(np.int64),
            false=np.minimum(np.ceil(self.false * negatives), rows_of(trials[1])).astype(np.int64),
            positives=trials[0],
            negatives=trials[1],
            rows=_times(self.rows, rows / rows_of(self.rows)),
        )


def allowed(trials: Trials, share: float, confidence: float) -> int:
    """The largest count that shows the true share to be at most `share`; −1 if none does.

    The count a with P(Bin(n, share) ≤ a) ≤ 1 − confidence: the order statistic of the recall, mirrored.
    """
    if share >= 1:
        return rows_of(trials)
    return certified_rank(trials, 1 - share, confidence) - 1 if share > 0 else -1


def recall_span(steps: Steps, tpr: float, confidence: float) -> Span:
    """The thresholds at or below the certified one."""
    rank = certified_rank(steps.positives, tpr, confidence)
    if not rank:
        return Span(len(steps.thresholds), len(steps.thresholds) - 1)
    enough = rows_of(steps.positives) - rank + 1
    return Span(int(np.searchsorted(steps.caught, enough)), len(steps.thresholds) - 1)


def fpr_span(steps: Steps, fpr: float, confidence: float) -> Span:
    """The thresholds that few enough negatives reach."""
    most = allowed(steps.negatives, fpr, confidence)
    return Span(0, int(np.searchsorted(steps.false, most, side="right")) - 1)


def alarm_span(steps: Steps, share: float, prevalence: float | None, confidence: float, per: Per = "row") -> Span:
    """The thresholds that at most this share of all rows reaches.

    prevalence: None if the sample is representative: then the rows that reach a threshold are counted.
    Otherwise prevalence · TPR + (1 − prevalence) · FPR is bounded, each part with its share of the risk.
    """
    if prevalence is None:
        most = allowed(steps.rows, share, confidence)
        return Span(0, int(np.searchsorted(steps.true + steps.false, most, side="right")) - 1)
    sure = divided(confidence, (CAUGHT_SHARE, 1 - CAUGHT_SHARE), independent=not steps.mixed)

    def broken(step: int) -> bool:
        true = 1.0 if per == "unit" else bounds(steps.true[step], steps.positives, sure[0])[1]
        left = float((share - prevalence * true) / (1 - prevalence))
        return bool(steps.false[step] > allowed(steps.negatives, left, sure[1]))

    return Span(0, bisect_left(range(len(steps.thresholds)), True, key=broken) - 1)  # both counts grow


def precision_span(
    steps: Steps, precision: float, prevalence: float | None, confidence: float, *, walk: bool = True
) -> Span:
    """The thresholds whose precision was shown, from the start of the walk down to the first test that fails.

    Every test counts the positives strictly above a threshold and the negatives at or above it. So it
    also stands for every threshold between this one and the next higher, and ties are on the safe side.

    walk: False for planning: the steps from the first to the last that pass, wherever they are; at a stated
    prevalence from the start down, because the test means nothing above it.
    Units of several rows are tested at all thresholds at once: no walk is needed.
    """
    if shares_units(steps.rows) and prevalence is not None:
        passed = _tested_by_units(steps, odds(precision, prevalence), confidence)
        if not passed.any():
            return Span(0, -1)
        last = int(np.flatnonzero(passed)[-1])
        return Span(last - int(np.argmin(np.append(passed[: last + 1][::-1], False))) + 1, last)
    passed, start = (
        _tested_by_rows(steps, precision, confidence)
        if prevalence is None
        else _tested_by_class(steps, odds(precision, prevalence), confidence)
    )
    if walk:
        passed = passed[start:]
        length = int(np.argmin(passed)) if not passed.all() else len(passed)
        return Span(start, start + length - 1)
    found = np.flatnonzero(passed)
    if prevalence is not None:
        found = found[found >= start]
    return Span(int(found[0]), int(found[-1])) if len(found) else Span(0, -1)


def odds(precision: float, prevalence: float) -> float:
    """The precision is at least so high exactly if FPR ≤ odds · TPR."""
    return prevalence * (1 - precision) / ((1 - prevalence) * precision)


def _tested_by_rows(steps: Steps, precision: float, confidence: float) -> tuple[NDArray[np.bool_], int]:
    """The exact binomial test among the alarms of a representative sample, and the first step to test."""
    risk = (1 - confidence) * ROUNDING
    passed = special.bdtr(steps.false, steps.above + steps.false, 1 - precision) <= risk
    alarms = steps.caught + steps.false
    enough = special.bdtr(SPARED, np.maximum(alarms, SPARED), 1 - precision) <= risk  # more alarms, less risk
    return passed, int(np.searchsorted(enough, True))


def _tested_by_class(steps: Steps, ratio: float, confidence: float) -> tuple[NDArray[np.bool_], int]:
    """FPR ≤ ratio · TPR: three parts of the risk, for the TPR at the start, the TPR gained since, and the FPR."""
    sure, positives, negatives = confidence ** (1 / 3), rows_of(steps.positives), rows_of(steps.negatives)
    for spared in range(min(SPARED, negatives), -1, -1):
        needed = upper_bound(spared, negatives, sure) / ratio  # the TPR that the start must have
        rank = certified_rank(positives, needed, sure) if needed < 1 else 0
        if rank:
            break
    else:
        return np.zeros(len(steps.thresholds), dtype=bool), len(steps.thresholds)
    start, rest = positives - rank + 1, rank - 1  # positives from the start up, and below it
    at_start = lower_bound(start, positives, sure)
    gained = least_share(np.clip(steps.above - start, 0, rest), rest, sure) if rest else np.zeros(1)
    limit = np.minimum(ratio * (at_start + (1 - at_start) * gained), 1.0)
    passed = (special.bdtr(steps.false, negatives, limit) <= (1 - sure) * ROUNDING) | (limit == 1)
    return passed, int(np.searchsorted(steps.caught, start))


def _tested_by_units(steps: Steps, ratio: float, confidence: float) -> NDArray[np.bool_]:
    """FPR ≤ ratio · TPR by bounds over units that hold at any threshold, chosen by looking or not."""
    sure = divided(confidence, (0.5, 0.5), independent=not steps.mixed)
    tpr = bounds(steps.above, steps.positives, sure[0], anywhere=True)[0]
    fpr = bounds(steps.false, steps.negatives, sure[1], anywhere=True)[1]
    return np.asarray(fpr <= ratio * tpr)


def divided(confidence: float, parts: tuple[float, ...], *, independent: bool) -> list[float]:
    """The confidence of every part, so that all hold together.

    parts: the share of the risk that each gets; they add up to 1. If they are independent, the
    confidences multiply; otherwise the risks add up.
    """
    if independent:
        return [float(confidence**part) for part in parts]
    return [1 - (1 - confidence) * part for part in parts]


def _times(trials: Trials, factor: float) -> Trials:
    if isinstance(trials, UnitSizes):
        return UnitSizes(trials.sizes, np.floor(trials.counts * factor))
    return int(trials * factor)


def recall_at_least(steps: Steps, tpr: float, confidence: float) -> float:
    """The bound of the recall at the certified threshold; the TPR itself if none is certified."""
    rank = certified_rank(steps.positives, tpr, confidence)
    if not rank:
        return tpr
    return max(tpr, lower_bound(rows_of(steps.positives) - rank + 1, steps.positives, confidence))


@dataclass(frozen=True)
class Asked:
    """The promises as given, and how the confidence is divided.

    targets: what is promised, in the order of `WEAKEST`. prevalence: None if the sample is representative.
    confidence: of all promises together.
    """

    targets: dict[PromiseName, float]
    prevalence: float | None
    confidence: float
    per: Per = "row"

    def instead(self, name: PromiseName, target: float) -> "Asked":
        """The same with another target."""
        return replace(self, targets=self.targets | {name: target})

    @property
    def free(self) -> bool:
        """Whether a promise depends on the prevalence of the sample."""
        return self.prevalence is None and not {"precision", "alarms"}.isdisjoint(self.targets)

    @property
    def at_the_recall(self) -> bool:
        """Whether all else limits the FPR where the recall is kept: one claim about negatives suffices."""
        if "tpr" not in self.targets or len(self.targets) < 2 or self.free:
            return False
        return self.prevalence is None or self.targets.get("alarms", 1000.0) / 1000 > self.prevalence

    def divided(self, *, mixed: bool) -> dict[PromiseName, float]:
        """The confidence of each promise. mixed: a unit has rows of both classes."""
        if self.at_the_recall:
            recall, others = divided(self.confidence, (0.5, 0.5), independent=not mixed)
            return {name: recall if name == "tpr" else others for name in self.targets}
        return dict.fromkeys(self.targets, dependent_share(self.confidence, len(self.targets)))

    def span(self, name: PromiseName, steps: Steps, *, walk: bool = True) -> Span:
        """The thresholds that keep one of the promises; walk: as for `precision_span`."""
        target, sure, share = self.targets[name], self.divided(mixed=steps.mixed), self.prevalence
        if name == "tpr":
            return recall_span(steps, target, sure[name])
        if self.at_the_recall:  # how high the FPR may be there
            if name == "precision" and share is not None:
                target = odds(target, share) * recall_at_least(steps, self.targets["tpr"], sure["tpr"])
            elif name == "alarms" and share is not None:
                target = (target / 1000 - share) / (1 - share)
            return fpr_span(steps, target, sure[name])
        if name == "precision":
            return precision_span(steps, target, share, sure[name], walk=walk)
        if name == "alarms":
            return alarm_span(steps, target / 1000, share, sure[name], self.per)
        return fpr_span(steps, target, sure[name])

    def kept(self, steps: Steps, names: Iterable[PromiseName] | None = None, *, walk: bool = True) -> Span:
        """The thresholds that keep the promises of these names, by default all."""
        found = Span(0, len(steps.thresholds) - 1)
        for name in self.targets if names is None else names:
            found = found.within(self.span(name, steps, walk=walk))
        return found
