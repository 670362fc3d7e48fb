"""Every number the sliders can ask for, computed here once: the page looks statistics up and computes none.

A second binomial tail or incomplete beta function in JavaScript would be a second definition of every number. The
stops are few (about 150 TPRs by 22 confidences), so the tables stay small whatever the number of samples.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankreg.metrics import empirical_thresholds
from rankreg.operating import (
    Per,
    Record,
    UnitSizes,
    certified_rank,
    fpr_share,
    highest_tpr,
    joint_ranks,
    shortfall_risk,
    units_needed,
)
from rankreg.operating.exact import Trials, certified_ranks, proved_shares, rows_of, shares_units, units_of
from rankreg.report.models import Model
from rankreg.report.stops import Stops


@dataclass(frozen=True)
class Ranks(Record):
    """What follows from the number of positives, or the sizes of their units, and the stops alone.

    positives: how many rows, or for a recall per unit how many units, are ranked. units: how many there are, if
    any were given. ranks: the distinct ranks in use, ascending, and `places` points into them: one entry per pair
    of TPR and confidence, TPR first. certified: whether that rank carries the guarantee; otherwise it is the usual,
    empirical one and `needed` says how many positives, or units if any were given, it would take. usual, risk: per
    TPR. highest: per confidence.
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

    tied: 1 where other positives have the score of that rank too, or share units. caught: of what is ranked. rows:
    of the positive rows, which are `positives` in number. refused: whether the scores are such that no threshold of
    theirs should be used.
    """

    name: str
    thresholds: list[str]
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
    # Which of the ordered positives each empirical threshold is, counted from the lowest.
    usual = empirical_thresholds(np.arange(1.0, positives + 1), np.array(stops.tprs)).astype(np.int64)
    fixed = certifiable(trials, stops)
    targets = [stops.tprs[stop] for stop in fixed]
    if targets:
        certified[fixed, stops.fixed_confidence] = joint_ranks(
            trials, targets, stops.confidences[stops.fixed_confidence]
        )
    used = np.where(certified > 0, certified, usual[:, None])
    ranks = np.unique(np.append(used, usual))
    needed = [
        [0 if rank else units_needed(trials, tpr, sure) for rank, sure in zip(row, stops.confidences, strict=True)]
        for row, tpr in zip(certified, stops.tprs, strict=True)
    ]
    return Ranks(
        positives=positives,
        units=units_of(trials),
        ranks=ranks.tolist(),
        places=np.searchsorted(ranks, used).ravel().tolist(),
        certified=(certified > 0).astype(int).ravel().tolist(),
        needed=np.ravel(needed).tolist(),
        usual=np.searchsorted(ranks, usual).tolist(),
        risk=[shortfall_risk(trials, rank, tpr) for rank, tpr in zip(usual.tolist(), stops.tprs, strict=True)],
        highest=[highest_tpr(trials, sure) for sure in stops.confidences],
    )


def certifiable(trials: Trials, stops: Stops) -> list[int]:
    """The fixed targets that so many positives can certify; no score has a say in it."""
    sure = stops.confidences[stops.fixed_confidence]
    return [stop for stop in stops.fixed_tprs if certified_rank(trials, stops.tprs[stop], sure)]


def counts_for(model: Model, ranks: Ranks, stops: Stops, per: Per = "row") -> Counts:
    """Thresholds, counts and exact bounds of one model."""
    judged = model.sample.judged(per)
    ordered, rows, negatives = np.sort(judged.scores), model.positives, model.negatives
    thresholds = ordered[np.array(ranks.ranks) - 1]
    caught = len(ordered) - np.searchsorted(ordered, thresholds, side="left")
    false = len(negatives) - np.searchsorted(negatives, thresholds, side="left")
    in_cells = false[ranks.places]
    sure = np.tile(stops.confidences, len(stops.tprs))
    fixed = certifiable(judged.trials, stops)
    trials = model.sample.negative_trials
    if fixed:
        cells = [stops.cell(stop, stops.fixed_confidence) for stop in fixed]
        sure[cells] = fpr_share(trials, stops.confidences[stops.fixed_confidence], len(fixed))
    low, high = bounds(in_cells, trials, sure, anywhere=model.sample.mixed)
    tied = np.searchsorted(ordered, thresholds, side="right") - (len(ordered) - caught) > 1
    return Counts(
        name=model.name,
        thresholds=[repr(float(value)) for value in thresholds],
        caught=caught.tolist(),
        rows=(len(rows) - np.searchsorted(rows, thresholds, side="left")).tolist(),
        positives=len(rows),
        false=false.tolist(),
        tied=(tied | shares_units(judged.trials)).astype(int).tolist(),
        low=low.tolist(),
        high=high.tolist(),
        refused=model.refused is not None,
    )


def bounds(
    successes: NDArray[np.integer],
    trials: Trials,
    confidence: NDArray[np.float64] | float,
    *,
    anywhere: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two one-sided bounds of many shares at once: Clopper–Pearson, or over units.

    anywhere: the thresholds may depend on these rows, as in `operating.exact.upper_bound_anywhere`.
    """
    if anywhere:
        levels = proved_shares(trials)[::-1]
        low, high = bounds(successes, trials, 1 - (1 - np.asarray(confidence)) / len(levels))
        below = np.searchsorted(levels, low, side="right") - 1
        return np.where(below >= 0, levels[below], 0.0), levels[np.searchsorted(levels, high)]
    if isinstance(trials, UnitSizes):
        if not trials.single:
            risk = 1 - np.asarray(confidence)
            return 1 - trials.largest_share(trials.rows - successes, risk), trials.largest_share(successes, risk)
        trials = trials.rows
    sure = np.asarray(confidence, dtype=np.float64)
    least = special.betaincinv(np.maximum(successes, 1), trials - successes + 1, 1 - sure)
    most = special.betaincinv(successes + 1, np.maximum(trials - successes, 1), sure)
    return np.where(successes > 0, least, 0.0), np.where(successes < trials, most, 1.0)
