"""Separator, decimal mark and encoding are detected, or taken as told."""

import codecs
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankreg import dialects
from rankreg.dialects import MARKS, Dialect, detect, read_decimal, read_encoding, read_separator
from rankreg.table_files import dialect_of, read_table, table_chunks


def found(text: str, encoding: str = "utf-8") -> Dialect:
    return detect(io.BytesIO(text.encode(encoding)))


def rows(count: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "größe": rng.normal(size=count).round(3),
            "k": rng.integers(0, 5000, count),
            "ort": rng.choice(["Köln", "Bonn; West", "a, b", 'so "called"', "x|y\tz"], count),
        }
    )


@pytest.mark.parametrize("separator", MARKS)
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_table_is_the_same_however_it_is_written(
    tmp_path: Path, separator: str, decimal: str, encoding: str
) -> None:
    path = tmp_path / ("a.csv.gz" if encoding == "cp1252" else "a.csv")
    rows().to_csv(path, index=False, sep=separator, decimal=decimal, encoding=encoding)
    known = decimal if (separator, decimal) == (",", ",") else None  # quoted: only the columns show it
    read = read_table(path, decimal=known)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(read.rows, rows())
    assert read.dialect is not None
    expected = "utf-8-sig" if encoding == "utf-8" else encoding
    assert (read.dialect.separator, read.dialect.decimal) == (separator, decimal)
    assert read.dialect.encoding == expected
    chunks = list(table_chunks(path, rows=70, decimal=known))  # type: ignore[arg-type]
    assert [chunk.dialect for chunk in chunks] == [read.dialect] * 5
    pd.testing.assert_frame_equal(pd.concat([chunk.rows for chunk in chunks]), rows())


def test_what_is_given_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a;b\n1,5;ä\n".encode("latin-1"))
    given_all = dialect_of(path, separator="|", decimal=".", encoding="latin-1")
    assert given_all == Dialect(separator="|", decimal=".", encoding="latin-1")
    assert dialect_of(path) == Dialect(separator=";", decimal=",", encoding="cp1252")
    read = read_table(path, decimal=".")
    assert read.rows["a"].tolist() == ["1,5"]


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("a,b\n1,2\n", ",", "."),
        ("a;b;c\n1,5;2,5;3,5\n", ";", ","),
        ("1,5;2,5;3,5\n7,5;2,5;3,5\n", ";", ","),  # no header: commas cut evenly too, into four
        ("x;y,1,2\nz;u,3,4\n", ",", "."),
        ("a\tb\n1,234\t5\n", "\t", "."),  # thousands
        ("a;b\n1,234;5\n", ";", ","),
        ("a\tb\n1,234\t0,5\n", "\t", ","),
        ("a|b\n1.5|2.5\n", "|", "."),
        ('"a;b","c"\n"1;2","3"\n', ",", "."),
        ('"two\nlines";b\n1;2\n', ";", "."),
        ("only\n1\n2\n", ",", "."),
        ("a;b\n1;2\n1;2;3\n", ";", "."),
        ("name;note\nx;a, b, c\ny;d\nz;e, f\n", ";", "."),
        ("", ",", "."),
    ],
)
def test_marks_are_found(text: str, separator: str, decimal: str) -> None:
    dialect = found(text)
    assert (dialect.separator, dialect.decimal) == (separator, decimal)


def test_an_umlaut_in_the_last_line_decides_the_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "LARGEST_SAMPLE", 64)
    monkeypatch.setattr(dialects, "BLOCK", 7)
    text = "name,x\n" + "plain,1\n" * 100 + "Müller,2\n"
    assert found(text, "cp1252").encoding == "cp1252"
    assert found(text).encoding == "utf-8-sig"
    assert found("\n".join(["ä,1"] * 100)).encoding == "utf-8-sig"


def test_the_marks_of_a_wide_table_are_found_beyond_its_header() -> None:
    names = ";".join(f"column_{k}" for k in range(20_000))
    numbers = ";".join(["1,5"] * 20_000)
    assert found(f"{names}\n{numbers}\n{numbers}\n") == Dialect(separator=";", decimal=",")


def test_utf_8_with_one_damaged_byte_stays_utf_8_and_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("ort,x\nKöln,1\nBonn,2\n".encode().replace(b"Bonn", b"B\xfcnn"))
    with pytest.raises(ValueError, match=r"is not a table in CSV: .*--encoding"):
        read_table(path)
    path.write_bytes(b"a,b\n1,\x002\xff\n")
    with pytest.raises(ValueError, match="is not a table in CSV"):
        read_table(path)


def test_lines_are_counted_in_every_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a;b\n1;"x\ny"\n\n2\n3;ä\n', encoding="utf-16")
    (chunk,) = table_chunks(path)
    assert dict(chunk.faults) == {1: "1 field instead of 2"}
    assert [chunk.name_row(row) for row in range(3)] == ["row 1 (line 2)", "row 2 (line 5)", "row 3 (line 6)"]


def test_what_the_user_may_spell() -> None:
    assert [read_separator(text) for text in ("tab", "\\t", "\t", ";", "|", ",")] == [
        "\t",
        "\t",
        "\t",
        ";",
        "|",
        ",",
    ]
    assert read_encoding("UTF8") == read_encoding("utf-8-sig") == "utf-8-sig"
    assert codecs.lookup(read_encoding("Latin1")) == codecs.lookup("iso-8859-1")
    for read, text in (
        (read_separator, ":"),
        (read_decimal, ";"),
        (read_encoding, "utf-9"),
        (read_encoding, "hex"),
    ):
        with pytest.raises(ValueError, match=text):
            read(text)


@given(st.binary(max_size=200))
def test_any_bytes_have_a_dialect(content: bytes) -> None:
    dialect = detect(io.BytesIO(content))
    assert dialect.separator in MARKS
    assert detect(io.BytesIO(content)) == dialect
