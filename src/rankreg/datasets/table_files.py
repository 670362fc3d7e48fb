"""Tables on disk, whole or a chunk at a time."""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path

import pandas as pd

PARQUET = (".parquet", ".pq")
CHUNK = 50_000  # rows
COMPRESSED = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2", ".zip": "zip", ".zst": "Zstandard", ".tar": "tar"}
# What the standard library raises; of RuntimeError it is an encrypted zip file.
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, RuntimeError)


def read_table(path: Path | str, *, header: bool = True, text: Collection[str] = ()) -> pd.DataFrame:
    """The whole table; the columns in `text` are not taken for numbers."""
    return pd.concat(list(table_chunks(path, header=header, text=text, rows=None)))


def table_chunks(
    path: Path | str, *, header: bool = True, text: Collection[str] = (), rows: int | None = CHUNK
) -> Iterator[pd.DataFrame]:
    """The table, so many rows at a time, numbered from 0."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no table at {path}")
    if path.suffix.lower() in PARQUET:
        yield from _parquet_chunks(path, rows)
        return
    try:
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
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a table in CSV: {error}") from error
    except ImportError as error:  # pandas reads .zst with a package of its own
        raise ValueError(f"reading {path.name} needs another package ({error}), or unpack the file") from error
    except (*DAMAGE, OSError) as error:
        if _is_of_the_system(error):
            raise
        kind = COMPRESSED.get(path.suffix.lower(), "CSV")
        raise ValueError(f"{path} is truncated or not a {kind} file: {_first_line(error)}") from error


def _is_of_the_system(error: BaseException) -> bool:
    """A disk that fails has a number; bzip2, gzip and Arrow raise OSErrors without one for bad content."""
    return isinstance(error, OSError) and error.errno is not None


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _check_shape(rows: pd.DataFrame, path: Path) -> None:
    if not isinstance(rows.index, pd.RangeIndex):  # pandas would take the first column for row names
        raise ValueError(f"{path}: lines have more fields than the first line")
    if rows.shape[1] == 1 and any(mark in str(rows.columns[0]) for mark in ";\t|"):
        raise ValueError(f"{path}: the columns are not separated by commas, the first line is {rows.columns[0]!r}")


def _with_text_names(rows: pd.DataFrame) -> pd.DataFrame:
    rows.columns = rows.columns.map(str)
    return rows


def _parquet_chunks(path: Path, rows: int | None) -> Iterator[pd.DataFrame]:
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError(f"reading {path.name} needs pyarrow: pip install 'rankreg[parquet]'") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            if rows is None:
                yield _with_text_names(file.read().to_pandas(ignore_metadata=True))
                return
            start = 0
            for batch in file.iter_batches(rows):
                chunk = _with_text_names(batch.to_pandas(ignore_metadata=True))
                chunk.index = pd.RangeIndex(start, start + len(chunk))
                start += len(chunk)
                yield chunk
    except (pyarrow.lib.ArrowException, OSError) as error:
        if _is_of_the_system(error):
            raise
        raise ValueError(f"{path} is truncated or not a Parquet file: {_first_line(error)}") from error
