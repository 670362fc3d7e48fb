"""Likely leaks: columns that alone rank almost perfectly, as what is only known after the outcome does."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets.columns import distinct_texts
from rankreg.notation import Record
from rankreg.operating.intervals import auc_interval

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

SUSPICIOUS = 0.99  # AUC of one column
FLOOR = 0.7  # of its lower 95 % bound
FEWEST = 7  # samples of a class that may name a column: all of them on top give such a bound
FOLDS = 5
MOST_ROWS = 50_000  # of each class that are looked at
CHEAP = 2_000  # of each class for a first look
NEAR = 0.97  # AUC at the first look


@dataclass(frozen=True)
class Leak(Record):
    """A column that alone ranks almost perfectly.

    column: its name, or that of a part of a date.
    auc, low: the area under its ROC curve, and the lower end of the 95 % interval.
    """

    column: str
    auc: float
    low: float


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
