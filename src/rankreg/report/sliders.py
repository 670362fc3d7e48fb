"""Every number the sliders can ask for, computed here once: the page looks statistics up and computes none.

A second binomial tail or incomplete beta function in JavaScript would be a second definition of every number. The
stops are few (about 150 TPRs by 22 confidences), so the tables stay small whatever the number of samples.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import empirical_thresholds
from rankreg.notation import Record, percent, rounded_threshold
from rankreg.operating import highest_tpr
from rankreg.operating.guarantees import (
    bounds,
    certified_rank,
    certified_ranks,
    fpr_share,
    joint_ranks,
    shortfall_risk,
    units_needed,
)
from rankreg.operating.points import NEARLY_ALL, alarms_per_1000, rates_at
from rankreg.operating.units import Per, Trials, rows_of, shares_units, units_of
from rankreg.report.scored_model import ScoredModel

Shares = tuple[float, ...]

TPRS: Shares = tuple(
    whole / 10_000 for whole in chain(range(5000, 9000, 100), range(9000, 9950, 10), range(9950, 10_000, 5))
)
COARSE_TPRS: Shares = tuple(
    whole / 1000 for whole in chain(range(500, 900, 50), range(900, 990, 10), range(990, 1000, 2))
)
COARSE_CONFIDENCES: Shares = (0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
CONFIDENCES: Shares = (*(whole / 100 for whole in range(80, 100)), 0.995, 0.999)
MANTISSAS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
PREVALENCES: Shares = tuple(
    mantissa / scale for scale in (100_000, 10_000, 1000, 100) for mantissa in MANTISSAS if mantissa / scale <= 0.5
)

LABELLED: dict[str, Shares] = {  # stops with a tick, those that deserve a label most first
    "tpr": (0.9, 0.95, 0.99, 0.7, 0.8, 0.6, 0.98),
    "confidence": (0.9, 0.95, 0.99, 0.85),
    "prevalence": (0.01, 0.001, 0.1),
}
APART = 0.18  # of a slider's width: labels closer than this would touch on a phone
PRICES: tuple[tuple[float, str], ...] = ((0.1, "low"), (0.5, "high"))  # FPR up to which a price has its name


@dataclass(frozen=True)
class Tick:
    """A mark under a slider: its place from 0 to 1, and a label or none."""

    place: float
    label: str


def ticks(name: str, stops: Shares) -> list[Tick]:
    """Marks at both ends and at round numbers, labelled where there is room."""
    ends = [0.0, 1.0]
    found = [Tick(end, percent(stops[place])) for end, place in zip(ends, (0, -1), strict=True)]
    for stop in LABELLED[name]:
        if stop in stops[1:-1]:
            place = round(stops.index(stop) / (len(stops) - 1), 4)
            room = all(abs(place - other) >= APART for other in ends)
            found.append(Tick(place, percent(stop) if room else ""))
            ends += [place] if room else []
    return sorted(found, key=lambda tick: tick.place)


def price(recall: float, fpr: float, fpr_at_most: float) -> str:
    """What the false alarms come to in a word: "low", "high", "very high" or "useless"; `page.js` repeats it.

    Useless is a point on or below the diagonal of the ROC, since alarms at random catch as many positives, and a
    threshold that nearly all negatives reach.
    """
    if fpr >= min(recall, NEARLY_ALL):
        return "useless"
    return next((word for most, word in PRICES if fpr_at_most <= most), "very high")


@dataclass(frozen=True)
class Stops(Record):
    """The stops of the three sliders, and which of them were fixed before the scores were seen."""

    tprs: Shares
    confidences: Shares
    prevalences: Shares
    fixed_tprs: tuple[int, ...]
    fixed_confidence: int
    fixed_prevalence: int

    @classmethod
    def around(
        cls, tprs: Iterable[float], confidence: float, prevalence: float, *, coarse: bool = False
    ) -> "Stops":
        """The usual stops and the ones that were fixed; coarse: fewer, where each costs more to compute."""
        wanted = tuple(dict.fromkeys(tprs))
        all_tprs = _with(COARSE_TPRS if coarse else TPRS, wanted)
        confidences = _with(COARSE_CONFIDENCES if coarse else CONFIDENCES, [confidence])
        prevalences = _with(PREVALENCES, [prevalence])
        return cls(
            tprs=all_tprs,
            confidences=confidences,
            prevalences=prevalences,
            fixed_tprs=tuple(map(all_tprs.index, wanted)),
            fixed_confidence=confidences.index(confidence),
            fixed_prevalence=prevalences.index(prevalence),
        )

    def cell(self, tpr: int, confidence: int) -> int:
        """Where a pair of stops stands in the tables."""
        return tpr * len(self.confidences) + confidence


def _with(stops: Shares, more: Iterable[float]) -> Shares:
    return tuple(sorted({*stops, *more}))


@dataclass(frozen=True)
class Ranks(Record):
    """What follows from the number of positives, or from the sizes of their units, and from the stops.

    positives: how many rows are ranked, or how many units for a recall per unit. units: how many units there are;
    None if none were given. ranks: the distinct ranks, ascending, then one for each fixed target. places: for each
    pair of TPR and confidence, TPR first, where its rank stands in `ranks`. certified: whether the rank carries the
    guarantee; otherwise it is the usual, empirical one. needed: how many positives or units would certify the pair.
    usual, risk: per TPR. highest: the highest TPR that can be certified, per confidence.
    """

    positives: int
    units: int | None
    ranks: list[int]
    places: list[int]
    certified: list[int]
    needed: list[int]
    usual: list[int]
    risk: list[float]
    highest: list[float]


@dataclass(frozen=True)
class Counts(Record):
    """One model at each rank: the threshold as text, positives and negatives that reach it; by cell, FPR bounds.

    rounded: thresholds with four digits. tied: 1 where other positives have the score of that rank too, or share
    units. caught: of what is ranked. rows: of the positive rows, which are `positives` in number. refused: whether
    the scores are such that no threshold of theirs should be used.
    """

    name: str
    thresholds: list[str]
    rounded: list[str]
    caught: list[int]
    rows: list[int]
    positives: int
    false: list[int]
    tied: list[int]
    low: list[float]
    high: list[float]
    refused: bool


def ranks_for(trials: Trials, stops: Stops) -> Ranks:
    """The rank behind every pair of stops; targets fixed beforehand hold together."""
    positives = rows_of(trials)
    certified = certified_ranks(trials, stops.tprs, stops.confidences)
    usual = usual_ranks(positives, stops.tprs)
    fixed = certifiable(trials, stops)
    targets = [stops.tprs[stop] for stop in fixed]
    sure = stops.confidences[stops.fixed_confidence]
    if targets:
        certified[fixed, stops.fixed_confidence] = target_ranks(trials, targets, sure)
    used = np.where(certified > 0, certified, usual[:, None])
    ranks = np.unique(np.append(used, usual))
    places = np.searchsorted(ranks, used)
    in_use = list(stops.fixed_tprs), stops.fixed_confidence
    places[in_use] = len(ranks) + np.arange(len(stops.fixed_tprs))  # of their own: a threshold in use may be lower
    needed = [
        [0 if rank else units_needed(trials, tpr, sure) for rank, sure in zip(row, stops.confidences, strict=True)]
        for row, tpr in zip(certified, stops.tprs, strict=True)
    ]
    return Ranks(
        positives=positives,
        units=units_of(trials),
        ranks=np.append(ranks, used[in_use]).tolist(),
        places=places.ravel().tolist(),
        certified=(certified > 0).astype(int).ravel().tolist(),
        needed=np.ravel(needed).tolist(),
        usual=np.searchsorted(ranks, usual).tolist(),
        risk=[shortfall_risk(trials, rank, tpr) for rank, tpr in zip(usual.tolist(), stops.tprs, strict=True)],
        highest=[highest_tpr(trials, sure) for sure in stops.confidences],
    )


def usual_ranks(positives: int, tprs: Sequence[float]) -> NDArray[np.int64]:
    """Which of the ordered positives each empirical threshold is, counted from the lowest."""
    return empirical_thresholds(np.arange(1.0, positives + 1), np.array(tprs)).astype(np.int64)


def target_ranks(trials: Trials, tprs: Sequence[float], confidence: float) -> list[int]:
    """The rank behind each target fixed beforehand: certified together, or the usual one for too few positives."""
    ranks = dict(zip(tprs, usual_ranks(rows_of(trials), tprs).tolist(), strict=True))
    within = [tpr for tpr in ranks if certified_rank(trials, tpr, confidence)]
    if within:
        ranks |= zip(within, joint_ranks(trials, within, confidence), strict=True)
    return [ranks[tpr] for tpr in tprs]


def certifiable(trials: Trials, stops: Stops) -> list[int]:
    """The fixed targets that so many positives can certify; no score has a say in it."""
    sure = stops.confidences[stops.fixed_confidence]
    return [stop for stop in stops.fixed_tprs if certified_rank(trials, stops.tprs[stop], sure)]


def counts_for(model: ScoredModel, ranks: Ranks, stops: Stops, per: Per = "row") -> Counts:
    """Thresholds, counts and exact bounds of one model."""
    judged, trials = model.evidence.judged(per), model.evidence.negative_trials
    ordered, rows = np.sort(judged.scores), model.positives
    thresholds = ordered[np.array(ranks.ranks) - 1].astype(np.float64)
    if model.threshold is not None:
        _check_in_use(model.name, model.threshold, float(thresholds[-1]), ranks, stops)
        thresholds[-1] = model.threshold
    caught = len(ordered) - np.searchsorted(ordered, thresholds, side="left")
    false = model.evidence.false_alarms(thresholds)
    in_cells = false[ranks.places]
    sure = np.tile(stops.confidences, len(stops.tprs))
    fixed = certifiable(judged.trials, stops)
    if fixed:
        cells = [stops.cell(stop, stops.fixed_confidence) for stop in fixed]
        sure[cells] = fpr_share(trials, stops.confidences[stops.fixed_confidence], len(fixed))
    low, high = bounds(in_cells, trials, sure, anywhere=model.evidence.mixed)
    tied = np.searchsorted(ordered, thresholds, side="right") - (len(ordered) - caught) > 1
    return Counts(
        name=model.name,
        thresholds=[repr(float(value)) for value in thresholds],
        rounded=[rounded_threshold(float(value), 4) for value in thresholds],
        caught=caught.tolist(),
        rows=(len(rows) - np.searchsorted(rows, thresholds, side="left")).tolist(),
        positives=len(rows),
        false=false.tolist(),
        tied=(tied | shares_units(judged.trials)).astype(int).tolist(),
        low=low.tolist(),
        high=high.tolist(),
        refused=model.refused is not None,
    )


def _check_in_use(name: str, threshold: float, highest: float, ranks: Ranks, stops: Stops) -> None:
    """A threshold in use belongs to one target, and is not higher than what these scores certify."""
    if len(stops.fixed_tprs) > 1:
        raise ValueError(f"{name} has a threshold, which serves one TPR: give one, or a model without a threshold")
    if ranks.certified[stops.cell(stops.fixed_tprs[0], stops.fixed_confidence)] and threshold > highest:
        raise ValueError(
            f"{name}: the threshold {threshold!r} is higher than {highest!r}, the highest that these scores"
            " certify: pass the scores by which it was chosen"
        )


Values = dict[str, float | int | str | bool | None]


@dataclass(frozen=True)
class Setting(Record):
    """Where the sliders stand, and how many samples come in a day, if known."""

    tpr: int
    confidence: int
    prevalence: int
    per_day: float | None = None


def values_at(ranks: Ranks, counts: Counts, negatives: int, stops: Stops, setting: Setting) -> Values:
    """Every number by its name; those of `OperatingPoint` are named and computed as there. `page.js` repeats it."""
    tpr, confidence = stops.tprs[setting.tpr], stops.confidences[setting.confidence]
    prevalence = stops.prevalences[setting.prevalence]
    cell = stops.cell(setting.tpr, setting.confidence)
    place, usual = ranks.places[cell], ranks.usual[setting.tpr]
    recall, fpr = counts.caught[place] / ranks.positives, counts.false[place] / negatives
    row_recall = counts.rows[place] / counts.positives
    rates = rates_at(prevalence, row_recall, fpr, tpr=tpr, fpr_at_most=counts.high[cell])
    usual_recall, usual_fpr = counts.rows[usual] / counts.positives, counts.false[usual] / negatives
    usual_alarms = alarms_per_1000(prevalence, usual_recall, usual_fpr)
    day = setting.per_day or 0.0
    return rates | {
        "tpr": tpr,
        "confidence": confidence,
        "prevalence": prevalence,
        "per_day": day,
        "both": max(0.0, 2 * confidence - 1),
        "enough": bool(ranks.certified[cell]),
        "certified": bool(ranks.certified[cell]) and not counts.refused,
        "price": price(row_recall, fpr, counts.high[cell]),
        "threshold": counts.thresholds[place],
        "rounded": counts.rounded[place],
        "rank": ranks.ranks[place],
        "recall": recall,
        "missed": ranks.positives - counts.caught[place],
        "false": counts.false[place],
        "fpr": fpr,
        "fpr_at_least": counts.low[cell],
        "fpr_at_most": counts.high[cell],
        "false_alarms_per_1000": 1000 * ((1 - prevalence) * fpr),
        "false_alarms_per_1000_at_most": 1000 * ((1 - prevalence) * counts.high[cell]),
        "alarms_per_day": rates["alarms_per_1000"] / 1000 * day,
        "alarms_per_day_at_most": rates["alarms_per_1000_at_most"] / 1000 * day,
        "misses_per_100000": 100_000 * prevalence * (1 - row_recall),
        "misses_per_100000_at_most": 100_000 * prevalence * (1 - tpr),
        "misses_per_year": 365 * day * prevalence * (1 - row_recall),
        "misses_per_year_at_most": 365 * day * prevalence * (1 - tpr),
        "extra_alarms_per_1000": rates["alarms_per_1000"] - usual_alarms,
        "shortfall_risk": ranks.risk[setting.tpr],
        "at_most_if_tied": "at most " if counts.tied[usual] else "",
        "everything": counts.false[place] == negatives,
        "usual_everything": counts.false[usual] == negatives,
        "refused": counts.refused,
        "same": (counts.caught[place], counts.false[place]) == (counts.caught[usual], counts.false[usual]),
        "needed": ranks.needed[cell],
        "highest_tpr": ranks.highest[setting.confidence],
    }
