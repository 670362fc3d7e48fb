"""The samples worth looking at: positives with the lowest scores, negatives with the highest."""

import base64
import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rankreg.report.scored_model import ScoredModel

if TYPE_CHECKING:
    from PIL import Image

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


def hardest(model: ScoredModel, most: int) -> Examples | None:
    """At most so many of either class; None if single samples are not known."""
    chosen = model.hardest(most)
    if chosen is None:
        return None
    places = [int(place) for part in chosen for place in part.places]
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
    scores = [float(score) for part in chosen for score in part.scores]
    shown = [
        Example(model.sample_name(place), score, cells, image)
        for place, score, cells, image in zip(places, scores, rows, pictures, strict=True)
    ]
    count = len(chosen.positives.places)
    return Examples(tuple(shown[:count]), tuple(shown[count:]), columns, model.image is not None)


def picture(image: "Image.Image | None") -> str | None:
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


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    if "." in text and len(text) > 9:  # a table of scores is read, not calculated with
        with suppress(ValueError):
            text = f"{float(text):.6g}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
