"""How each column of a table is read: decided once on the training data, stored as JSON, applied to any rows."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict

from rankreg.table_files import check_columns, row_words

Kind = Literal["number", "category", "date", "bool", "identifier", "constant", "empty", "text"]
LEFT_OUT = ("identifier", "constant", "empty", "text")


class ColumnReading(BaseModel):
    """How one column is read.

    name, kind: of the column; kinds in `LEFT_OUT` are not learned from.
    note: what a reader should know, or "".
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    kind: Kind
    note: str = ""


class ColumnPlan(BaseModel):
    """How each column of a table is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    readings: tuple[ColumnReading, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of a table that are needed."""
        return [one.name for one in self.readings if one.kind not in LEFT_OUT]

    @property
    def left_out(self) -> list[str]:
        """The columns that are not learned from."""
        return [one.name for one in self.readings if one.kind in LEFT_OUT]

    @property
    def transforms(self) -> bool:
        """Whether some column is more than taken or left out, so that new rows need this plan too."""
        return False

    def problems(self, rows: pd.DataFrame) -> list[str]:
        """What is wrong with each row, "" where nothing is."""
        return [""] * len(rows)

    def apply(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Columns of numbers and of text, for `TablePreprocessor`."""
        check_columns(self.columns, rows.columns, "the table")
        return rows[self.columns]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "ColumnPlan":
        """What `to_dict` gave."""
        return cls.model_validate(state)


def read_columns(
    rows: pd.DataFrame,
    *,
    categorical: Collection[str] = (),
    decimal: str = ".",
    where: str = "the table",
    name_row: Callable[[int], str] = row_words,
) -> ColumnPlan:
    """Decide how to read each column.

    Args:
        rows: the features of the training data.
        categorical: columns that are categories, whatever they look like.
        decimal: the decimal mark of the file.
        where, name_row: what messages call the table, and a row by its place.
    """
    return ColumnPlan(
        readings=tuple(
            ColumnReading(name=str(name), kind="identifier" if _names_rows(column, categorical) else "number")
            for name, column in rows.items()
        )
    )


def _names_rows(column: "pd.Series[Any]", categorical: Collection[str]) -> bool:
    """No value of a text occurs twice."""
    if pd.api.types.is_numeric_dtype(column) or column.name in categorical or column.isna().all():
        return False
    return bool(column.dropna().is_unique)
