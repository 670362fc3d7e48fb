"""What is measured: the paper's numbers of a set of scores, with 95 % intervals, and the values that it printed."""

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from rankreg.metrics import auc, error_at_tpr, fpr_at_tpr
from rankreg.operating import Interval, auc_interval, compare, fpr_at_tpr_interval
from rankreg.operating.bootstrap import error_at_tpr_intervals
from rankreg.operating.comparison import paired
from rankreg.operating.intervals import share_interval
from rankreg.scores import Scores
from rankreg_bench.grids import DATA, Data, Experiment, noise_of

CONFIDENCE = 0.95
RISK = (1 - CONFIDENCE) / 2  # on either side


def higher_is_better(measure: str) -> bool:
    """True for AUC and accuracy, false for errors and false alarms."""
    return measure in ("auc", "accuracy")


def measured(data: Data, scores: Scores) -> dict[str, float]:
    """FPR at each TPR and AUC; or the others' error at each TPR of the critical class, and accuracy. In percent."""
    labels, values = scores.labels, scores.values.astype(np.float64)
    if data.several_classes:
        accuracy = (values.argmax(axis=1) == labels).mean()
        found = [*error_at_tpr(labels, values, data.tprs, positive=data.critical), accuracy]
    else:
        found = [*fpr_at_tpr(labels, values, data.tprs), auc(labels, values)]
    return {key: round(100 * float(value), 3) for key, value in zip(data.measures, found, strict=True)}


def intervals_of(data: Data, scores: Scores) -> dict[str, Interval]:
    """The same with intervals. FPR: exact; AUC: DeLong; error at a TPR: bootstrap; accuracy: Clopper–Pearson."""
    values = scores.values.astype(np.float64)
    if data.several_classes:
        right = int((values.argmax(axis=1) == scores.labels).sum())
        errors = error_at_tpr_intervals(scores.labels, values, data.tprs, positive=data.critical)
        found = [*errors, share_interval(right, len(values))]
    else:
        fprs = [fpr_at_tpr_interval(scores.labels, values, tpr=tpr) for tpr in data.tprs]
        found = [*fprs, auc_interval(scores.labels, values)]
    return {name: _percent(interval) for name, interval in zip(data.measures, found, strict=True)}


def difference_intervals(data: Data, first: Scores, second: Scores) -> dict[str, Interval]:
    """FPR at each TPR and AUC of the first less those of the second, paired by sample; two classes only."""
    labels, a, b = paired(first, second)
    found = [compare(labels, a, b, tpr=tpr, draws=1000, seed=0) for tpr in data.tprs]
    differences = [*(one.fpr for one in found), found[0].auc]
    return {
        name: _percent(Interval(one.difference, one.low, one.high, CONFIDENCE))
        for name, one in zip(data.measures, differences, strict=True)
    }


def _percent(interval: Interval) -> Interval:
    low, high = 100 * interval.low, 100 * interval.high
    return Interval(round(100 * interval.estimate, 3), low, high, interval.confidence)


def published_values(experiment: Experiment, data: str, loss: str, arm: str) -> dict[str, float]:
    """What the paper prints in that row, by measure; empty where it has no such row."""
    row = experiment.arms.get(arm)
    if experiment.published is None or row is None:
        return {}
    source = DATA[data].published
    if experiment.published == "main":
        return _rows("main").get((source, loss, row), {})
    if experiment.layout == "noise":
        row = f"{row}@eta={noise_of(data)}"
    return _rows("ablations").get((experiment.published, source, row), {})


def published_gain(experiment: Experiment, data: str, losses: Sequence[str], measure: str) -> float | None:
    """The paper's Δ, from its own rows: the mean over losses of how much RankReg beats the better of base and ALM.

    Recomputed: three of the printed ones differ a little from the rows above them.
    """
    gains = []
    for loss in losses:
        rows = [published_values(experiment, data, loss, arm) for arm in (experiment.ranking_arm, "base", "alm")]
        if any(measure not in row for row in rows):
            return None
        ours, *others = (row[measure] for row in rows)
        gains.append(ours - max(others) if higher_is_better(measure) else min(others) - ours)
    return sum(gains) / len(gains) if gains else None


@cache
def _rows(name: str) -> Mapping[tuple[str, ...], dict[str, float]]:
    """The values of a published file, by the columns before them; every data set has one main table only."""
    text = files("rankreg_bench").joinpath("published", f"{name}.csv").read_text(encoding="utf-8")
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for *place, measure, value in list(csv.reader(text.splitlines()))[1:]:
        found.setdefault(tuple(place[name == "main" :]), {})[measure] = float(value)
    return found
