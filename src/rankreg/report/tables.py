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
    Record,
    certified_rank,
    highest_tpr,
    independent_share,
    joint_ranks,
    positives_needed,
    shortfall_risk,
)
from rankreg.report.models import Model
from rankreg.report.stops import Stops


@dataclass(frozen=True)
class Ranks(Record):
    """What follows from the number of positives and the stops alone.

    ranks: the distinct ranks in use, ascending, and `places` points into them: one entry per pair of TPR and
    confidence, TPR first. certified: whether that rank carries the guarantee; otherwise it is the usual, empirical
    one and `needed` says how many positives it would take. usual, risk: per TPR. highest: per confidence.
    """

    positives: int
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

    tied: 1 where other positives have the score of that rank too. refused: whether the scores are such that no
    threshold of theirs should be used.
    """

    name: str
    thresholds: list[str]
    caught: list[int]
    false: list[int]
    tied: list[int]
    low: list[float]
    high: list[float]
    refused: bool


def ranks_for(positives: int, stops: Stops) -> Ranks:
    """The rank behind every pair of stops; targets fixed beforehand hold together."""
    certified = np.array(
        [[certified_rank(positives, tpr, sure) for sure in stops.confidences] for tpr in stops.tprs]
    )
    # Which of the ordered positives each empirical threshold is, counted from the lowest.
    usual = empirical_thresholds(np.arange(1.0, positives + 1), np.array(stops.tprs)).astype(np.int64)
    fixed = certifiable(positives, stops)
    targets = [stops.tprs[stop] for stop in fixed]
    if targets:
        certified[fixed, stops.fixed_confidence] = joint_ranks(
            positives, targets, stops.confidences[stops.fixed_confidence]
        )
    used = np.where(certified > 0, certified, usual[:, None])
    ranks = np.unique(np.append(used, usual))
    needed = [
        [0 if rank else positives_needed(tpr, sure) for rank, sure in zip(row, stops.confidences, strict=True)]
        for row, tpr in zip(certified, stops.tprs, strict=True)
    ]
    return Ranks(
        positives=positives,
        ranks=ranks.tolist(),
        places=np.searchsorted(ranks, used).ravel().tolist(),
        certified=(certified > 0).astype(int).ravel().tolist(),
        needed=np.ravel(needed).tolist(),
        usual=np.searchsorted(ranks, usual).tolist(),
        risk=[shortfall_risk(positives, rank, tpr) for rank, tpr in zip(usual.tolist(), stops.tprs, strict=True)],
        highest=[highest_tpr(positives, sure) for sure in stops.confidences],
    )


def certifiable(positives: int, stops: Stops) -> list[int]:
    """The fixed targets that so many positives can certify; no score has a say in it."""
    sure = stops.confidences[stops.fixed_confidence]
    return [stop for stop in stops.fixed_tprs if certified_rank(positives, stops.tprs[stop], sure)]


def counts_for(model: Model, ranks: Ranks, stops: Stops) -> Counts:
    """Thresholds, counts and exact bounds of one model."""
    ordered, negatives = model.positives, model.negatives
    thresholds = ordered[np.array(ranks.ranks) - 1]
    caught = len(ordered) - np.searchsorted(ordered, thresholds, side="left")
    false = len(negatives) - np.searchsorted(negatives, thresholds, side="left")
    in_cells = false[ranks.places]
    sure = np.tile(stops.confidences, len(stops.tprs))
    fixed = certifiable(ranks.positives, stops)
    if fixed:
        cells = [stops.cell(stop, stops.fixed_confidence) for stop in fixed]
        sure[cells] = independent_share(stops.confidences[stops.fixed_confidence], len(fixed))
    low, high = bounds(in_cells, len(negatives), sure)
    return Counts(
        name=model.name,
        thresholds=[repr(float(value)) for value in thresholds],
        caught=caught.tolist(),
        false=false.tolist(),
        tied=(np.searchsorted(ordered, thresholds, side="right") - (len(ordered) - caught) > 1)
        .astype(int)
        .tolist(),
        low=low.tolist(),
        high=high.tolist(),
        refused=model.refused is not None,
    )


def bounds(
    successes: NDArray[np.integer], trials: int, confidence: NDArray[np.float64] | float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two one-sided Clopper–Pearson bounds of many proportions at once."""
    low = special.betaincinv(np.maximum(successes, 1), trials - successes + 1, 1 - np.asarray(confidence))
    high = special.betaincinv(successes + 1, np.maximum(trials - successes, 1), confidence)
    return np.where(successes > 0, low, 0.0), np.where(successes < trials, high, 1.0)
