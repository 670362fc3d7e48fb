"""Table columns to numbers: fitted on training rows only, saved as JSON, applied to chunks of any size."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MOST_CATEGORIES = 32
FEWEST_OF_A_CATEGORY = 2  # what occurs once teaches nothing, and a column of names would become one column each


@dataclass(frozen=True)
class NumericColumn:
    """(x − mean) / scale, with the median where x is missing and a second column that says so."""

    name: str
    median: float
    mean: float
    scale: float
    may_miss: bool


@dataclass(frozen=True)
class CategoricalColumn:
    """One column per common value, and one for everything else, a missing value included."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class TablePreprocessor:
    """What training rows said about each column that is used; `unused` ones held nothing in training."""

    numeric: tuple[NumericColumn, ...]
    categorical: tuple[CategoricalColumn, ...]
    unused: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls, rows: pd.DataFrame, *, categorical: Collection[str] = (), most_categories: int = MOST_CATEGORIES
    ) -> "TablePreprocessor":
        """Read medians, means, scales and categories off the training rows.

        Number and bool columns are numeric unless named in `categorical`; all others are categorical.
        """
        if most_categories < 1:
            raise ValueError(f"most_categories must be at least 1, got {most_categories}")
        check_columns(rows, categorical)
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
    def text_columns(self) -> tuple[str, ...]:
        """Columns to be read as text, lest a chunk of them look like numbers."""
        return tuple(column.name for column in self.categorical)

    def transform(self, rows: pd.DataFrame) -> NDArray[np.float32]:
        """The rows as a matrix (N, F); columns that were not seen in training are ignored."""
        check_columns(rows, [*(column.name for column in self.numeric), *self.text_columns])
        matrix = np.zeros((len(rows), len(self.feature_names)), dtype=np.float32)
        place = 0
        for number in self.numeric:
            values = _numbers(rows[number.name])
            missing = np.isnan(values)
            matrix[:, place] = (np.where(missing, number.median, values) - number.mean) / number.scale
            place += 1
            if number.may_miss:
                matrix[:, place] = missing
                place += 1
        for category in self.categorical:
            codes = pd.Index(category.values).get_indexer(pd.Index(_texts(rows[category.name])))
            other = len(category.values)
            matrix[np.arange(len(rows)), place + np.where(codes < 0, other, codes)] = 1
            place += other + 1
        return matrix

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "kind": "table",
            "numeric": [asdict(column) for column in self.numeric],
            "categorical": [{"name": column.name, "values": list(column.values)} for column in self.categorical],
            "unused": list(self.unused),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "TablePreprocessor":
        """What `to_dict` gave."""
        try:
            numeric = tuple(NumericColumn(**column) for column in state["numeric"])
            categorical = tuple(CategoricalColumn(c["name"], tuple(c["values"])) for c in state["categorical"])
            good = state["kind"] == "table" and all(_is_sound(column) for column in numeric)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a saved table preprocessor, or damaged: {error}") from error
        if not good or not all(isinstance(value, str) for column in categorical for value in column.values):
            raise ValueError("not a saved table preprocessor, or damaged: a value is not of its kind")
        return cls(numeric, categorical, tuple(state.get("unused", ())))


def _is_sound(column: NumericColumn) -> bool:
    numbers = (column.median, column.mean, column.scale)
    return all(isinstance(x, int | float) and np.isfinite(x) for x in numbers) and column.scale > 0


def check_columns(rows: pd.DataFrame, wanted: Collection[str]) -> None:
    """Every wanted column is there."""
    for name in wanted:
        if name not in rows.columns:
            near = get_close_matches(name, list(map(str, rows.columns)), n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"no column {name!r}: {hint}The table has {', '.join(map(str, rows.columns))}")


def _fit_numeric(name: str, values: NDArray[np.float64]) -> NumericColumn:
    missing = np.isnan(values)
    known = values[~missing]
    median = float(np.median(known))
    filled = np.where(missing, median, values)
    scale = float(filled.std())
    # A constant column has only rounding for a spread, which must not be blown up to 1.
    constant = scale <= 1e-12 * max(abs(median), 1e-300)
    return NumericColumn(name, median, float(filled.mean()), 1.0 if constant else scale, bool(missing.any()))


def _fit_categorical(name: str, values: NDArray[np.object_], most: int) -> CategoricalColumn:
    counts = pd.Series(values).dropna().value_counts()
    common = counts[counts >= FEWEST_OF_A_CATEGORY]
    ordered = sorted(common.items(), key=lambda item: (-item[1], str(item[0])))
    return CategoricalColumn(name, tuple(sorted(str(value) for value, _ in ordered[:most])))


def _numbers(column: pd.Series) -> NDArray[np.float64]:
    """The column as floats, NaN where missing."""
    try:
        values = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError):
        bad = column[pd.to_numeric(column, errors="coerce").isna() & column.notna()]
        raise ValueError(
            f"column {column.name!r} is numeric, but holds {bad.iloc[0]!r} (row {bad.index[0]}): mend it,"
            " or name the column as categorical"
        ) from None
    if np.isinf(values).any():
        where = column.index[np.flatnonzero(np.isinf(values))[0]]
        raise ValueError(f"column {column.name!r} holds an infinite value (row {where}): leave it empty if unknown")
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
