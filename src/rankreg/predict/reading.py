"""New data a chunk at a time, prepared as the training data were; memory does not grow with their number."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.bundle import BundleCard
from rankreg.datasets.folder import class_folders
from rankreg.datasets.images import SUFFIXES, read_image
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.datasets.table import is_positive, label_texts
from rankreg.datasets.table_files import table_chunks

IMAGES = 128  # decoded at once
ROWS = 20_000
SHOWN = 8  # target values in a message


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples in their order: every one has an id; `inputs` has a row for each whose problem is empty.

    labels: 0 / 1 for all of them, when they were asked for.
    """

    ids: list[str]
    inputs: NDArray[Any]
    problems: list[str]
    labels: NDArray[np.int64] | None = None


def read_chunks(data: Path | str, card: BundleCard, *, labelled: bool = False) -> Iterator[Chunk]:
    """The samples of a table, or of a folder of images (or a single one), as the bundle needs them.

    labelled: read the target column, or take the first folder's name for the class.
    """
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}")
    is_images = path.is_dir() or path.suffix.lower() in SUFFIXES
    wants_images = card.preprocessing["kind"] == "image"
    if is_images != wants_images:
        needed, given = ("images", "a table") if wants_images else ("a table", "images")
        raise ValueError(f"the bundle {card.name!r} takes {needed}, {path} is {given}")
    return _images(path, card, labelled) if is_images else _rows(path, card.preprocessing, labelled)


def _rows(path: Path, preprocessing: Mapping[str, Any], labelled: bool) -> Iterator[Chunk]:
    preparation = TablePreprocessor.from_dict(preprocessing)
    target, names = preprocessing["target"], preprocessing["id_column"]
    features = [column.name for column in preparation.numeric] + list(preparation.text_columns)
    needed = [*features, *([target] if labelled else [])]
    text = [*preparation.text_columns, *([names] if names is not None else [])]
    positives, others = 0, set[str]()
    read = [*needed, *text]
    for chunk in table_chunks(path, header=preprocessing["header"], text=text, rows=ROWS, needed=read):
        _check_present(chunk, needed, path)
        ids = chunk[names] if names is not None and names in chunk.columns else chunk.index
        labels = _labels(chunk[target], preprocessing["positive"], path) if labelled else None
        if labels is not None:
            positives += int(labels.sum())
            if not positives and len(others) < SHOWN:
                others |= set(label_texts(chunk[target]))
        yield Chunk([str(name) for name in ids], preparation.transform(chunk[features]), [""] * len(chunk), labels)
    if others and not positives:  # another spelling of the positive value must not pass for a negative one
        listing = ", ".join(map(repr, sorted(others)[:SHOWN])) + (", …" if len(others) > SHOWN else "")
        raise ValueError(
            f"{path}: target {target!r} holds {listing};"
            f" the bundle's positive value is {preprocessing['positive']!r}"
        )


def _check_present(rows: pd.DataFrame, needed: list[str], path: Path) -> None:
    missing = [name for name in needed if name not in rows.columns]
    if missing:
        raise ValueError(
            f"{path} lacks {len(missing)} of the {len(needed)} columns that the bundle needs: {', '.join(missing)};"
            f" it has {', '.join(map(str, rows.columns[:20]))}"
        )


def _labels(values: "pd.Series[Any]", positive: str, path: Path) -> NDArray[np.int64]:
    empty = np.flatnonzero(values.isna().to_numpy())
    if len(empty):
        raise ValueError(f"{path}: the target {values.name!r} is empty in row {values.index[empty[0]]}")
    return is_positive(values, positive)


def _images(path: Path, card: BundleCard, labelled: bool) -> Iterator[Chunk]:
    home = path if path.is_dir() else path.parent
    if labelled and card.classes[1] not in class_folders(home):
        raise ValueError(
            f"{home} has no folder {card.classes[1]!r}, which the bundle calls positive: there are"
            f" {', '.join(class_folders(home))}"
        )
    size = card.preprocessing["height"], card.preprocessing["width"]

    def attempt(image: Path) -> NDArray[np.uint8] | str:
        try:
            return read_image(image, size)
        except FileNotFoundError:
            return "missing"
        except (ValueError, OSError) as error:
            return str(error) or type(error).__name__

    some = False
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for files in _batched(_walk(path, in_class_folders=labelled) if path.is_dir() else iter([path])):
            some = True
            results = list(pool.map(attempt, files))
            good = [result for result in results if not isinstance(result, str)]
            labels = None
            if labelled:
                kinds = [file.relative_to(home).parts[0] for file in files]
                labels = np.asarray([kind == card.classes[1] for kind in kinds], dtype=np.int64)
            yield Chunk(
                [file.relative_to(home).as_posix() for file in files],
                np.stack(good) if good else np.empty((0, *size, 3), np.uint8),
                [result if isinstance(result, str) else "" for result in results],
                labels,
            )
    if not some:
        raise ValueError(f"{path} holds no images: looked for {', '.join(sorted(SUFFIXES))}")


def _walk(folder: Path, top: bool = True, in_class_folders: bool = False) -> Iterator[Path]:
    """Image files in the order of names, a folder at a time, so that only one folder's names are held.

    Links to folders are followed at the top only: deeper they might lead in circles.
    """
    with os.scandir(folder) as entries:
        found = sorted((e.name, e.is_dir(follow_symlinks=top)) for e in entries if not e.name.startswith("."))
    for name, is_folder in found:
        place = folder / name
        if is_folder:
            yield from _walk(place, top=False)
        elif place.suffix.lower() in SUFFIXES and not in_class_folders:
            yield place


def _batched(files: Iterator[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    for file in files:
        batch.append(file)
        if len(batch) == IMAGES:
            yield batch
            batch = []
    if batch:
        yield batch
