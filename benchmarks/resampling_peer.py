"""imbalanced-learn's samplers and ensembles beside `rankreg fit`, on the halves of `benchmarks.fit_study`.

    pip install --no-deps --target peers imbalanced-learn sklearn-compat
    PYTHONPATH=peers python -m benchmarks.resampling_peer run      # adds what records/fit/resampling.csv lacks
    python -m benchmarks.resampling_peer table                     # docs/coming-from/imbalanced-learn.md shows it

The halves, the columns and the seeds are those of records/fit/shared.csv. So `rankreg fit`, LightGBM and logistic
regression are not run again: their recorded results are on the same halves.
"""

import argparse
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.fit_study.__main__ import add, done
from benchmarks.fit_study.methods import Half, encoded, lightgbm, logistic
from benchmarks.fit_study.rendering import interval, means
from benchmarks.tabular_study.data import SHARED, TABLES, load
from rankreg.datasets.partitions import deal_folds
from rankreg.metrics import auc, fpr_at_tpr

RECORDS = Path(__file__).parents[1] / "records/fit"
OURS, PLAIN = "rankreg fit", ("LightGBM", "LightGBM, balanced", "logistic regression", "random forest")
REPETITIONS = 3
Make = Callable[[int], Any]


def _resampled(sampler: str, make: Make) -> Make:
    def build(seed: int) -> Any:
        from imblearn import over_sampling, pipeline, under_sampling

        made = getattr(over_sampling, sampler, None) or getattr(under_sampling, sampler)
        return pipeline.make_pipeline(made(random_state=seed), make(seed))

    return build


def _ensemble(name: str, **options: Any) -> Make:
    def build(seed: int) -> Any:
        from imblearn import ensemble

        return getattr(ensemble, name)(random_state=seed, **options)

    return build


METHODS: dict[str, Make] = {
    "SMOTE + LightGBM": _resampled("SMOTE", lightgbm()),
    "RandomOverSampler + LightGBM": _resampled("RandomOverSampler", lightgbm()),
    "RandomUnderSampler + LightGBM": _resampled("RandomUnderSampler", lightgbm()),
    "SMOTE + logistic regression": _resampled("SMOTE", logistic),
    "BalancedRandomForest": _ensemble("BalancedRandomForestClassifier", n_estimators=300),
    "EasyEnsemble": _ensemble("EasyEnsembleClassifier"),
}

WITHOUT = {
    "SMOTE + LightGBM": "LightGBM",
    "RandomOverSampler + LightGBM": "LightGBM",
    "RandomUnderSampler + LightGBM": "LightGBM",
    "SMOTE + logistic regression": "logistic regression",
    "BalancedRandomForest": "random forest",
}


def measure(name: str, repetition: int, half: int, folder: Path) -> list[dict[str, object]]:
    """Every method of imbalanced-learn on one half of one table."""
    table = load(name, folder)
    side = deal_folds(table.labels, table.groups, 2, seed=repetition)
    kept, held = np.flatnonzero(side == half), np.flatnonzero(side != half)
    rows, test = encoded(
        Half(
            table.features.iloc[kept].reset_index(drop=True),
            table.labels[kept],
            table.groups[kept],
            table.features.iloc[held].reset_index(drop=True),
            repetition,
        )
    )
    found: list[dict[str, object]] = []
    for method, make in METHODS.items():
        start = time.perf_counter()
        scores: NDArray[np.float64] = make(repetition).fit(rows, table.labels[kept]).predict_proba(test)[:, 1]
        found.append(
            {"table": name, "repetition": repetition, "half": half, "method": method}
            | {f"fpr{p}": round(100 * fpr_at_tpr(table.labels[held], scores, p / 100), 4) for p in (98, 95, 90)}
            | {"auc": round(100 * auc(table.labels[held], scores), 4)}
            | {"seconds": round(time.perf_counter() - start, 2), "positives": int(table.labels[kept].sum())}
        )
    return found


def paired(records: Path) -> pd.DataFrame:
    """Their records, and ours on the same halves."""
    theirs, ours = pd.read_csv(records / "resampling.csv"), pd.read_csv(records / "shared.csv")
    halves = theirs[["table", "repetition", "half"]].drop_duplicates()
    ours = ours[ours["method"].isin([OURS, *PLAIN])].merge(halves)
    return pd.concat([ours, theirs], ignore_index=True)


def overall(records: Path = RECORDS) -> str:
    """Means over the tables, and `rankreg fit` less each method."""
    return means(paired(records), OURS)


def by_table(records: Path = RECORDS) -> str:
    """`rankreg fit` less each method of imbalanced-learn, FPR@95, table by table over the halves."""
    rows = paired(records)
    cells = rows.pivot_table(index=["table", "repetition", "half"], columns="method", values="fpr95", sort=False)
    lines = [f"| {OURS} − method, FPR@95 | {' | '.join(METHODS)} |", "|---" * (1 + len(METHODS)) + "|"]
    for table, own in cells.groupby("table", sort=False):
        gaps = " | ".join(interval((own[OURS] - own[method]).to_numpy()) for method in METHODS)
        lines.append(f"| {table} | {gaps} |")
    return "\n".join(lines)


def gains(records: Path = RECORDS) -> str:
    """Every method of imbalanced-learn less the same learner without it, FPR@95, over tables."""
    by_method = paired(records).groupby(["method", "table"], sort=False)["fpr95"].mean()
    lines = ["| with imbalanced-learn | without | with − without, FPR@95 | better on |", "|---|---|---|---|"]
    for method, plain in WITHOUT.items():
        gap = (by_method[method] - by_method[plain]).to_numpy()
        lines.append(f"| {method} | {plain} | {interval(gap)} | {np.count_nonzero(gap < 0)} of {len(gap)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what has no record, or print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resampling_peer", description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--data-dir", type=Path, default=SHARED)
    asked = parser.parse_args()
    if asked.command == "table":
        print(overall(), gains(), by_table(), sep="\n\n")
        return
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    place = RECORDS / "resampling.csv"
    for repetition in range(REPETITIONS):
        for name in TABLES:
            for half in (0, 1):
                if (name, str(repetition), str(half)) not in done(place):
                    add(place, measure(name, repetition, half, asked.data_dir), commit)


if __name__ == "__main__":
    main()
