"""How each column of a table is read: decided on training data, stored, applied to any rows, described."""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, model_validator

from rankreg.datasets.cell_formats import MISSING_WORDS, DateFormat, Floats, NumberFormat
from rankreg.dialects import Decimal
from rankreg.notation import share
from rankreg.table_files import check_columns, refuse_same_names, row_words

Kind = Literal["number", "bool", "category", "date", "identifier", "constant", "empty", "text"]
Bools = NDArray[np.bool_]

LEFT_OUT = ("identifier", "constant", "empty", "text")
LARGEST = float(np.finfo(np.float32).max)  # a number beyond is a fault of the file
SHOWN = 3  # problems of one row
LONGEST = 40  # signs of a cell in a message
NOT_A_NUMBER = "holds {cell}, not a number"
NOT_FINITE = "holds {cell}, not a finite number of ordinary size"
MANY = 12  # plain columns of numbers: more of them are one line of a description
NAMED = 3  # of many, at either end
WIDEST = 32  # signs of a name
LONGEST_WORD = 4 + max(map(len, MISSING_WORDS))  # with spaces around it


class ColumnReading(BaseModel):
    """How one column is read.

    Attributes:
        name: of the column.
        kind: what it holds; kinds in `LEFT_OUT` are not learned from.
        note: what the user should know about it, or "".
        missing: how many training rows lack a value.
        distinct: how many values differ in training; None if there are too many to count quickly.
        example: the first value in training. It is not stored with a model.
        low, high: the range of numbers in training, without `sentinels`.
        number, date: how texts spell numbers or dates.
        missing_words: texts among numbers or dates that stand for a missing value.
        sentinels: numbers that repeat, far from all others: perhaps codes for a missing value. They stay numbers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    kind: Kind
    note: str = ""
    missing: NonNegativeInt = 0
    distinct: NonNegativeInt | None = None
    example: str = ""
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None
    number: NumberFormat | None = None
    date: DateFormat | None = None
    missing_words: Annotated[tuple[str, ...], Field(strict=False)] = ()  # JSON has lists only
    sentinels: Annotated[tuple[FiniteFloat, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _has_a_format(self) -> "ColumnReading":
        if (self.number is None) == (self.kind in ("number", "bool")) or (self.date is None) == (
            self.kind == "date"
        ):
            raise ValueError(f"column {self.name!r:.40} of kind {self.kind} has the wrong format")
        return self

    @property
    def is_used(self) -> bool:
        """Whether the column is learned from."""
        return self.kind not in LEFT_OUT

    @property
    def is_transformed(self) -> bool:
        """Whether new rows must be read in the same way, which the preprocessor does not know."""
        return self.date is not None or self.number not in (None, NumberFormat()) or bool(self.missing_words)

    @property
    def made(self) -> list[str]:
        """The names of the columns that are made of this one."""
        if self.date is None:
            return [self.name] if self.is_used else []
        return [f"{self.name}: {part}" for part in self.date.parts]


class ColumnPlan(BaseModel):
    """How each column of a table is read: columns of numbers and of text are made of those that hold something.

    Attributes:
        readings: one per column, in the order of the table, those that are left out too.
        rows: how many training rows decided.
        decimal: the decimal mark of the training file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    readings: Annotated[tuple[ColumnReading, ...], Field(strict=False)]
    rows: NonNegativeInt
    decimal: Decimal = "."

    @model_validator(mode="after")
    def _names_differ(self) -> "ColumnPlan":
        refuse_same_names([one.name for one in self.readings], "the table")
        refuse_same_names([name for one in self.readings for name in one.made], "the table, with parts of dates,")
        return self

    @property
    def used(self) -> list[ColumnReading]:
        """The columns that are learned from."""
        return [one for one in self.readings if one.is_used]

    @property
    def columns(self) -> list[str]:
        """The columns of a table that are needed."""
        return [one.name for one in self.used]

    @property
    def text_columns(self) -> list[str]:
        """Columns of a CSV file to be read as text, lest a chunk of them look like numbers."""
        plain = NumberFormat(decimal=self.decimal)
        return [one.name for one in self.used if one.number != plain]

    @property
    def left_out(self) -> list[str]:
        """The columns that are not learned from."""
        return [one.name for one in self.readings if not one.is_used]

    @property
    def transforms(self) -> bool:
        """Whether new rows need this plan, since a column is more than taken or left out."""
        return any(one.is_transformed for one in self.used)

    def read(self, rows: pd.DataFrame, *, decimal: Decimal | None = None) -> tuple[pd.DataFrame, list[str]]:
        """The rows for `TablePreprocessor`, and what is wrong with each of them, "" where nothing is.

        Args:
            rows: a table, or some of its rows. Columns that the plan does not use need not be there.
            decimal: the decimal mark of their file, if it is not that of the training file.

        Returns:
            Columns of numbers and of text, in which bad cells are missing; and one text per row.
        """
        check_columns(self.columns, rows.columns, "the table")
        made: dict[str, pd.Series[Any]] = {}
        faults, changed = Faults(), False
        for reading in self.used:
            column = rows[reading.name]
            if reading.date is not None:
                parts, bad = dates_of(column, reading.date)
                faults.note(bad, column, "holds {cell}, not a date")
                made |= {name: pd.Series(parts[:, k], rows.index) for k, name in enumerate(reading.made)}
                changed = True
            elif reading.number is not None:
                spelling = reading.number.for_file(self.decimal, decimal or self.decimal)
                values, bad = numbers_of(column, spelling)
                large = np.abs(values) > LARGEST
                faults.note(bad, column, NOT_A_NUMBER)
                faults.note(large, column, NOT_FINITE)
                is_kept = pd.api.types.is_numeric_dtype(column) and not large.any()
                made[reading.name] = column if is_kept else pd.Series(np.where(large, np.nan, values), rows.index)
                changed = changed or not is_kept
            else:
                made[reading.name] = column
        if changed:
            frame = pd.concat(made, axis=1)
        else:
            frame = rows if self.columns == list(rows.columns) else rows[self.columns]
        return frame, faults.per_row(len(rows))

    def apply(
        self,
        rows: pd.DataFrame,
        *,
        where: str = "the table",
        name_row: Callable[[int], str] = row_words,
    ) -> pd.DataFrame:
        """The rows for `TablePreprocessor`: columns of numbers and of text. A bad cell is a ValueError.

        where, name_row: what messages call the table, and a row by its place.
        """
        frame, problems = self.read(rows)
        for row, problem in enumerate(problems):
            if problem:
                raise ValueError(f"{where}: {name_row(row)}: {problem}: mend it, or leave it empty if unknown")
        return frame

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, without the examples, which are cells of the training data."""
        return self.model_dump(mode="json", exclude={"readings": {"__all__": {"example"}}})

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "ColumnPlan":
        """What `to_dict` gave."""
        try:
            return cls.model_validate(state)
        except ValueError as error:
            raise ValueError(f"not a saved plan of columns, or damaged: {error}") from error


class Faults:
    """What is wrong with the cells of some rows."""

    def __init__(self) -> None:
        self.found: dict[int, list[str]] = {}

    def note(self, where: Bools, column: "pd.Series[Any]", what: str) -> None:
        """Note this about every row that `where` marks; "{cell}" in the text stands for the cell."""
        for row in np.flatnonzero(where).tolist():
            said = f"column {column.name!r} {what.format(cell=cell_text(column, row))}"
            self.found.setdefault(row, []).append(said)

    def per_row(self, rows: int) -> list[str]:
        """A text for each row, "" where nothing is wrong."""
        texts = [""] * rows
        for row, said in self.found.items():
            more = [f"{len(said) - SHOWN} more"] if len(said) > SHOWN else []
            texts[row] = "; ".join([*said[:SHOWN], *more])
        return texts


def numbers_of(column: "pd.Series[Any]", spelling: NumberFormat) -> tuple[Floats, Bools]:
    """The column as floats, NaN where missing or unreadable, and where it is unreadable."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(column), dtype=bool)
    if pd.api.types.is_timedelta64_dtype(column):
        return column.dt.total_seconds().to_numpy(np.float64), np.zeros(len(column), dtype=bool)
    codes, texts = distinct_texts(column)
    values = np.append(spelling.parse(texts), np.nan)
    bad = np.isnan(values) & ~_is_missing_word(texts)
    return values[codes], bad[codes]


