"""CSV files before pandas sees them: fields, names and lines are counted, and nothing else changes."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankreg import table_files
from rankreg.bundle.storage import save_bundle
from rankreg.models import MLPShape, build_model
from rankreg.table_files import opened, table_chunks
from tests.bundle.test_storage import contents
from tests.conftest import Run
from tests.own_data import write_table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_of_one_name_are_refused_by_every_command(run: Run, suffix: str) -> None:
    rows = pd.read_csv(write_table(Path("data.csv")))
    shape = MLPShape(classes=2, features=3, head="score")
    save_bundle(Path("out"), build_model(shape), **contents(model=shape))
    twice = pd.concat([rows, rows[["weight"]]], axis=1)
    path = f"twice{suffix}"
    if suffix == ".csv":
        twice.to_csv(path, index=False)
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = [arrow.array(twice.iloc[:, k]) for k in range(twice.shape[1])]
        parquet.write_table(arrow.Table.from_arrays(columns, names=list(twice.columns)), path)
    desk = ("--label", "sick", "--score", "size")
    options = ("--target", "sick", "--drop", "name", "--out", "new")
    for command in (
        ("fit", path, *options),
        ("tune", path, *options, "--trials", "1"),
        ("predict", "out", path, "--out", "scores.csv"),
        ("evaluate", "out", path),
        ("certify", path, *desk),
        ("compare", path, path, *desk),
        ("monitor", path, *desk, "--threshold", "0"),
        ("recertify", path, *desk, "--threshold", "0"),
        ("report", path, *desk, "--out", "report.html"),
    ):
        status, out, error = run(*command)
        assert (status, out) == (2, ""), command
        assert "2 columns named 'weight'" in error


def test_lines_are_counted_over_blank_lines_and_quoted_breaks(tmp_path: Path) -> None:
    text = 'a,b\n1,2\n\n3\n4,5,6\n"x\ny",7\n8,9\n5" pipe,1\n"5"" pipe, long",2\n'
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(text.replace("\n", "\r\n").encode("utf-8-sig")))
    (chunk,) = table_chunks(path)
    assert chunk.rows["a"].tolist() == ["1", "3", "4", "x\r\ny", "8", '5" pipe', '5" pipe, long']
    assert dict(chunk.faults) == {1: "1 field instead of 2", 2: "3 fields instead of 2"}
    names = [chunk.name_row(row) for row in range(7)]
    lines = (2, 4, 5, 6, 8, 9, 10)
    assert names == [f"row {row} (line {line})" for row, line in enumerate(lines, start=1)]


@given(
    st.lists(st.sampled_from(["a", "1", ",", ",", '"', "\n", "\n", "\r", "\r\n", " ", "é"]), max_size=50),
    st.sampled_from([3, 7, 20, 1 << 16]),
)
def test_rows_are_counted_as_pandas_counts_them(pieces: list[str], block: int) -> None:
    """Whatever the text and wherever blocks end; fields and lines are those of the csv module."""
    text = "x,y\n1,2\n3,4\n" + "".join(pieces)
    reader = csv.reader(io.StringIO(text, newline=""))
    expected, before = [], 0
    for fields in reader:
        line, before = before + 1, reader.line_num
        if fields and (len(fields) > 1 or fields[0].strip()):  # not blank
            expected.append((len(fields), line))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "BLOCK", block)
        try:
            records = table_files.Records(io.StringIO(text, newline=""), "a.csv")
            found = pd.read_csv(records, dtype=str, keep_default_na=False)
        except (pd.errors.ParserError, ValueError):
            return  # refused
    assert len(found) == records.rows
    if '"' not in text:
        assert [records.row_words(row) for row in range(records.rows)] == [
            f"row {row} (line {line})" for row, (_, line) in enumerate(expected[1:], start=1)
        ]
        assert records.faults == {row: n for row, (n, _) in enumerate(expected[1:]) if n != 2}


@pytest.mark.parametrize("quoting", [0, 2])
def test_what_pandas_reads_is_what_it_read_before(tmp_path: Path, quoting: Any) -> None:
    """Over several blocks, with texts that hold separators, breaks and quotation marks."""
    rng = np.random.default_rng(0)
    words = np.array(["plain", "a, b", 'so "called"', "two\nlines", "naïve ☂", ""])
    rows = pd.DataFrame({"x": rng.normal(size=9000), "t": rng.choice(words, 9000), "k": rng.integers(0, 9, 9000)})
    rows.to_csv(tmp_path / "a.csv", index=False, quoting=quoting)
    with opened(tmp_path / "a.csv") as records:
        found = pd.read_csv(records)
    pd.testing.assert_frame_equal(found, pd.read_csv(tmp_path / "a.csv"))
    assert (records.rows, records.faults) == (9000, {})
    breaks = np.cumsum(rows.t.str.count("\n"))
    for row in (0, 1, 4000, 8999):
        assert records.row_words(row) == f"row {row + 1:,} (line {row + 2 + (breaks[row - 1] if row else 0):,})"
