"""How a CSV file is written: separator, decimal mark and encoding, as told or as the file shows."""

import codecs
import csv
import io
import re
from itertools import islice
from typing import BinaryIO, Literal, get_args

from pydantic import BaseModel, ConfigDict

Separator = Literal[",", ";", "\t", "|"]
Decimal = Literal[".", ","]

BLOCK = 1 << 16  # bytes read at once
LARGEST_SAMPLE = 1 << 21  # bytes at the start of a file that show its separator and decimal mark
LINES = 20  # of the sample at least, unless they are very long
RECORDS = 100  # of the sample that are looked at
MARKS: tuple[Separator, ...] = get_args(Separator)
NAMES: dict[str, Separator] = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
WORDS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
UTF8 = "utf-8-sig"  # reads files with and without a byte order mark
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
DECIMAL_POINT = re.compile(r"\s*[-+]?\d+\.\d+\s*")
THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")


class Dialect(BaseModel):
    """How a CSV file is written.

    separator: what stands between two fields.
    decimal: the decimal mark of numbers.
    encoding: how characters are stored, by Python's name.

    >>> Dialect(separator=";", decimal=",").words
    'separated by semicolons, decimal comma, UTF-8'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    separator: Separator = ","
    decimal: Decimal = "."
    encoding: str = UTF8

    @property
    def words(self) -> str:
        """As a sentence says it."""
        mark = "comma" if self.decimal == "," else "point"
        encoding = {UTF8: "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}.get(self.encoding, self.encoding)
        return f"separated by {WORDS[self.separator]}s, decimal {mark}, {encoding}"


def read_separator(text: str) -> Separator:
    """A separator as the user may spell it: the sign itself, or "tab"."""
    found = NAMES.get(text, text)
    for mark in MARKS:
        if found == mark:
            return mark
    raise ValueError(f"a separator is one of , ; | or tab, got {text!r:.40}")


def read_decimal(text: str) -> Decimal:
    """A decimal mark as the user may spell it."""
    if text not in (".", ","):
        raise ValueError(f"a decimal mark is . or , got {text!r:.40}")
    return "," if text == "," else "."


def read_encoding(name: str) -> str:
    """An encoding as the user may spell it, by Python's name; UTF-8 is read with and without a byte order mark."""
    try:
        "a,1\n".encode(name)
        found = codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"no encoding {name!r:.40}: use utf-8, utf-16, cp1252 (Western European Windows) or latin-1"
        ) from error
    return UTF8 if found == "utf-8" else found


def detect(
    file: BinaryIO,
    *,
    separator: Separator | None = None,
    decimal: Decimal | None = None,
    encoding: str | None = None,
    otherwise: Separator = ",",
) -> Dialect:
    """How a file is written; what is given is taken.

    The encoding is looked for in the whole file, since the first umlaut may stand in its last line. Separator and
    decimal mark are looked for in the first records.

    Args:
        file: the file, unpacked, at its start.
        separator, decimal, encoding: what is known already.
        otherwise: the separator of a file that shows none.
    """
    sample = block = file.read(BLOCK)
    while block and sample.count(b"\n") < LINES and len(sample) < LARGEST_SAMPLE:
        block = file.read(BLOCK)
        sample += block
    whole = len(block) < BLOCK
    coding = _encoding(sample, file) if encoding is None else encoding
    text = codecs.getincrementaldecoder(coding)("replace").decode(sample, final=whole)
    mark = _separator(text, whole, otherwise) if separator is None else separator
    return Dialect(
        separator=mark,
        decimal=_decimal(_records(text, mark, whole), mark) if decimal is None else decimal,
        encoding=coding,
    )


def _encoding(sample: bytes, rest: BinaryIO) -> str:
    """By the byte order mark; else UTF-8 if all of it is, else Windows-1252, which every byte of a text may be."""
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in sample:
        return "utf-16"
    decoder = codecs.getincrementaldecoder("utf-8")()
    block, plain = sample, not sample.startswith(codecs.BOM_UTF8)
    while block:
        if not block.isascii() or decoder.getstate()[0]:
            try:
                plain = decoder.decode(block).isascii() and plain
            except UnicodeDecodeError:
                return "cp1252" if plain and b"\0" not in block and _starts_otherwise(block) else UTF8
        elif b"\0" in block:
            return UTF8  # no text at all: its reader says so
        block = rest.read(BLOCK)
    return UTF8


def _starts_otherwise(block: bytes) -> bool:
    """Whether no sign before the first that is not UTF-8 takes several bytes: else a text in UTF-8 is damaged."""
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        return block[: error.start].isascii()
    return True  # the fault lies between two blocks


def _records(text: str, separator: str, whole: bool) -> list[list[str]]:
    """The first records that are not blank; the last is left out if the sample may have cut it."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    found: list[list[str]] = []
    try:
        for fields in islice(reader, RECORDS + 1):
            if len(fields) > 1 or (fields and fields[0].strip()):
                found.append(fields)
    except csv.Error:  # said by the reader of the file, with its line
        return found
    if len(found) > 1 and (len(found) > RECORDS or not whole):
        found.pop()
    return found


def _separator(text: str, whole: bool, otherwise: Separator) -> Separator:
    """The sign that cuts the most records into as many fields as the first, and then into the cleanest fields."""
    best, best_merit = otherwise, (0.0, 0.0, 0)
    for mark in MARKS:
        records = _records(text, mark, whole)
        width = len(records[0]) if records else 0
        if width < 2:
            continue
        even = sum(len(record) == width for record in records) / len(records)
        cells = [cell for record in records for cell in record]
        marked = [cell for cell in cells if any(other in cell for other in MARKS)]
        unclean = sum(DECIMAL_COMMA.fullmatch(cell) is None for cell in marked)
        clean = (len(cells) - unclean) / len(cells)
        if (merit := (even, clean, width)) > best_merit:
            best, best_merit = mark, merit
    return best


def _decimal(records: list[list[str]], separator: Separator) -> Decimal:
    """A comma only where commas do not separate fields, and more numbers have one than a point.

    "1,234" may be either. It counts only where semicolons separate, which is where commas are decimal marks.
    """
    if separator == ",":
        return "."
    cells = [cell for record in records for cell in record]
    commas = [cell for cell in cells if DECIMAL_COMMA.fullmatch(cell)]
    sure = [cell for cell in commas if not THOUSANDS.fullmatch(cell)]
    points = sum(DECIMAL_POINT.fullmatch(cell) is not None for cell in cells)
    return "," if len(commas if sure or separator == ";" else sure) > points else "."