def dates_of(column: "pd.Series[Any]", spelling: DateFormat) -> tuple[Floats, Bools]:
    """The parts of the dates, NaN where missing or unreadable, and where they are unreadable."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return np.column_stack([_date_part(column, part) for part in spelling.parts]), np.zeros(len(column), bool)
    codes, texts = distinct_texts(column)
    values = np.vstack([spelling.parse(texts), np.full((1, len(spelling.parts)), np.nan)])
    bad = np.isnan(values).any(axis=1) & ~_is_missing_word(texts)
    return values[codes], bad[codes]


def _date_part(column: "pd.Series[Any]", part: str) -> Floats:
    if part == "days":
        moments = column.dt.tz_convert("UTC").dt.tz_localize(None) if column.dt.tz is not None else column
        values = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
    elif part == "hour":
        values = column.dt.hour + column.dt.minute / 60 + column.dt.second / 3600
    else:
        values = column.dt.month if part == "month" else column.dt.day_of_week
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def distinct_texts(column: "pd.Series[Any]") -> tuple[NDArray[np.int64], list[str]]:
    """For each cell the place of its text among the distinct ones, -1 where missing; and these."""
    plain = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    codes, values = pd.factorize(plain)
    return codes.astype(np.int64), [str(value) for value in np.asarray(values, dtype=object).tolist()]


def _is_missing_word(texts: list[str]) -> Bools:
    """Where a text stands for a missing value; the last place, beyond the texts, does."""
    return np.asarray([*(is_missing_word(text) for text in texts), True])


def is_missing_word(text: str) -> bool:
    """Whether a text among numbers or dates stands for a missing value."""
    return len(text) <= LONGEST_WORD and text.strip().casefold() in MISSING_WORDS


def cell_text(column: "pd.Series[Any]", row: int) -> str:
    """A cell for a message."""
    cell = column.iloc[row]
    return f"{cell.item() if isinstance(cell, np.generic) else cell!r:.{LONGEST}}"


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
