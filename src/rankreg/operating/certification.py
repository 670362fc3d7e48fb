"""Thresholds whose recall is guaranteed, whatever the distribution of the scores.

The rank-th lowest of n positive scores has a recall below the TPR with chance P(Bin(n, 1 − tpr) ≤ rank − 1), and no
more than that where scores are tied. The highest threshold whose chance is at most 1 − confidence is the certified
one. It asks one thing: that the positives met later come from where the n came from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankreg.operating._records import Record, check_confidence, check_target
from rankreg.operating.exact import NotEnoughPositives, certified_rank, percent
from rankreg.operating.joint import independent_share, joint_ranks
from rankreg.operating.points import Costs, OperatingPoint, Sample, point_at


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
) -> OperatingPoint:
    """The highest threshold whose recall is at least the TPR with that confidence.

        threshold = the k-th lowest positive score, k the largest with P(Bin(n, 1 − tpr) ≤ k − 1) ≤ 1 − confidence

    prevalence: the share of positives where the threshold will be used; without it, that of the sample. costs: take
    the threshold of least expected cost among those at or below the certified one, whose recall is never lower.
    Raises `NotEnoughPositives` where no threshold qualifies. Fix tpr and confidence before looking at the scores.
    """
    check_target(tpr)
    check_confidence(confidence)
    sample = Sample.of(y_true, y_score)
    rank = _rank(len(sample.positives), tpr, confidence)
    return point_at(
        sample,
        rank,
        tpr=tpr,
        confidence=confidence,
        fpr_confidence=confidence,
        prevalence=prevalence,
        costs=costs,
    )


def certify_targets(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tprs: Sequence[float],
    confidence: float = 0.95,
    prevalence: float | None = None,
) -> TargetPoints:
    """Certified thresholds for several TPRs, all of whose recalls hold at once with the confidence.

    The chance that several order statistics keep their TPRs at once is computed exactly, so less is given away than
    by dividing the risk, and no more positives are needed than for the highest TPR alone (docs/decisions/0021).
    """
    targets = sorted({check_target(tpr) for tpr in tprs}, reverse=True)
    if not targets:
        raise ValueError("no TPR was given: pass at least one, e.g. tprs=[0.95, 0.98]")
    check_confidence(confidence)
    sample = Sample.of(y_true, y_score)
    total, parts = len(sample.positives), len(targets)
    points = tuple(
        point_at(
            sample,
            rank,
            tpr=tpr,
            confidence=confidence,
            fpr_confidence=independent_share(confidence, parts),
            prevalence=prevalence,
        )
        for tpr, rank in zip(targets, joint_ranks(total, targets, confidence), strict=True)
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
) -> GroupPoints:
    """A certified threshold for every group, and one for all; the recall is at least the TPR in all groups at once.

    Groups are independent samples, so each gets the confidence^(1/#groups) that makes them hold together. The
    lowest threshold serves all groups. groups: one value per sample, or with `names` an index into the names.
    """
    check_target(tpr)
    check_confidence(confidence)
    sample, members = Sample.of(y_true, y_score), np.asarray(groups)
    if members.shape != sample.scores.shape:
        raise ValueError(f"expected one group per sample, shape {sample.scores.shape}, got {members.shape}")
    values = np.unique(members)
    each = independent_share(confidence, len(values))
    parts: dict[str, Sample] = {}
    for value in values:
        chosen = members == value
        name = str(value) if names is None else names[int(value)]
        parts[name] = Sample(sample.positive[chosen], sample.scores[chosen])
    _check_groups(parts, tpr, each, confidence)
    settings: dict[str, Any] = {"tpr": tpr, "fpr_confidence": each, "prevalence": prevalence}
    points = {
        name: point_at(part, certified_rank(len(part.positives), tpr, each), confidence=each, **settings)
        for name, part in parts.items()
    }
    lowest = min(points.values(), key=lambda point: point.threshold).threshold
    below = int(np.count_nonzero(sample.positives < lowest))
    settings["fpr_confidence"] = confidence
    everyone = point_at(sample, below + 1, confidence=confidence, threshold=lowest, **settings)
    return GroupPoints(confidence, points, everyone)


def _rank(positives: int, tpr: float, confidence: float) -> int:
    rank = certified_rank(positives, tpr, confidence)
    if not rank:
        raise NotEnoughPositives(positives, tpr, confidence)
    return rank


def _check_groups(parts: dict[str, Sample], tpr: float, each: float, together: float) -> None:
    """Every group has negatives and enough positives; the message names the group furthest from it."""
    for name, part in parts.items():
        if not len(part.negatives):
            raise ValueError(f"group {name!r} has no negatives: its false alarms are undefined; drop or merge it")
    name, part = min(parts.items(), key=lambda item: len(item[1].positives))
    if not certified_rank(len(part.positives), tpr, each):
        shared = f", which each of {len(parts)} groups needs for {percent(together)} in all of them together"
        raise NotEnoughPositives(len(part.positives), tpr, each, f" in group {name!r}", shared)
