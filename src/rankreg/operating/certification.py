"""Thresholds whose recall is guaranteed, whatever the distribution of the scores.

The rank-th lowest of n positive scores has a recall below the TPR with chance P(Bin(n, 1 − tpr) ≤
rank − 1), and no more than that where scores are tied. The highest threshold whose chance is at
most 1 − confidence is the certified one. It asks two things: that the positives met later come from
where the n came from, and that the n are independent of each other. Where rows belong together,
pass their units: then the units must be independent (docs/decisions/0026).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankreg.notation import Record, percent
from rankreg.operating.guarantees import (
    NotEnoughPositives,
    certified_rank,
    check_confidence,
    check_target,
    fpr_share,
    joint_ranks,
    share_confidence,
    shortfall_risk,
)
from rankreg.operating.points import Costs, OperatingPoint, point_at
from rankreg.operating.score_summary import ScoreSummary, evidence
from rankreg.operating.units import Groups, Per, Sample, Trials


@dataclass(frozen=True)
class TargetPoints(Record):
    """One certified point per TPR.

    Attributes:
        confidence: with which all guarantees hold together.
        points: the points, highest TPR first.
    """

    confidence: float
    points: tuple[OperatingPoint, ...]


@dataclass(frozen=True)
class GroupPoints(Record):
    """One certified point per group, and the groups that are left uncertified.

    Attributes:
        confidence: with which all guarantees hold together.
        points: the point of each certified group by its name.
        everyone: one threshold that serves all certified groups; its counts are theirs.
        uncertified: why each other group is left uncertified, by its name. `everyone` does not cover them.
    """

    confidence: float
    points: dict[str, OperatingPoint]
    everyone: OperatingPoint
    uncertified: dict[str, str] = field(default_factory=dict)


def certify(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    tpr: float = 0.95,
    confidence: float = 0.95,
    prevalence: float | None = None,
    costs: Costs | None = None,
    units: ArrayLike | None = None,
    per: Per = "row",
) -> OperatingPoint:
    """The highest threshold whose recall is at least the TPR with that confidence.

        threshold = the k-th lowest positive score, k the largest with P(Bin(n, 1 − tpr) ≤ k − 1) ≤ 1 − confidence

    The guarantee holds for any distribution of scores. Fix tpr and confidence before you look at
    the scores.

    Args:
        y_true: labels, 1 for the critical class; or a `ScoreSummary` in place of labels and scores.
        y_score: scores, higher = more critical.
        tpr: the target recall, default 0.95.
        confidence: of the guarantee, default 0.95.
        prevalence: share of positives where it will be used; default: that of the sample.
        costs: take the threshold of least expected cost among those at or below the certified one.
            Their recall is never lower.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        per: "row" (default) promises that this share of the positive rows raises an alarm.
            "unit" promises that this share of the units with positives raises an alarm on at
            least one positive row.

    Returns:
        The operating point.

    Raises:
        NotEnoughPositives: no threshold qualifies; the message says how many positives are needed.
        ValueError: the labels, scores or settings make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> point = certify(labels, scores)
    >>> point.threshold, point.recall, round(point.fpr, 3)
    (801.0, 0.99, 0.11)
    """
    check_target(tpr)
    check_confidence(confidence)
    sample = evidence(y_true, y_score, units)
    trials = sample.judged(per).trials
    rank = certified_rank(trials, tpr, confidence)
    if not rank:
        raise NotEnoughPositives(trials, tpr, confidence)
    return point_at(
        sample,
        rank,
        tpr=tpr,
        confidence=confidence,
        fpr_confidence=confidence,
        prevalence=prevalence,
        per=per,
        costs=costs,
    )


def certify_targets(
    y_true: ArrayLike | ScoreSummary,
    y_score: ArrayLike | None = None,
    *,
    tprs: Sequence[float],
    confidence: float = 0.95,
    prevalence: float | None = None,
    units: ArrayLike | None = None,
    per: Per = "row",
) -> TargetPoints:
    """Certified thresholds for several TPRs. All recalls hold at once with the confidence.

    The chance that several order statistics keep their TPRs at once is computed exactly. So no more
    positives are needed than for the highest TPR alone (docs/decisions/0021). Where positives share
    units, the risk is divided.

    Args:
        y_true: labels, 1 for the critical class; or a `ScoreSummary` in place of labels and scores.
        y_score: scores, higher = more critical.
        tprs: the target recalls, at least one.
        confidence: of all guarantees together, default 0.95.
        prevalence: share of positives where it will be used; default: that of the sample.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        per: "row" (default) or "unit", as for `certify`.

    Returns:
        The points, highest TPR first.

    Raises:
        NotEnoughPositives: the highest TPR cannot be certified.
        ValueError: the labels, scores or settings make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> [point.threshold for point in certify_targets(labels, scores, tprs=[0.9, 0.95]).points]
    [800.0, 804.0]
    """
    targets = sorted({check_target(tpr) for tpr in tprs}, reverse=True)
    if not targets:
        raise ValueError("no TPR was given: pass at least one, e.g. tprs=[0.95, 0.99]")
    check_confidence(confidence)
    sample = evidence(y_true, y_score, units)
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
    tpr: float = 0.95,
    confidence: float = 0.95,
    prevalence: float | None = None,
    names: Sequence[str] | None = None,
    units: ArrayLike | None = None,
    per: Per = "row",
) -> GroupPoints:
    """A certified threshold for every group, and one for all. All recalls hold at once with the confidence.

    Groups are independent samples, so each certified group gets confidence^(1/#certified groups). Where a
    unit has rows in several groups, the risk is divided instead. The lowest threshold serves all of
    them. A group with too few positives is named and left uncertified; it does not block the others.
    Which groups these are depends on their sizes, not on the scores.

    Args:
        y_true: labels, 1 for the critical class.
        y_score: scores, higher = more critical.
        groups: one value per sample, or with `names` an index into the names.
        tpr: the target recall, default 0.95.
        confidence: of all guarantees together, default 0.95.
        prevalence: share of positives where it will be used; default: that of the sample.
        names: the names of the groups; default: their values as text.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        per: "row" (default) or "unit", as for `certify`.

    Returns:
        The point of each certified group, one for all of them, and why the other groups have none.

    Raises:
        NotEnoughPositives: every group has too few positives; the message names the largest.
        ValueError: the labels, scores, groups or settings make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> found = certify_groups(labels, scores, ["a", "b"] * 500, tpr=0.9)
    >>> found.everyone.threshold == min(point.threshold for point in found.points.values())
    True
    """
    check_target(tpr)
    check_confidence(confidence)
    found = Groups.of(Sample.of(y_true, y_score, units), groups, names)
    uncertified = {
        name: f"group {name!r} has no negatives: its false alarms are undefined; drop or merge it"
        for name, part in found.parts.items()
        if not len(part.negatives)
    }
    trials = {name: part.judged(per).trials for name, part in found.parts.items() if name not in uncertified}
    if not trials:
        raise ValueError(next(iter(uncertified.values())))
    each, ranks, short = _group_ranks(trials, tpr, confidence, independent=not found.spread)
    uncertified |= short
    settings: dict[str, Any] = {"tpr": tpr, "fpr_confidence": each, "prevalence": prevalence, "per": per}
    points = {name: point_at(found.parts[name], rank, confidence=each, **settings) for name, rank in ranks.items()}
    lowest = min(points.values(), key=lambda point: point.threshold).threshold
    covered = found.together(points)
    below = int(np.count_nonzero(covered.judged(per).scores < lowest))
    settings["fpr_confidence"] = confidence
    everyone = point_at(covered, below + 1, confidence=confidence, threshold=lowest, **settings)
    return GroupPoints(confidence, points, everyone, uncertified)


def _group_ranks(
    trials: dict[str, Trials], tpr: float, confidence: float, *, independent: bool
) -> tuple[float, dict[str, int], dict[str, str]]:
    """The confidence of each group, the certified rank of each, and why the other groups have none."""
    risks = {name: shortfall_risk(found, 1, tpr) for name, found in trials.items()}
    each, short = share_confidence(risks, confidence, independent=independent)
    if len(short) == len(trials):
        largest = list(short)[-1]
        raise NotEnoughPositives(trials[largest], tpr, confidence, f" in group {largest!r}, the largest,")
    ranks = {name: certified_rank(found, tpr, each) for name, found in trials.items() if name not in short}
    why = {}
    for name, (needed, groups) in short.items():
        together = f", which each of {groups} groups needs for {percent(confidence)} in all of them together"
        why[name] = str(NotEnoughPositives(trials[name], tpr, needed, f" in group {name!r}", together))
    return each, ranks, why
