"""Score files as models on the page: in memory, or as a summary with the rows worth looking at."""

import glob
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rankreg.operating import ScoreSummary
from rankreg.report.scored_model import Images, Model, ScoreBins, ScoredModel, SummarizedModel
from rankreg.report.sliders import target_ranks
from rankreg.safe_files import NoRangeError, read_rgb
from rankreg.score_files import ScoreColumns, column_names, read_scores, score_parts
from rankreg.score_selection import Overview
from rankreg.score_streams import Part, read_summary
from rankreg.scores import Scores
from rankreg.table_files import COMPRESSED, as_frame, check_columns, is_parquet, parquet_file, readable_csv

if TYPE_CHECKING:
    from PIL import Image

SHOWN = 6  # columns beside the hardest samples, if none are named
KEPT = 100  # hardest samples of each class that are kept of a file
CHUNK = 100_000  # rows read at once
MOST_BYTES = 1 << 30  # of a CSV file that is read into memory to be compared; a quarter of it if it is packed
ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".JPG", ".JPEG", ".PNG")


@dataclass(frozen=True, eq=False)
class ModelFile:
    """Score files of one model, and what the page shows of single rows.

    path: a file, a folder of files or a pattern. show: columns beside the hardest samples, default the first few.
    image: a column with the name of each sample's picture. images: their folder; without a column they are named
    by the id. test: a file with the same columns, e.g. a test part.
    """

    path: Path
    columns: ScoreColumns
    name: str
    show: Sequence[str] = ()
    image: str | None = None
    images: Path | None = None
    test: Path | None = None

    def fits(self) -> bool:
        """Whether it is one file, and not too large to be read into memory beside others."""
        if not self.path.is_file():
            return False
        packed = is_parquet(self.path) or self.path.suffix.lower() in COMPRESSED
        return self.path.stat().st_size <= (MOST_BYTES // 4 if packed else MOST_BYTES)

    def read(self, tprs: Sequence[float], confidence: float, *, paired: bool = False) -> ScoredModel:
        """The model, as a summary of any number of rows.

        It is read into memory if it has units, or if it is compared with others (paired) and fits. tprs,
        confidence: the targets; the other samples are counted at their thresholds.
        """
        if self.columns.unit is not None or (paired and self.fits()):
            return self._in_memory()
        return self._summarized(tprs, confidence)

    def _in_memory(self) -> Model:
        shown = self._shown(self.path)
        table = read_scores(self.path, self.columns)
        rows = ShownRows((Part(self.path, len(table.scores)),), shown, self.columns, self.image)
        others: dict[str, Scores | ScoreSummary] = {}
        if self.test is not None:
            tested = read_scores(self.test, self.columns)
            places = np.arange(len(tested.scores)) if tested.ids is None else tested.ids
            units = None if tested.units is None else tested.units.astype(np.int64)
            others["test"] = Scores(places.astype(str), tested.labelled(), tested.scores, units)
        return Model(
            self.name,
            table.labelled(),
            table.scores,
            table.ids,
            details=rows.details,
            image=self._images(rows),
            source=self._source([self.path]),
            units=table.units,
            others=others,
        )

    def _summarized(self, tprs: Sequence[float], confidence: float) -> SummarizedModel:
        shown = self._shown(score_parts(self.path)[0])
        made: list[tuple[ScoreBins, list[float]]] = []

        def levels(seen: Overview) -> Any:
            ordered = np.sort(seen.positives)
            thresholds = [float(ordered[rank - 1]) for rank in target_ranks(len(ordered), tprs, confidence)]
            bins = ScoreBins.around(seen, thresholds[int(np.argmax(tprs))])
            made.append((bins, thresholds))
            return bins.levels

        table = read_summary(self.path, self.columns, levels=levels, hardest=KEPT)
        rows = ShownRows(table.parts, shown, self.columns, self.image)
        others: dict[str, Scores | ScoreSummary] = {}
        if self.test is not None:
            others["test"] = read_summary(self.test, self.columns, levels=made[0][1] if made else ()).summary
        return SummarizedModel(
            self.name,
            table.summary,
            score_bins=made[0][0] if made else None,
            hardest_samples=table.hardest,
            naming=rows.name,
            details=rows.details,
            image=self._images(rows),
            source=self._source([part.file for part in table.parts]),
            others=others,
        )

    def _shown(self, file: Path) -> list[str]:
        """The columns beside the hardest samples; those that were named must be there."""
        header = column_names(file, self.columns.delimiter)
        check_columns([*self.show, *([self.image] if self.image else [])], header, str(file))
        used = {self.columns.score, self.columns.label, self.columns.id, self.image}
        return list(self.show) or [column for column in header if column not in used][:SHOWN]

    def _images(self, rows: "ShownRows") -> Images | None:
        if not self.image and not self.images:
            return None
        beside = self.path if self.path.is_dir() else self.path.parent
        return images_in(self.images or beside, rows.pictures.__getitem__)

    def _source(self, files: Sequence[Path]) -> dict[str, str]:
        """The sha256 of several files is that of their contents in order."""
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as content:
                while block := content.read(1 << 20):
                    digest.update(block)
        many = {"files": f"{len(files):,}"} if len(files) > 1 else {}
        source = {"file": self.path.name, **many, "column": self.columns.score, "sha256": digest.hexdigest()}
        return source if self.test is None else source | {"test": self.test.name}


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Single rows of score files: their cells, their names and the names of their pictures."""

    parts: Sequence[Part]
    shown: Sequence[str]
    columns: ScoreColumns
    image: str | None
    names: dict[int, str] = field(default_factory=dict)
    pictures: dict[int, str] = field(default_factory=dict)

    def details(self, places: Sequence[int]) -> dict[str, list[str]]:
        """The cells of some rows; it also learns their names."""
        more = [column for column in (self.image, self.columns.id) if column is not None]
        cells: dict[str, dict[int, str]] = {column: {} for column in (*self.shown, *more)}
        start = 0
        for part in self.parts:
            own = [place for place in places if start <= place < start + part.rows]
            inside = [place - start for place in own]
            found = rows_of(part.file, inside, list(cells), self.columns.delimiter, lines=part.lines)
            for column, texts in found.items():
                cells[column].update(zip(own, texts, strict=True))
            for place in own:
                where = f"{part.file.name}, " if len(self.parts) > 1 else ""
                self.names[place] = f"{where}row {place - start + 1:,}"
            start += part.rows
        if self.columns.id is not None:
            self.names.update(cells[self.columns.id])
        if (pictured := self.image or self.columns.id) is not None:
            self.pictures.update(cells[pictured])
        return {column: [cells[column][place] for place in places] for column in self.shown}

    def name(self, place: int) -> str:
        """The id of a row, or its file and number."""
        return self.names[place]


def files_and_columns(files: Sequence[Path], scores: Sequence[str]) -> list[tuple[Path, str]]:
    """Each model's file and score column: one column for all files, several columns of one file, or one each."""
    if len(scores) == 1 or len(files) == 1:
        return [(file, score) for file in files for score in scores]
    if len(files) == len(scores):
        return list(zip(files, scores, strict=True))
    raise ValueError(f"{len(files)} files and {len(scores)} --score columns: give one --score, or one per file")


def short_names(pairs: Sequence[tuple[Path, str]]) -> list[str]:
    """The shortest names that tell the models apart: file, column, or both."""
    for names in (
        [_stem(file) for file, _ in pairs],
        [column for _, column in pairs],
        [file.name for file, _ in pairs],
        [f"{file.name}, {column}" for file, column in pairs],
    ):
        if len(set(names)) == len(names):
            return names
    return [f"model {number}" for number in range(1, len(pairs) + 1)]


def _stem(path: Path) -> str:
    """A name without its ending; for a pattern without letters, that of the folder."""
    stem = path.name.split(".")[0] or path.name
    return path.parent.name or stem if glob.has_magic(stem) and not any(map(str.isalnum, stem)) else stem


def rows_of(
    path: Path, places: Sequence[int], columns: Sequence[str], delimiter: str = ",", *, lines: bool = False
) -> dict[str, list[str]]:
    """The cells of some rows, as text, in the order asked for. lines: every row of the CSV file is one line."""
    names = list(dict.fromkeys(columns))
    if not names or not len(places):
        return {name: [] for name in names}
    wanted = pd.Index(sorted(set(places)))
    parts = (
        _parquet_rows(path, wanted, names) if is_parquet(path) else _csv_rows(path, wanted, names, delimiter, lines)
    )
    found = pd.concat([part.loc[part.index.intersection(wanted)] for part in parts]).loc[list(places)]
    return {name: found[name].astype(str).tolist() for name in names}


def _parquet_rows(path: Path, wanted: "pd.Index[Any]", names: list[str]) -> Iterator[pd.DataFrame]:
    start = 0
    with parquet_file(path, names) as table:
        for group in range(table.num_row_groups):
            rows = table.metadata.row_group(group).num_rows
            if ((wanted >= start) & (wanted < start + rows)).any():
                first = start
                for batch in table.iter_batches(CHUNK, row_groups=[group], columns=names):
                    inside = wanted[(wanted >= first) & (wanted < first + len(batch))]
                    if len(inside):
                        yield as_frame(batch).iloc[inside - first].set_index(inside)
                    first += len(batch)
            start += rows


def _csv_rows(
    path: Path, wanted: "pd.Index[Any]", names: list[str], delimiter: str, lines: bool
) -> Iterator[pd.DataFrame]:
    options: dict[str, Any] = {
        "sep": delimiter,
        "usecols": names,
        "dtype": str,
        "keep_default_na": False,
        "low_memory": False,
    }
    with readable_csv(path):
        if lines:
            with path.open("rb") as file:
                found, at = [file.readline()], 0
                for place in wanted:
                    found += islice(file, place - at, place - at + 1)
                    at = place + 1
            yield pd.read_csv(io.BytesIO(b"".join(found)), **options).set_index(wanted)
            return
        with pd.read_csv(path, chunksize=CHUNK, **options) as reader:
            for chunk in reader:
                yield chunk
                if chunk.index[-1] >= wanted[-1]:
                    break


def images_in(folder: Path, name_of: Callable[[int], str]) -> Images:
    """Pictures by name, with or without an ending; None for a picture that is missing or damaged.

    A name that leads out of the folder, by itself or through a link, is a ValueError: a report is passed on and
    must not contain files from elsewhere.
    """
    home = folder.resolve()

    def image(place: int) -> "Image.Image | None":
        name = name_of(place)
        for ending in ENDINGS:
            try:
                path = (folder / (name + ending)).resolve()
                there = path.is_file()
            except (OSError, ValueError, RuntimeError):  # no name that a file can have, or links in a circle
                return None
            if not path.is_relative_to(home):
                raise ValueError(
                    f"the image {name!r} lies outside of {folder}: name images in that folder, or another folder"
                    " with --images"
                )
            if there:
                return _opened(path)
        return None

    return image


def _opened(path: Path) -> "Image.Image | None":
    try:
        return read_rgb(path, 320)
    except NoRangeError as error:
        raise ValueError(f"{path} has {error}") from error
    except (ValueError, OSError):
        return None
