"""Score files in, arrays out: any column names, labels mapped only as told, only the needed columns read."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.labels import LabelRule, Reading, read_labels
from rankreg.scores import Scores
from rankreg.table_files import (
    is_parquet,
    opened,
    parquet_columns,
    parquet_names,
    readable_csv,
    refuse_same_names,
    row_words,
)

# A threshold must equal the score it was taken from; since 3.1 pandas reads every digit by default.
EXACT: dict[str, Any] = (
    {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
)
MISSING = [
    "",
    "NA",
    "N/A",
    "NaN",
    "nan",
    "null",
    "NULL",
    "None",
    "#N/A",
]  # in a score column; a label may be "None"


NameRow = Callable[[int], str]
SEPARATORS = (",", ";", "\t", "|")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class ScoreColumns:
    """Which columns of a file hold what, and what the label values mean."""

    score: str
    label: str | None = None
    labels: LabelRule = field(default_factory=LabelRule)
    id: str | None = None
    group: str | None = None
    time: str | None = None
    unit: str | None = None
    separator: str = ","

    def __post_init__(self) -> None:
        if self.label == self.score:
            raise ValueError(f"column {self.score!r} was named for both the label and the score: name one for each")
        if self.unit is not None and self.unit in (self.label, self.score):
            raise ValueError(f"column {self.unit!r} cannot name the units too: name e.g. the column of patients")
        if len(self.delimiter) != 1:
            raise ValueError(f"a separator is one character or tab, got {self.separator!r}")

    @property
    def delimiter(self) -> str:
        """The separator as it stands in the file; "tab" is easier to type than one."""
        return "\t" if self.separator in ("tab", "\\t") else self.separator

    def wanted(self) -> list[str]:
        """The distinct columns to read."""
        named = (self.score, self.label, self.id, self.group, self.time, self.unit)
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The columns of a score file as arrays, one entry per row."""

    scores: NDArray[np.floating]
    labels: NDArray[np.int64] | None = None
    ids: NDArray[Any] | None = None
    groups: NDArray[np.integer] | None = None
    group_names: tuple[str, ...] = ()
    reading: Reading | None = None
    units: NDArray[np.integer] | None = None

    def labelled(self) -> NDArray[np.int64]:
        """The labels, which must have been read."""
        if self.labels is None:
            raise ValueError("the file was read without labels: name the label column")
        return self.labels

    def identified(self) -> Scores:
        """As `Scores`, to be matched by id; rows without ids are matched by their position."""
        ids = np.arange(len(self.scores)) if self.ids is None else self.ids
        return Scores(ids, self.labelled(), self.scores)


def read_scores(path: Path, columns: ScoreColumns) -> ScoreTable:
    """Read a CSV file (also compressed) or a Parquet file."""
    table, name_row = _read_parquet(path, columns) if is_parquet(path) else _read_csv(path, columns)
    if not len(table):
        raise ValueError(f"{path} has a header but no rows")
    scores = _numbers(table[columns.score], path, name_row)
    labels, reading = None, None
    if columns.label is not None:
        where = f"{path}: column {columns.label!r}"
        labels, reading = read_labels(table[columns.label], columns.labels, where, name_row=name_row)
    ids = None
    if columns.id is not None:
        _refuse_missing(table[columns.id], path, columns.id, name_row)
        ids = table[columns.id].astype(str).to_numpy(dtype=object)
    order = np.arange(len(table)) if columns.time is None else _order(table[columns.time], path, name_row)
    scores, labels, ids = (
        scores[order],
        None if labels is None else labels[order],
        None if ids is None else ids[order],
    )
    groups, group_names = (None, ()) if columns.group is None else _named(table[columns.group], path, name_row)
    units = None if columns.unit is None else _named(table[columns.unit], path, name_row)[0]
    return ScoreTable(
        scores,
        labels,
        ids,
        None if groups is None else groups[order],
        group_names,
        reading,
        None if units is None else units[order],
    )


def _named(column: "pd.Series[Any]", path: Path, name_row: NameRow) -> tuple[NDArray[np.integer], tuple[str, ...]]:
    """A number for each row's value, and the values as text."""
    _refuse_missing(column, path, str(column.name), name_row)
    values = column.astype(str).astype("category")
    return values.cat.codes.to_numpy(), tuple(values.cat.categories)


