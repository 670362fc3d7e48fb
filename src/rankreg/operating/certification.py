"""Thresholds whose recall is guaranteed, whatever the distribution of the scores.

The rank-th lowest of n positive scores has a recall below the TPR with chance P(Bin(n, 1 − tpr) ≤ rank − 1), and no
more than that where scores are tied. The highest threshold whose chance is at most 1 − confidence is the certified
one. It asks two things: that the positives met later come from where the n came from, and that the n are
independent of each other. Where rows belong together, pass their units: then the units must be independent
(docs/decisions/0026).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankreg.operating._records import Record, check_confidence, check_target
from rankreg.operating.exact import NotEnoughPositives, Trials, certified_rank, percent
from rankreg.operating.joint import dependent_share, fpr_share, independent_share, joint_ranks
from rankreg.operating.points import Costs, OperatingPoint, Per, Sample, point_at


@dataclass(frozen=True)
class TargetPoints(Record):
    """One point per TPR, highest first; all guarantees hold together with `confidence`."""

    confidence: float
    points: tuple[OperatingPoint, ...]


@dataclass(frozen=True)
class GroupPoints(Record):
    """One point per group; all hold together with `confidence`. `everyone`: one threshold that serves them all."""

    confidence: float
    points: dict[str, OperatingPoint]
    everyone: OperatingPoint


def certify(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tpr: float = 0.98,
    confidence: float = 0.95,
    prevalence: float | None = None,
    costs: Costs | None = None,
    units: ArrayLike | None = None,
    per: Per = "row",
) -> OperatingPoint:
    """The highest threshold whose recall is at least the TPR with that confidence.

        threshold = the k-th lowest positive score, k the largest with P(Bin(n, 1 − tpr) ≤ k − 1) ≤ 1 − confidence

    prevalence: the share of positives where the threshold will be used; without it, that of the sample. costs: take
    the threshold of least expected cost among those at or below the certified one, whose recall is never lower.

    units: one value per sample, e.g. the patient; rows with the same value need not be independent of each other.
    Without it every row is its own unit. per: "row" promises that this share of the positive rows raises an alarm,
    also if large units are harder than small ones, as long as new units have sizes like these; "unit" promises that
    this share of the units with positive rows raises an alarm on at least one of them.

    Raises `NotEnoughPositives` where no threshold qualifies. Fix tpr and confidence before looking at the scores.
    """
    check_target(tpr)
    check_confidence(confidence)
    sample = Sample.of(y_true, y_score, units)
    return point_at(
        sample,
        _rank(sample.judged(per).trials, tpr, confidence),
        tpr=tpr,
        confidence=confidence,
        fpr_confidence=confidence,
        prevalence=prevalence,
        per=per,
        costs=costs,
    )


def certify_targets(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tprs: Sequence[float],
    confidence: float = 0.95,
    prevalence: float | None = None,
    units: ArrayLike | None = None,
    per: Per = "row",
) -> TargetPoints:
    """Certified thresholds for several TPRs, all of whose recalls hold at once with the confidence.

    The chance that several order statistics keep their TPRs at once is computed exactly, so less is given away than
    by dividing the risk, and no more positives are needed than for the highest TPR alone (docs/decisions/0021).
    Where positives share units, the risk is divided. units, per: as for `certify`.
    """
    targets = sorted({check_target(tpr) for tpr in tprs}, reverse=True)
    if not targets:
        raise ValueError("no TPR was given: pass at least one, e.g. tprs=[0.95, 0.98]")
    check_confidence(confidence)
    sample = Sample.of(y_true, y_score, units)
    ranks = joint_ranks(sample.judged(per).trials, targets, confidence)
    points = tuple(
        point_at(
            sample,
            rank,
            tpr=tpr,
            confidence=confidence,
            fpr_confidence=fpr_share(sample.negative_trials, confidence, len(targets)),
            prevalence=prevalence,
            per=per,
        )
        for tpr, rank in zip(targets, ranks, strict=True)
    )
    return TargetPoints(confidence, points)


def certify_groups(
    y_true: ArrayLike,
    y_score: ArrayLike,
    groups: ArrayLike,
    *,
    tpr: float = 0.98,
    confidence: float = 0.95,
    prevalence: float | None = None,
    names: Sequence[str] | None = None,
    units: ArrayLike | None = None,
    per: Per = "row",
) -> GroupPoints:
    """A certified threshold for every group, and one for all; the recall is at least the TPR in all groups at once.

    Groups are independent samples, so each gets the confidence^(1/#groups) that makes them hold together; where a
    unit has rows in several groups, the risk is divided instead. The lowest threshold serves all groups.
    groups: one value per sample, or with `names` an index into the names. units, per: as for `certify`.
    """
    check_target(tpr)
    check_confidence(confidence)
    sample, members = Sample.of(y_true, y_score, units), np.asarray(groups)
    if members.shape != sample.scores.shape:
        raise ValueError(f"expected one group per sample, shape {sample.scores.shape}, got {members.shape}")
    values, places = np.unique(members, return_inverse=True)
    share = dependent_share if _spans_groups(sample, places) else independent_share
    each = share(confidence, len(values))
    parts = {
        str(value) if names is None else names[int(value)]: sample.part(places == place)
        for place, value in enumerate(values)
    }
    ranks = _group_ranks(parts, tpr, each, confidence, per)
    settings: dict[str, Any] = {"tpr": tpr, "fpr_confidence": each, "prevalence": prevalence, "per": per}
    points = {name: point_at(part, ranks[name], confidence=each, **settings) for name, part in parts.items()}
    lowest = min(points.values(), key=lambda point: point.threshold).threshold
    below = int(np.count_nonzero(sample.judged(per).scores < lowest))
    settings["fpr_confidence"] = confidence
    everyone = point_at(sample, below + 1, confidence=confidence, threshold=lowest, **settings)
    return GroupPoints(confidence, points, everyone)


def _rank(trials: Trials, tpr: float, confidence: float) -> int:
    rank = certified_rank(trials, tpr, confidence)
    if not rank:
        raise NotEnoughPositives(trials, tpr, confidence)
    return rank


def _spans_groups(sample: Sample, places: NDArray[np.integer]) -> bool:
    """Whether a unit has rows in more than one group."""
    if sample.units is None:
        return False
    pairs = np.unique(np.stack([sample.units, places]), axis=1)
    return int(pairs.shape[1]) > len(np.unique(sample.units))


def _group_ranks(parts: dict[str, Sample], tpr: float, each: float, together: float, per: Per) -> dict[str, int]:
    """The certified rank of every group; if groups have too few positives, the message names the worst of them."""
    for name, part in parts.items():
        if not len(part.negatives):
            raise ValueError(f"group {name!r} has no negatives: its false alarms are undefined; drop or merge it")
    trials = {name: part.judged(per).trials for name, part in parts.items()}
    ranks = {name: certified_rank(found, tpr, each) for name, found in trials.items()}
    if not all(ranks.values()):
        shared = f", which each of {len(parts)} groups needs for {percent(together)} in all of them together"
        raise min(
            (
                NotEnoughPositives(trials[name], tpr, each, f" in group {name!r}", shared)
                for name, rank in ranks.items()
                if not rank
            ),
            key=lambda shortage: shortage.highest_tpr,
        )
    return ranks
