"""Tables on disk, CSV or Parquet, of any origin. A fault of the content is a ValueError that names the file."""

import csv
import errno
import io
import lzma
import tarfile
import zipfile
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, TypedDict, Unpack

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from rankreg.dialects import MARKS, UTF8, Decimal, Dialect, Separator, detect
from rankreg.names import did_you_mean
from rankreg.pool import return_freed_memory
from rankreg.safe_files import check_regular

BLOCK = 1 << 16  # characters
MANY = 1000  # rows with faults: more than that, and more than half of all, means that the first line is the odd one
END = "end of the block"
CHUNK = 50_000  # rows
PARQUET = (".parquet", ".pq")
COMPRESSED = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2", ".zip": "zip", ".zst": "Zstandard", ".tar": "tar"}
# What the standard library raises; of RuntimeError it is an encrypted zip file or an unknown way of packing.
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, RuntimeError, OverflowError)


def row_words(row: int, line: int | None = None) -> str:
    """What every message calls a row: data rows count from 1, lines of the file too. `row` itself counts from 0."""
    return f"row {row + 1:,}" if line is None else f"row {row + 1:,} (line {line:,})"


def refuse_same_names(names: Sequence[str], what: str) -> None:
    """Two columns of one name: any choice between them would be a guess."""
    twice = [(name, count) for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        name, count = twice[0]
        raise ValueError(f"{what} has {count} columns named {name!r}: rename all but one")


def check_columns(wanted: Iterable[str], header: Iterable[Any], what: str) -> None:
    """Every wanted column is there; otherwise a ValueError names all that are missing and the nearest name."""
    there = [str(name) for name in header]
    missing = [name for name in wanted if name not in there]
    if missing:
        hint = next(filter(None, (did_you_mean(name, there) for name in missing)), "")
        names = ", ".join(map(repr, missing))
        raise ValueError(f"{what} has no column {names}: {hint}it has {', '.join(map(repr, there[:20]))}")


Record = tuple[str, list[str], int]  # its text, its fields, its first line


class Records(io.TextIOBase):
    """A CSV text as a file for pandas, in which no record has more fields than the first.

    pandas pads short records without a word, and gives up the file at a long one. Here long records are cut, and
    `faults` has the number of fields of short and long ones by row, counted from 0. Blank lines are left out.
    """

    def __init__(self, text: TextIO, what: str, *, separator: str = ",", header: bool = True) -> None:
        self.what, self.separator = what, separator
        self.faults: dict[int, int] = {}
        self.rows = 0
        self._text, self._line = text, 0
        self._jumps: list[tuple[int, int]] = []  # from that row on, its line less the row
        first = next(self._records(iter(text.readline, "")), None)
        self.names: list[str] = [] if first is None else first[1]
        self.width = len(self.names)
        if header:
            refuse_same_names(self.names, what)
        self._texts = self._good(first, header)

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> str:
        """Some whole records, whatever the size asked for; "" at the end."""
        return "".join(self._texts) if size is None or size < 0 else next(self._texts, "")

    def row_words(self, row: int) -> str:
        """The row, counted from 1, and its line in the file."""
        place = bisect_right(self._jumps, row, key=lambda jump: jump[0]) - 1
        return row_words(row, row + self._jumps[place][1] if place >= 0 else None)

    def fault_words(self, row: int) -> str:
        """What is wrong with the number of fields of that row, or ""."""
        found = self.faults.get(row)
        return "" if found is None else f"{found} field{'s' if found > 1 else ''} instead of {self.width}"

    def refuse_faults(self) -> None:
        """For readers that need every row."""
        if self.faults:
            first = next(iter(self.faults))
            others = f" ({len(self.faults):,} rows differ from the first line)" if len(self.faults) > 1 else ""
            raise ValueError(
                f"{self.what}: {self.row_words(first)} has {self.fault_words(first)}{others}. The file may be"
                " cut: mend or remove such lines"
            )

    def _good(self, first: Record | None, header: bool) -> Iterator[str]:
        """The text, some records at a time, none of them too long; faults are noted on the way."""
        if first is not None:
            yield first[0] if header else self._noted(*first)
        while block := self._text.read(BLOCK):
            block += self._text.readline()
            if count := self._even_rows(block):
                self._note_line(self._line + 1)
                self.rows, self._line = self.rows + count, self._line + count
                yield block
            elif texts := "".join(self._noted(*record) for record in self._records(io.StringIO(block, newline=""))):
                yield texts
        if len(self.faults) > self.rows / 2:
            self.refuse_faults()

    def _noted(self, text: str, fields: list[str], line: int) -> str:
        """The record, cut to the width."""
        self._note_line(line)
        if len(fields) != self.width:
            self.faults[self.rows] = len(fields)
            if len(self.faults) > max(MANY, self.rows / 2):
                self.refuse_faults()
            if len(fields) > self.width:
                cut = io.StringIO()
                writer = csv.writer(cut, delimiter=self.separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
                writer.writerow(fields[: self.width])
                text = cut.getvalue()
        self.rows += 1
        return text

    def _note_line(self, line: int) -> None:
        if not self._jumps or self._jumps[-1][1] != line - self.rows:
            self._jumps.append((self.rows, line - self.rows))

    def _even_rows(self, block: str) -> int:
        """The number of records if each is a line of the right width; else 0."""
        lines = block.count("\n") + (not block.endswith("\n"))
        if self.width < 2 or ord(self.separator) > 127 or block.count("\r") != block.count("\r\n"):
            return 0
        if '"' in block:
            try:
                records = list(csv.reader(chain(io.StringIO(block, newline=""), [END]), delimiter=self.separator))
            except csv.Error:  # said later, with its line
                return 0
            whole = len(records) == lines + 1 and records.pop() == [END]  # else a quotation mark is open
            return lines if whole and all(len(record) == self.width for record in records) else 0
        content = np.frombuffer(block.encode(), dtype=np.uint8)
        ends = np.flatnonzero(content == ord("\n"))
        marks = np.flatnonzero(content == ord(self.separator))
        if len(marks) != lines * (self.width - 1):
            return 0
        ends = ends if len(ends) == lines else np.append(ends, len(content))
        by_line = marks.reshape(lines, self.width - 1)
        return lines if (by_line[:, -1] < ends).all() and (by_line[1:, 0] > ends[:-1]).all() else 0

    def _records(self, lines: Iterator[str]) -> Iterator[Record]:
        """Each record that is not blank. One with quotation marks may go on over several lines."""
        for first in lines:
            taken: list[str] = []
            reader = csv.reader(self._taking(first, lines, taken), delimiter=self.separator)
            try:
                fields = next(reader)
            except csv.Error as error:
                line = self._line + len(taken)
                raise ValueError(f"{self.what} is not a table in CSV: line {line:,}: {error}") from error
            text, line = "".join(taken), self._line + 1
            self._line += len(taken)
            if len(fields) > 1 or text.strip():
                yield text, fields, line

    def _taking(self, first: str, lines: Iterator[str], taken: list[str]) -> Iterator[str]:
        for line in chain([first], lines, iter(self._text.readline, "")):
            taken.append(line)
            yield line


@contextmanager
def opened(path: Path, *, separator: str = ",", header: bool = True, encoding: str = UTF8) -> Iterator[Records]:
    """The records of a CSV file, also of a compressed one."""
    from pandas.io.common import get_handle  # type: ignore[import-not-found]

    with get_handle(path, "r", encoding=encoding, compression="infer") as handles:
        yield Records(handles.handle, str(path), separator=separator, header=header)


class Known(TypedDict, total=False):
    """What the user says about the way a CSV file is written; the rest is detected."""

    separator: Separator | None
    decimal: Decimal | None
    encoding: str | None


def dialect_of(path: Path, **known: Unpack[Known]) -> Dialect:
    """How a CSV file is written, also a compressed one."""
    from pandas.io.common import get_handle

    otherwise: Separator = "\t" if ".tsv" in path.suffixes else ","
    with readable_csv(path), get_handle(path, "rb", compression="infer", is_text=False) as handles:
        return detect(handles.handle, otherwise=otherwise, **known)


def is_parquet(path: Path) -> bool:
    """By its name."""
    return path.suffix.lower() in PARQUET


@contextmanager
def readable_csv(path: Path, *, encoding: str | None = None) -> Iterator[None]:
    """Inside, a CSV file is read, perhaps a compressed one; a disk that fails stays an OSError.

    encoding: the one that was tried, if the user may choose another.
    """
    check_regular(path)
    try:
        yield
    except (
        pd.errors.ParserError,
        pd.errors.ParserWarning,
        pd.errors.EmptyDataError,
        UnicodeDecodeError,
    ) as error:
        if isinstance(error, pd.errors.EmptyDataError):
            raise ValueError(f"{path} is not a table in CSV: it is empty") from error
        hint = ""
        if isinstance(error, UnicodeDecodeError):
            hint = ". Save it as CSV in UTF-8"
            if encoding is not None:
                hint = ". If it is a text in another encoding, name it with --encoding"
        raise ValueError(f"{path} is not a table in CSV: {_first_line(error)}{hint}") from error
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
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:  # else all of it is in memory
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
    """The names of the columns; two of one name are refused."""
    with parquet_file(path, needed=()) as file:
        names = list(file.schema_arrow.names)
    refuse_same_names(names, str(path))
    return names


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


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table, whose index counts from 0 over the whole file.

    faults: what is wrong with rows that have too few or too many fields, by index. name_row: what to call a row.
    dialect: how the file is written; None for Parquet.
    """

    rows: pd.DataFrame
    faults: Mapping[int, str] = field(default_factory=dict)
    name_row: Callable[[int], str] = row_words
    dialect: Dialect | None = None


def read_table(
    path: Path | str, *, header: bool = True, text: Collection[str] = (), **known: Unpack[Known]
) -> TableRows:
    """The whole table, every row with as many fields as the first; columns in `text` are not taken for numbers."""
    (whole,) = table_chunks(path, header=header, text=text, rows=None, **known)
    return whole


def table_chunks(
    path: Path | str,
    *,
    header: bool = True,
    text: Collection[str] = (),
    rows: int | None = CHUNK,
    needed: Collection[str] | None = None,
    **known: Unpack[Known],
) -> Iterator[TableRows]:
    """The table, so many rows at a time; rows of the wrong length are among them, padded or cut, and named.

    rows=None: all in one frame, and then such rows are refused; a column that is text in a part of the file is text
    in all of it. Parts are read and joined, because pandas takes three times the memory for a whole file.
    needed: the columns that must hold one value a row, by default all.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no table at {path}")
    if is_parquet(path):
        yield from _parquet_chunks(path, rows, needed)
        return
    dialect = dialect_of(path, **known)
    mark, encoding = dialect.separator, dialect.encoding
    mixed: list[str] = []
    with (
        readable_csv(path, encoding=encoding),
        opened(path, separator=mark, header=header, encoding=encoding) as records,
    ):
        if len(records.names) == 1 and any(other in records.names[0] for other in MARKS):
            raise ValueError(
                f"{path}: the columns are not separated by {mark!r}, the first line is {records.names[0]!r:.80}"
            )
        chunks = pd.read_csv(
            records,
            header=0 if header else None,
            sep=mark,
            decimal=dialect.decimal,
            dtype={name if header else int(name): str for name in text if header or name.isdigit()},
            chunksize=CHUNK if rows is None else rows,
            low_memory=False,
        )
        found: Iterable[pd.DataFrame]
        with chunks as found:  # closed if abandoned
            count = 0
            if rows is None:
                frames = list(found)
                records.refuse_faults()
                mixed = _mixed(frames)
                found = [] if mixed else [_joined(frames)]
            for chunk in found:
                count += len(chunk)
                faults = {row: records.fault_words(row) for row in records.faults if row in chunk.index}
                yield TableRows(_with_text_names(chunk), faults, records.row_words, dialect)
            if count != records.rows and not mixed:  # then faults would be named at the wrong rows
                raise ValueError(f"{path} is not a table in CSV: its lines cannot be told apart")
    if mixed:
        del frames
        yield from table_chunks(path, header=header, text=[*text, *mixed], rows=None, **known)


def _mixed(frames: Sequence[pd.DataFrame]) -> list[str]:
    """Columns that are numbers in some parts of a file and text in others."""
    kinds = [[is_numeric_dtype(kind) + is_bool_dtype(kind) for kind in frame.dtypes] for frame in frames]
    by_column = zip(frames[0].columns, zip(*kinds, strict=True), strict=True)
    return [str(name) for name, own in by_column if len(set(own)) > 1]


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The parts as one frame; every column leaves its parts before the next one is joined."""
    if len(frames) == 1:
        return frames[0]
    columns = {}
    for name in list(frames[0].columns):
        columns[name] = pd.concat([frame.pop(name) for frame in frames], ignore_index=True)
        return_freed_memory()
    return pd.DataFrame(columns, copy=False)


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
