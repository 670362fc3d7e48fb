"""One JSON file per table and method: what was run, with which versions, and what every positive cost."""

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.stats import rankdata

from benchmarks.tabular_study.data import RareTable, halves
from benchmarks.tabular_study.methods import EPOCHS, METHODS, ROUNDS, TREES, XGB_TREES
from rankreg.boosting import lightgbm_objective

FOLDER = Path(__file__).parents[2] / "records/tabular"
REPETITIONS = 5
LIBRARIES = ("lightgbm", "xgboost-cpu", "scikit-learn", "torch", "numpy")


@dataclass(frozen=True)
class Repetition:
    """Out-of-fold results of one cut into halves.

    at_or_above, above: for each positive, in the order of the table, how many negatives score at least, or more
    than, it does. FPR at any TPR and the AUC follow from these.
    """

    seed: int
    seconds: float
    at_or_above: list[int]
    above: list[int]


def path_of(table: str, method: str, folder: Path = FOLDER) -> Path:
    """Where a record is kept."""
    slug = "--".join("-".join("".join(c if c.isalnum() else " " for c in name).split()) for name in (table, method))
    return folder / f"{slug.lower()}.json"


def run(table: RareTable, method: str, folder: Path = FOLDER) -> None:
    """Train and test one method on all halves of a table, unless there is a record."""
    path = path_of(table.name, method, folder)
    if path.exists():
        return
    record = {
        "table": table.name,
        "method": method,
        "rows": len(table.labels),
        "positives": int(table.labels.sum()),
        "config": {
            "rounds": ROUNDS,
            "lightgbm": TREES,
            "xgboost": XGB_TREES,
            "epochs": EPOCHS,
            "ranking term": repr(lightgbm_objective()),
        },
        "commit": _commit(),
        "versions": {name: version(name) for name in LIBRARIES},
        "repetitions": [asdict(repeat(table, method, seed)) for seed in range(REPETITIONS)],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(record) + "\n", encoding="utf-8")
    partial.replace(path)


def repeat(table: RareTable, method: str, seed: int) -> Repetition:
    """Both halves tested and pooled. Scores of two models need not share a scale, so shares of rows are pooled."""
    start = perf_counter()
    pooled = np.empty(len(table.labels))
    for fold in halves(table, seed):
        scores = METHODS[method](fold, seed)
        pooled[fold.test_rows] = rankdata(scores) / len(scores)
    positive = table.labels == 1
    negatives, asked = np.sort(pooled[~positive]), pooled[positive]
    return Repetition(
        seed=seed,
        seconds=round(perf_counter() - start, 2),
        at_or_above=(len(negatives) - np.searchsorted(negatives, asked, side="left")).tolist(),
        above=(len(negatives) - np.searchsorted(negatives, asked, side="right")).tolist(),
    )


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"
