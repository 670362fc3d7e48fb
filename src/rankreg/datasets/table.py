"""A table of one's own: which columns hold what, and its rows in parts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets.partitions import SHARES, check_both_classes, distinct_or_none, linked, own_parts
from rankreg.datasets.preprocessing import MOST_CATEGORIES, TablePreprocessor, check_cells
from rankreg.datasets.splits import Splits, samples_of
from rankreg.labels import LabelRule, read_labels
from rankreg.table_files import check_columns, read_table

COPIES_HINT = (
    "if equal rows are chance, not copies, pass keep_copies_together=False (--split-copies);"
    " if groups are large, try another seed"
)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Which columns of a table hold what, and what the values of the target mean.

    The same names are keywords of `rankreg.datasets.table` and options of `rankreg fit` and `rankreg tune`.

    Args:
        target: the column to predict.
        positive: the critical value of the target. Needed unless the target holds 0 and 1, or False and True.
        negative: the negative values of the target. Needed if there are several.
        rest_negative: every value except the positive one is negative.
        group: the column that names what rows belong to, e.g. a patient. Rows of one group stay in one
            part and count as one unit.
        drop: columns that are not features.
        categorical: numeric columns to treat as categorical, e.g. a postcode.
        id_column: the column that names the rows. Without it, ids are row numbers, from 1.
        header: the first line of a CSV file holds the column names. Otherwise columns are "0", "1", ...
        keep_copies_together: rows that are equal in all features stay in one part and count as one unit.

    >>> TableOptions(target="fraud", drop=("name", "note"), header=False).command_line()
    ['--target', 'fraud', '--drop', 'name', '--drop', 'note', '--no-header']
    """

    target: str | None = None
    positive: str | None = None
    negative: tuple[str, ...] = ()
    rest_negative: bool = False
    group: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    id_column: str | None = None
    header: bool = True
    keep_copies_together: bool = True

    @property
    def labels(self) -> LabelRule:
        """What the values of the target mean."""
        return LabelRule(self.positive, tuple(self.negative), self.rest_negative)

    def column_options(self) -> dict[str, Any]:
        """The options given that only a table has, by their names on the command line."""
        found = {
            "--target": self.target,
            "--group": self.group,
            "--drop": self.drop,
            "--categorical": self.categorical,
            "--id": self.id_column,
            "--no-header": not self.header,
            "--split-copies": not self.keep_copies_together,
        }
        return {name: value for name, value in found.items() if value not in (None, (), False)}

    def command_line(self) -> list[str]:
        """The words of `rankreg fit` that say the same."""
        labels = {"--positive": self.positive, "--negative": self.negative, "--rest-negative": self.rest_negative}
        words = []
        for option, value in (self.column_options() | labels).items():
            if isinstance(value, bool):
                words += [option] if value else []
            else:
                values = [value] if isinstance(value, str) else value or ()
                words += [word for one in values for word in (option, one)]
        return words


def table(
    path: Path | str,
    options: TableOptions | None = None,
    *,
    seed: int = 0,
    member: int = 0,
    shares: Mapping[str, float] = SHARES,
    most_categories: int = MOST_CATEGORIES,
    **columns: Any,
) -> Splits:
    """Read a table (CSV, also compressed, or Parquet) and cut it into stratified parts.

    Features are prepared with what the training part says, see `TablePreprocessor`. A text column is
    left out if no value occurs twice.

    Args:
        path: the file.
        options: which columns hold what.
        seed: decides the parts.
        member: another member of an ensemble gets other training and validation rows, all else alike.
        shares: the share of the rows in each part, by name.
        most_categories: how many values of a categorical column get a feature of their own.
        columns: fields of `TableOptions` as keywords, in place of `options`.

    Returns:
        The parts. Ids are row numbers from 1, or the values of the id column.

    Raises:
        ValueError: a row has too few or too many fields, a numeric column holds text or an infinite
            number, a target value was not named, or a part would lack one of the classes. The
            message names the row and its line.

    >>> rows = [f"{k % 7},{k % 3},{int(k % 5 == 0)}" for k in range(100)]
    >>> Path("claims.csv").write_text("amount,age,fraud\\n" + "\\n".join(rows))  # doctest: +ELLIPSIS
    6...
    >>> parts = table("claims.csv", target="fraud", keep_copies_together=False).parts
    >>> {name: len(part) for name, part in parts.items()}
    {'train': 60, 'validation': 10, 'calibration': 15, 'test': 15}
    """
    chosen = TableOptions(**columns) if options is None else replace(options, **columns)
    target, group, id_column, categorical = chosen.target, chosen.group, chosen.id_column, chosen.categorical
    if target is None:
        raise ValueError(f"{Path(path).name} is a table: say which column is the target with --target COLUMN")
    read = read_table(path, header=chosen.header, text=categorical)
    rows = read.rows
    if len(rows) == 0:
        raise ValueError(f"{path} holds no rows{', only a header line' if chosen.header else ''}")
    special = [name for name in (target, group, id_column) if name is not None]
    _check_target(rows, target, chosen.header)
    check_columns([*special, *chosen.drop, *categorical], rows.columns, "the table")
    labels, found = read_labels(
        rows[target], chosen.labels, f"{path}: the target {target!r}", name_row=read.name_row
    )
    check_both_classes(labels, shares, ("negative", "positive"))
    features = rows.drop(columns=[*special, *(name for name in chosen.drop if name not in special)])
    check_cells(features, categorical, str(path), read.name_row)
    names = _all_distinct(features, categorical)
    if names and len(names) == features.shape[1]:
        raise ValueError(f"no column to learn from: no value occurs twice in {', '.join(names)}")
    features = features.drop(columns=names)  # before copies are looked for: names would tell them apart

    kept_together = [_row_codes(features)] if chosen.keep_copies_together and features.shape[1] else []
    if group is not None:
        if rows[group].isna().any():
            raise ValueError(
                f"column {group!r} is empty in {int(rows[group].isna().sum())} rows: every row needs one"
            )
        kept_together.append(pd.factorize(rows[group])[0])
    units = distinct_or_none(linked(*kept_together)) if kept_together else None
    alone = np.arange(len(rows)) if units is None else units
    parts = own_parts(labels, labels, alone, shares, seed=seed, member=member, hint=COPIES_HINT)

    preprocessor = TablePreprocessor.fit(
        features.iloc[parts["train"]], categorical=categorical, most_categories=most_categories
    )
    ids = _ids(rows[id_column]) if id_column is not None else np.arange(1, len(rows) + 1)
    return Splits(
        name=Path(path).name.split(".")[0],
        parts=samples_of(parts, preprocessor.transform(features), labels, ids, units),
        classes=(found.negative, found.positive),
        preprocessing={
            **replace(preprocessor, unused=(*preprocessor.unused, *names)).to_dict(),
            "target": target,
            "positive": found.positive,
            "id_column": id_column,
            "header": chosen.header,
            **chosen.labels.described(),
        },
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
        check_columns([target], rows.columns, "the table")


def _row_codes(features: pd.DataFrame) -> NDArray[np.int64]:
    """One number per distinct row; a hash that two rows happened to share would only keep them together."""
    return pd.factorize(pd.util.hash_pandas_object(features, index=False))[0]


def _ids(column: pd.Series) -> NDArray[Any]:
    if column.isna().any() or column.duplicated().any():
        raise ValueError(f"column {column.name!r} does not name rows: some values are empty or occur twice")
    return column.to_numpy() if pd.api.types.is_integer_dtype(column) else column.astype(str).to_numpy(dtype=str)
