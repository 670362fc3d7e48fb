"""Which weight, reach and Hessian? Judged on inner validation parts only (docs/decisions/0061)."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np

from benchmarks.tabular_study.data import Fold, RareTable, halves, inner
from benchmarks.tabular_study.methods import TREES, Scores
from rankreg.boosting import rank_gradient
from rankreg.metrics import auc, fpr_at_tpr

AFTER = (20, 50, 100, 150)  # rounds
REPETITIONS = 5
COLUMNS = ("table", "repetition", "half", "rounds", "setting", "fpr98", "fpr95", "fpr90", "auc")


class Term(NamedTuple):
    """A ranking term; bounded: whether its Hessian is |g| / reach, or else none."""

    weight: float
    reach: float = 1.0
    margin: float = 0.0
    bounded: bool = True

    def __call__(self, scores: Scores, data: Any) -> tuple[Scores, Scores]:
        """Gradient and Hessian of the log-loss and this term, in double precision."""
        labels = data.get_label()
        positives = np.flatnonzero(labels)
        rate = len(positives) / len(labels)
        with np.errstate(over="ignore"):
            chance = 1 / (1 + np.exp(-scores - np.log(rate / (1 - rate))))
        ahead = scores - self.margin * labels  # what positives must be ahead by
        term = rank_gradient(ahead, positives, reach=self.reach)
        term *= self.weight * len(positives)
        bend = np.abs(term) / self.reach if self.bounded else 0.0
        return chance - labels + term, chance * (1 - chance) + bend


def _weighted(fold: Fold) -> dict[str, Any]:
    positives = int(fold.train_labels.sum())
    return {"objective": "binary", "scale_pos_weight": (len(fold.train_labels) - positives) / positives}


SETTINGS: dict[str, Callable[[Fold], dict[str, Any]]] = {
    "plain": lambda fold: {"objective": "binary"},
    "scale_pos_weight": _weighted,
    "weight 1, reach 1": lambda fold: {"objective": Term(1.0)},
    "weight 10, reach 1": lambda fold: {"objective": Term(10.0)},
    "weight 100, reach 1": lambda fold: {"objective": Term(100.0)},
    "weight 3, reach 3": lambda fold: {"objective": Term(3.0, reach=3.0)},
    "weight 30, reach 3": lambda fold: {"objective": Term(30.0, reach=3.0)},
    "weight 10, reach 3, margin 2": lambda fold: {"objective": Term(10.0, reach=3.0, margin=2.0)},
    "weight 1, reach 1, log-loss Hessian": lambda fold: {"objective": Term(1.0, bounded=False)},
    "weight 10, reach 1, log-loss Hessian": lambda fold: {"objective": Term(10.0, bounded=False)},
}


def choose(table: RareTable, path: Path) -> None:
    """Append what the file lacks for this table: one row per half, setting and number of rounds."""
    done = set()
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            done = {(row["table"], row["repetition"], row["half"], row["setting"]) for row in csv.DictReader(file)}
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(COLUMNS)
        for repetition in range(REPETITIONS):
            for half, fold in enumerate(halves(table, repetition)):
                part = inner(fold, 0)
                for name, settings in SETTINGS.items():
                    key = (table.name, str(repetition), str(half), name)
                    if key not in done:
                        writer.writerows([[*key[:3], *row] for row in _curve(part, name, settings(part))])
                        file.flush()


def _curve(part: Fold, name: str, settings: dict[str, Any]) -> list[list[Any]]:
    data = lightgbm.Dataset(part.train_inputs, part.train_labels)
    booster = lightgbm.train({**TREES, "seed": 0, **settings}, data, AFTER[-1])
    rows = []
    for rounds in AFTER:
        scores = np.asarray(booster.predict(part.test_inputs, num_iteration=rounds, raw_score=True))
        rates = [*fpr_at_tpr(part.test_labels, scores, [0.98, 0.95, 0.9]), auc(part.test_labels, scores)]
        rows.append([rounds, name, *(f"{rate:.5f}" for rate in rates)])
    return rows
