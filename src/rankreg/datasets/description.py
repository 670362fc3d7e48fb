"""What is said about a table before a fit: likely leaks, how the file was read, labels, and each column."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets.columns import ColumnPlan, ColumnReading, distinct_texts
from rankreg.datasets.table import OwnTable
from rankreg.notation import share
from rankreg.operating.intervals import auc_interval

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

MANY = 12  # plain columns of numbers: more of them are one line
NAMED = 3  # of many, at either end
WIDEST = 32  # signs of a name
SUSPICIOUS = 0.99  # AUC of one column
FLOOR = 0.7  # of its lower 95 % bound
FEWEST = 7  # samples of a class that may name a column: all of them on top give such a bound
FOLDS = 5
MOST_ROWS = 50_000  # of each class that are looked at
CHEAP = 2_000  # of each class for a first look
NEAR = 0.97  # AUC at the first look


@dataclass(frozen=True)
class Leak:
    """A column that alone ranks almost perfectly.

    column: its name, or that of a part of a date.
    auc, low: the area under its ROC curve, and the lower end of the 95 % interval.
    """

    column: str
    auc: float
    low: float


def describe(own: OwnTable) -> list[str]:
    """How the table was read, as lines for the terminal: likely leaks first.

    Args:
        own: a table that was read, by `read_source` or `read_own_table`.

    Returns:
        Lines to print.

    >>> from pathlib import Path
    >>> from rankreg.datasets.table import read_own_table
    >>> rows = [f"{k};{k % 7},5;2024-01-{k % 28 + 1:02};{int(k % 5 == 0)}" for k in range(100)]
    >>> _ = Path("claims.csv").write_text("no;amount;day;fraud\\n" + "\\n".join(rows))
    >>> print("\\n".join(describe(read_own_table("claims.csv", target="fraud"))))
    claims: 100 rows, separated by semicolons, decimal comma, UTF-8
    target 'fraud': 20 positive ('1'), 80 negative ('0')
    2 columns to learn from, 1 left out:
      no      left out  identifier: counts up like a row number
      amount  number    0.5 to 6.5
      day     date      2024-01-01 to 2024-01-28 → days, day of week
    """
    leaks = likely_leaks(own.features, own.labels, categorical=own.categorical)
    positives, (negative, positive) = int(own.labels.sum()), own.classes
    dialect = "" if own.dialect is None else f", {own.dialect.words}"
    return [
        *(
            f"Likely leak: {leak.column!r} alone ranks almost perfectly (AUC {leak.auc:.3f}, 95 % interval from"
            f" {leak.low:.3f}). If it is known only after the outcome, leave it out with --drop."
            for leak in leaks
        ),
        f"{own.name}: {len(own.labels):,} rows{dialect}",
        f"target {own.preprocessing['target']!r}: {positives:,} positive ({positive!r}),"
        f" {len(own.labels) - positives:,} negative ({negative!r})",
        *column_lines(own.plan, leaks={leak.column for leak in leaks}),
    ]


def column_lines(plan: ColumnPlan, *, leaks: Collection[str] = ()) -> list[str]:
    """One line per column; many columns of numbers without a remark, and that do not leak, are one line."""
    left_out = f", {len(plan.left_out):,} left out" if plan.left_out else ""
    lines = [f"{_columns(len(plan.used))} to learn from{left_out}:"]
    plain = [one for one in plan.readings if one.kind == "number" and not one.note and one.name not in leaks]
    grouped = {one.name for one in plain} if len(plain) > MANY else set[str]()
    cells = [
        (one.name, "left out" if not one.is_used else one.kind, _remark(one, plan.rows))
        for one in plan.readings
        if one.name not in grouped
    ]
    if grouped:
        ends = [repr(one.name) for one in plain]
        missing = sum(one.missing > 0 for one in plain)
        some = f"; {missing:,} of them with missing values" if missing else ""
        names = f"{', '.join(ends[:NAMED])}, … {', '.join(ends[-NAMED:])}{some}"
        cells.append((_columns(len(plain)), "number", names))
    width = min(max((len(name) for name, _, _ in cells), default=0), WIDEST)
    for name, kind, remark in cells:
        name = " ".join(name.splitlines())  # a line break in a name would look like another column
        short = name if len(name) <= WIDEST else f"{name[: WIDEST - 1]}…"
        lines.append(f"  {short:<{width}}  {kind:<8}  {remark}".rstrip())
    return lines


def _remark(one: ColumnReading, rows: int) -> str:
    said = []
    if not one.is_used:
        said.append(f"{one.kind}: {one.note}")
    elif one.kind == "number" and one.low is not None and one.high is not None:
        said.append(f"{_figure(one.low)} to {_figure(one.high)}")
    elif one.kind == "category":
        said.append(f"{one.distinct or 0:,} values, e.g. {one.example!r}")
    if one.is_used and one.note:
        said.append(one.note)
    if one.is_used and one.missing:
        words = f", also spelled {', '.join(map(repr, one.missing_words))}" if one.missing_words else ""
        said.append(f"{one.missing:,} missing ({share(one.missing / max(rows, 1))}){words}")
    return ", ".join(said)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


def _columns(count: int) -> str:
    return f"{count:,} column{'' if count == 1 else 's'}"


def likely_leaks(features: pd.DataFrame, labels: Labels, *, categorical: Collection[str] = ()) -> list[Leak]:
    """Columns that alone rank positives above negatives almost perfectly, the most perfect first.

    A column of numbers is ranked up and down, with missing values first or last. A category is ranked by its share
    of positives in other rows. A column is named if its AUC is at least 0.99 and the lower end of the 95 % interval
    is at least 0.7, so that a few positives do not name it by chance; fewer than seven never do. Nothing is
    removed.

    Args:
        features: columns of numbers and of text, see `ColumnPlan.apply`.
        labels: 0 or 1 for each row.
        categorical: columns of numbers that are categories.

    >>> labels = np.arange(200) % 10 == 0
    >>> rows = pd.DataFrame({"age": np.arange(200) % 7, "refund": labels * 20.0})
    >>> [leak.column for leak in likely_leaks(rows, labels.astype(int))]
    ['refund']
    """
    labels = np.asarray(labels, dtype=np.int64)
    if min(np.count_nonzero(labels), np.count_nonzero(labels == 0)) < FEWEST:
        return []
    rows = np.sort(np.concatenate([_some(np.flatnonzero(labels == k), MOST_ROWS) for k in (0, 1)]))
    known = labels[rows]
    first = np.concatenate([_some(np.flatnonzero(known == k), CHEAP) for k in (0, 1)])
    found = []
    for name in map(str, features.columns):
        column = features[name].iloc[rows] if len(rows) < len(labels) else features[name]
        if pd.api.types.is_numeric_dtype(column) and name not in categorical:
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            if max(map(abs, (_auc(known[first], one) - 0.5 for one in _rankings(values[first])))) < NEAR - 0.5:
                continue
            rankings = _rankings(values)
        else:
            rankings = [_shares(column, known)]
        best = max(rankings, key=lambda one: _auc(known, one))
        if _auc(known, best) >= SUSPICIOUS:
            interval = auc_interval(known, best)
            if interval.low >= FLOOR:
                found.append(Leak(name, interval.estimate, interval.low))
    return sorted(found, key=lambda leak: (-leak.auc, leak.column))


def _some(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most so many, from the first to the last."""
    return rows[:: -(-len(rows) // most)] if len(rows) > most else rows


def _rankings(values: Floats) -> list[Floats]:
    """The numbers up and down; missing ones below and above all others."""
    missing = np.isnan(values)
    if not missing.any():
        return [values, -values]
    up = [np.where(missing, end, values) for end in (-1e300, 1e300)]
    return [*up, *(-one for one in up)]


def _auc(labels: Labels, values: Floats) -> float:
    negatives = np.sort(values[labels == 0])
    positives = values[labels == 1]
    below = np.searchsorted(negatives, positives, "left") + np.searchsorted(negatives, positives, "right")
    return float(below.mean()) / (2 * len(negatives))


def _shares(column: "pd.Series[Any]", labels: Labels) -> Floats:
    """For each row the share of positives among rows of its category in other folds, drawn to that of all rows."""
    codes, texts = distinct_texts(column)
    codes = codes + 1  # missing is a category too
    fold = np.empty(len(labels), dtype=np.int64)
    for k in (0, 1):
        rows = np.random.default_rng(0).permutation(np.flatnonzero(labels == k))
        fold[rows] = np.arange(len(rows)) % FOLDS
    shares = np.empty(len(labels))
    for k in range(FOLDS):
        other = fold != k
        all_rows = np.bincount(codes[other], minlength=len(texts) + 1)
        positive = np.bincount(codes[other & (labels == 1)], minlength=len(texts) + 1)
        mean = labels[other].mean()
        shares[~other] = ((positive + mean) / (all_rows + 1.0))[codes[~other]]
    return shares
