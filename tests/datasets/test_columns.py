"""How columns are read: kinds, spellings of numbers and dates, sentinels, bad cells, and plans on disk."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rankreg.datasets.cell_formats import NumberFormat, find_date_order, find_number_format, parse_dates
from rankreg.datasets.column_kinds import find_sentinels, read_columns
from rankreg.datasets.columns import ColumnPlan, ColumnReading, column_lines
from rankreg.datasets.table import TableOptions, describe, read_own_table, table
from rankreg.table_files import read_table, table_chunks

COUNT = 400


def dirty(count: int = COUNT) -> pd.DataFrame:
    """A column of each kind, as a CSV file with semicolons and decimal commas would spell it."""
    rng = np.random.default_rng(0)
    amount = rng.integers(0, 5_000_000, count)
    size = rng.normal(30, 5, count).round(2)
    size[rng.random(count) < 0.03] = -999999
    size[rng.random(count) < 0.01] = 1e37
    days = pd.Timestamp("2023-01-15") + pd.to_timedelta(rng.integers(0, 500, count), unit="D")
    return pd.DataFrame(
        {
            "row": np.arange(1, count + 1),
            "case": [f"P-{k:05}" for k in rng.permutation(count)],
            "size": size,
            "amount": [f"{value:,}".replace(",", ".") for value in amount],
            "rate": [f"{value} %" for value in rng.integers(0, 100, count)],
            "day": days.strftime("%d.%m.%Y"),
            "age": [str(value) if value > 22 else "?" for value in rng.integers(20, 90, count)],
            "site": rng.choice(["Köln", "Bonn"], count),
            "note": [f"patient came back after {min(k, 350)} days, no pain" for k in range(count)],
            "same": "x",
            "nothing": np.nan,
            "sun": rng.random(count) < 0.5,
            "sick": (np.arange(count) % 10 == 0).astype(int),
        }
    )


def write_dirty(path: Path) -> Path:
    dirty().to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252")
    return path


def kinds(plan: ColumnPlan) -> dict[str, str]:
    return {one.name: one.kind for one in plan.readings}


def one(values: Any, **options: Any) -> ColumnReading:
    """The reading of a single column."""
    return read_columns(pd.DataFrame({"x": values}), **options).readings[0]


def test_every_kind_is_told_from_the_others(tmp_path: Path) -> None:
    own = read_own_table(write_dirty(tmp_path / "a.csv"), target="sick")
    assert kinds(own.plan) == {
        "row": "identifier",
        "case": "identifier",
        "size": "number",
        "amount": "number",
        "rate": "number",
        "day": "date",
        "age": "number",
        "site": "category",
        "note": "text",
        "same": "constant",
        "nothing": "empty",
        "sun": "bool",
    }
    rows = dirty()
    frame = own.features
    np.testing.assert_allclose(frame["size"], rows["size"])
    np.testing.assert_array_equal(frame["amount"], rows["amount"].str.replace(".", "").astype(float))
    np.testing.assert_array_equal(frame["rate"], rows["rate"].str.rstrip(" %").astype(float))
    np.testing.assert_array_equal(frame["age"], pd.to_numeric(rows["age"], errors="coerce"))
    days = pd.to_datetime(rows["day"], format="%d.%m.%Y")
    np.testing.assert_array_equal(frame["day: days"], (days - pd.Timestamp("1970-01-01")).dt.days)
    np.testing.assert_array_equal(frame["day: month"], days.dt.month)
    np.testing.assert_array_equal(frame["day: day of week"], days.dt.day_of_week)
    assert "day: hour" not in frame
    assert frame["site"].tolist() == rows["site"].tolist()
    by_name = {reading.name: reading for reading in own.plan.readings}
    assert sorted(by_name["size"].sentinels) == [-999999, 1e37]
    assert by_name["age"].missing == (rows["age"] == "?").sum()
    assert by_name["age"].missing_words == ("?",)
    assert own.dialect is not None
    assert own.dialect.model_dump() == {"separator": ";", "decimal": ",", "encoding": "cp1252"}


def test_the_parts_of_a_dirty_table_are_finite(tmp_path: Path) -> None:
    splits = table(write_dirty(tmp_path / "a.csv"), target="sick")
    assert all(np.isfinite(part.inputs()).all() for part in splits.parts.values())
    assert ColumnPlan.from_dict(splits.preprocessing["columns"]).columns[:2] == ["size", "amount"]


def test_a_clean_table_needs_no_plan(tmp_path: Path) -> None:
    rows = dirty()[["sun", "site", "sick"]].assign(x=np.linspace(0, 1, COUNT) ** 2)
    rows.to_csv(tmp_path / "a.csv", index=False)
    own = read_own_table(tmp_path / "a.csv", target="sick")
    assert not own.plan.transforms
    assert "columns" not in own.preprocessing
    assert list(own.features) == ["sun", "site", "x"]


def test_a_plan_on_disk_reads_new_rows_as_the_fit_did(tmp_path: Path) -> None:
    """From the whole table or in chunks of any size."""
    path = write_dirty(tmp_path / "a.csv")
    own = read_own_table(path, target="sick")
    plan = ColumnPlan.from_dict(json.loads(json.dumps(own.plan.to_dict())))
    assert "P-0" not in json.dumps(own.plan.to_dict())  # no cell of the data
    whole = read_table(path, text=plan.text_columns).rows
    pd.testing.assert_frame_equal(plan.apply(whole), own.features)
    chunks = [chunk.rows for chunk in table_chunks(path, text=plan.text_columns, rows=7)]
    pd.testing.assert_frame_equal(
        pd.concat([plan.apply(chunk) for chunk in chunks]), own.features, check_dtype=False, check_index_type=False
    )


def test_new_rows_in_a_file_with_another_decimal_mark_are_read_as_their_file_says(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": ["1.234,5", "7,25"] * 20, "y": [0.5, 1.25] * 20})
    plan = read_columns(rows, decimal=",")
    new = pd.DataFrame({"x": ["1,234.5", "7.25"], "y": ["0.5", "odd"]})
    frame, problems = plan.read(new, decimal=".")
    assert frame["x"].tolist() == [1234.5, 7.25]
    assert problems == ["", "column 'y' holds 'odd', not a number"]
    assert all(plan.read(new.iloc[:1])[1])  # as the training file spells them, they are no numbers


def test_bad_cells_are_named_and_never_read_as_something_else() -> None:
    rows = pd.DataFrame({"price": ["1,200.5", "30"] * 20, "day": ["2024-01-31", "2024-05-01"] * 20})
    rows["x"] = np.arange(40) ** 2.0
    plan = read_columns(rows)
    new = pd.DataFrame(
        {
            "price": ["1,20", "n/a", "2,000", "1e999", "7"],
            "day": ["2024-02-30", "2024-02-29", "?", "31.12.2024", "2024-01-01"],
            "x": [1.0, 2.0, np.inf, -1e39, np.nan],
        }
    )
    frame, problems = plan.read(new)
    assert problems == [
        "column 'price' holds '1,20', not a number; column 'day' holds '2024-02-30', not a date",
        "",
        "column 'x' holds inf, not a finite number of ordinary size",
        "column 'price' holds '1e999', not a finite number of ordinary size;"
        " column 'day' holds '31.12.2024', not a date;"
        " column 'x' holds -1e+39, not a finite number of ordinary size",
        "",
    ]
    assert not np.isinf(frame.to_numpy(dtype=float)).any()
    with pytest.raises(ValueError, match=r"row 1: column 'price' holds '1,20', not a number"):
        plan.apply(new)
    pd.testing.assert_frame_equal(plan.apply(new.iloc[[1, 4]]), frame.iloc[[1, 4]])
    with pytest.raises(ValueError, match="no column 'day': did you mean 'Day'"):
        plan.apply(new.rename(columns={"day": "Day"}))


@pytest.mark.parametrize(
    ("texts", "decimal", "values"),
    [
        (["1,234,567", "12"], ".", [1234567, 12]),
        (["1.234.567,5", "3,5"], ",", [1234567.5, 3.5]),
        (["1.234", "5"], ",", [1234, 5]),
        (["0,5", "12,25"], ".", [0.5, 12.25]),
        (["1 234 567", "12"], ".", [1234567, 12]),
        (["1\u202f234,5", "2\u00a0000"], ",", [1234.5, 2000]),
        (["1'234.50", "7"], ".", [1234.5, 7]),
        (["12 %", "3.5%"], ".", [12, 3.5]),
        (["$1,200.50", "-$3", "$ -4"], ".", [1200.5, -3, -4]),
        (["€ 5", "7 €"], ".", [5, 7]),
        (["5 EUR", "1.000,50 EUR"], ",", [5, 1000.5]),
        (["−5", "+5", " 1e3 ", ".5", "5."], ".", [-5, 5, 1000, 0.5, 5]),
    ],
)
def test_numbers_are_read_however_they_are_spelled(texts: list[str], decimal: Any, values: list[float]) -> None:
    np.testing.assert_allclose(find_number_format(texts, decimal).parse(texts), values)


@pytest.mark.parametrize(
    "text", ["1,23,456", "12,34", "1,234,56", "0,123", "1.2.3", "--5", "12 kg", "0x10", "1_000"]
)
def test_what_is_no_number_with_thousands_stays_none(text: str) -> None:
    assert math.isnan(NumberFormat(thousands=",").parse([text])[0])


def test_units_that_differ_are_no_numbers() -> None:
    assert one(["5 €", "5 $"] * 20).kind == "category"
    with pytest.raises(ValueError, match=r"column 'x' holds numbers, but '7' in row 40"):
        one([*[f"{k % 9} %" for k in range(39)], "7"])


@given(
    st.floats(allow_nan=False, allow_infinity=False, width=32), st.sampled_from([(".", ","), (",", "."), (".", "")])
)
def test_a_number_that_python_writes_is_read_back(value: float, marks: tuple[Any, Any]) -> None:
    decimal, thousands = marks
    text = f"{value:,.3f}" if thousands else repr(value)
    spelled = text.translate(str.maketrans({",": thousands, ".": decimal})) if thousands else text
    found = NumberFormat(decimal=decimal, thousands=thousands).parse([spelled])[0]
    assert found == (float(text.replace(",", "")) if len(spelled) <= 64 else pytest.approx(np.nan, nan_ok=True))


@pytest.mark.parametrize(
    ("spelling", "order"),
    [
        ("%Y-%m-%d", "ymd"),
        ("%Y/%m/%d", "ymd"),
        ("%Y-%m-%dT%H:%M:%S", "ymd"),
        ("%Y-%m-%d %H:%M:%S.%f", "ymd"),
        ("%Y-%m-%dT%H:%M:%SZ", "ymd"),
        ("%d.%m.%Y", "dmy"),
        ("%d.%m.%Y %H:%M", "dmy"),
        ("%d/%m/%Y", "dmy"),
        ("%m/%d/%Y", "mdy"),
        ("%m/%d/%Y %I:%M %p", "mdy"),
        ("%d-%m-%Y", "dmy"),
        ("%d %b %Y", "named"),
        ("%d-%b-%Y", "named"),
        ("%B %d, %Y", "named"),
    ],
)
def test_dates_are_read_as_pandas_reads_them_by_their_format(spelling: str, order: str) -> None:
    rng = np.random.default_rng(0)
    moments = pd.Series(pd.Timestamp("1965-03-02") + pd.to_timedelta(rng.integers(0, 3 * 10**9, 300), unit="s"))
    texts = moments.dt.strftime(spelling).tolist()
    found = find_date_order(texts)
    assert found == (order, False)
    expected = pd.Series(pd.to_datetime(texts, format=spelling)).dt.tz_localize(None)
    parts = parse_dates(texts, found[0])
    np.testing.assert_allclose(parts[:, 0], (expected - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1))
    np.testing.assert_array_equal(parts[:, 1], expected.dt.month)
    np.testing.assert_array_equal(parts[:, 2], expected.dt.day_of_week)
    np.testing.assert_allclose(parts[:, 3], (expected - expected.dt.normalize()) / pd.Timedelta(hours=1), atol=1e-9)


def test_an_offset_moves_the_days_and_leaves_the_hour_as_written() -> None:
    east, west, utc = parse_dates(["1970-01-02T00:30+01:00", "1970-01-01 18:30-0500", "1970-01-01T23:30Z"], "ymd")
    assert east[0] == pytest.approx(utc[0])
    assert west[0] == pytest.approx(utc[0])
    assert (east[3], west[3], utc[3]) == (0.5, 18.5, 23.5)


def test_day_and_month_are_told_apart_by_a_value_or_not_at_all() -> None:
    days = [f"{k % 12 + 1:02}/{k % 5 + 1:02}/2024" for k in range(60)]
    with pytest.raises(ValueError, match=r"no row shows whether the day or the month stands first.*--categorical"):
        one(days)
    assert one(days, categorical=["x"]).kind == "category"
    for extra, order in (("31/01/2024", "dmy"), ("01/31/2024", "mdy")):
        reading = one([*days, extra])
        assert reading.date is not None
        assert reading.date.order == order
    assert one(["31/01/2024", "01/31/2024"] * 20).kind == "category"
    with pytest.raises(ValueError, match=r"column 'x' holds dates, but '2024-13-01' in row 30"):
        one([*[f"2024-01-{k % 28 + 1:02}" for k in range(29)], "2024-13-01"])


def test_dates_of_parquet_files_are_dates(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    moments = pd.Series(pd.Timestamp("2024-01-30 12:00") + pd.to_timedelta(np.arange(200) * 7, unit="h"))
    rows = pd.DataFrame(
        {
            "naive": moments.where(np.arange(200) % 9 > 0),
            "aware": moments.dt.tz_localize("Europe/Berlin"),
            "date": moments.dt.date,
            "took": pd.to_timedelta(np.arange(200) % 50, unit="m"),
            "sick": np.arange(200) % 5 == 0,
        }
    )
    rows.to_parquet(tmp_path / "a.parquet")
    own = read_own_table(tmp_path / "a.parquet", target="sick")
    assert kinds(own.plan) == {"naive": "date", "aware": "date", "date": "date", "took": "number"}
    frame = own.features
    naive = rows["naive"].astype(str).where(rows["naive"].notna())  # pandas 2 writes "NaT"
    text = pd.DataFrame({"naive": naive, "date": rows["date"].astype(str)})
    same = read_columns(text).apply(text)
    for name in ("naive: days", "naive: hour", "date: days", "date: day of week"):
        np.testing.assert_allclose(frame[name], same[name], err_msg=name)
    np.testing.assert_allclose(frame["aware: days"] + 1 / 24, (moments - pd.Timestamp(0)) / pd.Timedelta(days=1))
    np.testing.assert_allclose(frame["aware: hour"], moments.dt.hour)
    assert frame["took"].max() == 49 * 60
    plan = ColumnPlan.from_dict(own.plan.to_dict())
    pd.testing.assert_frame_equal(plan.apply(read_table(tmp_path / "a.parquet").rows), frame)


def test_row_numbers_are_left_out_and_other_whole_numbers_are_not() -> None:
    rng = np.random.default_rng(0)
    assert one(np.arange(7, 107)).kind == "identifier"
    assert one(rng.permutation(100)).kind == "identifier"
    assert one(np.arange(100) * 5 + 10**17).kind == "identifier"
    assert one(np.arange(100)[::-1]).kind == "identifier"
    assert one(np.r_[np.arange(99), 98]).kind == "number"
    assert one(np.arange(10)).kind == "number"  # too few to say
    assert one(np.arange(100) / 10).kind == "number"
    reading = one(rng.permutation(1000)[:100])
    assert reading.kind == "number"
    assert "no value occurs twice" in reading.note
    assert one(np.arange(100), categorical=["x"]).kind == "category"


def test_one_value_with_gaps_is_not_constant() -> None:
    assert one([5.0] * 30).kind == one(["a"] * 30).kind == one(["2024-01-01"] * 30).kind == "constant"
    assert one([5.0, np.nan] * 30).kind == "number"
    assert one(["a", None] * 30).kind == "category"
    assert one(["2024-01-01", None] * 30).kind == "date"
    assert one(["?"] * 30).kind == "constant"


def test_words_for_missing_values_are_missing_among_numbers_only() -> None:
    for word in ("?", "-", "N/A", "none", "NULL", " na ", "#DIV/0!"):
        reading = one([str(k) for k in range(50)] + [word] * 30)
        assert (reading.kind, reading.missing, reading.missing_words) == ("number", 30, (word,))
    reading = one(["red", "blue", "none"] * 30)
    assert (reading.kind, reading.missing, reading.distinct) == ("category", 0, 3)
    assert one(["True", "False", "?"] * 20).kind == "bool"


@pytest.mark.parametrize(
    ("others", "codes"),
    [
        (np.linspace(20, 60, 200), [-999.0, 1e37]),
        (np.linspace(20, 60, 200), [999.0]),
        (np.linspace(0, 2000, 200), [-999.0]),
        (np.linspace(-1, 1, 200), [-999999.0, 9999.0]),
        (np.linspace(0, 1, 200), [77.0]),
        (np.linspace(0, 100, 200), []),
        (np.random.default_rng(0).lognormal(0, 3, 5000), []),
        (np.minimum(np.random.default_rng(0).lognormal(0, 3, 5000), 100), []),  # capped
        (np.random.default_rng(0).standard_cauchy(5000), []),
        (np.r_[np.zeros(200), np.arange(5)], []),
        (np.random.default_rng(0).poisson(0.2, 5000).astype(float), []),
    ],
)
def test_sentinels_are_named_and_long_tails_are_not(others: NDArray[np.float64], codes: list[float]) -> None:
    rng = np.random.default_rng(1)
    values = rng.permutation(np.concatenate([others, np.repeat(codes, 3).astype(float)]))
    found, (low, high) = find_sentinels(values)
    assert sorted(found) == sorted((code, 3) for code in codes)
    assert (low, high) == (others.min(), others.max())


def test_a_single_outlier_is_no_sentinel() -> None:
    assert find_sentinels(np.r_[np.linspace(0, 1, 100), 1e6])[0] == []


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"rows": -1},
        {"decimal": ";"},
        {"readings": [{"name": "x", "kind": "number"}]},
        {"readings": [{"name": "x", "kind": "category", "date": {"order": "ymd", "parts": ["days"]}}]},
        {"readings": [{"name": "x", "kind": "date", "date": {"order": "ydm", "parts": ["days"]}}]},
        {"readings": [{"name": "x", "kind": "date", "date": {"order": "ymd", "parts": []}}]},
        {"readings": [{"name": "x", "kind": "number", "number": {"unit": "(.*)"}}]},
        {"readings": [{"name": "x", "kind": "constant"}] * 2},
        {"readings": None},
    ],
)
def test_damaged_plans_are_refused(change: dict[str, Any]) -> None:
    state = read_columns(dirty().drop(columns="sick"), decimal=",").to_dict()
    assert ColumnPlan.from_dict(state).to_dict() == state
    with pytest.raises(ValueError, match="not a saved plan of columns, or damaged"):
        ColumnPlan.from_dict(state | change)


def test_the_parts_of_a_date_do_not_hide_a_column() -> None:
    rows = pd.DataFrame({"day": ["2024-01-31", "2024-05-01"] * 20, "day: month": [1.5, 2] * 20})
    with pytest.raises(ValueError, match="2 columns named 'day: month'"):
        read_columns(rows)


CELLS = st.one_of(
    st.floats(width=64),
    st.integers(),
    st.none(),
    st.booleans(),
    st.text(max_size=8),
    st.text("0123456789.,-+e %€/:T'\u00a0?", max_size=12),
    st.dates().map(str),
    st.datetimes().map(str),
    st.sampled_from(
        ["", "?", "inf", "-Infinity", "nan", "1e400", "9" * 70, "1,234", "31/12/2020", "12:30", "True"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=30), st.lists(CELLS, max_size=10), st.sampled_from([".", ","]))
def test_no_cell_becomes_infinite_and_only_value_errors_are_raised(
    cells: list[Any], new: list[Any], decimal: Any
) -> None:
    rows = pd.DataFrame({"x": pd.Series(cells, dtype=object)}).infer_objects()
    try:
        plan = read_columns(rows, decimal=decimal)
    except ValueError:
        return
    again = ColumnPlan.from_dict(json.loads(json.dumps(plan.to_dict())))
    pd.testing.assert_frame_equal(again.apply(rows), plan.apply(rows))
    later = pd.DataFrame({"x": pd.Series(new, dtype=object)})
    frame, problems = plan.read(later)
    assert (len(frame), len(problems)) == (len(new), len(new))
    for name in frame:
        if plan.readings[0].kind != "category":
            assert not np.isinf(frame[name].to_numpy(dtype=float, na_value=np.nan)).any()
    try:
        assert len(plan.apply(later)) == len(new)
        assert not any(problems)
    except ValueError:
        assert any(problems)


def test_the_description_says_how_each_column_was_read(tmp_path: Path) -> None:
    own = read_own_table(write_dirty(tmp_path / "a.csv"), target="sick")
    lines = describe(own)
    assert lines[0] == "a: 400 rows, separated by semicolons, decimal comma, Windows-1252"
    assert "40 positive ('1'), 360 negative ('0')" in lines[1]
    text = {line.split()[0]: line for line in lines[3:]}
    assert list(text) == [reading.name for reading in own.plan.readings]
    for name in ("row", "case", "note", "same", "nothing"):
        assert "left out" in text[name]
    assert "-999999" in text["size"]
    assert "1e+37" in text["size"]
    assert "days, month, day of week" in text["day"]
    assert "'?'" in text["age"]


def test_many_plain_columns_are_one_line() -> None:
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 30)), columns=[f"V{k}" for k in range(30)])
    rows["site"] = ["a", "b"] * 25
    lines = column_lines(read_columns(rows))
    assert len(lines) == 3
    assert "30 columns" in lines[2]
    assert "'V29'" in lines[2]


def test_a_line_break_in_a_name_makes_no_second_line() -> None:
    rows = pd.DataFrame({"one": [1.5, 2.5, 3.5] * 9, "dose\nin mg": [4.5, 5.5, 7.5] * 9})
    lines = column_lines(read_columns(rows))
    assert len(lines) == 3
    assert [len(line.splitlines()) for line in lines] == [1, 1, 1]


def test_options_for_the_dialect_are_typed_as_they_are_told(tmp_path: Path) -> None:
    options = TableOptions(target="sick", separator="tab", decimal=",", encoding="cp1252")
    assert options.command_line() == [
        *("--target", "sick", "--separator", "tab", "--decimal", ",", "--encoding", "cp1252")
    ]
    assert TableOptions(separator="\t").command_line() == ["--separator", "tab"]
    for wrong in ({"separator": ":"}, {"decimal": "x"}, {"encoding": "klingon"}):
        with pytest.raises(ValueError, match=next(iter(wrong.values()))):
            TableOptions(**wrong)  # type: ignore[arg-type]
    path = tmp_path / "a.csv"
    dirty().to_csv(path, index=False, sep="\t", decimal=",", encoding="cp1252")
    assert read_own_table(path, options).plan == read_own_table(path, target="sick").plan


def test_a_bad_cell_in_a_file_is_named_by_row_and_line(tmp_path: Path) -> None:
    path = write_dirty(tmp_path / "a.csv")
    lines = path.read_bytes().split(b"\n")
    lines[50] = lines[50].replace(b" %", b" pct")
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=r"column 'rate' holds numbers, but '\d+ pct' in row 50 \(line 51\)"):
        read_own_table(path, target="sick")
