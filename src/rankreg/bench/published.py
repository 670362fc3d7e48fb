"""The numbers that the paper prints, from the two files beside this one."""

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from rankreg.bench.grids import DATA, Experiment

Values = dict[str, float]


def published_values(experiment: Experiment, data: str, loss: str, arm: str) -> Values:
    """What the paper prints in that row, by measure; empty where it has no such row."""
    row = experiment.arms.get(arm)
    if experiment.published is None or row is None:
        return {}
    source = DATA[data]
    if experiment.layout == "main":
        return _rows("main").get((experiment.published, source.published, loss, row), {})
    if experiment.layout == "noise":
        row = f"{row}@eta={noise_of(data)}"
    return _rows("ablations").get((experiment.published, source.published, row), {})


def noise_of(data: str) -> float:
    """The share of training labels that are flipped."""
    return float(DATA[data].settings.get("noise", 0.0))


def published_gain(experiment: Experiment, data: str, losses: Sequence[str], measure: str) -> float | None:
    """The paper's Δ, from its own rows: the mean over losses of how much RankReg beats the better of base and ALM.

    Recomputed: three of the printed ones differ a little from the rows above them.
    """
    gains = []
    for loss in losses:
        rows = [published_values(experiment, data, loss, arm) for arm in (ranking_arm(experiment), "base", "alm")]
        if any(measure not in row for row in rows):
            return None
        ours, *others = (row[measure] for row in rows)
        gains.append(ours - max(others) if higher_is_better(measure) else min(others) - ours)
    return sum(gains) / len(gains) if gains else None


def ranking_arm(experiment: Experiment) -> str:
    """The arm that stands for the paper's method: on Melanoma its base loss is over the batch only."""
    rows = {str(row).rsplit("+", 1)[-1]: arm for arm, row in experiment.arms.items()}
    return rows.get("rankreg", "rankreg")


def higher_is_better(measure: str) -> bool:
    """Whether more of it is wanted: not of error and false alarms."""
    return measure in ("auc", "accuracy")


@cache
def _rows(name: str) -> Mapping[tuple[str, ...], Values]:
    """The values of a file by the columns before them."""
    text = files("rankreg.bench").joinpath("published", f"{name}.csv").read_text(encoding="utf-8")
    found: dict[tuple[str, ...], Values] = {}
    for *place, measure, value in list(csv.reader(text.splitlines()))[1:]:
        found.setdefault(tuple(place), {})[measure] = float(value)
    return found
