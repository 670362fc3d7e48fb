"""Does the ranking term help a linear scorer, whose capacity is limited? `python -m benchmarks.rank_study run`.

Six shared tables, halved five times, each half trained on once: ten repetitions. Every setting is cross-fitted on
the training half, and its ensemble scores the test half. The setting with the lowest out-of-fold FPR at 95 % TPR
counts, for plain logistic regression (penalty) as for the term (weight, reach, penalty). Every setting has a line
in records/fit/ranking.csv; `docs/fit.md` shows the summary.
"""

import argparse
import csv
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import t

from benchmarks.tabular_study.data import SHARED, TABLES, RareTable
from benchmarks.tabular_study.data import load as load_shared
from rankreg.bundle.ensemble import TableViews
from rankreg.datasets.partitions import deal_folds
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.fit.crossfit import cross_fit, folds_for
from rankreg.fit.learners import Learner, logistic, ranked_logistic
from rankreg.metrics import fpr_at_tpr

PLACE = Path(__file__).parents[1] / "records/fit/ranking.csv"
RATES = {"fpr98": 0.98, "fpr95": 0.95, "fpr90": 0.90}
FIELDS = ["table", "repetition", "half", "arm", "strength", "weight", "reach", "held95", *RATES, "commit"]
PLAIN, TERM, ALONE = "logistic", "with the term", "the term alone"
ALONE_WEIGHT = 100.0  # the log-loss hardly counts any more


def settings() -> list[tuple[dict[str, Any], Learner]]:
    """What is tried: penalties of the plain regression; weight, reach and penalty of the term."""
    found = [({"arm": PLAIN, "strength": c}, logistic("standardised", strength=c)) for c in (0.01, 0.1, 1, 10, 100)]
    for weight in (1.0, 10.0, ALONE_WEIGHT):
        for reach in (0.3, 1.0, 3.0):
            for c in (0.1, 10.0):
                arm = ALONE if weight == ALONE_WEIGHT else TERM
                learner = ranked_logistic("standardised", strength=c, weight=weight, reach=reach)
                found.append(({"arm": arm, "strength": c, "weight": weight, "reach": reach}, learner))
    return found


def measure(table: RareTable, repetition: int, half: int) -> list[dict[str, Any]]:
    """Every setting on one half."""
    side = deal_folds(table.labels, table.groups, 2, seed=repetition)
    kept, test = np.flatnonzero(side == half), np.flatnonzero(side != half)
    rows = table.features.iloc[kept].reset_index(drop=True)
    preparation = TablePreprocessor.fit(rows)
    views = TableViews(preparation.transform(rows), preparation)
    new = TableViews(preparation.transform(table.features.iloc[test].reset_index(drop=True)), preparation)
    labels, truth = table.labels[kept], table.labels[test]
    folds = folds_for(labels, table.groups[kept], seed=repetition, count=5, rounds=1)
    found = []
    for name, learner in settings():
        crossed = cross_fit(learner, "linear", views, labels, folds)
        pairs = zip(crossed.scales, crossed.members, strict=True)
        scores = np.mean([scale(member.score(new[learner.view])) for scale, member in pairs], axis=0)
        line = {"table": table.name, "repetition": repetition, "half": half, **name}
        line["held95"] = round(100 * fpr_at_tpr(labels, crossed.mean_levels, 0.95), 3)
        line |= {rate: round(100 * fpr_at_tpr(truth, scores, tpr), 3) for rate, tpr in RATES.items()}
        found.append(line)
    return found


def summary(records: pd.DataFrame) -> str:
    """The settings chosen out of fold: FPR of the plain regression, and what the term adds, paired by table."""
    chosen = records.loc[records.groupby(["table", "repetition", "half", "arm"], sort=False)["held95"].idxmin()]
    cells = chosen.pivot_table(index="table", columns="arm", values=list(RATES), sort=False)
    lines = [
        "| table | logistic: FPR@98 / 95 / 90 | with the term | the term alone |",
        "|---|---|---|---|",
    ]
    for table, row in cells.iterrows():
        parts = [" / ".join(f"{row[rate, arm]:.1f}" for rate in RATES) for arm in (PLAIN, TERM, ALONE)]
        lines.append(f"| {table} | {' | '.join(parts)} |")
    means = cells.mean()
    parts = [" / ".join(f"{means[rate, arm]:.1f}" for rate in RATES) for arm in (PLAIN, TERM, ALONE)]
    lines.append(f"| **mean** | {' | '.join(parts)} |")
    said = []
    for arm in (TERM, ALONE):
        gaps = {rate: (cells[rate, arm] - cells[rate, PLAIN]).to_numpy() for rate in RATES}
        said.append(
            f"{arm} − logistic: " + ", ".join(f"FPR@{rate[3:]} {_interval(gap)}" for rate, gap in gaps.items())
        )
    return "\n".join([*lines, "", *(f"- {one}" for one in said)])


def _interval(values: Any) -> str:
    half = float(t.ppf(0.975, len(values) - 1)) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():+.1f} ({values.mean() - half:+.1f} to {values.mean() + half:+.1f})"


def main() -> None:
    """Run what has no record yet, or print the summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rank_study", description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--data-dir", type=Path, default=SHARED)
    asked = parser.parse_args()
    if asked.command == "table":
        print(summary(pd.read_csv(PLACE)))
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    done = set()
    if PLACE.exists():
        done = set(pd.read_csv(PLACE)[["table", "repetition", "half"]].itertuples(index=False, name=None))
    for repetition in range(asked.repetitions):
        for name in TABLES:
            table = load_shared(name, asked.data_dir)
            for half in (0, 1):
                if (name, repetition, half) in done:
                    continue
                lines = [line | {"commit": described.stdout.strip()} for line in measure(table, repetition, half)]
                fresh = not PLACE.exists()
                with PLACE.open("a", newline="") as file:
                    writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                    if fresh:
                        writer.writeheader()
                    writer.writerows(lines)


if __name__ == "__main__":
    main()
