"""docs/fit.md from records: means of the methods, differences from `rankreg fit`, and the simulated recall."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t

from benchmarks.coverage_study import table as coverage_table
from benchmarks.rank_study import summary as rank_summary

MEASURES = {"fpr98": "FPR@98", "fpr95": "FPR@95", "fpr90": "FPR@90", "auc": "AUC"}
OURS = "rankreg fit"
RANKED = {"logistic-rank": "logistic", "boosting-rank": "boosting", "mlp-rank": "mlp"}
COMBINED = (
    "rankreg fit",
    "best three, chosen inside the folds",
    "average of logits",
    "choice: best learner out of fold",
    "average of the best three",
    "average without useless learners",
    "weights from out-of-fold FPR, shrunk",
    "average with rank learners",
    "average, rank learners instead",
)


def page(records: Path) -> str:
    """The whole page."""
    shared, development = pd.read_csv(records / "shared.csv"), pd.read_csv(records / "development.csv")
    ranking = pd.read_csv(records / "ranking.csv")
    development = development[development["method"].isin(COMBINED)]
    return (
        (Path(__file__).parent / "page.md")
        .read_text(encoding="utf-8")
        .format(
            verdict=_verdict(shared),
            shared=means(shared, OURS),
            shared_tables=_tables(shared),
            beside_best=_beside_best(shared),
            term=_term(shared),
            ranking=rank_summary(ranking),
            ranking_repetitions=len(ranking[["repetition", "half"]].drop_duplicates()),
            development_count=development["table"].nunique(),
            development=means(development, OURS),
            coverage=coverage_table(pd.read_csv(records / "coverage.csv")),
        )
    )


def _by_table(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.groupby(["method", "table"], sort=False)[list(MEASURES)].mean()


def means(rows: pd.DataFrame, ours: str) -> str:
    """Every method's mean over tables, and `ours` less the method with a Student interval over tables."""
    by_table = _by_table(rows)
    ordered = by_table.groupby("method", sort=False).mean().sort_values("fpr95")
    count = rows["table"].nunique()
    lines = [
        f"| mean of {count} tables | {' | '.join(MEASURES.values())} | {ours} − method, FPR@95 | ahead on |",
        f"|---|{'---|' * (len(MEASURES) + 2)}",
    ]
    for method, row in ordered.iterrows():
        values = " | ".join(f"{row[measure]:.1f}" for measure in MEASURES)
        gap = (by_table.loc[ours]["fpr95"] - by_table.loc[str(method)]["fpr95"]).to_numpy()
        name, beside = (f"**{method}**", " | ") if method == ours else (str(method), _beside(gap))
        lines.append(f"| {name} | {values} | {beside} |")
    return "\n".join(lines)


def _beside(gap: NDArray[np.float64]) -> str:
    return f"{interval(gap)} | {np.count_nonzero(gap < 0)} of {len(gap)}"


def _tables(rows: pd.DataFrame) -> str:
    """FPR@95 of each table."""
    methods = _by_table(rows).groupby("method", sort=False).mean().sort_values("fpr95").index
    cells = rows.pivot_table(index="method", columns="table", values="fpr95", sort=False).loc[list(methods)]
    lines = [f"| FPR@95 | {' | '.join(map(str, cells.columns))} |", f"|---|{'---|' * len(cells.columns)}"]
    lines += [
        f"| {method} | {' | '.join(f'{value:.1f}' for value in row)} |"
        for method, row in zip(cells.index, cells.to_numpy(), strict=True)
    ]
    return "\n".join(lines)


def _beside_best(rows: pd.DataFrame) -> str:
    """Every table: its best single learner, and `rankreg fit` less that learner, paired by halving."""
    cells = rows.pivot_table(index=["table", "repetition"], columns="method", values="fpr95", sort=False)
    left_out = (*COMBINED, "rankreg fit 0.1")
    single = [str(name) for name in cells.columns if name not in left_out and not str(name).endswith("-rank")]
    lines = [
        "| table | best single learner | its FPR@95 | rankreg fit | rankreg fit − best |",
        "|---|---|---|---|---|",
    ]
    for table, own in cells.groupby("table", sort=False):
        mean = own.mean()
        best = min(single, key=lambda name: float(mean[name]))
        gap = interval((own[OURS] - own[best]).to_numpy())
        lines.append(f"| {table} | {best} | {mean[best]:.1f} | {mean[OURS]:.1f} | {gap} |")
    return "\n".join(lines)


def _term(rows: pd.DataFrame) -> str:
    by_table = _by_table(rows)
    found = []
    for ranked, plain in RANKED.items():
        gap = by_table.loc[f"cross-fitted {ranked}"]["fpr95"] - by_table.loc[f"cross-fitted {plain}"]["fpr95"]
        found.append(f"{plain} {interval(gap.to_numpy())}")
    return ", ".join(found)


def _verdict(rows: pd.DataFrame) -> str:
    """Who is ahead, by how much, and whether it is told apart."""
    by_table = _by_table(rows)
    mean = by_table.groupby("method", sort=False)["fpr95"].mean()
    own = [name for name in mean.index if name not in COMBINED and not name.startswith(("cross-fitted", "rankreg"))]
    best = min(own, key=lambda name: mean[name])
    single = [name for name in mean.index if name.startswith("cross-fitted ") and not name.endswith("-rank")]
    alone = min(single, key=lambda name: mean[name])
    lines = []
    for name in ("rankreg fit 0.1", best, alone):
        gap = (by_table.loc[OURS]["fpr95"] - by_table.loc[name]["fpr95"]).to_numpy()
        lines.append(f"- {name}: {mean[name]:.1f} %; `rankreg fit` − this: {interval(gap)} points")
    halvings = rows["repetition"].nunique()
    return "\n".join(
        [
            f"**FPR at 95 % TPR, mean of {rows['table'].nunique()} tables and {halvings} halvings:"
            f" `rankreg fit` {mean[OURS]:.1f} %.** Beside it:",
            "",
            *lines,
        ]
    )


def interval(values: NDArray[np.float64]) -> str:
    """The mean with a 95 % Student interval."""
    n = len(values)
    if n < 2:
        return f"{values.mean():+.1f}"
    half = float(t.ppf(0.975, n - 1)) * values.std(ddof=1) / np.sqrt(n)
    return f"{values.mean():+.1f} ({values.mean() - half:+.1f} to {values.mean() + half:+.1f})"
