"""A model on the page: its labels and scores, and the rows and pictures of single samples."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.metrics import Floats
from rankreg.operating import Finding, findings
from rankreg.operating.comparison import paired
from rankreg.operating.units import Sample
from rankreg.safe_files import NoRangeError, read_rgb
from rankreg.score_files import ScoreColumns, column_names, read_scores
from rankreg.scores import Scores
from rankreg.table_files import check_columns, is_parquet, parquet_columns, readable_csv

if TYPE_CHECKING:
    from PIL import Image

MOST_MODELS = 6  # as many colours as can be told apart
SHOWN = 6  # columns beside the hardest samples, if none are named
CHUNK = 100_000  # rows read at once
ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".JPG", ".JPEG", ".PNG")

Details = Callable[[Sequence[int]], Mapping[str, Sequence[object]]]
Images = Callable[[int], "Image.Image | None"]


@dataclass(frozen=True, eq=False)
class Model:
    """A model's labels and scores, and how to show single samples.

    Args:
        name: what the page calls the model.
        labels: 1 for the critical class, 0 otherwise, shape (N,).
        scores: raw scores, higher = more critical, shape (N,).
        ids: names of the samples, by which models are matched. Without them, models are matched by position.
        details: from places in the arrays to columns of values, shown beside the hardest samples.
        image: from a place in the arrays to a picture, or None where there is none.
        source: what the foot of the page says about the data, e.g. {"file": …, "sha256": …}.
        units: one value per sample, the same for dependent samples, e.g. those of one patient.
        threshold: the threshold in use, chosen by these scores, e.g. that of a fitted model. The page shows it
            as it is. By default the report chooses.
        others: more scores of this model by name, e.g. {"test": scores}. The page says how the threshold does
            on them, beside the samples that chose it.

    >>> model = Model("new", np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.3, 0.9]))
    >>> model.positives.tolist()
    [0.3, 0.9]
    """

    name: str
    labels: NDArray[np.int64]
    scores: Floats
    ids: NDArray[Any] | None = None
    details: Details | None = None
    image: Images | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    units: NDArray[Any] | None = None
    threshold: float | None = None
    others: Mapping[str, Scores] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, scores: Scores, **more: Any) -> "Model":
        """From `Scores` with their units; more: details, image, source, threshold, others."""
        return cls(name, scores.labels, scores.values, scores.ids, units=scores.units, **more)

    @classmethod
    def from_file(
        cls,
        path: Path,
        columns: ScoreColumns,
        name: str,
        *,
        show: Sequence[str] = (),
        image: str | None = None,
        images: Path | None = None,
        test: Path | None = None,
    ) -> "Model":
        """From a score file. show, image: columns; images: a folder; test: a file; see `rankreg report --help`."""
        header = column_names(path, columns.delimiter)
        pictured = [image] if image else []
        check_columns([*show, *pictured], header, str(path))
        table = read_scores(path, columns)
        others = {}
        if test is not None:
            tested = read_scores(test, columns)
            rows = np.arange(len(tested.scores)) if tested.ids is None else tested.ids
            units = None if tested.units is None else tested.units.astype(np.int64)
            others["test"] = Scores(rows.astype(str), tested.labelled(), tested.scores, units)
        used = {columns.score, columns.label, columns.id, image}
        shown = list(show) or [column for column in header if column not in used][:SHOWN]
        pictures: dict[int, str] = {}

        def details(places: Sequence[int]) -> dict[str, list[str]]:
            found = rows_of(path, places, [*shown, *pictured], columns.delimiter)
            if image is not None:
                pictures.update(zip(places, found[image], strict=True))
            elif table.ids is not None:
                pictures.update((place, str(table.ids[place])) for place in places)
            return {column: found[column] for column in shown}

        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return cls(
            name,
            table.labelled(),
            table.scores,
            table.ids,
            details=details,
            image=images_in(images or path.parent, pictures.__getitem__) if image or images else None,
            source={"file": path.name, "column": columns.score, "sha256": digest}
            | ({} if test is None else {"test": test.name}),
            units=table.units,
            others=others,
        )

    @cached_property
    def sample(self) -> Sample:
        """Checked once; messages name the model."""
        try:
            return Sample.of(self.labels, self.scores, self.units)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What makes these scores useless, if anything does."""
        return findings(self.labels, self.scores, units=self.units)

    @property
    def refused(self) -> str | None:
        """Why no threshold of these scores should be certified; None if nothing speaks against it."""
        return next((one.sentence for one in self.findings if one.refuses), None)

    @cached_property
    def positives(self) -> Floats:
        """The positives' scores, ascending."""
        return np.sort(self.sample.positives)

    @cached_property
    def negatives(self) -> Floats:
        """The negatives' scores, ascending."""
        return np.sort(self.sample.negatives)

    def sample_name(self, place: int) -> str:
        """A sample's id, or its row counted from 1.

        Args:
            place: of the sample in the arrays.
        """
        return f"row {place + 1:,}" if self.ids is None else str(self.ids[place])

    def provenance(self) -> dict[str, str]:
        """The source, and where it has none a checksum of labels and scores."""
        if "sha256" in self.source:
            return dict(self.source)
        content = hashlib.sha256(np.asarray(self.labels, dtype="<i8").tobytes())
        content.update(np.asarray(self.scores, dtype="<f8").tobytes())
        return {**self.source, "sha256 of labels and scores": content.hexdigest()}


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
        [file.name.split(".")[0] or file.name for file, _ in pairs],
        [column for _, column in pairs],
        [file.name for file, _ in pairs],
        [f"{file.name}, {column}" for file, column in pairs],
    ):
        if len(set(names)) == len(names):
            return names
    return [f"model {number}" for number in range(1, len(pairs) + 1)]


