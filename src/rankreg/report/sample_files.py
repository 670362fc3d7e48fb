"""Rows and pictures of single samples, from the files they came from."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from rankreg.safe_files import NoRangeError, read_rgb
from rankreg.table_files import is_parquet, parquet_columns, readable_csv

if TYPE_CHECKING:
    from PIL import Image

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


def images_in(folder: Path, name_of: Callable[[int], str]) -> "Callable[[int], Image.Image | None]":
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
