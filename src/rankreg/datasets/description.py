"""What is said about a table before a fit: likely leaks, how the file was read, labels, and each column."""

from collections.abc import Sequence
from typing import Any

from rankreg.datasets.columns import ColumnPlan, ColumnReading
from rankreg.datasets.leaks import Leak, likely_leaks
from rankreg.datasets.table import OwnTable
from rankreg.notation import share

MANY = 12  # plain columns of numbers: more of them are one line
NAMED = 3  # of many, at either end
WIDEST = 32  # signs of a name


def describe(own: OwnTable) -> list[str]:
    """How the table was read, as lines for the terminal: likely leaks first.

    Args:
        own: a table that was read, e.g. `read_source(source, folder).table`.

    Returns:
        Lines to print.

    >>> from pathlib import Path
    >>> from rankreg.datasets.table import read_own_table
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
    content = description(own)
    leaks = [Leak(**leak) for leak in content["likely_leaks"]]
    return describe_lines(own.plan, leaks=leaks, heading=content["heading"], labels=content["labels"])


def description(own: OwnTable) -> dict[str, Any]:
    """The same as JSON values. Finding likely leaks is most of the work."""
    positives = int(own.labels.sum())
    dialect = "" if own.dialect is None else f", {own.dialect.words}"
    negative, positive = own.classes
    return {
        "heading": f"{own.name}: {len(own.labels):,} rows{dialect}",
        "labels": f"target {own.preprocessing['target']!r}: {positives:,} positive ({positive!r}),"
        f" {len(own.labels) - positives:,} negative ({negative!r})",
        "rows": len(own.labels),
        "positives": positives,
        "dialect": None if own.dialect is None else own.dialect.model_dump(),
        "likely_leaks": [
            leak.to_dict() for leak in likely_leaks(own.features, own.labels, categorical=own.categorical)
        ],
        "columns": [one.model_dump(mode="json") | {"used": one.is_used} for one in own.plan.readings],
    }


def describe_lines(
    plan: ColumnPlan, *, leaks: Sequence[Leak] = (), heading: str = "", labels: str = ""
) -> list[str]:
    """One line per column, after the likely leaks, the heading and the labels.

    Many columns of numbers without a remark are one line.
    """
    lines = [
        f"Likely leak: {leak.column!r} alone ranks almost perfectly (AUC {leak.auc:.3f}, 95 % interval from"
        f" {leak.low:.3f}). If it is known only after the outcome, leave it out with --drop."
        for leak in leaks
    ]
    lines += [line for line in (heading, labels) if line]
    left_out = f", {len(plan.left_out):,} left out" if plan.left_out else ""
    lines.append(f"{_columns(len(plan.used))} to learn from{left_out}:")
    named = {leak.column for leak in leaks}
    plain = [one for one in plan.readings if _is_plain(one) and one.name not in named]
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
    lines += [f"  {_short(name):<{width}}  {kind:<8}  {remark}".rstrip() for name, kind, remark in cells]
    return lines


def _is_plain(one: ColumnReading) -> bool:
    return one.kind == "number" and not one.note


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


def _short(name: str) -> str:
    return name if len(name) <= WIDEST else f"{name[: WIDEST - 1]}…"
