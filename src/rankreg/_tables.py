"""Tables on disk, of whatever origin: what is wrong with a file's content is a ValueError that names the file."""

import errno
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from rankreg._untrusted import check_regular

PARQUET = (".parquet", ".pq")
COMPRESSED = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2", ".zip": "zip", ".zst": "Zstandard", ".tar": "tar"}
# What the standard library raises; of RuntimeError it is an encrypted zip file or an unknown way of packing.
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, RuntimeError, OverflowError)


def is_parquet(path: Path) -> bool:
    """By its name."""
    return path.suffix.lower() in PARQUET


@contextmanager
def readable_csv(path: Path) -> Iterator[None]:
    """Inside, a CSV file is read, perhaps a compressed one; a disk that fails stays an OSError."""
    check_regular(path)
    try:
        yield
    except (
        pd.errors.ParserError,
        pd.errors.ParserWarning,
        pd.errors.EmptyDataError,
        UnicodeDecodeError,
    ) as error:
        raise ValueError(f"{path} is not a table in CSV: {_first_line(error)}") from error
    except ImportError as error:  # pandas reads .zst with a package of its own
        raise ValueError(f"reading {path.name} needs another package ({error}), or unpack the file") from error
    except (*DAMAGE, OSError) as error:
        if is_of_the_system(error):
            raise
        kind = COMPRESSED.get(path.suffix.lower(), "CSV")
        raise ValueError(f"{path} is truncated or not a {kind} file: {_first_line(error)}") from error


@contextmanager
def parquet_file(path: Path, needed: Collection[str] | None = None) -> Iterator[Any]:
    """The file, opened by pyarrow; `needed` columns, or all, must hold one value a row."""
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError(f"reading {path.name} needs pyarrow: pip install 'rankreg[parquet]'") from error
    check_regular(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for column in file.schema_arrow:
                if (needed is None or column.name in needed) and pyarrow.types.is_nested(column.type):
                    raise ValueError(
                        f"{path}: column {column.name!r} holds lists or records ({column.type!s:.80}), not one"
                        " value a row: take it apart or leave it out"
                    )
            yield file
    except (pyarrow.lib.ArrowException, OSError) as error:
        if is_of_the_system(error):
            raise
        raise ValueError(f"{path} is truncated or not a Parquet file: {_first_line(error)}") from error


def parquet_names(path: Path) -> list[str]:
    """The names of the columns."""
    with parquet_file(path, needed=()) as file:
        return list(file.schema_arrow.names)


def parquet_columns(path: Path, names: Collection[str]) -> pd.DataFrame:
    """These columns; a note of pandas that one of them was an index is not heeded."""
    with parquet_file(path, names) as file:
        return as_frame(file.read(list(names)))


def as_frame(rows: Any) -> pd.DataFrame:
    """Arrow's rows for pandas; text that is none is found here, where it can be said whose it is."""
    rows.validate(full=True)
    frame: pd.DataFrame = rows.to_pandas(ignore_metadata=True)
    return frame


def is_of_the_system(error: BaseException) -> bool:
    """A disk that fails has a number. Bad content makes bzip2, gzip and Arrow raise OSErrors without one, and a zip
    file that was cut sends its reader to a place before the start (EINVAL)."""
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
