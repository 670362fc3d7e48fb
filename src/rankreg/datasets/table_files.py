"""Tables on disk, whole or a chunk at a time."""

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path

import pandas as pd

from rankreg._tables import as_frame, is_parquet, parquet_file, readable_csv

CHUNK = 50_000  # rows


def read_table(path: Path | str, *, header: bool = True, text: Collection[str] = ()) -> pd.DataFrame:
    """The whole table; the columns in `text` are not taken for numbers."""
    return pd.concat(list(table_chunks(path, header=header, text=text, rows=None)))


def table_chunks(
    path: Path | str,
    *,
    header: bool = True,
    text: Collection[str] = (),
    rows: int | None = CHUNK,
    needed: Collection[str] | None = None,
) -> Iterator[pd.DataFrame]:
    """The table, so many rows at a time, numbered from 0; `needed` columns, or all, hold one value a row."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no table at {path}")
    if is_parquet(path):
        yield from _parquet_chunks(path, rows, needed)
        return
    with readable_csv(path):
        chunks = pd.read_csv(
            path,
            header=0 if header else None,
            sep="\t" if ".tsv" in path.suffixes else ",",
            dtype={name if header else int(name): str for name in text if header or name.isdigit()},
            chunksize=rows,
            low_memory=False,
        )
        with nullcontext([chunks]) if isinstance(chunks, pd.DataFrame) else chunks as found:  # closed if abandoned
            for chunk in found:
                _check_shape(chunk, path)
                yield _with_text_names(chunk)


def _check_shape(rows: pd.DataFrame, path: Path) -> None:
    if not isinstance(rows.index, pd.RangeIndex):  # pandas would take the first column for row names
        raise ValueError(f"{path}: lines have more fields than the first line")
    if rows.shape[1] == 1 and any(mark in str(rows.columns[0]) for mark in ";\t|"):
        raise ValueError(f"{path}: the columns are not separated by commas, the first line is {rows.columns[0]!r}")


def _with_text_names(rows: pd.DataFrame) -> pd.DataFrame:
    rows.columns = rows.columns.map(str)
    return rows


def _parquet_chunks(path: Path, rows: int | None, needed: Collection[str] | None) -> Iterator[pd.DataFrame]:
    with parquet_file(path, needed) as file:
        if rows is None:
            yield _with_text_names(as_frame(file.read()))
            return
        start = 0
        for batch in file.iter_batches(rows):
            chunk = _with_text_names(as_frame(batch))
            chunk.index = pd.RangeIndex(start, start + len(chunk))
            start += len(chunk)
            yield chunk
