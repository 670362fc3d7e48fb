"""A table of one's own: which columns hold what, and its rows in parts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets.column_kinds import likely_leaks, read_columns
from rankreg.datasets.columns import ColumnPlan, column_lines
from rankreg.datasets.partitions import SHARES, check_both_classes, distinct_or_none, linked, own_parts
from rankreg.datasets.preprocessing import MOST_CATEGORIES, TablePreprocessor
from rankreg.datasets.splits import OwnData, Splits, samples_of
from rankreg.dialects import Dialect, read_decimal, read_encoding, read_separator
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
        separator: what stands between the fields of a CSV file: ",", ";", "|" or "tab". Default: detected.
        decimal: the decimal mark of a CSV file, "." or ",". Default: detected.
        encoding: how a CSV file stores characters, e.g. "utf-8", "utf-16" or "cp1252". Default: detected.

    Raises:
        ValueError: separator, decimal or encoding is none of these.

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
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        self.dialect_options()

    def dialect_options(self) -> dict[str, Any]:
        """What was said about the way the file is written, for `read_table`."""
        return {
            "separator": None if self.separator is None else read_separator(self.separator),
            "decimal": None if self.decimal is None else read_decimal(self.decimal),
            "encoding": None if self.encoding is None else read_encoding(self.encoding),
        }

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
            "--separator": "tab" if self.separator == "\t" else self.separator,
            "--decimal": self.decimal,
            "--encoding": self.encoding,
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

    Columns are read as `read_columns` decides, which leaves out those that hold nothing to learn from. Then
    features are prepared with what the training part says, see `TablePreprocessor`.

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
    own = read_own_table(path, options, **columns)
    check_both_classes(own.labels, shares, ("negative", "positive"))
    parts = own_parts(own.labels, own.labels, own.units, shares, seed=seed, member=member, hint=COPIES_HINT)
    preprocessor = TablePreprocessor.fit(
        own.features.iloc[parts["train"]], categorical=own.categorical, most_categories=most_categories
    )
    return Splits(
        name=own.name,
        parts=samples_of(parts, preprocessor.transform(own.features), own.labels, own.ids, own.units),
        classes=own.classes,
        preprocessing=own.described(preprocessor),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnTable(OwnData):
    """A table of one's own, all of its rows in the order of the file; ids are the id column, or row numbers from 1.

    Attributes:
        features: what can be learned from, as `TablePreprocessor` takes it: columns of numbers and of text.
        plan: how each column is read, those that are left out too.
        categorical: the features to treat as categorical even if they are numbers.
        dialect: how the file is written; None for Parquet.
    """

    kind: ClassVar[Literal["table", "image"]] = "table"

    features: pd.DataFrame
    plan: ColumnPlan
    categorical: tuple[str, ...] = ()
    dialect: Dialect | None = None

    def described(self, preprocessor: TablePreprocessor) -> dict[str, Any]:
        """What a bundle must know to read new rows alike, those columns included that nothing was learned from."""
        unused = (*preprocessor.unused, *self.plan.left_out)
        return replace(preprocessor, unused=unused).to_dict() | dict(self.preprocessing)


def read_own_table(path: Path | str, options: TableOptions | None = None, **columns: Any) -> OwnTable:
    """Read a table (CSV, also compressed, or Parquet) as a whole: labels, features, ids and units.

    Args:
        path: the file.
        options: which columns hold what.
        columns: fields of `TableOptions` as keywords, in place of `options`.

    Returns:
        All rows, not yet cut into parts.

    Raises:
        ValueError: a row has too few or too many fields, a numeric column holds text or an infinite
            number, or a target value was not named. The message names the row and its line.
        FileNotFoundError: there is no such file.

    >>> rows = [f"{k % 7},{k % 3},{int(k % 5 == 0)}" for k in range(100)]
    >>> _ = Path("claims.csv").write_text("amount,age,fraud\\n" + "\\n".join(rows))
    >>> own = read_own_table("claims.csv", target="fraud")
    >>> own.features.shape, int(own.labels.sum()), own.classes
    ((100, 2), 20, ('0', '1'))
    """
    chosen = TableOptions(**columns) if options is None else replace(options, **columns)
    target, group, id_column, categorical = chosen.target, chosen.group, chosen.id_column, chosen.categorical
    if target is None:
        raise ValueError(f"{Path(path).name} is a table: say which column is the target with --target COLUMN")
    read = read_table(path, header=chosen.header, text=categorical, **chosen.dialect_options())
    rows = read.rows
    if len(rows) == 0:
        raise ValueError(f"{path} holds no rows{', only a header line' if chosen.header else ''}")
    special = [name for name in (target, group, id_column) if name is not None]
    numbers = pd.to_numeric(pd.Series(rows.columns), errors="coerce").notna()
    if chosen.header and target not in rows.columns and numbers.sum() > len(numbers) / 2:
        raise ValueError(
            f"no target column {target!r}, and the first line looks like data: without a header line pass"
            f" header=False (--no-header) and a column number, 0 to {rows.shape[1] - 1}"
        )
    check_columns([*special, *chosen.drop, *categorical], rows.columns, "the table")
    labels, found = read_labels(
        rows[target], chosen.labels, f"{path}: the target {target!r}", name_row=read.name_row
    )
    features = rows.drop(columns=[*special, *(name for name in chosen.drop if name not in special)])
    plan = read_columns(
        features,
        categorical=categorical,
        decimal="." if read.dialect is None else read.dialect.decimal,
        where=str(path),
        name_row=read.name_row,
    )
    if plan.left_out and not plan.used:
        why = "; ".join(f"{one.name!r}: {one.note}" for one in plan.readings[:8])
        raise ValueError(f"no column to learn from: {why}")
    # Before copies are looked for: names would tell them apart.
    features = plan.apply(features, where=str(path), name_row=read.name_row)
    ids = _ids(rows[id_column]) if id_column is not None else np.arange(1, len(rows) + 1)
    return OwnTable(
        name=Path(path).name.split(".")[0],
        features=features,
        labels=labels,
        ids=ids,
        units=_units(features if chosen.keep_copies_together else None, None if group is None else rows[group]),
        classes=(found.negative, found.positive),
        categorical=tuple(name for name in categorical if name in features.columns),
        plan=plan,
        dialect=read.dialect,
        preprocessing={
            "target": target,
            "positive": found.positive,
            "id_column": id_column,
            "header": chosen.header,
            **chosen.labels.described(),
            **({"columns": plan.to_dict()} if plan.transforms else {}),
            **{name: value for name, value in chosen.dialect_options().items() if value is not None},
        },
    )


def describe(own: OwnTable) -> list[str]:
    """How the table was read, as lines for the terminal: likely leaks first.

    Args:
        own: a table that was read, by `read_source` or `read_own_table`.

    Returns:
        Lines to print.

    >>> rows = [f"{k};{k % 7},5;2024-01-{k % 28 + 1:02};{int(k % 5 == 0)}" for k in range(100)]
    >>> _ = Path("claims.csv").write_text("no;amount;day;fraud\\n" + "\\n".join(rows))
    >>> print("\\n".join(describe(read_own_table("claims.csv", target="fraud"))))
    claims: 100 rows, separated by semicolons, decimal comma, UTF-8
    target 'fraud': 20 positive ('1'), 80 negative ('0')
    2 columns to learn from, 1 left out:
      no      left out  identifier: counts up like a row number
      amount  number    0.5 to 6.5
      day     date      2024-01-01 to 2024-01-28 → days, day of week
    """
    leaks = likely_leaks(own.features, own.labels, categorical=own.categorical)
    positives, (negative, positive) = int(own.labels.sum()), own.classes
    dialect = "" if own.dialect is None else f", {own.dialect.words}"
    return [
        *(
            f"Likely leak: {leak.column!r} alone ranks almost perfectly (AUC {leak.auc:.3f}, 95 % interval from"
            f" {leak.low:.3f}). If it is known only after the outcome, leave it out with --drop."
            for leak in leaks
        ),
        f"{own.name}: {len(own.labels):,} rows{dialect}",
        f"target {own.preprocessing['target']!r}: {positives:,} positive ({positive!r}),"
        f" {len(own.labels) - positives:,} negative ({negative!r})",
        *column_lines(own.plan, leaks={leak.column for leak in leaks}),
    ]


def _units(features: pd.DataFrame | None, group: "pd.Series[Any] | None") -> NDArray[np.int64] | None:
    """The unit of each row: equal rows, and rows of one group, belong together."""
    kept_together = []
    if features is not None and features.shape[1]:  # a hash that two rows share by chance only keeps them together
        kept_together.append(pd.factorize(pd.util.hash_pandas_object(features, index=False))[0])
    if group is not None:
        if group.isna().any():
            raise ValueError(
                f"column {group.name!r} is empty in {int(group.isna().sum())} rows: every row needs one"
            )
        kept_together.append(pd.factorize(group)[0])
    return distinct_or_none(linked(*kept_together)) if kept_together else None


def _ids(column: pd.Series) -> NDArray[Any]:
    if column.isna().any() or column.duplicated().any():
        raise ValueError(f"column {column.name!r} does not name rows: some values are empty or occur twice")
    return column.to_numpy() if pd.api.types.is_integer_dtype(column) else column.astype(str).to_numpy(dtype=str)
