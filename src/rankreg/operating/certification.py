"""Thresholds whose recall is guaranteed, whatever the distribution of the scores.

The rank-th lowest of n positive scores has a recall below the TPR with chance P(Bin(n, 1 − tpr) ≤
rank − 1), and no more than that where scores are tied. The highest threshold whose chance is at
most 1 − confidence is the certified one. It asks two things: that the positives met later come from
where the n came from, and that the n are independent of each other. Where rows belong together,
pass their units: then the units must be independent (docs/decisions/0026).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rankreg.metrics import empirical_thresholds
from rankreg.notation import Record, percent
from rankreg.operating.groups import Groups, share_confidence
from rankreg.operating.guarantees import (
    NotEnoughPositives,
    certified_rank,
    check_confidence,
    check_target,
    fpr_share,
    joint_ranks,
    shortfall_risk,
)
from rankreg.operating.points import Costs, OperatingPoint, point_at
from rankreg.operating.score_summary import ScoreSummary, evidence
from rankreg.operating.units import Per, Sample, Trials

Kind = Literal["certified", "cross-fitted", "expected", "empirical"]

NETWORK_ROUNDING = 1e-5  # how much a float32 network's scores may differ between batches and machines


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
    sample = Sample.of(y_true, y_score, units)
    found = Groups.of(sample, groups, names)
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
    covered = sample.part(found.rows_in(points)) if uncertified else sample
    below = int(np.count_nonzero(covered.judged(per).scores < lowest))
    settings["fpr_confidence"] = confidence
    everyone = point_at(covered, below + 1, confidence=confidence, threshold=lowest, **settings)
    return GroupPoints(confidence, points, everyone, uncertified)


def _rank(trials: Trials, tpr: float, confidence: float) -> int:
    rank = certified_rank(trials, tpr, confidence)
    if not rank:
        raise NotEnoughPositives(trials, tpr, confidence)
    return rank


def _group_ranks(
    trials: dict[str, Trials], tpr: float, confidence: float, *, independent: bool
) -> tuple[float, dict[str, int], dict[str, str]]:
    """The confidence of each group, the certified rank of each, and why the other groups have none."""
    risks = {name: shortfall_risk(found, 1, tpr) for name, found in trials.items()}
    each, short = share_confidence(risks, confidence, independent=independent)
    if len(short) == len(trials):
        largest = list(short)[-1]
        raise NotEnoughPositives(trials[largest], tpr, confidence, f" in group {largest!r}, the largest")
    ranks = {name: certified_rank(found, tpr, each) for name, found in trials.items() if name not in short}
    why = {}
    for name, (needed, groups) in short.items():
        together = f", which each of {groups} groups needs for {percent(confidence)} in all of them together"
        why[name] = str(NotEnoughPositives(trials[name], tpr, needed, f" in group {name!r}", together))
    return each, ranks, why


@dataclass(frozen=True)
class ChosenThreshold(Record):
    """The threshold to use: alarm when score ≥ value.

    Args:
        value: the threshold, lowered by what scores may differ when they are computed again. It is
            a float32 number if the scores are, so that every runtime compares with the same number.
        certified: with `confidence`, the recall on new positives is at least `tpr`, proven.
        tpr: the target recall.
        confidence: of the guarantee.
        per: "row" for the recall of rows, "unit" for the recall of units.
        positives: how many calibration positives there were.
        units: how many units they belong to; None if none were given.
        point: the certified operating point at `value`; None without a certificate.
        highest_tpr: the highest TPR these positives can certify; None if `tpr` is certified.
        needed: how many positives, or units where units were given, certify `tpr`; None if `tpr` is
            certified.
        because: why nothing is certified, in one sentence; None if `tpr` is certified.
        kind: "certified"; "cross-fitted" or "expected", see `cross_fitted_threshold`; or "empirical", the
            usual threshold, which guarantees nothing.
        expected_recall: what share of new positives is caught on average, where it is known.
    """

    value: float
    certified: bool
    tpr: float
    confidence: float
    per: Per
    positives: int
    units: int | None
    point: OperatingPoint | None = None
    highest_tpr: float | None = None
    needed: int | None = None
    because: str | None = None
    kind: Kind = "empirical"
    expected_recall: float | None = None


def choose_threshold(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tpr: float = 0.95,
    confidence: float = 0.95,
    units: ArrayLike | None = None,
    per: Per = "row",
    rounding: float = NETWORK_ROUNDING,
    scale: float = 1.0,
) -> ChosenThreshold:
    """The threshold to use after calibration: certified if the positives suffice, otherwise empirical.

        value = threshold − rounding · max(scale, |threshold|),    rounded down to float32 if the scores are float32

    The threshold is the score of one positive. Scores differ in the last digits when they are
    computed in another batch or on another machine, so it is lowered by more than that. A lower
    threshold never catches less.

    Args:
        y_true: labels of calibration samples that the model has not seen, 1 for the critical class.
        y_score: their scores, higher = more critical.
        tpr: the target recall, default 0.95.
        confidence: of the guarantee, default 0.95.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        per: "row" or "unit", as for `certify`.
        rounding: how much scores may differ, relative to their size; 1e-5 suits float32 networks.
        scale: size of the scores where it exceeds the threshold's, default 1; 0 for probabilities.

    Returns:
        The threshold, and what it promises or why it promises nothing.

    Raises:
        ValueError: the labels, scores, TPR or confidence make no sense.

    >>> labels, scores = [0] * 900 + [1] * 100, [*range(900), *range(800, 900)]
    >>> chosen = choose_threshold(labels, scores)
    >>> chosen.certified, round(chosen.value, 3), chosen.point.threshold == chosen.value
    (True, 800.992, True)
    >>> few = choose_threshold(labels[850:950], scores[850:950])
    >>> few.certified, few.needed
    (False, 59)
    """
    settings: dict[str, Any] = {"tpr": tpr, "confidence": confidence, "per": per}
    sample = Sample.of(y_true, y_score, units)
    try:
        point = certify(y_true, y_score, units=units, **settings)
    except NotEnoughPositives as shortage:
        usual = float(empirical_thresholds(sample.judged(per).scores, np.array([tpr]))[0])
        return ChosenThreshold(
            value=rounded_down(lowered(usual, rounding, scale), y_score),
            certified=False,
            positives=len(sample.positives),
            units=shortage.units,
            highest_tpr=shortage.highest_tpr,
            needed=shortage.needed,
            because=str(shortage),
            **settings,
        )
    value = rounded_down(lowered(point.threshold, rounding, scale), y_score)
    at_value = point_at(
        sample, point.rank, fpr_confidence=point.fpr_confidence, prevalence=None, threshold=value, **settings
    )
    return ChosenThreshold(
        value=value,
        certified=True,
        positives=point.positives,
        units=point.units,
        point=at_value,
        kind="certified",
        **settings,
    )


def rounded_down(value: float, scores: ArrayLike) -> float:
    """The value, or the next lower float32 number where the scores are float32."""
    if np.asarray(scores).dtype != np.float32:
        return value
    nearest = np.float32(value)
    return float(nearest if nearest <= value else np.nextafter(nearest, np.float32(-np.inf)))


def lowered(threshold: float, rounding: float = NETWORK_ROUNDING, scale: float = 1.0) -> float:
    """A threshold less what scores may differ when they are computed again; an infinite one stays."""
    return threshold - rounding * max(scale, abs(threshold)) if np.isfinite(threshold) else threshold