def check_models(models: Sequence[Model]) -> None:
    """Between one and six models with distinct names, each with usable scores."""
    if not 1 <= len(models) <= MOST_MODELS:
        raise ValueError(f"a report shows 1 to {MOST_MODELS} models, got {len(models)}")
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ValueError(f"two models have the same name: {', '.join(names)}; give each its own")
    if len({model.units is None for model in models}) > 1:
        raise ValueError("some models have units and some have none: give them for all, or for none")
    for model in models:
        _ = model.sample


def paired_scores(first: Model, other: Model) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Labels and both models' scores in the order of the first; raises unless the samples are the same."""
    names = f"{first.name} and {other.name}"
    if first.ids is not None and other.ids is not None:
        try:
            return paired(
                Scores(first.ids, first.labels, first.scores), Scores(other.ids, other.labels, other.scores)
            )
        except ValueError as error:
            raise ValueError(f"{names}: {error}") from error
    rows = [len(model.labels) for model in (first, other)]
    if rows[0] != rows[1]:
        raise ValueError(
            f"{names} have {rows[0]:,} and {rows[1]:,} samples and cannot be matched by position: give sample ids"
            " (--id)"
        )
    if not np.array_equal(first.labels, other.labels):
        raise ValueError(
            f"{names} do not list the same samples in the same order: their labels differ; give sample ids (--id)"
        )
    return first.labels, first.scores, other.scores


def rows_of(
    path: Path, places: Sequence[int], columns: Sequence[str], delimiter: str = ","
) -> dict[str, list[str]]:
    """The cells of some rows, as text, in the order asked for."""
    names = list(dict.fromkeys(columns))
    if not names:
        return {}
    if is_parquet(path):
        table = parquet_columns(path, names).iloc[list(places)].astype(str)
        return {name: table[name].tolist() for name in names}
    wanted, parts = pd.Index(sorted(set(places))), []
    chunks: dict[str, Any] = {"dtype": str, "keep_default_na": False, "chunksize": CHUNK, "low_memory": False}
    with readable_csv(path), pd.read_csv(path, sep=delimiter, usecols=names, **chunks) as reader:
        for chunk in reader:
            parts.append(chunk.loc[chunk.index.intersection(wanted)])
            if chunk.index[-1] >= wanted[-1]:
                break
    found = pd.concat(parts).loc[list(places)]
    return {name: found[name].tolist() for name in names}


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
