"""docs/tabular.md from the records."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from benchmarks.tabular_study.data import TABLES
from benchmarks.tabular_study.methods import METHODS
from benchmarks.tabular_study.records import path_of

Numbers = NDArray[np.float64]

TPRS = (0.98, 0.95, 0.9)
COLUMNS = ("FPR@98", "FPR@95", "FPR@90", "AUC")
SHOWN = (
    "logistic regression",
    "MLP, BCE",
    "MLP, BCE + RankReg",
    "LightGBM",
    "LightGBM, scale_pos_weight",
    "LightGBM, is_unbalance",
    "LightGBM, focal loss",
    "LightGBM, LambdaRank",
    "LightGBM + RankReg",
    "XGBoost",
    "XGBoost + RankReg",
)
PAIRS = (  # ours, less the one it is to be compared with
    ("LightGBM + RankReg", "LightGBM"),
    ("LightGBM + RankReg", "LightGBM, scale_pos_weight"),
    ("LightGBM + RankReg", "LightGBM, focal loss"),
    ("LightGBM + RankReg", "LightGBM, LambdaRank"),
    ("XGBoost + RankReg", "XGBoost"),
    ("MLP, BCE + RankReg", "MLP, BCE"),
)
OVERLAP = 1.0  # test rows per training row: two cuts into halves share half of their training rows


def numbers(record: dict[str, Any]) -> Numbers:
    """FPR at each TPR and AUC, in percent, one row per repetition."""
    negatives = record["rows"] - record["positives"]
    rows = []
    for repetition in record["repetitions"]:
        reached = np.sort(repetition["at_or_above"])
        needed = [max(1, math.ceil(tpr * len(reached) - 1e-9)) for tpr in TPRS]
        beaten = (reached.mean() + np.mean(repetition["above"])) / 2
        rows.append([*(reached[k - 1] / negatives for k in needed), 1 - beaten / negatives])
    return 100 * np.array(rows)


def interval(values: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and half width of the 95 % Student interval, widened since repetitions share training rows.

    The variance of a mean over J repetitions is taken as s² (1/J + test rows / training rows).
    Reference: Nadeau, Bengio, "Inference for the generalization error", Machine Learning 52, 2003.
    """
    spread = values.std(axis=0, ddof=1)
    widened = spread * math.sqrt(1 / len(values) + OVERLAP)
    return values.mean(axis=0), float(student.ppf(0.975, len(values) - 1)) * widened


def page(folder: Path) -> str:
    """The whole page."""
    found = {
        (table, method): json.loads(path.read_text(encoding="utf-8"))
        for table in TABLES
        for method in METHODS
        if (path := path_of(table, method, folder)).exists()
    }
    if not found:
        raise ValueError(f"no records in {folder}: `python -m benchmarks.tabular_study run` makes them")
    values = {key: numbers(record) for key, record in found.items()}
    text = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    parts = [text.replace("SUMMARY", _summary(values)), _differences(values)]
    for table in TABLES:
        records = [record for (name, _), record in found.items() if name == table]
        if records:
            parts.append(_table(table, records[0], values))
    return "\n".join(parts)


def _summary(values: dict[tuple[str, str], Numbers]) -> str:
    """How many of the differences of each RankReg method from its base leave zero outside of their interval."""
    sentences = []
    for ours, other in (pair for pair in PAIRS if pair[0].startswith(pair[1])):
        tables = [table for table in TABLES if (table, ours) in values and (table, other) in values]
        changes = [interval(values[table, ours] - values[table, other]) for table in tables]
        if changes:
            middle, half = (np.array(part) * [1, 1, 1, -1] for part in zip(*changes, strict=True))  # less is better
            better = np.count_nonzero(middle < -np.abs(half))
            worse = np.count_nonzero(middle > np.abs(half))
            sentences.append(
                f"{ours} less {other}: {middle.size} differences (four numbers, {len(tables)} tables). By more"
                f" than their interval, {better} are better and {worse} worse."
            )
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _table(table: str, record: dict[str, Any], values: dict[tuple[str, str], Numbers]) -> str:
    positives = record["positives"]
    few = " FPR@98 is FPR@100 here." if math.ceil(0.98 * positives - 1e-9) == positives else ""
    lines = [
        f"## {table}",
        "",
        f"{record['rows']:,} rows, {positives} positive.{few}",
        "",
        *_head(("method", *COLUMNS)),
    ]
    for method in SHOWN:
        if (table, method) in values:
            lines.append(_row(method, *interval(values[table, method])))
    for ours, other in PAIRS:
        if (table, ours) in values and (table, other) in values:
            change = values[table, ours] - values[table, other]
            lines.append(_row(f"*{ours}, less {other}*", *interval(change), signed=True))
    return "\n".join([*lines, ""])


def _differences(values: dict[tuple[str, str], Numbers]) -> str:
    """Each pair over all tables that have both: mean over tables, and its interval over tables."""
    lines = ["## Over all tables", "", *_head(("difference, points", "tables", *COLUMNS))]
    for ours, other in PAIRS:
        changes = [
            (values[table, ours] - values[table, other]).mean(axis=0)
            for table in TABLES
            if (table, ours) in values and (table, other) in values
        ]
        if len(changes) > 1:
            stacked = np.array(changes)
            half = student.ppf(0.975, len(stacked) - 1) * stacked.std(axis=0, ddof=1) / math.sqrt(len(stacked))
            lines.append(_row(f"{ours}, less {other} | {len(stacked)}", stacked.mean(axis=0), half, signed=True))
    return "\n".join([*lines, ""])


def _head(columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def _row(name: str, middle: Numbers, half: Numbers, *, signed: bool = False) -> str:
    cells = [f"{m:{'+' if signed else ''}.1f} ± {h:.1f}" for m, h in zip(middle, half, strict=True)]
    return f"| {name} | {' | '.join(cells)} |"
