"""Labels as told, never guessed: which value is the critical one, and what the others are."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SOME = 20  # values of a label to name; a column may hold thousands


@dataclass(frozen=True)
class Reading:
    """How the labels were read: the critical value, some of the others, and how many rows have either."""

    column: str
    positive: str
    positives: int
    others: tuple[str, ...]
    negatives: int


def read_labels(column: "pd.Series[Any]", path: Path, positive: str | None) -> NDArray[np.int64]:
    """1 where the label is the critical one; anything but 0/1 or true/false is mapped only as told."""
    numeric = pd.api.types.is_numeric_dtype(column)
    if positive is None:
        if numeric and column.isin([0, 1]).all():
            return column.to_numpy(dtype=np.int64)
        raise ValueError(
            f"{path}: column {str(column.name)!r} holds {_some(column)}: say which value is the critical one"
            " with --positive VALUE; nothing is guessed"
        )
    chosen = column.astype(str).str.lower() == positive.lower() if column.dtype == bool else column == positive
    if numeric and column.dtype != bool:
        chosen = column == _number(positive)
    if not chosen.any():
        raise ValueError(f"{path}: no row has {column.name} = {positive!r}; the column holds {_some(column)}")
    alike = [repr(str(value)) for value in pd.unique(column[~chosen]) if _alike(str(value), positive)]
    if alike:
        raise ValueError(
            f"{path}: column {str(column.name)!r} holds {', '.join(alike[:5])} beside {positive!r}: they look like"
            " the same label, yet would count as negatives; write them alike"
        )
    return chosen.to_numpy(dtype=bool).astype(np.int64)


def _alike(value: str, positive: str) -> bool:
    """Whether two labels differ by spaces, by case, or as 1 does from 1.0."""
    return value.strip().casefold() == positive.strip().casefold() or _number(value) == _number(positive)


def reading_of(column: "pd.Series[Any]", labels: NDArray[np.int64]) -> Reading:
    """How these labels came from that column."""
    chosen = labels == 1
    positive, others = (list(map(str, pd.unique(column[which])[:SOME])) for which in (chosen, ~chosen))
    count = int(np.count_nonzero(chosen))
    return Reading(str(column.name), positive[0] if positive else "", count, tuple(others), len(labels) - count)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan  # equals no label


def _some(column: "pd.Series[Any]") -> str:
    values = list(pd.unique(column))
    return ", ".join(map(str, values[:5])) + (", …" if len(values) > 5 else "")
