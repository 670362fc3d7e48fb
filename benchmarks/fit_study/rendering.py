"""Means of the methods, and differences from `rankreg fit`, paired over tables and repetitions."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

MEASURES = {"fpr98": "FPR@98", "fpr95": "FPR@95", "fpr90": "FPR@90", "auc": "AUC"}
OURS = "rankreg fit"


def page(place: Path) -> str:
    """Three Markdown tables: means over tables, differences over tables, and FPR@95 table by table."""
    rows = pd.read_csv(place)
    by_table = rows.groupby(["method", "table"], sort=False)[list(MEASURES)].mean()
    means = by_table.groupby("method", sort=False).mean().sort_values("fpr95")
    return "\n\n".join([_means(by_table, means), _tables(rows, list(means.index))]) + "\n"


def _means(by_table: pd.DataFrame, means: pd.DataFrame) -> str:
    """Every method's mean over tables, and `rankreg fit` less the method with a Student interval over tables."""
    count = by_table.index.get_level_values("table").nunique()
    lines = [
        f"| mean of {count} tables | {' | '.join(MEASURES.values())} | rankreg fit − method, FPR@95 | tables won |",
        f"|---|{'---|' * (len(MEASURES) + 2)}",
    ]
    ours = by_table.loc[OURS]
    for method, row in means.iterrows():
        values = " | ".join(f"{row[measure]:.1f}" for measure in MEASURES)
        gap = (ours["fpr95"] - by_table.loc[str(method)]["fpr95"]).to_numpy()
        won = f"{np.count_nonzero(gap < 0)} of {len(gap)}" if method != OURS else ""
        lines.append(f"| {method} | {values} | {interval(gap) if method != OURS else ''} | {won} |")
    return "\n".join(lines)


def _tables(rows: pd.DataFrame, methods: list[str]) -> str:
    """FPR@95 of each table, and where `rankreg fit` is told from the best other method over repetitions."""
    cells = rows.pivot_table(index="method", columns="table", values="fpr95", sort=False).loc[methods]
    lines = [f"| FPR@95 | {' | '.join(cells.columns)} |", f"|---|{'---|' * len(cells.columns)}"]
    lines += [
        f"| {method} | {' | '.join(f'{value:.1f}' for value in row)} |"
        for method, row in zip(cells.index, cells.to_numpy(), strict=True)
    ]
    return "\n".join(lines)


def interval(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> str:
    """The mean with a 95 % Student interval."""
    n = len(values)
    if n < 2:
        return f"{values.mean():+.1f}"
    half = float(t.ppf(0.975, n - 1)) * values.std(ddof=1) / np.sqrt(n)
    return f"{values.mean():+.1f} ({values.mean() - half:+.1f} to {values.mean() + half:+.1f})"
