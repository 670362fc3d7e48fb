"""Scores of any number as a `ScoreSummary`: a file, a folder or a pattern of files, or a Dask DataFrame.

They are read in pieces, so memory does not grow with the negatives. CSV files are read by Polars. What
Polars does not read strictly is read again by pandas, which names the row (docs/decisions/0064).
"""

import csv
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from rankreg.labels import Reading, alike, label_text, read_labels, refuse_unlabelled
from rankreg.metrics import Floats
from rankreg.operating.score_summary import ScoreSummary
from rankreg.score_files import (
    Fault,
    NameRow,
    ScoreColumns,
    check_header,
    csv_options,
    parsed_scores,
    refuse_scores,
    score_parts,
)
from rankreg.score_selection import Hardest, Overview, Selection
from rankreg.table_files import (
    COMPRESSED,
    as_frame,
    check_columns,
    is_parquet,
    opened,
    parquet_file,
    parquet_names,
    readable_csv,
    row_words,
)

__all__ = ["SummaryTable", "read_summary", "summarize_dask"]

ROWS = 1 << 19  # of a piece
HELD = 1 << 24  # negatives' scores that are kept; if there are more, the files are read a second time
BLOCK = 1 << 20  # bytes
MOST_VALUES = 1_000_000  # of a label column
FEW = 4  # label values that are told apart by comparing
LONGEST = 1000  # characters of a label that Polars may judge


class Part(NamedTuple):
    """A file that was read: how many rows it has, and whether each is one line."""

    file: Path
    rows: int
    lines: bool = False


@dataclass(frozen=True, eq=False)
class SummaryTable:
    """The summary of score files, how their labels were read, and if asked for the hardest rows.

    Attributes:
        summary: the scores, as the functions of `rankreg.operating` take them.
        reading: which label values were taken for positive and negative.
        parts: the files; the places of the hardest rows are counted over all of them.
        hardest: the hardest rows of each class, or None.
        units: None, since units need the rows themselves.
        groups: None, since groups need the rows themselves.
    """

    summary: ScoreSummary
    reading: Reading
    parts: tuple[Part, ...] = ()
    hardest: Hardest | None = None
    units: None = None
    groups: None = None

    @property
    def data(self) -> tuple[ScoreSummary]:
        """What the functions of `rankreg.operating` take."""
        return (self.summary,)


class Piece(NamedTuple):
    """Some rows: for each an index into the label values (−1: none) and a score; and what is wrong with them."""

    codes: NDArray[np.integer]
    values: list[Any]
    scores: Floats
    faults: dict[str, Fault]


Pieces = Callable[[], Iterator[Piece]]


class NotStrict(Exception):  # noqa: N818 - not an error: another reader must look
    """Something that pandas must judge: a gap, a number in another spelling, a short or a blank line."""


def read_summary(
    path: Path,
    columns: ScoreColumns,
    *,
    levels: ArrayLike | Callable[[Overview], ArrayLike] = (),
    hardest: int = 0,
) -> SummaryTable:
    """Read score files of any size; two passes if they hold many rows.

    Args:
        path: a CSV file, also compressed, or a Parquet file; a folder of such files; or a pattern such as
            `scores/*.parquet`.
        columns: which columns hold score and label.
        levels: further thresholds at which negatives are counted. With `hardest`, they may follow from what the
            first pass has seen.
        hardest: how many of the hardest rows of each class to name.

    Returns:
        The summary, and how the labels were read.

    Raises:
        ValueError: a row has no usable score or label; the message names the row.

    >>> from rankreg.operating import certify
    >>> rows = [f"{k % 10 == 0:d},{k % 10 == 0:d}.{k}" for k in range(1000)]
    >>> _ = Path("scores.csv").write_text("y,s\\n" + "\\n".join(rows))
    >>> summary = read_summary(Path("scores.csv"), ScoreColumns("s", "y")).summary
    >>> certify(summary, tpr=0.95).positives
    100
    """
    if columns.label is None:
        raise ValueError("labels are needed to tell positives from negatives: name the label column")
    files = score_parts(path)
    selection = Selection(hardest) if hardest else None
    census = Census(columns, selection=selection)
    sources = [_first_pass(file, columns, census) for file in files]
    if not census.rows:
        raise ValueError(f"{path} has a header but no rows")
    as_text = not is_parquet(files[0])
    positive, reading = census.decide(f"{path}: column {columns.label!r}", as_text=as_text)
    if callable(levels):
        known = reading.positives and reading.negatives and selection is not None
        levels = levels(census.overview(positive)) if known else ()
    again = (piece for _, pieces in sources for piece in pieces())
    summary = census.summary(positive, str(path), again, levels)
    parts = tuple(part for part, _ in sources)
    return SummaryTable(summary, reading, parts, None if selection is None else selection.hardest(positive))


