"""Tables on disk, whole or a chunk at a time."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from rankreg._csv import opened, refuse_same_names, row_words
from rankreg._tables import as_frame, is_parquet, parquet_file, readable_csv

CHUNK = 50_000  # rows


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table, whose index counts from 0 over the whole file.

    faults: what is wrong with rows that have too few or too many fields, by index. name_row: what to call a row.
    """

    rows: pd.DataFrame
    faults: Mapping[int, str] = field(default_factory=dict)
    name_row: Callable[[int], str] = row_words


def read_table(path: Path | str, *, header: bool = True, text: Collection[str] = ()) -> TableRows:
    """The whole table, every row with as many fields as the first; columns in `text` are not taken for numbers."""
    (whole,) = table_chunks(path, header=header, text=text, rows=None)
    return whole


def table_chunks(
    path: Path | str,
    *,
    header: bool = True,
    text: Collection[str] = (),
    rows: int | None = CHUNK,
    needed: Collection[str] | None = None,
) -> Iterator[TableRows]:
    """The table, so many rows at a time; rows of the wrong length are among them, padded or cut, and named.

    rows=None: all at once, and then such rows are refused. needed: the columns that must hold one value a row, by
    default all.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no table at {path}")
    if is_parquet(path):
        yield from _parquet_chunks(path, rows, needed)
        return
    separator = "\t" if ".tsv" in path.suffixes else ","
    with readable_csv(path), opened(path, separator=separator, header=header) as records:
        _check_separator(records.names, path)
        chunks = pd.read_csv(
            records,
            header=0 if header else None,
            sep=separator,
            dtype={name if header else int(name): str for name in text if header or name.isdigit()},
            chunksize=rows,
            low_memory=False,
        )
        with nullcontext([chunks]) if isinstance(chunks, pd.DataFrame) else chunks as found:  # closed if abandoned
            count = 0
            for chunk in found:
                if rows is None:
                    records.refuse_faults()
                count += len(chunk)
                faults = {row: records.fault_words(row) for row in records.faults if row in chunk.index}
                yield TableRows(_with_text_names(chunk), faults, records.row_words)
            if count != records.rows:  # then faults would be named at the wrong rows
                raise ValueError(f"{path} is not a table in CSV: its lines cannot be told apart")


def _check_separator(names: list[str], path: Path) -> None:
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise ValueError(f"{path}: the columns are not separated by commas, the first line is {names[0]!r}")


def _with_text_names(rows: pd.DataFrame) -> pd.DataFrame:
    rows.columns = rows.columns.map(str)
    return rows


def _parquet_chunks(path: Path, rows: int | None, needed: Collection[str] | None) -> Iterator[TableRows]:
    with parquet_file(path, needed) as file:
        refuse_same_names(file.schema_arrow.names, str(path))
        if rows is None:
            yield TableRows(_with_text_names(as_frame(file.read())))
            return
        start = 0
        for batch in file.iter_batches(rows):
            chunk = _with_text_names(as_frame(batch))
            chunk.index = pd.RangeIndex(start, start + len(chunk))
            start += len(chunk)
            yield TableRows(chunk)
