"""Which thresholds keep a promise: from the positives' scores and how many negatives reach each.

Recall changes only at a positive's score, so these scores are all the thresholds to try. Recall, FPR
and alarms fall as the threshold rises. So a bound that holds at one fixed threshold decides about all
thresholds at once. Precision need not be monotone: it is tested from a start that is fixed in advance
downwards, and the first test that fails ends the walk (docs/decisions/0028).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankreg.metrics import Floats
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
from rankreg.operating.units import Per, Sample, Trials, UnitSizes, rows_of, shares_units

Counts = NDArray[np.int64]
SPARED = 3  # the walk for a precision starts where so many false alarms would not yet end it
CAUGHT_SHARE = 0.1  # of the risk of an alarm promise, for the true alarms; the rest is for the false ones
TARGETS = 40  # that are tried to find the closest that is kept
MOST_OF_ONE, MOST_OF_BOTH = 100, 10_000  # times as many samples as there are, to look for what would suffice
PromiseName = Literal["tpr", "fpr", "precision", "alarms"]
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
        caught, true = (at_or_above(candidates, scores)[::-1] for scores in (judged.scores, sample.positives))
        false = sample.false_alarms(candidates)[::-1]
        rows: Trials = len(sample.positives) + rows_of(sample.negative_trials)
        if isinstance(sample, Sample) and sample.units is not None:
            rows = UnitSizes.of(np.bincount(sample.units))
        trials: tuple[Trials, Trials, Trials] = judged.trials, sample.negative_trials, rows
        return cls(candidates[::-1], caught, true, false, *trials, sample.mixed)

    @cached_property
    def above(self) -> Counts:
        """Positives strictly above each threshold."""
        return np.concatenate([[0], self.caught[:-1]])

    @property
    def all(self) -> Span:
        """Every step."""
        return Span(0, len(self.thresholds) - 1)

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


def at_or_above(candidates: Floats, scores: Floats) -> Counts:
    """How many scores are at or above each candidate; the candidates ascend."""
    places = np.searchsorted(candidates, scores, side="right")
    below = np.cumsum(np.bincount(places, minlength=len(candidates) + 1))[:-1]
    return np.asarray(len(scores) - below, dtype=np.int64)


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
    low, high = -1, len(steps.thresholds)  # low keeps the promise, high does not; both counts grow with the step
    while high - low > 1:
        middle = (low + high) // 2
        true = 1.0 if per == "unit" else bounds(steps.true[middle], steps.positives, sure[0])[1]
        left = float((share - prevalence * true) / (1 - prevalence))
        if steps.false[middle] <= allowed(steps.negatives, left, sure[1]):
            low = middle
        else:
            high = middle
    return Span(0, low)


def precision_span(
    steps: Steps, precision: float, prevalence: float | None, confidence: float, *, walk: bool = True
) -> Span:
    """The thresholds whose precision was shown, from the start of the walk down to the first test that fails.

    Every test counts the positives strictly above a threshold and the negatives at or above it. So it
    also stands for every threshold between this one and the next higher, and ties are on the safe side.

    walk: False for planning: the steps from the first to the last that pass, wherever they are.
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
    return Span(int(found[0]), int(found[-1])) if len(found) else Span(0, -1)


def odds(precision: float, prevalence: float) -> float:
    """The precision is at least so high exactly if FPR ≤ odds · TPR."""
    return prevalence * (1 - precision) / ((1 - prevalence) * precision)


def _tested_by_rows(steps: Steps, precision: float, confidence: float) -> tuple[NDArray[np.bool_], int]:
    """The exact binomial test among the alarms of a representative sample, and the first step to test."""
    risk = (1 - confidence) * ROUNDING
    passed = special.bdtr(steps.false, steps.above + steps.false, 1 - precision) <= risk
    fewest, most = SPARED, SPARED + 1  # alarms: fewest is too few
    while special.bdtr(SPARED, most, 1 - precision) > risk:
        fewest, most = most, 2 * most
    while most - fewest > 1:
        middle = (fewest + most) // 2
        if special.bdtr(SPARED, middle, 1 - precision) > risk:
            fewest = middle
        else:
            most = middle
    return passed, int(np.searchsorted(steps.caught + steps.false, most))


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


def review_at_most(steps: Steps, lower: int, upper: int, prevalence: float | None, confidence: float) -> float:
    """The upper bound of the share of rows at or above one threshold and below a higher one.

    lower: a step that the positives alone chose. upper: any step, or −1 for none. At `lower` the FPR is
    bounded and the TPR is at most 1. At `upper`, which may be chosen by looking, the
    Dvoretzky–Kiefer–Wolfowitz bound holds at all thresholds at once, or the one over units. Each of the
    three bounds gets a third of the risk.
    """
    sure = 1 - (1 - confidence) / 3
    negatives, rows = rows_of(steps.negatives), rows_of(steps.rows)
    positives = rows - negatives
    fpr = float(bounds(steps.false[lower], steps.negatives, sure, anywhere=steps.mixed)[1])

    def least(count: int, total: int, trials: Trials | None = None) -> float:
        if trials is not None and shares_units(trials):
            return float(bounds(np.array(count), trials, sure, anywhere=True)[0])
        return max(0.0, count / total - float(np.sqrt(-np.log(min(1 - sure, 0.5)) / (2 * total))))

    true, false = (int(counts[upper]) if upper >= 0 else 0 for counts in (steps.true, steps.false))
    if prevalence is None:
        share = float(bounds(np.array(positives), rows, sure)[1])
        return max(0.0, share + (1 - share) * fpr - least(true + false, rows))
    caught = least(true, positives, steps.positives)
    alarmed = least(false, negatives, steps.negatives)
    between = prevalence * (1 - caught) + (1 - prevalence) * (fpr - alarmed)
    return max(0.0, between)