def summarize_dask(frame: Any, columns: ScoreColumns) -> SummaryTable:
    """The summary of a Dask DataFrame, counted by the cluster; only O(#positives) numbers travel.

    Args:
        frame: a `dask.dataframe.DataFrame`, on whatever scheduler is active.
        columns: which columns hold score and label.

    Returns:
        The summary, and how the labels were read.

    Raises:
        ValueError: a row has no usable score or label; the message names the partition and the row.

    >>> summarize_dask(frame, ScoreColumns("s", "y")).summary.auc()  # doctest: +SKIP
    0.93
    """
    from dask import compute, delayed  # type: ignore[attr-defined]

    if columns.label is None:
        raise ValueError("labels are needed to tell positives from negatives: name the label column")
    check_columns(columns.wanted(), frame.columns, "the Dask DataFrame")
    parts = frame[columns.wanted()].to_delayed()
    census = Census(columns, holds=False)
    for number, found in enumerate(compute(*[delayed(_census)(part, columns) for part in parts])):
        found.refuse(f"partition {number}", row_words)
        census.add_census(found)
    positive, reading = census.decide(f"the Dask DataFrame: column {columns.label!r}", as_text=False)
    empty = delayed(ScoreSummary.of_positives(census.positives(positive)))
    counted = compute(*[delayed(_counted)(part, columns, empty, positive) for part in parts])
    summary = counted[0].merge(*counted[1:])
    if summary.negative_trials != reading.negatives:
        raise ValueError("the Dask DataFrame changed while it was read: persist it first")
    return SummaryTable(summary, reading)


@dataclass(eq=False)
class Census:
    """What the first pass finds: label values with their counts, scores of possible positives, faults.

    holds: keep the other scores too while they are few, which saves the second pass. selection: rows to show.
    """

    columns: ScoreColumns
    holds: bool = True
    selection: Selection | None = None
    rows: int = 0
    counts: Counter[Any] = field(default_factory=Counter)
    candidates: dict[Any, list[Floats]] = field(default_factory=dict)
    others: list[Floats] = field(default_factory=list)
    faults: dict[str, Fault] = field(default_factory=dict)

    def add(self, piece: Piece, start: int = 0) -> None:
        """Another piece, whose first row has that number in its file."""
        for kind, fault in piece.faults.items():
            known = self.faults.get(kind, Fault(0, start + fault.first, fault.value))
            self.faults[kind] = known._replace(rows=known.rows + fault.rows)
        self.rows += len(piece.scores)
        if len(piece.values) <= FEW:
            found = [int(np.count_nonzero(piece.codes == code)) for code in range(len(piece.values))]
        else:
            found = np.bincount(piece.codes[piece.codes >= 0], minlength=len(piece.values)).tolist()
        self.counts.update(dict(zip(piece.values, found, strict=True)))
        if len(self.counts) > MOST_VALUES:
            raise ValueError(
                f"column {self.columns.label!r} holds more than {MOST_VALUES:,} different values:"
                " it is not a column of labels"
            )
        rest = np.ones(len(piece.scores), dtype=bool)
        own = {}
        for code, value in enumerate(piece.values):
            if self._may_be_positive(value):
                chosen = piece.codes == code
                self.candidates.setdefault(value, []).append(piece.scores[chosen])
                rest &= ~chosen
                own[value] = chosen
        if self.selection is not None and not self.faults:
            values = np.array([*piece.values, None], dtype=object)[:-1]
            places = {value: np.flatnonzero(chosen) for value, chosen in (own | {None: rest}).items()}
            self.selection.add(values, piece.codes, piece.scores, places)
        if self.holds:
            self.others.append(piece.scores[rest])
            if sum(map(len, self.others)) > HELD:
                self.holds, self.others = False, []

    def add_census(self, other: "Census") -> None:
        """What was found elsewhere."""
        self.rows += other.rows
        self.counts.update(other.counts)
        for value, scores in other.candidates.items():
            self.candidates.setdefault(value, []).extend(scores)
        if self.selection is not None and other.selection is not None:
            self.selection.join(other.selection)
        if self.holds and other.holds and sum(map(len, self.others + other.others)) <= HELD:
            self.others += other.others
        else:
            self.holds, self.others = False, []

    def refuse(self, where: str, name_row: NameRow) -> None:
        """Faults as errors, in the order in which `read_scores` looks for them."""
        refuse_scores(self.faults, f"{where}: column {self.columns.score!r}", name_row)
        if "unlabelled" in self.faults:
            count, first, _ = self.faults["unlabelled"]
            refuse_unlabelled(count, name_row(first), f"{where}: column {self.columns.label!r}")

    def decide(self, where: str, *, as_text: bool) -> tuple[set[Any], Reading]:
        """The label values that are positive, by the user's rule; as_text: they are cells of CSV files."""
        values = list(self.counts)
        column = _as_pandas_reads(values) if as_text else pd.Series(values)
        counts = np.array([self.counts[value] for value in values])
        labels, reading = read_labels(column.rename(self.columns.label), self.columns.labels, where, counts=counts)
        return {value for value, label in zip(values, labels, strict=True) if label}, reading

    def for_next(self) -> "Census":
        """An empty census for the file that follows."""
        return Census(self.columns, self.holds, None if self.selection is None else self.selection.next())

    def positives(self, positive: Collection[Any]) -> Floats:
        """The scores of all positives."""
        found = [scores for value in positive for scores in self.candidates[value]]
        return np.concatenate(found) if found else np.zeros(0)

    def overview(self, positive: Collection[Any]) -> Overview:
        """What the selection has seen of both classes."""
        assert self.selection is not None  # it was asked for
        return Overview(self.positives(positive), self.selection.negatives(positive), self.selection.span)

    def summary(
        self, positive: Collection[Any], where: str, again: Iterator[Piece], levels: ArrayLike = ()
    ) -> ScoreSummary:
        """The summary; again: the second pass, needed if the negatives were not kept."""
        summary = ScoreSummary.of_positives(self.positives(positive), levels=levels)
        if self.holds:
            named = [scores for value in self.candidates.keys() - positive for scores in self.candidates[value]]
            for scores in self.others + named:
                summary = summary.count(scores)
            return summary
        rows = 0
        try:
            for piece in again:
                rows += len(piece.scores)
                summary = _count(summary, piece, positive)
        except NotStrict:
            rows = -1
        if rows != self.rows or summary.negative_trials != self.rows - summary.positive_trials:
            raise ValueError(f"{where} changed while it was read: try again when it is complete")
        return summary

    def _may_be_positive(self, value: Any) -> bool:
        text, named = label_text(value), self.columns.labels.positive
        return any(alike(text, other) for other in (("1", "True") if named is None else (named,)))


