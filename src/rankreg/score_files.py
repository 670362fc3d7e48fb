"""Score files (CSV or Parquet, any column names) as arrays, and the operating point that is deployed.

Labels are mapped only as told. Only the named columns are read.
"""

import glob
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.labels import LabelRule, Reading, read_labels
from rankreg.operating.units import Per
from rankreg.safe_files import read_json
from rankreg.table_files import (
    COMPRESSED,
    check_columns,
    is_parquet,
    opened,
    parquet_columns,
    parquet_names,
    readable_csv,
    row_words,
)

__all__ = ["ScoreColumns"]

# A threshold must equal the score it was taken from; since 3.1 pandas reads every digit by default.
EXACT: dict[str, Any] = (
    {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
)
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A"]  # as a score; a label may be "None"
SEPARATORS = (",", ";", "\t", "|")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", re.IGNORECASE)
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
NameRow = Callable[[int], str]
PROMISES: dict[str, Per] = {"row": "row", "unit": "unit"}


@dataclass(frozen=True)
class ScoreColumns:
    """Which columns of a score file hold what.

    Attributes:
        score: the column of scores.
        label: the column of labels; None if every row is a positive.
        labels: which label values are positive and which negative.
        id: the column that names the rows.
        group: groups that must each have the recall.
        time: numbers or ISO 8601 dates to sort the rows by.
        unit: independent units such as patients.
        separator: one character or "tab".

    >>> ScoreColumns("s", "y", unit="patient").wanted()
    ['s', 'y', 'patient']
    """

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
        """The separator as it stands in the file."""
        return "\t" if self.separator in ("tab", "\\t") else self.separator

    def wanted(self) -> list[str]:
        """The distinct columns to read."""
        named = (self.score, self.label, self.id, self.group, self.time, self.unit)
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The columns of a score file as arrays with one entry per row.

    groups: for each row an index into `group_names`; units: for each row the number of its unit; times:
    numbers or dates (datetime64), by which the rows are sorted.
    """

    scores: NDArray[np.floating]
    labels: NDArray[np.int64] | None = None
    ids: NDArray[Any] | None = None
    groups: NDArray[np.integer] | None = None
    group_names: tuple[str, ...] = ()
    reading: Reading | None = None
    units: NDArray[np.integer] | None = None
    times: NDArray[Any] | None = None

    def labelled(self) -> NDArray[np.int64]:
        """The labels. Raises a ValueError if none were read."""
        if self.labels is None:
            raise ValueError("the file was read without labels: name the label column")
        return self.labels

    @property
    def data(self) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """Labels and scores, which the functions of `rankreg.operating` take."""
        return self.labelled(), self.scores


def read_scores(path: Path, columns: ScoreColumns) -> ScoreTable:
    """Read a CSV file, also compressed, or a Parquet file.

    A row without a usable score or label is an error that names the row.
    """
    name_row: NameRow = row_words
    if is_parquet(path):
        check_columns(columns.wanted(), parquet_names(path), str(path))
        table = parquet_columns(path, columns.wanted())
    else:
        table, name_row = _read_csv(path, columns)
    if not len(table):
        raise ValueError(f"{path} has a header but no rows")
    scores, faults = parsed_scores(table[columns.score])
    refuse_scores(faults, f"{path}: column {columns.score!r}", name_row)
    labels = reading = None
    if columns.label is not None:
        where = f"{path}: column {columns.label!r}"
        labels, reading = read_labels(table[columns.label], columns.labels, where, name_row=name_row)
    for name in (columns.id, columns.group, columns.unit, columns.time):
        if name is not None and (missing := table[name].isna().to_numpy()).any():
            empty = np.flatnonzero(missing)
            first = name_row(int(empty[0]))
            raise ValueError(f"{path}: column {name!r} is empty in {len(empty):,} rows, first in {first}")
    times = None if columns.time is None else _times(table[columns.time], path, name_row)
    order = slice(None) if times is None else np.argsort(times, kind="stable")
    group_names: tuple[str, ...] = ()
    ids = groups = units = None
    if columns.id is not None:
        ids = table[columns.id].astype(str).to_numpy(dtype=object)[order]
    if columns.group is not None:
        values = table[columns.group].astype(str).astype("category")
        groups, group_names = values.cat.codes.to_numpy()[order], tuple(values.cat.categories)
    if columns.unit is not None:
        units = table[columns.unit].astype(str).astype("category").cat.codes.to_numpy()[order]
    ordered = None if labels is None else labels[order]
    sorted_times = None if times is None else times[order]
    return ScoreTable(scores[order], ordered, ids, groups, group_names, reading, units, sorted_times)


def score_parts(path: Path) -> list[Path]:
    """The files that a path stands for, sorted: itself, the tables in a folder, or those that match a pattern."""
    if path.is_dir():
        inside = [file for file in path.rglob("*") if file.is_file() and _is_table(file.relative_to(path))]
        if not inside:
            raise ValueError(f"{path} is a folder without CSV or Parquet files")
    elif not path.exists() and glob.has_magic(str(path)):
        inside = [Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file()]  # noqa: PTH207 - it may be absolute
        if not inside:
            raise FileNotFoundError(f"no file matches {path}")
    else:
        return [path]
    if len({is_parquet(file) for file in inside}) > 1:
        raise ValueError(f"{path} holds CSV and Parquet files: name one kind, e.g. '{path}/*.parquet' in quotes")
    return sorted(inside)


def _is_table(name: Path) -> bool:
    """By its name; what starts with a dot or an underscore is a note that another tool left."""
    plain = name.with_suffix("") if name.suffix.lower() in COMPRESSED else name
    return plain.suffix.lower() in TABLES and not any(part.startswith((".", "_")) for part in name.parts)


class DeployedPoint(NamedTuple):
    """A threshold in use and what it promised."""

    threshold: float
    tpr: float
    confidence: float
    per: Per


def deployed_point(
    threshold: float | None,
    point: Path | None,
    *,
    tpr: float | None = None,
    confidence: float | None = None,
    per: Per | None = None,
    unit: str | None = None,
) -> DeployedPoint:
    """The threshold, or the point that `certify --json` wrote; what is given beside it overrides it."""
    if (threshold is None) == (point is None):
        raise ValueError("say which threshold is deployed: give either --threshold or --point")
    saved = DeployedPoint(threshold or 0.0, 0.95, 0.95, "row") if point is None else saved_point(point, tpr)
    check_units(per or saved.per, unit)
    given: dict[str, Any] = {"tpr": tpr, "confidence": confidence, "per": per}
    return saved._replace(**{name: value for name, value in given.items() if value is not None})


def saved_point(path: Path, tpr: float | None = None) -> DeployedPoint:
    """The operating point in a file that `certify --json` wrote, in the summary of a fit, or in a bundle.

    path: the file, or the folder of a fit or of a bundle. tpr: picks one of several targets.
    """
    advice = (
        ": it is not an operating point; write one with `rankreg certify … --json`, or give the folder of a fit"
    )
    if path.is_dir():
        places = [path / name for name in ("summary.json", "bundle/bundle.json", "bundle.json")]
        found = [place for place in places if place.is_file()]
        if not found:
            raise ValueError(f"{path} holds neither a fit nor a bundle{advice}")
        path = found[0]
    content = read_json(path, advice)
    if isinstance(content, dict) and isinstance(content.get("threshold"), dict):  # of a fit
        content = content["threshold"] | {"threshold": content["threshold"].get("value")}
    if isinstance(content, dict) and content.get("promises") and "points" not in content:
        if content.get("threshold") is None and content.get("review_from") is None:
            raise ValueError(f"{path} holds no threshold: none kept its promises; certify others first")
        if content.get("tpr") is None and tpr is None:
            raise ValueError(f"{path} promises no recall: add --tpr to say which recall to look at")
    try:
        several = content.get("points")
        if several is None:
            recall = content.get("tpr") if tpr is None else tpr  # other promises than a recall may come without one
            return _point(content | {"tpr": recall})
        named = several.items() if isinstance(several, dict) else enumerate(several)
        points = {f"group {name!r}": _point(one) for name, one in named if one is not None}
        if isinstance(several, dict) and content.get("everyone") is not None:  # a review has none
            points["one threshold for all"] = _point(content["everyone"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} lacks a threshold, a TPR (add --tpr) or a confidence{advice}") from error
    if isinstance(several, dict):
        typed = "; ".join(
            f"{name}: --threshold {one.threshold!r} --tpr {one.tpr:g}" for name, one in points.items()
        )
        raise ValueError(
            f"{path} holds a threshold for each group: give the one in use instead of --point; where each group has"
            f" its own, watch each with a file of its rows. {typed}"
        )
    picked = [one for one in points.values() if tpr is not None and abs(one.tpr - tpr) < 1e-9]
    if not picked:
        known = " or ".join(f"--tpr {one.tpr:g}" for one in points.values())
        raise ValueError(f"{path} holds several operating points: pick the one in use with {known}")
    return picked[0]


def _point(content: dict[str, Any]) -> DeployedPoint:
    per = PROMISES[content.get("per", "row")]  # points once had no such field
    threshold = content["review_from" if "review_from" in content else "threshold"]  # reviewed is not missed
    if any(isinstance(value, bool) for value in (threshold, content["tpr"], content["confidence"])):
        raise TypeError("true and false are not numbers, though float() takes them")
    return DeployedPoint(float(threshold), float(content["tpr"]), float(content["confidence"]), per)


def check_units(per: str, unit: str | None) -> None:
    """A guarantee for units needs the column that names them."""
    if per == "unit" and unit is None:
        raise ValueError("a guarantee for units needs their column: add --unit, e.g. --unit patient")


def column_names(path: Path, delimiter: str = ",") -> list[str]:
    """The names of a file's columns."""
    if is_parquet(path):
        return parquet_names(path)
    with readable_csv(path):
        return [str(name) for name in pd.read_csv(path, sep=delimiter, nrows=0, dtype=str).columns]


def _read_csv(path: Path, columns: ScoreColumns) -> tuple[pd.DataFrame, NameRow]:
    with readable_csv(path), opened(path, separator=columns.delimiter) as records:
        check_header(path, columns, records.names)
        as_text = {name: str for name in (columns.id, columns.group, columns.unit) if name is not None}
        table: pd.DataFrame = pd.read_csv(records, dtype=as_text, **csv_options(columns))
        records.refuse_faults()
        return table, records.row_words


def check_header(path: Path, columns: ScoreColumns, names: list[str]) -> None:
    """The first line of a CSV file names every column that is wanted."""
    if not names:
        raise ValueError(f"{path} is not a table in CSV: it is empty")
    wanted = set(columns.wanted())
    if not wanted <= set(names):  # another separator would take y;s for one name
        for other in SEPARATORS:
            parts = columns.delimiter.join(names).split(other)
            if other != columns.delimiter and (len(names) == 1 < len(parts) or wanted <= set(parts)):
                typed = "tab" if other == "\t" else f"'{other}'"
                raise ValueError(f"{path} looks separated by {typed}: add --separator {typed}")
    check_columns(columns.wanted(), names, str(path))


def csv_options(columns: ScoreColumns) -> dict[str, Any]:
    """How pandas reads these columns."""
    missing = {name: [""] for name in columns.wanted()} | {columns.score: MISSING}
    return {
        "sep": columns.delimiter,
        "usecols": columns.wanted(),
        "na_values": missing,
        "keep_default_na": False,
        "low_memory": False,  # a column has one type, not one per chunk
        **EXACT,
    }


def _times(column: "pd.Series[Any]", path: Path, name_row: NameRow) -> NDArray[Any]:
    """Numbers, or dates as ISO 8601 writes them, in UTC. 1/2/2025 is refused, since it may mean two dates."""
    if pd.api.types.is_numeric_dtype(column) and column.dtype != bool:
        return column.to_numpy()
    dates = pd.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
    bad = np.flatnonzero(dates.isna().to_numpy())
    if len(bad):
        raise ValueError(
            f"{path}: column {str(column.name)!r} holds {column.iloc[bad[0]]!r} in {name_row(int(bad[0]))}:"
            " times are numbers or dates like 2025-01-31 or 2025-01-31T17:05"
        )
    return dates.dt.tz_localize(None).to_numpy()


class Fault(NamedTuple):
    """Rows with a fault: how many, the first, counted from 0, and its value."""

    rows: int
    first: int
    value: Any


def parsed_scores(column: "pd.Series[Any]") -> tuple[NDArray[np.floating], dict[str, Fault]]:
    """Scores as floats, NaN where there is none, and the faults among them: "text", "missing" and "infinite"."""
    faults: dict[str, Fault] = {}
    if column.dtype == bool or not pd.api.types.is_numeric_dtype(column):
        parsed = pd.to_numeric(column, errors="coerce")
        wrong = np.full(len(column), column.dtype == bool) | (parsed.isna() & column.notna()).to_numpy()
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            faults["text"] = Fault(int(np.count_nonzero(wrong)), first, column.iloc[first])
        column = parsed
    values = column.to_numpy(dtype=np.float32 if column.dtype == np.float32 else np.float64)
    for kind, wrong in (("missing", np.isnan(values)), ("infinite", np.isinf(values))):
        if wrong.any():
            faults[kind] = Fault(int(np.count_nonzero(wrong)), int(np.flatnonzero(wrong)[0]), None)
    return values, faults


def refuse_scores(faults: dict[str, Fault], where: str, name_row: NameRow) -> None:
    """The most serious of the faults as an error that names the row."""
    if "text" in faults:
        value, row = faults["text"].value, name_row(faults["text"].first)
        comma = " with a decimal point: write 0.5, not 0,5" if DECIMAL_COMMA.fullmatch(str(value)) else ""
        raise ValueError(f"{where} holds {value!r} in {row}: scores are numbers{comma}")
    for kind, what in (("missing", "no score (NaN)"), ("infinite", "an infinite score")):
        if kind in faults:
            count, first = faults[kind].rows, name_row(faults[kind].first)
            raise ValueError(
                f"{where} has {what} in {count:,} rows, first in {first}: drop or repair those samples"
            )
