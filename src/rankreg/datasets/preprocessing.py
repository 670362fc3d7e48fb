"""Table columns to numbers: fitted on training rows only, saved as JSON, applied to chunks of any size."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator
from scipy.special import ndtr, ndtri

from rankreg.datasets.cell_formats import TRUTHS, Floats
from rankreg.datasets.columns import LARGEST, NOT_A_NUMBER, NOT_FINITE, Faults, cell_text
from rankreg.pool import return_freed_memory
from rankreg.table_files import check_columns, row_words

MOST_CATEGORIES = 32
FEWEST_OF_A_CATEGORY = 2  # what occurs once teaches nothing, and a column of names would become one column each
# No training row lies √(n − 1) or more standard deviations from the mean (Samuelson 1968), so that below 10⁸ rows
# none is that far. Farther cells are kept out of the network, whose score they would make meaningless or NaN.
FARTHEST = 1e4
NO_SPREAD = float(np.finfo(np.float64).max)  # scale of a column that is constant in training: it becomes 0
DEVIATIONS = "standard deviations from the training mean"
RANGES = "times the range of the training values away from them"
# Where a column's knots lie among its sorted training values: even steps, and even steps of the normal score, which
# resolve the tails.
KNOT_SHARES = np.unique(np.concatenate([np.linspace(0, 1, 65), ndtr(np.linspace(-4.5, 4.5, 37)), [0.25, 0.75]]))
SOFT_LIMIT = 3.0  # a standardised value stays within this many deviations
EMPTY = "is empty, which it never was in training"


class NumericColumn(BaseModel):
    """(x − mean) / scale within ±`FARTHEST`, the median where x is missing, and a second column that says so."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    median: FiniteFloat
    mean: FiniteFloat
    scale: Annotated[FiniteFloat, Field(gt=0)]
    may_miss: bool


class QuantileColumn(BaseModel):
    """A number as its normal score among the training values: Φ⁻¹ of the share below, ties halved.

    Between two knots the score is linear, beyond the last knot it stays. So no outlier, sentinel or skewed column
    can dominate, and the order of the values is kept. A missing value is the median, and a second column says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    knots: Annotated[tuple[FiniteFloat, ...], Field(strict=False, min_length=1)]
    scores: Annotated[tuple[FiniteFloat, ...], Field(strict=False, min_length=1)]
    may_miss: bool

    @model_validator(mode="after")
    def _both_rise(self) -> "QuantileColumn":
        if len(self.knots) != len(self.scores):
            raise ValueError(f"the knots and the scores of {self.name!r} must be as many")
        if any(np.any(np.diff(values) <= 0) for values in (self.knots, self.scores)):
            raise ValueError(f"the knots and the scores of {self.name!r} must rise")
        return self

    @property
    def reach(self) -> tuple[float, float]:
        """The lowest and the highest number that is believed."""
        low, high = self.knots[0], self.knots[-1]
        room = FARTHEST * (high - low) if high > low else np.inf
        return low - room, high + room

    def normal(self, values: Floats) -> Floats:
        """The normal scores; 0, which is the median's, where a value is missing."""
        return np.where(np.isnan(values), 0.0, np.interp(values, self.knots, self.scores))

    @property
    def standard(self) -> Floats:
        """The knots, standardised robustly: u / √(1 + (u/3)²) with u = (x − median) / scale.

        scale: that of a normal distribution with the same quartiles; where these are equal, half the range.
        """
        knots, scores = np.asarray(self.knots), np.asarray(self.scores)
        low, median, high = np.interp([-0.6744897501960817, 0.0, 0.6744897501960817], scores, knots)
        scale = (high - low) / 1.3489795003921634
        scale = scale if scale > 0 else (knots[-1] - knots[0]) / 2 or 1.0
        deviations = np.clip((knots - median) / scale, -FARTHEST, FARTHEST)
        softened: Floats = deviations / np.sqrt(1 + (deviations / SOFT_LIMIT) ** 2)
        return softened