def _count(summary: ScoreSummary, piece: Piece, positive: Collection[Any]) -> ScoreSummary:
    negative = np.array([value not in positive for value in piece.values], dtype=bool)
    return summary.count(piece.scores[negative[piece.codes]])


def _census(rows: pd.DataFrame, columns: ScoreColumns) -> Census:
    census = Census(columns, holds=False)
    census.add(_piece(rows, columns))
    return census


def _counted(
    rows: pd.DataFrame, columns: ScoreColumns, empty: ScoreSummary, positive: Collection[Any]
) -> ScoreSummary:
    return _count(empty, _piece(rows, columns), positive)


def _piece(rows: pd.DataFrame, columns: ScoreColumns) -> Piece:
    """Rows of pandas; faults are found here."""
    scores, faults = parsed_scores(rows[columns.score])
    label = rows[str(columns.label)]
    try:
        codes, values = pd.factorize(label)
    except TypeError as error:
        raise ValueError(
            f"column {columns.label!r} holds lists or other nested values: a label is one text or number"
        ) from error
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        faults["unlabelled"] = Fault(len(missing), int(missing[0]), None)
    return Piece(codes, values.tolist(), scores, faults)


def _first_pass(file: Path, columns: ScoreColumns, census: Census) -> tuple[Part, Pieces]:
    """Take the file into the census; returns how it can be read again."""
    if is_parquet(file):
        check_columns(columns.wanted(), parquet_names(file), str(file))
        return _taken(file, lambda: _parquet_pieces(file, columns), census, lambda: row_words)
    names = _csv_names(file, columns)
    if file.suffix.lower() not in COMPRESSED and _is_plain(file, columns.delimiter, len(names)):
        part = census.for_next()
        try:
            for piece in _polars_pieces(file, columns, names):
                part.add(piece)
            if not part.rows:
                raise NotStrict
        except NotStrict:
            pass
        else:
            census.add_census(part)
            return Part(file, part.rows, lines=True), lambda: _polars_pieces(file, columns, names)
    last: list[NameRow] = []
    return _taken(file, lambda: _pandas_pieces(file, columns, last), census, lambda: last[-1])