def _times(trials: Trials, factor: float) -> Trials:
    if isinstance(trials, UnitSizes):
        return UnitSizes(trials.sizes, np.floor(trials.counts * factor))
    return int(trials * factor)


@dataclass(frozen=True)
class Asked:
    """The promises as given, and how the confidence is divided."""

    tpr: float | None
    fpr: float | None
    precision: float | None
    alarms: float | None
    prevalence: float | None
    confidence: float
    per: Per

    @property
    def names(self) -> list[PromiseName]:
        """What is promised."""
        return [name for name in WEAKEST if getattr(self, name) is not None]

    def target(self, name: PromiseName) -> float:
        """What is promised of it."""
        return float(getattr(self, name))

    def instead(self, name: PromiseName, target: float) -> "Asked":
        """The same with another target."""
        changed: dict[str, Any] = {name: target}
        return replace(self, **changed)

    @property
    def at_the_recall(self) -> bool:
        """Whether all else limits the FPR where the recall is kept: one claim about negatives suffices."""
        if self.tpr is None or len(self.names) < 2:
            return False
        by_prevalence = self.precision is not None or self.alarms is not None
        room = self.alarms is None or self.prevalence is None or self.alarms / 1000 > self.prevalence
        return not by_prevalence or (self.prevalence is not None and room)

    def shares(self, steps: Steps) -> dict[PromiseName, float]:
        """The confidence of each promise."""
        return self.divided(mixed=steps.mixed)

    def divided(self, *, mixed: bool) -> dict[PromiseName, float]:
        """The same. mixed: a unit has rows of both classes."""
        if self.at_the_recall:
            recall, others = divided(self.confidence, (0.5, 0.5), independent=not mixed)
            return {name: recall if name == "tpr" else others for name in self.names}
        return dict.fromkeys(self.names, dependent_share(self.confidence, len(self.names)))

    def spans(self, steps: Steps, *, walk: bool = True) -> dict[PromiseName, Span]:
        """The thresholds that keep each promise."""
        sure, share, asked = self.shares(steps), self.prevalence, self
        limits: dict[PromiseName, float] = {}
        if self.at_the_recall:
            limits = self._limits(steps, sure["tpr"])
        found: dict[PromiseName, Callable[[], Span]] = {
            "tpr": lambda: recall_span(steps, asked.target("tpr"), sure["tpr"]),
            "fpr": lambda: fpr_span(steps, asked.target("fpr"), sure["fpr"]),
            "precision": lambda: precision_span(
                steps, asked.target("precision"), share, sure["precision"], walk=walk
            ),
            "alarms": lambda: alarm_span(steps, asked.target("alarms") / 1000, share, sure["alarms"], asked.per),
        }
        return {
            name: fpr_span(steps, limits[name], sure[name]) if name in limits else found[name]()
            for name in self.names
        }

    def kept(self, steps: Steps) -> Span:
        """The thresholds that keep all promises."""
        found = steps.all
        for span in self.spans(steps).values():
            found = found.within(span)
        return found

    def _limits(self, steps: Steps, confidence: float) -> dict[PromiseName, float]:
        """How high the FPR may be for each promise, at a threshold that keeps the recall."""
        limits: dict[PromiseName, float] = {}
        if self.fpr is not None:
            limits["fpr"] = self.fpr
        if self.precision is not None and self.prevalence is not None:
            caught = recall_at_least(steps, self.target("tpr"), confidence)
            limits["precision"] = odds(self.precision, self.prevalence) * caught
        if self.alarms is not None and self.prevalence is not None:
            limits["alarms"] = (self.alarms / 1000 - self.prevalence) / (1 - self.prevalence)
        return limits


def conflicting(spans: dict[PromiseName, Span]) -> list[tuple[PromiseName, ...]]:
    """The promises that cannot be kept alone, and the pairs that cannot be kept together.

    Spans are intervals, so if no step lies in all of them, two of them have none in common.
    """
    alone: list[tuple[PromiseName, ...]] = [(name,) for name, span in spans.items() if span.empty]
    possible = [name for name, span in spans.items() if not span.empty]
    return alone + [pair for pair in combinations(possible, 2) if spans[pair[0]].within(spans[pair[1]]).empty]


def recall_at_least(steps: Steps, tpr: float, confidence: float) -> float:
    """The bound of the recall at the certified threshold; the TPR itself if none is certified."""
    rank = certified_rank(steps.positives, tpr, confidence)
    if not rank:
        return tpr
    return max(tpr, lower_bound(rows_of(steps.positives) - rank + 1, steps.positives, confidence))


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