class CategoricalColumn(BaseModel):
    """One column per common value, and one for everything else, a missing value included."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    values: Annotated[tuple[str, ...], Field(strict=False)]  # JSON has lists only
    may_miss: bool = True

    @model_validator(mode="after")
    def _values_differ(self) -> "CategoricalColumn":
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"the values of {self.name!r} must differ")
        return self


@dataclass(frozen=True)
class TablePreprocessor:
    """What training rows said about each column that is used; `unused` ones held nothing in training."""

    numeric: tuple[NumericColumn | QuantileColumn, ...]
    categorical: tuple[CategoricalColumn, ...]
    unused: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls, rows: pd.DataFrame, *, categorical: Collection[str] = (), most_categories: int = MOST_CATEGORIES
    ) -> "TablePreprocessor":
        """Read quantiles and categories off the training rows.

        Number and bool columns are numeric unless named in `categorical`; all others are categorical.
        """
        if most_categories < 1:
            raise ValueError(f"most_categories must be at least 1, got {most_categories}")
        check_columns(categorical, rows.columns, "the table")
        numbers, categories, unused = [], [], []
        for name in map(str, rows.columns):
            column = rows[name]
            if column.isna().all():
                unused.append(name)
            elif pd.api.types.is_numeric_dtype(column) and name not in categorical:
                numbers.append(_fit_numeric(name, _numbers(column)))
            else:
                categories.append(_fit_categorical(name, _texts(column), most_categories))
        if not numbers and not categories:
            raise ValueError("no column to learn from: all are empty, dropped or the target")
        return cls(tuple(numbers), tuple(categories), tuple(unused))

    @property
    def feature_names(self) -> list[str]:
        """What each column of the matrix is."""
        names = []
        for number in self.numeric:
            names += [number.name, f"{number.name} is missing"] if number.may_miss else [number.name]
        for category in self.categorical:
            names += [f"{category.name} = {value}" for value in category.values] + [f"{category.name} is other"]
        return names

    @property
    def columns(self) -> list[str]:
        """The columns of a table that are needed."""
        return [*(column.name for column in self.numeric), *self.text_columns]

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns to be read as text, lest a chunk of them look like numbers."""
        return tuple(column.name for column in self.categorical)

    def problems(self, rows: pd.DataFrame) -> list[str]:
        """What is wrong with each row, "" where nothing is: such a row must not be scored as if it were whole.

        Wrong are texts in columns of numbers, infinite or absurd numbers (beyond float32, or more than `FARTHEST`
        times the training range away from it), and gaps in columns that had none in training.
        """
        check_columns(self.columns, rows.columns, "the table")
        faults = Faults()
        for number in self.numeric:
            column = rows[number.name]
            values, unreadable = _parsed(column)
            large = np.abs(values) > LARGEST
            if isinstance(number, NumericColumn):
                far, measure = is_far(values, number.mean, number.scale), DEVIATIONS
            else:
                far, measure = (values < number.reach[0]) | (values > number.reach[1]), RANGES
            faults.note(unreadable, column, NOT_A_NUMBER)
            faults.note(large, column, NOT_FINITE)
            faults.note(far & ~large, column, f"holds {{cell}}, more than {FARTHEST:,.0f} {measure}")
            if not number.may_miss:
                faults.note(np.isnan(values) & ~unreadable, column, EMPTY)
        for category in self.categorical:
            if not category.may_miss:
                faults.note(rows[category.name].isna().to_numpy(), rows[category.name], EMPTY)
        return faults.per_row(len(rows))

    def transform(self, rows: pd.DataFrame, *, release: bool = False) -> NDArray[np.float32]:
        """The rows as a matrix (N, F), all of it finite; columns that were not seen in training are ignored.

        release: take every column out of `rows` when it is done, so that both are never there as a whole.
        """
        check_columns(self.columns, rows.columns, "the table")
        take: Callable[[str], pd.Series] = rows.__getitem__
        if release:  # all at once: to pop a column takes as long as there are columns left
            take = {name: rows[name] for name in self.columns}.pop
            rows.__init__(index=rows.index)  # type: ignore[misc] # `drop` in place is deprecated
        count, parts = len(rows), list[NDArray[np.float32]]()
        for number in self.numeric:
            values = _numbers(take(number.name))
            missing = np.isnan(values)
            if isinstance(number, QuantileColumn):
                found = number.normal(values)
            else:
                found = standardised(np.where(missing, number.median, values), number.mean, number.scale)
            parts.append(np.asarray(found, np.float32))
            if number.may_miss:
                parts.append(missing.astype(np.float32))
        for category in self.categorical:
            codes = pd.Index(category.values).get_indexer(pd.Index(_texts(take(category.name))))
            other = len(category.values)
            indicators = np.zeros((count, other + 1), np.float32)
            indicators[np.arange(count), np.where(codes < 0, other, codes)] = 1
            parts.append(indicators)
        if release:
            return_freed_memory()
        return np.column_stack(parts)

    def standardised(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """The matrix that `transform` gave, with standardised numbers in place of normal scores."""
        found = matrix.copy()
        place = 0
        for number in self.numeric:
            if isinstance(number, QuantileColumn):
                found[:, place] = np.interp(matrix[:, place], number.scores, number.standard)
            place += 1 + number.may_miss
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "kind": "table",
            "numeric": [column.model_dump(mode="json") for column in self.numeric],
            "categorical": [column.model_dump(mode="json") for column in self.categorical],
            "unused": list(self.unused),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "TablePreprocessor":
        """What `to_dict` gave."""
        try:
            if state["kind"] != "table":
                raise ValueError(f"its kind is {state['kind']!r}")
            numeric = tuple(  # version 0.1 standardised by mean and scale
                (QuantileColumn if "knots" in column else NumericColumn).model_validate(column)
                for column in state["numeric"]
            )
            categorical = tuple(CategoricalColumn.model_validate(column) for column in state["categorical"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a saved table preprocessor, or damaged: {error}") from error
        return cls(numeric, categorical, tuple(state.get("unused", ())))


def is_far(values: Floats, mean: Floats | float, scale: Floats | float) -> NDArray[np.bool_]:
    """Where a value is more than `FARTHEST` standard deviations from the training mean."""
    with np.errstate(over="ignore"):
        return np.abs(values - mean) / scale > FARTHEST


def standardised(values: Floats, mean: Floats | float, scale: Floats | float) -> Floats:
    """(x − mean) / scale, within ±`FARTHEST`."""
    with np.errstate(over="ignore"):
        return np.clip((values - mean) / scale, -FARTHEST, FARTHEST)


def spread(values: Floats) -> Floats:
    """The standard deviation of each column; `NO_SPREAD` of a constant one, whose spread is only rounding."""
    scale: Floats = np.std(values, axis=0)
    return np.where(scale <= 1e-12 * np.maximum(np.abs(np.median(values, axis=0)), 1e-300), NO_SPREAD, scale)


def _fit_numeric(name: str, values: Floats) -> QuantileColumn:
    missing = np.isnan(values)
    known = np.sort(values[~missing])
    knots = np.unique(known[np.round(KNOT_SHARES * (len(known) - 1)).astype(np.int64)])
    below, reached = np.searchsorted(known, knots, "left"), np.searchsorted(known, knots, "right")
    scores = ndtri((below + reached) / (2 * len(known)))
    median = np.interp(np.median(known), knots, scores)
    return QuantileColumn(
        name=name,
        knots=tuple(knots.tolist()),
        scores=tuple((scores - median).tolist()),
        may_miss=bool(missing.any()),
    )


def _fit_categorical(name: str, values: NDArray[np.object_], most: int) -> CategoricalColumn:
    column = pd.Series(values)
    counts = column.dropna().value_counts()
    common = counts[counts >= FEWEST_OF_A_CATEGORY]
    ordered = sorted(common.items(), key=lambda item: (-item[1], str(item[0])))
    known = tuple(sorted(str(value) for value, _ in ordered[:most]))
    return CategoricalColumn(name=name, values=known, may_miss=bool(column.isna().any()))


def _parsed(column: "pd.Series[Any]") -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The column as floats, NaN where missing or unreadable, and where it is unreadable."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(column), dtype=bool)
    cells = column.map(lambda cell: TRUTHS.get(cell, cell) if isinstance(cell, str) else cell)
    values = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return values, np.isnan(values) & column.notna().to_numpy()


def _numbers(column: "pd.Series[Any]") -> NDArray[np.float64]:
    """The column as floats, NaN where missing."""
    values, unreadable = _parsed(column)
    for where, what in ((unreadable, "not a number"), (np.abs(values) > LARGEST, "not a finite number")):
        if where.any():
            row = int(np.flatnonzero(where)[0])
            raise ValueError(
                f"column {column.name!r} is numeric, but holds {cell_text(column, row)} in {row_words(row)},"
                f" {what}: mend it, or leave it empty if unknown"
            )
    return values


def _texts(column: pd.Series) -> NDArray[np.object_]:
    """The column as text, None where missing; 3 and 3.0 are one value, as a gap turns whole numbers into floats."""
    missing = column.isna().to_numpy()
    if pd.api.types.is_float_dtype(column):
        texts = [str(int(x)) if x.is_integer() else str(x) for x in column.fillna(0.0).astype(float).tolist()]
    else:
        texts = [str(x) for x in column.tolist()]
    values = np.asarray(texts, dtype=object)
    values[missing] = None
    return values