def _read_csv(path: Path, columns: ScoreColumns) -> tuple[pd.DataFrame, NameRow]:
    with readable_csv(path), opened(path, separator=columns.delimiter) as records:
        if not records.names:
            raise ValueError(f"{path} is not a table in CSV: it is empty")
        _check_separator(path, columns, records.names)
        _check_columns(path, columns, records.names)
        as_text = {name: str for name in (columns.id, columns.group, columns.unit) if name is not None}
        missing = {name: [""] for name in columns.wanted()} | {columns.score: MISSING}
        table: pd.DataFrame = pd.read_csv(
            records,
            sep=columns.delimiter,
            usecols=columns.wanted(),
            dtype=as_text,
            na_values=missing,
            keep_default_na=False,
            low_memory=False,  # a column has one type, not one per chunk
            **EXACT,
        )
        records.refuse_faults()
        return table, records.row_words


def _check_separator(path: Path, columns: ScoreColumns, names: list[str]) -> None:
    """Another separator would take y;s for one name."""
    if set(columns.wanted()) <= set(names):
        return
    for other in SEPARATORS:
        parts = columns.delimiter.join(names).split(other)
        if other != columns.delimiter and (len(names) == 1 < len(parts) or set(columns.wanted()) <= set(parts)):
            typed = "tab" if other == "\t" else f"'{other}'"
            raise ValueError(f"{path} looks separated by {typed}: add --separator {typed}")


def _read_parquet(path: Path, columns: ScoreColumns) -> tuple[pd.DataFrame, NameRow]:
    _check_columns(path, columns, parquet_names(path))
    return parquet_columns(path, columns.wanted()), row_words


def _check_columns(path: Path, columns: ScoreColumns, header: list[str]) -> None:
    refuse_same_names(header, str(path))
    for name in columns.wanted():
        if name not in header:
            near = get_close_matches(name, header, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"{path} has no column {name!r}: {hint}it has {', '.join(map(repr, header[:20]))}")


def _refuse_missing(column: "pd.Series[Any]", path: Path, name: str, name_row: NameRow = row_words) -> None:
    empty = np.flatnonzero(column.isna().to_numpy())
    if len(empty):
        first = name_row(int(empty[0]))
        raise ValueError(f"{path}: column {name!r} is empty in {len(empty):,} rows, first in {first}")


def _order(column: "pd.Series[Any]", path: Path, name_row: NameRow) -> NDArray[np.integer]:
    """Rows by time: numbers, or dates as ISO 8601 writes them; 1/2/2025 is refused, since it may be either."""
    _refuse_missing(column, path, str(column.name), name_row)
    if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)):
        try:
            column = pd.to_datetime(column, format="ISO8601", utc=True)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}: column {str(column.name)!r} holds {column.iloc[0]!r}:"
                " times are numbers or dates like 2025-01-31"
            ) from error
    return np.argsort(column.to_numpy(), kind="stable")


def _numbers(column: "pd.Series[Any]", path: Path, name_row: NameRow) -> NDArray[np.floating]:
    """Scores as finite floats; text, gaps and infinities are refused with their row."""
    if column.dtype == bool or not pd.api.types.is_numeric_dtype(column):
        parsed = pd.to_numeric(column, errors="coerce")
        bad = np.flatnonzero((parsed.isna() & column.notna()).to_numpy()) if column.dtype != bool else np.array([0])
        if len(bad):
            comma = DECIMAL_COMMA.fullmatch(str(column.iloc[bad[0]]))
            raise ValueError(
                f"{path}: column {str(column.name)!r} holds {column.iloc[bad[0]]!r} in {name_row(int(bad[0]))}:"
                f" scores are numbers{' with a decimal point: write 0.5, not 0,5' if comma else ''}"
            )
        column = parsed
    values = column.to_numpy(dtype=np.float32 if column.dtype == np.float32 else np.float64)
    for bad, what in ((np.isnan(values), "no score (NaN)"), (np.isinf(values), "an infinite score")):
        if bad.any():
            first, count = name_row(int(np.flatnonzero(bad)[0])), np.count_nonzero(bad)
            raise ValueError(
                f"{path}: column {str(column.name)!r} has {what} in {count:,} rows, first in {first}:"
                " drop or repair those samples"
            )
    return values
