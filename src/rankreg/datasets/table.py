"""A table of one's own: CSV (also .gz, .xz, …) or Parquet."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets._grouping import (
    SHARES,
    check_both_classes,
    check_parts,
    check_shares_kept,
    distinct_or_none,
    linked,
    stratified_parts,
)
from rankreg.datasets.preprocessing import MOST_CATEGORIES, TablePreprocessor, check_columns
from rankreg.datasets.splits import Samples, Splits
from rankreg.datasets.table_files import read_table


def table(
    path: Path | str,
    *,
    target: str,
    positive: str | None = None,
    seed: int = 0,
    member: int = 0,
    shares: Mapping[str, float] = SHARES,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    group: str | None = None,
    id_column: str | None = None,
    header: bool = True,
    keep_copies_together: bool = True,
    most_categories: int = MOST_CATEGORIES,
) -> Splits:
    """Rows with a target column, in stratified parts; numbers are prepared by what the training part says.

    positive: the target value that is critical, all others being negative; needed unless the targets are 0 and 1.
    group: rows of one group (a patient) stay in one part and are one unit, and so are rows that are equal in all
    features, unless keep_copies_together=False. Group and id columns are no features, nor is text of which no value
    occurs twice ("unused" in the preprocessing). Without a header line, columns are "0", "1", …
    seed cuts the parts; another member of an ensemble gets other training and validation rows, the rest alike.
    """
    rows = read_table(path, header=header, text=categorical)
    if len(rows) == 0:
        raise ValueError(f"{path} holds no rows{', only a header line' if header else ''}")
    special = [name for name in (target, group, id_column) if name is not None]
    _check_target(rows, target, header)
    check_columns(rows, [*special, *drop, *categorical])
    labels, negative_name, positive_name = binary_labels(rows[target], positive)
    check_both_classes(labels, shares, ("negative", "positive"))
    features = rows.drop(columns=[*special, *(name for name in drop if name not in special)])
    names = _all_distinct(features, categorical)
    if names and len(names) == features.shape[1]:
        raise ValueError(f"no column to learn from: no value occurs twice in {', '.join(names)}")
    features = features.drop(columns=names)  # before copies are looked for: names would tell them apart

    kept_together = [_row_codes(features)] if keep_copies_together and features.shape[1] else []
    if group is not None:
        if rows[group].isna().any():
            raise ValueError(
                f"column {group!r} is empty in {int(rows[group].isna().sum())} rows: every row needs one"
            )
        kept_together.append(pd.factorize(rows[group])[0])
    units = distinct_or_none(linked(*kept_together)) if kept_together else None
    alone = np.arange(len(rows)) if units is None else units
    parts = stratified_parts(labels, alone, shares, seed=seed, member=member)
    check_shares_kept(parts, shares, COPIES_HINT)
    check_parts(labels, parts, COPIES_HINT)

    preprocessor = TablePreprocessor.fit(
        features.iloc[parts["train"]], categorical=categorical, most_categories=most_categories
    )
    matrix = preprocessor.transform(features)
    ids = _ids(rows[id_column]) if id_column is not None else np.arange(len(rows))
    return Splits(
        name=Path(path).name.split(".")[0],
        parts={
            name: Samples(matrix, part, labels[part], ids[part], None if units is None else units[part])
            for name, part in parts.items()
        },
        classes=(negative_name, positive_name),
        preprocessing={
            **replace(preprocessor, unused=(*preprocessor.unused, *names)).to_dict(),
            "target": target,
            "positive": positive_name,
            "id_column": id_column,
            "header": header,
        },
    )


COPIES_HINT = (
    "if equal rows are no copies but chance, as where features have few values, pass keep_copies_together=False"
    " (--split-copies); where groups are large, try another seed"
)


def binary_labels(values: pd.Series, positive: str | None) -> tuple[NDArray[np.int64], str, str]:
    """Labels 0 / 1, and what to call negatives and positives; the positive value is never guessed."""
    if values.isna().any():
        first = values.index[values.isna().to_numpy()][0]
        raise ValueError(
            f"the target column {values.name!r} is empty in {int(values.isna().sum())} rows, the first is {first}:"
            " drop or label them"
        )
    texts = label_texts(values)
    found = texts.value_counts()
    listing = ", ".join(f"{value!r} ({count})" for value, count in list(found.items())[:8])
    if positive is None:
        if not (set(found.index) <= {"0", "1"} or set(found.index) <= {"False", "True"}):
            raise ValueError(
                f"the target column {values.name!r} holds {listing}: say which value is the positive one"
                " (positive=…, --positive)"
            )
        positive = "1" if "True" not in found.index else "True"
    elif positive not in found.index and (whole := _as_whole(positive)) in found.index:
        positive = whole
    elif positive not in found.index:
        raise ValueError(f"no row of the target column {values.name!r} is {positive!r}: it holds {listing}")
    others = [str(value) for value in found.index if value != positive]
    return is_positive(values, positive), others[0] if len(others) == 1 else "other", positive


def is_positive(values: pd.Series, positive: str) -> NDArray[np.int64]:
    """1 where the target is the positive value, else 0."""
    return np.asarray(label_texts(values) == positive, dtype=np.int64)


def label_texts(values: pd.Series) -> pd.Series:
    """Targets as text; 1.0 is "1", since a file may hold either."""
    return values.map(
        lambda value: str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    )


def _as_whole(text: str) -> str:
    """ "1.0" as "1", as in the file."""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


def _all_distinct(features: pd.DataFrame, categorical: Collection[str]) -> list[str]:
    """Columns of text that name rows rather than describe them: no value occurs twice."""
    return [
        str(name)
        for name, column in features.items()
        if not (pd.api.types.is_numeric_dtype(column) or name in categorical or column.isna().all())
        and column.dropna().is_unique
    ]


def _check_target(rows: pd.DataFrame, target: str, header: bool) -> None:
    numbers = pd.to_numeric(pd.Series(rows.columns), errors="coerce").notna()
    if header and target not in rows.columns and numbers.sum() > len(numbers) / 2:
        raise ValueError(
            f"no target column {target!r}, and the first line looks like data: without a header line pass"
            f" header=False (--no-header) and a column number, 0 to {rows.shape[1] - 1}"
        )
    if target not in rows.columns:
        check_columns(rows, [target])


def _row_codes(features: pd.DataFrame) -> NDArray[np.int64]:
    """One number per distinct row; a hash that two rows happened to share would only keep them together."""
    return pd.factorize(pd.util.hash_pandas_object(features, index=False))[0]


def _ids(column: pd.Series) -> NDArray[Any]:
    if column.isna().any() or column.duplicated().any():
        raise ValueError(f"column {column.name!r} does not name rows: some values are empty or occur twice")
    return column.to_numpy() if pd.api.types.is_integer_dtype(column) else column.astype(str).to_numpy(dtype=str)
