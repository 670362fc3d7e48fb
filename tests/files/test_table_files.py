"""Damaged table files are named in words, whatever packed them."""

import errno
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankreg.table_files import read_table, table_chunks

SUFFIXES = {".csv.gz": "gzip", ".csv.xz": "xz", ".csv.bz2": "bzip2", ".csv.zip": "zip", ".csv.tar": "tar"}


def foreign(_: bytes) -> bytes:
    return b"nothing of the kind\n" * 100


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def blotted(content: bytes) -> bytes:
    """Zeros instead of some bytes in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes(500) + content[middle + 500 :]


def rows() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(2000, 3)), columns=["a", "b", "c"])


@pytest.mark.parametrize("damage", [half, blotted, foreign])
@pytest.mark.parametrize("suffix", [suffix for suffix in SUFFIXES if suffix != ".csv.tar"])
def test_a_damaged_compressed_table_is_named(tmp_path: Path, suffix: str, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"a{suffix}"
    rows().to_csv(path, index=False)
    path.write_bytes(damage(path.read_bytes()))
    message = rf"a{suffix} is truncated or not a {SUFFIXES[suffix]} file: \w"
    with pytest.raises(ValueError, match=message):
        read_table(path)
    with pytest.raises(ValueError, match=message):
        list(table_chunks(path, rows=10))


@pytest.mark.parametrize("damage", [half, foreign])
def test_a_damaged_tar_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.csv.tar"
    rows().to_csv(path, index=False)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="is truncated or not a tar file"):
        read_table(path)


def test_an_encrypted_zip_file_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a.csv", "a,b\n1,2\n")
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the local header's flag
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and the directory's
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="password"):
        read_table(path)


def test_a_missing_unpacker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a.csv.zst").write_bytes(b"(\xb5/\xfd")
    with pytest.raises(ValueError, match=r"a\.csv\.zst needs another package .*zstandard"):
        read_table(tmp_path / "a.csv.zst")


@pytest.mark.parametrize("damage", [half, blotted, foreign])
def test_a_damaged_parquet_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": np.arange(500).astype(str)}).to_parquet(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.parquet is truncated or not a Parquet file: \w"):
        read_table(path)
    with pytest.raises(ValueError, match=r"a\.parquet is truncated or not a Parquet file: \w"):
        list(table_chunks(path, rows=10))


def test_a_failing_disk_is_not_taken_for_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")

    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(pd, "read_csv", failing)
    with pytest.raises(OSError, match="Input/output error") as raised:
        read_table(tmp_path / "a.csv")
    assert raised.value.errno == errno.EIO


def test_a_table_that_is_read_in_parts_is_what_pandas_reads_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a column is numbers in one part, and text, gaps or other numbers in the next."""
    monkeypatch.setattr("rankreg.table_files.CHUNK", 7)
    number = np.arange(40)
    table = pd.DataFrame(
        {
            "whole": number,
            "real": np.random.default_rng(0).normal(size=40),
            "text later": [str(k) if k < 20 else "x" for k in number],
            "gaps first": [""] * 20 + ["a"] * 20,
            "gaps later": ["3"] * 30 + [""] * 10,
        }
    )
    path = tmp_path / "table.csv"
    table.to_csv(path, index=False)
    pd.testing.assert_frame_equal(read_table(path).rows, pd.read_csv(path, low_memory=False))