def _taken(file: Path, pieces: Pieces, census: Census, name_row: Callable[[], NameRow]) -> tuple[Part, Pieces]:
    part = census.for_next()
    for piece in pieces():
        part.add(piece, part.rows)
    part.refuse(str(file), name_row())
    census.add_census(part)
    return Part(file, part.rows), pieces


def _csv_names(file: Path, columns: ScoreColumns) -> list[str]:
    with readable_csv(file), opened(file, separator=columns.delimiter) as records:
        check_header(file, columns, records.names)
        return records.names


def _is_plain(file: Path, separator: str, width: int) -> bool:
    """Whether records are lines and fields are what stands between separators, as many as the first line has.

    Below it there is no quotation mark then: on those CSV readers disagree, and Polars forgives much.
    """
    marks, lines, block = 0, 0, b"\n"
    with file.open("rb") as raw:
        raw.readline()
        while more := raw.read(BLOCK):
            block = more + raw.read(1) if more.endswith(b"\r") else more
            if b'"' in block or b"\0" in block or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
                return False
            content = np.frombuffer(block, dtype=np.uint8)
            marks += int(np.count_nonzero(content == ord(separator)))
            lines += int(np.count_nonzero(content == ord("\n")))
    return separator.isascii() and marks == (lines + (not block.endswith(b"\n"))) * (width - 1)


def _polars_pieces(file: Path, columns: ScoreColumns, names: list[str]) -> Iterator[Piece]:
    """A plain CSV file by Polars, which pads short lines and cuts long ones without a word.

    If no line lacks its last field, the number of separators (`_is_plain`) shows that no line is long.
    """
    import polars as pl

    label, score, last = (
        f"c{names.index(str(columns.label))}",
        f"c{names.index(columns.score)}",
        f"c{len(names) - 1}",
    )
    try:
        rows = pl.scan_csv(
            file,
            has_header=False,
            skip_lines=1,
            schema={f"c{place}": pl.String for place in range(len(names))} | {score: pl.Float64},
            separator=columns.delimiter,
            quote_char=None,
            glob=False,
        )
        picked = rows.select(
            pl.col(label).alias("label"), pl.col(score).alias("score"), pl.col(last).is_null().alias("short")
        )
        values: list[str] = []
        for batch in picked.collect_batches(chunk_size=ROWS, maintain_order=True):
            texts, scores = batch["label"], batch["score"]
            if texts.null_count() or batch["short"].any() or scores.is_finite().sum() != len(scores):
                raise NotStrict
            codes = _few_codes(texts, values)
            if codes is None:
                known = texts.cast(pl.Enum(values), strict=False)
                values = values + texts.filter(known.is_null()).unique(maintain_order=True).to_list()
                codes = texts.cast(pl.Enum(values)).to_physical().to_numpy()
            if len(values) > MOST_VALUES or any(len(value) > LONGEST for value in values):
                raise NotStrict
            yield Piece(codes, values, scores.to_numpy(), {})
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise NotStrict from error


def _few_codes(texts: Any, values: list[str]) -> NDArray[np.uint8] | None:
    """An index into the values for each text; None unless there are few and no others. Faster than looking up."""
    if not 0 < len(values) <= FEW:
        return None
    codes, found = np.zeros(len(texts), np.uint8), 0
    for code, value in enumerate(values):
        equal = (texts == value).to_numpy()
        found += int(np.count_nonzero(equal))
        codes += np.uint8(code) * equal
    return codes if found == len(texts) else None


def _pandas_pieces(file: Path, columns: ScoreColumns, name_row: list[NameRow]) -> Iterator[Piece]:
    with readable_csv(file), opened(file, separator=columns.delimiter) as records:
        name_row.append(records.row_words)
        options = csv_options(columns) | {"dtype": {columns.label: str}, "chunksize": ROWS}
        with pd.read_csv(records, **options) as chunks:
            for rows in chunks:
                yield _piece(rows, columns)
        records.refuse_faults()


def _parquet_pieces(file: Path, columns: ScoreColumns) -> Iterator[Piece]:
    with parquet_file(file, columns.wanted()) as table:
        for batch in table.iter_batches(ROWS, columns=columns.wanted()):
            yield _piece(as_frame(batch), columns)


def _as_pandas_reads(texts: list[str]) -> "pd.Series[Any]":
    """Cells as pandas would type a whole column of them."""
    lines = io.StringIO()
    csv.writer(lines, quoting=csv.QUOTE_ALL).writerows([["label"], *([text] for text in texts)])
    lines.seek(0)
    column: pd.Series[Any] = pd.read_csv(lines, na_values=[""], keep_default_na=False, low_memory=False)["label"]
    return column
