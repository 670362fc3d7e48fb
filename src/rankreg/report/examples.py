"""The samples worth looking at: positives with the lowest scores, negatives with the highest."""

import base64
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from rankreg.report.scored_model import Images, Model
from rankreg.safe_files import NoRangeError, read_rgb
from rankreg.table_files import is_parquet, parquet_columns, parquet_names, readable_csv

THUMBNAIL = 160  # pixels along the longer side
TINY = 64  # up to here every pixel is kept, and shown enlarged
LONGEST = 120  # characters of a cell


@dataclass(frozen=True)
class Example:
    """One sample: its name, its score, its row in the table and its picture, where there are any."""

    name: str
    score: float
    cells: tuple[str, ...]
    picture: str | None


@dataclass(frozen=True)
class Examples:
    """The hardest of both classes, hardest first; columns: headings of the cells."""

    positives: tuple[Example, ...]
    negatives: tuple[Example, ...]
    columns: tuple[str, ...]
    pictures: bool


def hardest(model: Model, most: int) -> Examples:
    """At most so many of either class."""
    positives, negatives = lowest_positives(model, most), highest_negatives(model, most)
    places = [int(place) for place in (*positives, *negatives)]
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = [()] * len(places)
    if model.details is not None:
        found = model.details(places)
        columns = tuple(map(str, found))
        rows = list(zip(*([_cell(value) for value in found[name]] for name in found), strict=True)) or rows
    pictures = [None if model.image is None else picture(model.image(place)) for place in places]
    if model.image is not None and not any(pictures):
        raise ValueError(
            f"{model.name}: no image of the {len(places)} samples to show could be read, such as that of"
            f" {model.sample_name(places[0])}: check where the images are"
        )
    shown = [
        Example(model.sample_name(place), float(model.sample.scores[place]), cells, image)
        for place, cells, image in zip(places, rows, pictures, strict=True)
    ]
    return Examples(
        tuple(shown[: len(positives)]), tuple(shown[len(positives) :]), columns, model.image is not None
    )


def lowest_positives(model: Model, most: int) -> NDArray[np.int64]:
    """Places of the positives with the lowest scores."""
    return _lowest(model.sample.scores, np.flatnonzero(model.sample.positive), most)


def highest_negatives(model: Model, most: int) -> NDArray[np.int64]:
    """Places of the negatives with the highest scores."""
    return _lowest(-model.sample.scores, np.flatnonzero(~model.sample.positive), most)


def picture(image: Image.Image | None) -> str | None:
    """A small picture as a data URI; tiny ones keep every pixel."""
    if image is None:
        return None
    content = io.BytesIO()
    if max(image.size) <= TINY:
        image.convert("RGB").save(content, "PNG", optimize=True)
        return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
    small = image.convert("RGB")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    small.save(content, "JPEG", quality=80, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()


def _lowest(scores: NDArray[np.floating], places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Places by score; of equal scores the first comes first."""
    if len(places) > most:
        limit = np.partition(scores[places], most - 1)[most - 1]
        places = places[scores[places] <= limit]
    return places[np.argsort(scores[places], kind="stable")][:most]


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    if "." in text and len(text) > 9:  # a table of scores is read, not calculated with
        with suppress(ValueError):
            text = f"{float(text):.6g}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


CHUNK = 100_000
ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".JPG", ".JPEG", ".PNG")


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


def header(path: Path, delimiter: str = ",") -> list[str]:
    """The names of a file's columns."""
    if is_parquet(path):
        return parquet_names(path)
    with readable_csv(path):
        return [str(name) for name in pd.read_csv(path, sep=delimiter, nrows=0, dtype=str).columns]


def images_in(folder: Path, name_of: Callable[[int], str]) -> Images:
    """Pictures by name, with or without an ending; one that is missing or damaged is None.

    A name that leads out of the folder, by itself or through a link, is a ValueError: a report is passed on, and
    must not take along what happens to lie elsewhere.
    """
    home = folder.resolve()

    def image(place: int) -> Image.Image | None:
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


def _opened(path: Path) -> Image.Image | None:
    try:
        return read_rgb(path, 320)
    except NoRangeError as error:
        raise ValueError(f"{path} has {error}") from error
    except (ValueError, OSError):
        return None
