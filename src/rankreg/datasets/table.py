"""A table of one's own: CSV (also .gz, .xz, …) or Parquet."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets.partitions import (
    SHARES,
    check_both_classes,
    check_parts,
    check_shares_kept,
    distinct_or_none,
    linked,
    stratified_parts,
)
from rankreg.datasets.preprocessing import MOST_CATEGORIES, TablePreprocessor, check_cells, check_columns
from rankreg.datasets.splits import Samples, Splits
from rankreg.labels import LabelRule, read_labels
from rankreg.table_files import read_table


def table(
    path: Path | str,
    *,
    target: str,
    positive: str | None = None,
    negative: Collection[str] = (),
    rest_negative: bool = False,
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

    positive, negative, rest_negative: what the target's values mean, by `rankreg.labels.LabelRule`. A row with too
    few or too many fields, a text in a column of numbers and an infinite number are refused by row and line.
    group: rows of one group (a patient) stay in one part and are one unit, and so are rows that are equal in all
    features, unless keep_copies_together=False. Group and id columns are no features, nor is text of which no value
    occurs twice ("unused" in the preprocessing). Without a header line, columns are "0", "1", … Without an id
    column, ids are row numbers, from 1.
    seed cuts the parts; another member of an ensemble gets other training and validation rows, the rest alike.
    """
    read = read_table(path, header=header, text=categorical)
    rows = read.rows
    if len(rows) == 0:
        raise ValueError(f"{path} holds no rows{', only a header line' if header else ''}")
    special = [name for name in (target, group, id_column) if name is not None]
    _check_target(rows, target, header)
    check_columns(rows, [*special, *drop, *categorical])
    rule = LabelRule(positive, tuple(negative), rest_negative)
    labels, found = read_labels(rows[target], rule, f"{path}: the target {target!r}", name_row=read.name_row)
    check_both_classes(labels, shares, ("negative", "positive"))
    features = rows.drop(columns=[*special, *(name for name in drop if name not in special)])
    check_cells(features, categorical, str(path), read.name_row)
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
    ids = _ids(rows[id_column]) if id_column is not None else np.arange(1, len(rows) + 1)
    return Splits(
        name=Path(path).name.split(".")[0],
        parts={
            name: Samples(matrix, part, labels[part], ids[part], None if units is None else units[part])
            for name, part in parts.items()
        },
        classes=(found.negative, found.positive),
        preprocessing={
            **replace(preprocessor, unused=(*preprocessor.unused, *names)).to_dict(),
            "target": target,
            "positive": found.positive,
            "id_column": id_column,
            "header": header,
            **rule.described(),
        },
    )


COPIES_HINT = (
    "if equal rows are no copies but chance, as where features have few values, pass keep_copies_together=False"
    " (--split-copies); where groups are large, try another seed"
)


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
