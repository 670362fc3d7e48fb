"""What each column of a table holds: numbers, categories, dates, nothing to learn from, or the answer itself."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets.cell_formats import (
    PARTS,
    TRUTHS,
    DateFormat,
    Floats,
    NumberFormat,
    Order,
    Part,
    find_date_order,
    find_number_format,
    parse_dates,
    spread_out,
)
from rankreg.datasets.columns import (
    LARGEST,
    LONGEST,
    ColumnPlan,
    ColumnReading,
    cell_text,
    dates_of,
    distinct_texts,
    is_missing_word,
    numbers_of,
)
from rankreg.dialects import Decimal
from rankreg.metrics import auc
from rankreg.notation import number, share
from rankreg.operating.intervals import auc_interval
from rankreg.table_files import row_words

FEW = 0.05  # of a column's cells: so few texts among numbers are faults, more are categories
FEWEST_ROWS = 20  # in a shorter table, numbers that count up may be chance
MANY_CATEGORIES = 100  # values: more may be names of patients or customers
FREE_TEXT_WORDS = 4  # half of the cells have as many words or more
SAMPLE = 10_000  # rows that say whether values are many
GLANCE = 200  # values that say whether a sentinel is worth a look
FEWEST_OTHERS = 10  # distinct values beside a sentinel
FAR, FAR_FOR_A_CODE = 3.0, 0.25  # how far a sentinel lies from the others, in ranges of these
SHOWN_WORDS = 10  # words for missing values
SUSPICIOUS, FLOOR = 0.99, 0.7  # AUC of a column that gives the answer away, and its lower 95 % bound
FEWEST = 7  # samples of a class that may name such a column: all of them on top give such a bound
MOST_ROWS = 50_000  # of each class that are looked at for it
CHEAP, NEAR = 2_000, 0.97  # of each class for a first look, and the AUC that is worth a second one
FOLDS = 5
NameRow = Callable[[int], str]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class _Table:
    """What messages call the table and its rows, and its decimal mark."""

    where: str
    name_row: NameRow
    decimal: Decimal


def read_columns(
    rows: pd.DataFrame,
    *,
    categorical: Collection[str] = (),
    decimal: Decimal = ".",
    where: str = "the table",
    name_row: NameRow = row_words,
) -> ColumnPlan:
    """Decide how to read each column.

    Args:
        rows: the features of the training data.
        categorical: columns that are categories, whatever they look like.
        decimal: the decimal mark of the file.
        where, name_row: what messages call the table, and a row by its place.

    Returns:
        The plan, which `apply`s to these and to new rows.

    Raises:
        ValueError: a few cells of a column are no numbers or no dates, unlike all others, a number is infinite or
            beyond float32, or day and month of all dates of a column could be swapped. The message names the row.

    >>> rows = pd.DataFrame({"price": ["1,200", "900"] * 20, "sold": ["2024-02-01", "2024-03-31"] * 20})
    >>> plan = read_columns(rows)
    >>> [(one.name, one.kind) for one in plan.readings]
    [('price', 'number'), ('sold', 'date')]
    >>> plan.apply(rows).iloc[0].to_dict()
    {'price': 1200.0, 'sold: days': 19754.0, 'sold: month': 2.0, 'sold: day of week': 3.0}
    """
    table = _Table(where, name_row, decimal)
    readings = [_read_column(rows[name], name in categorical, table) for name in map(str, rows.columns)]
    return ColumnPlan(readings=tuple(readings), rows=len(rows), decimal=decimal)


def _read_column(column: "pd.Series[Any]", is_category: bool, table: _Table) -> ColumnReading:
    known = np.flatnonzero(column.notna().to_numpy())
    missing = len(column) - len(known)
    about: dict[str, Any] = {"name": str(column.name), "missing": missing}
    if not len(known):
        return ColumnReading(kind="empty", distinct=0, note="no value in any row", **about)
    about["example"] = str(column.iloc[known[0]])[:LONGEST]
    if is_category:
        return ColumnReading(kind="category", distinct=int(column.nunique()), note="by --categorical", **about)
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        spelling = NumberFormat(decimal=table.decimal)
        return _read_numbers(column, spelling, about, table, numbers_of(column, spelling)[0])
    if pd.api.types.is_datetime64_any_dtype(column):
        about["distinct"] = int(column.nunique())
        moments, _ = dates_of(column, DateFormat(order="ymd", parts=PARTS))
        return _read_dates("ymd", about, moments[known])
    codes, texts = distinct_texts(column)
    counts = np.bincount(codes[known], minlength=len(texts))
    about["distinct"] = len(texts)
    if len(texts) == 1 and not missing:
        return ColumnReading(kind="constant", note=f"{about['example']!r} in every row", **about)
    is_word = np.asarray([is_missing_word(text) for text in texts])
    if is_word.all():
        return ColumnReading(kind="category", note="only words for missing values", **about)
    words = [text for text, is_one in zip(texts, is_word, strict=True) if is_one]
    others = [text for text, is_one in zip(texts, is_word, strict=True) if not is_one] if words else texts
    present = int(counts[~is_word].sum())
    with_words = about | {"missing": len(column) - present, "missing_words": tuple(sorted(words)[:SHOWN_WORDS])}

    spelling = find_number_format(others, table.decimal)
    values = spelling.parse(texts)
    bad = np.isnan(values) & ~is_word
    unread = int(counts[bad].sum())
    if 0 < unread <= FEW * present:
        _refuse(column, bad[codes] & (codes >= 0), "numbers", table)
    if not unread:
        is_bool = all(text in TRUTHS for text in others)
        return _read_numbers(column, spelling, with_words, table, np.append(values, np.nan)[codes], is_bool)
    order, is_ambiguous = find_date_order(others)
    if order is not None:
        moments = parse_dates(texts, order)
        bad = np.isnan(moments[:, 0]) & ~is_word
        strange = int(counts[bad].sum())
        if 0 < strange <= FEW * present:
            _refuse(column, bad[codes] & (codes >= 0), "dates", table)
        if not strange:
            if is_ambiguous:
                raise ValueError(
                    f"{table.where}: column {column.name!r} holds dates such as {others[0]!r}, and no row shows"
                    " whether the day or the month stands first: write them as 2024-12-31, leave the column out"
                    " with --drop, or name it with --categorical"
                )
            return _read_dates(order, with_words, moments[~np.isnan(moments[:, 0])])
    return _read_texts(about, texts, counts, unread / present)


def _read_texts(
    about: dict[str, Any], texts: list[str], counts: NDArray[np.int64], share_of_texts: float
) -> ColumnReading:
    """Names of rows, free text or categories."""
    if counts.max() == 1:
        return ColumnReading(kind="identifier", note="text in which no value occurs twice", **about)
    longer = np.asarray([len(text.split(maxsplit=FREE_TEXT_WORDS)) for text in texts]) >= FREE_TEXT_WORDS
    if len(texts) > counts.sum() / 2 and longer.mean() > 0.5:
        return ColumnReading(kind="text", note="free text, mostly distinct", **about)
    note = ""
    if share_of_texts < 0.5:
        note = f"{share(1 - share_of_texts)} of the values are numbers, the others make it a category"
    elif len(texts) > counts.sum() / 2:
        note = "most values occur once: these count as one category, other"
    elif len(texts) > MANY_CATEGORIES:
        note = "if it says what rows belong to, e.g. a patient, name it with --group"
    return ColumnReading(kind="category", note=note, **about)


def _read_dates(order: Order, about: dict[str, Any], moments: Floats) -> ColumnReading:
    """A date as those of its parts that differ between rows; `moments`: the distinct ones."""
    low, high = moments.min(axis=0), moments.max(axis=0)
    possible: tuple[Part, ...] = ("hour",) if order == "time" else PARTS
    kept = tuple(part for part in possible if low[PARTS.index(part)] < high[PARTS.index(part)])
    if not kept and not about["missing"]:
        return ColumnReading(kind="constant", note="the same date in every row", **about)
    made = DateFormat(order=order, parts=kept or possible[:1])
    if order == "time":
        note = "time of day → hour"
    else:
        first = {"dmy": "day before month, ", "mdy": "month before day, "}.get(order, "")
        note = f"{first}{_day(low[0])} to {_day(high[0])} → {', '.join(made.parts)}"
    return ColumnReading(kind="date", date=made, note=note, **about)


def _day(days: float) -> str:
    return str(np.datetime64("1970-01-01") + int(np.floor(days)))


def _read_numbers(
    column: "pd.Series[Any]",
    spelling: NumberFormat,
    about: dict[str, Any],
    table: _Table,
    cells: Floats,
    is_bool: bool = False,
) -> ColumnReading:
    """Numbers, or what looks like a row number or a truth value; `cells`: NaN where missing."""
    is_missing = np.isnan(cells)
    missing = int(np.count_nonzero(is_missing))
    values = cells[~is_missing] if missing else cells
    low, high = float(values.min()), float(values.max())
    if max(-low, high) > LARGEST:
        row = int(np.flatnonzero(np.abs(cells) > LARGEST)[0])
        raise ValueError(
            f"{table.where}: column {column.name!r} holds {cell_text(column, row)} in {table.name_row(row)}, not a"
            " finite number of ordinary size: mend it, or leave it empty if unknown"
        )
    about = about | {"missing": missing, "distinct": _distinct(values)}
    if low == high and not missing:
        return ColumnReading(kind="constant", note=f"{about['example']} in every row", **about)
    if is_bool or pd.api.types.is_bool_dtype(column):
        return ColumnReading(kind="bool", number=spelling, **about)
    is_whole = pd.api.types.is_integer_dtype(column) and not missing
    if is_whole and high < 2**62 and _counts_up(column.to_numpy(np.int64)):
        return ColumnReading(kind="identifier", note="counts up like a row number", **about)
    may_name = is_whole and about["distinct"] in (None, len(values)) and len(values) >= FEWEST_ROWS
    codes, inner = find_sentinels(values, low, high)
    notes = [spelling.words] if spelling != NumberFormat(decimal=table.decimal) else []
    if codes:
        said = " and ".join(f"{count:,} × {_plain(code)}" for code, count in codes)
        notes.append(f"{said} far from the rest: for missing values? Kept as numbers")
    if may_name and column.is_unique:
        notes.append("no value occurs twice: if it names cases, leave it out with --drop")
    return ColumnReading(
        kind="number",
        number=spelling,
        low=inner[0],
        high=inner[1],
        sentinels=tuple(code for code, _ in codes),
        note="; ".join(notes),
        **about,
    )


def _distinct(values: Floats) -> int | None:
    """How many values differ, or None if that takes long to say and is many."""
    few = spread_out(values, SAMPLE)
    if len(few) < len(values) and len(pd.unique(few)) > SAMPLE / 10:
        return None
    return len(pd.unique(values))


def _counts_up(values: NDArray[np.int64]) -> bool:
    """Whether the numbers are consecutive in any order, or grow by the same step from row to row."""
    if len(values) < FEWEST_ROWS:
        return False
    steps = np.diff(values[:FEWEST_ROWS])
    if steps[0] > 0 and (steps == steps[0]).all() and (np.diff(values) == steps[0]).all():
        return True
    low, high = int(values.min()), int(values.max())
    return high - low == len(values) - 1 and bool((np.bincount(values - low) == 1).all())


def find_sentinels(
    values: Floats, low: float | None = None, high: float | None = None
) -> tuple[list[tuple[float, int]], tuple[float, float]]:
    """Numbers that repeat at an end of the column, far from all others, with their counts; and the others' range.

    Far is three ranges of the other values. A quarter of the range is enough for codes of nines, such as -999, and
    for numbers beyond 10³⁰. The others must have ten distinct values.

    >>> find_sentinels(np.r_[np.linspace(20, 30, 50), [-999.0] * 3, [1e37] * 2])
    ([(1e+37, 2), (-999.0, 3)], (20.0, 30.0))
    """
    low = float(values.min()) if low is None else low
    high = float(values.max()) if high is None else high
    found: list[tuple[float, int]] = []
    rest, middle = values, float(np.median(spread_out(values, SAMPLE)))
    is_peeled = True
    while is_peeled and len(found) < 6:
        is_peeled = False
        for edge in sorted((low, high), key=lambda end: -abs(end - middle)):
            if not _may_be_far(rest, edge, low, high):
                continue
            others = rest[rest != edge]
            count = len(rest) - len(others)
            if count < 2 or len(others) < len(values) / 2:
                continue
            ends = float(others.min()), float(others.max())
            gap = edge - ends[1] if edge == high else ends[0] - edge
            needed = FAR_FOR_A_CODE if _looks_like_a_code(edge) else FAR
            if gap > needed * (ends[1] - ends[0]) and len(pd.unique(others[:SAMPLE])) >= FEWEST_OTHERS:
                found.append((edge, count))
                rest, (low, high), is_peeled = others, ends, True
                break
    return found, (low, high)


def _may_be_far(values: Floats, edge: float, low: float, high: float) -> bool:
    """A quick look at some values: whether most lie in the half of the range that is away from the edge."""
    some = spread_out(values, GLANCE)
    reach = (high - low) * FAR_FOR_A_CODE / (1 + FAR_FOR_A_CODE)
    return bool(np.count_nonzero(np.abs(some - edge) < reach * 0.99) <= np.count_nonzero(some == edge))


def _looks_like_a_code(value: float) -> bool:
    digits = f"{abs(value):.0f}" if abs(value) < 1e15 else ""
    return abs(value) >= 1e30 or (len(digits) > 2 and set(digits) == {"9"} and value == round(value))


def _plain(value: float) -> str:
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else number(value)


def _refuse(column: "pd.Series[Any]", is_bad: NDArray[np.bool_], what: str, table: _Table) -> NoReturn:
    bad = np.flatnonzero(is_bad)
    more = f" and texts in {len(bad) - 1:,} other rows" if len(bad) > 1 else ""
    first = f"{cell_text(column, int(bad[0]))} in {table.name_row(int(bad[0]))}{more}"
    raise ValueError(
        f"{table.where}: column {column.name!r} holds {what}, but {first}:"
        " mend such cells, leave them empty if unknown, or name the column with --categorical"
    )


@dataclass(frozen=True)
class Leak:
    """A column that alone ranks almost perfectly.

    column: its name, or that of a part of a date.
    auc, low: the area under its ROC curve, and the lower end of the 95 % interval.
    """

    column: str
    auc: float
    low: float


def likely_leaks(features: pd.DataFrame, labels: Labels, *, categorical: Collection[str] = ()) -> list[Leak]:
    """Columns that alone rank positives above negatives almost perfectly, the most perfect first.

    A column of numbers is ranked up and down, with missing values first or last. A category is ranked by its share
    of positives in other rows. A column is named if its AUC is at least 0.99 and the lower end of the 95 % interval
    is at least 0.7, so that a few positives do not name it by chance; fewer than seven never do. Nothing is
    removed.

    Args:
        features: columns of numbers and of text, see `ColumnPlan.apply`.
        labels: 0 or 1 for each row.
        categorical: columns of numbers that are categories.

    >>> labels = np.arange(200) % 10 == 0
    >>> rows = pd.DataFrame({"age": np.arange(200) % 7, "refund": labels * 20.0})
    >>> [leak.column for leak in likely_leaks(rows, labels.astype(int))]
    ['refund']
    """
    labels = np.asarray(labels, dtype=np.int64)
    if min(np.count_nonzero(labels), np.count_nonzero(labels == 0)) < FEWEST:
        return []
    rows = np.sort(np.concatenate([spread_out(np.flatnonzero(labels == k), MOST_ROWS) for k in (0, 1)]))
    known = labels[rows]
    first = np.concatenate([spread_out(np.flatnonzero(known == k), CHEAP) for k in (0, 1)])
    found = []
    for name in map(str, features.columns):
        column = features[name].iloc[rows] if len(rows) < len(labels) else features[name]
        if pd.api.types.is_numeric_dtype(column) and name not in categorical:
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            if max(map(abs, (auc(known[first], one) - 0.5 for one in _rankings(values[first])))) < NEAR - 0.5:
                continue
            rankings = _rankings(values)
        else:
            rankings = [_shares(column, known)]
        best = max(rankings, key=lambda one: auc(known, one))
        if auc(known, best) >= SUSPICIOUS:
            interval = auc_interval(known, best)
            if interval.low >= FLOOR:
                found.append(Leak(name, interval.estimate, interval.low))
    return sorted(found, key=lambda leak: (-leak.auc, leak.column))


def _rankings(values: Floats) -> list[Floats]:
    """The numbers up and down; missing ones below and above all others."""
    missing = np.isnan(values)
    if not missing.any():
        return [values, -values]
    up = [np.where(missing, end, values) for end in (-1e300, 1e300)]
    return [*up, *(-one for one in up)]


def _shares(column: "pd.Series[Any]", labels: Labels) -> Floats:
    """For each row the share of positives among rows of its category in other folds, drawn to that of all rows."""
    codes, texts = distinct_texts(column)
    codes = codes + 1  # missing is a category too
    fold = np.empty(len(labels), dtype=np.int64)
    for k in (0, 1):
        rows = np.random.default_rng(0).permutation(np.flatnonzero(labels == k))
        fold[rows] = np.arange(len(rows)) % FOLDS
    shares = np.empty(len(labels))
    for k in range(FOLDS):
        other = fold != k
        all_rows = np.bincount(codes[other], minlength=len(texts) + 1)
        positive = np.bincount(codes[other & (labels == 1)], minlength=len(texts) + 1)
        mean = labels[other].mean()
        shares[~other] = ((positive + mean) / (all_rows + 1.0))[codes[~other]]
    return shares
