"""Rows and pictures of single samples, from the files they came from."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from PIL import Image

from rankreg.report.models import Images

CHUNK = 100_000
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".JPG", ".JPEG", ".PNG")


def rows_of(
    path: Path, places: Sequence[int], columns: Sequence[str], delimiter: str = ","
) -> dict[str, list[str]]:
    """The cells of some rows, as text, in the order asked for."""
    names = list(dict.fromkeys(columns))
    if not names:
        return {}
    if path.suffix.lower() in (".parquet", ".pq"):
        table = pd.read_parquet(path, columns=names).iloc[list(places)].astype(str)
        return {name: table[name].tolist() for name in names}
    wanted, parts = pd.Index(sorted(set(places))), []
    with pd.read_csv(
        path, sep=delimiter, usecols=names, dtype=str, keep_default_na=False, chunksize=CHUNK, low_memory=False
    ) as reader:
        for chunk in reader:
            parts.append(chunk.loc[chunk.index.intersection(wanted)])
            if chunk.index[-1] >= wanted[-1]:
                break
    found = pd.concat(parts).loc[list(places)]
    return {name: found[name].tolist() for name in names}


def header(path: Path, delimiter: str = ",") -> list[str]:
    """The names of a file's columns."""
    if path.suffix.lower() in (".parquet", ".pq"):
        import pyarrow.parquet  # type: ignore[import-untyped]

        return list(pyarrow.parquet.read_schema(path).names)
    return [str(name) for name in pd.read_csv(path, sep=delimiter, nrows=0, dtype=str).columns]


def images_in(folder: Path, name_of: Callable[[int], str]) -> Images:
    """Pictures by name, with or without an ending; one that cannot be read is None."""

    def image(place: int) -> Image.Image | None:
        name = name_of(place)
        for ending in ENDINGS:
            path = folder / (name + ending)
            if path.is_file():
                return _opened(path)
        return None

    return image


def _opened(path: Path) -> Image.Image | None:
    try:
        image = Image.open(path, formats=FORMATS)
        image.draft("RGB", (320, 320))  # a large photograph is decoded small
        image.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None
    return image
