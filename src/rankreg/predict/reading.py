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
from rankreg.datasets.images import SUFFIXES, class_folders, folder_labels, read_image
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.labels import LabelRule, listing, read_labels
from rankreg.table_files import table_chunks

IMAGES = 128  # decoded at once
ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples in their order: every one has an id; `inputs` has a row for each whose problem is empty.

    labels, when they were asked for: 0 / 1, and for rows of a table that have a problem −1.
    """

    ids: list[str]
    inputs: NDArray[Any]
    problems: list[str]
    labels: NDArray[np.int64] | None = None


def read_chunks(data: Path | str, card: BundleCard, *, labels: LabelRule | None = None) -> Iterator[Chunk]:
    """The samples of a table, or of a folder of images (or a single one), as the bundle needs them.

    labels: read the target column, or take the first folder's name for the class, by this rule.
    """
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}")
    is_images = path.is_dir() or path.suffix.lower() in SUFFIXES
    wants_images = card.preprocessing["kind"] == "image"
    if is_images != wants_images:
        needed, given = ("images", "a table") if wants_images else ("a table", "images")
        raise ValueError(f"the bundle {card.name!r} takes {needed}, {path} is {given}")
    return _images(path, card, labels) if is_images else _rows(path, card.preprocessing, labels)


def _rows(path: Path, preprocessing: Mapping[str, Any], rule: LabelRule | None) -> Iterator[Chunk]:
    preparation = TablePreprocessor.from_dict(preprocessing)
    target, names = preprocessing["target"], preprocessing["id_column"]
    needed = [*preparation.columns, *([target] if rule is not None else [])]
    text = [*preparation.text_columns, *([names] if names is not None else [])]
    count, positives, others = 0, 0, dict[str, None]()
    read = [*needed, *text]
    for chunk in table_chunks(path, header=preprocessing["header"], text=text, rows=ROWS, needed=read):
        rows = chunk.rows
        _check_present(rows, needed, path)
        ids = rows[names] if names is not None and names in rows.columns else rows.index + 1
        found = zip(rows.index, preparation.problems(rows), strict=True)
        problems = [
            f"{chunk.name_row(row)}: {fault}" if (fault := chunk.faults.get(row) or cells) else ""
            for row, cells in found
        ]
        good = np.asarray([not problem for problem in problems], dtype=bool)
        labels = None
        if rule is not None:
            labels = np.full(len(rows), -1, dtype=np.int64)
            labels[good], reading = read_labels(
                rows.loc[good, target],
                rule,
                f"{path}: the target {target!r}",
                partial=True,
                name_row=chunk.name_row,
            )
            positives += reading.positives
            others |= dict.fromkeys(reading.others)
        count += len(rows)
        yield Chunk([str(name) for name in ids], preparation.transform(rows.loc[good]), problems, labels)
    if rule is not None and count and not positives:
        raise ValueError(
            f"{path}: the target {target!r} holds {listing(map(repr, others))} and no {rule.positive!r}, which the"
            " bundle calls positive"
        )


def _check_present(rows: pd.DataFrame, needed: list[str], path: Path) -> None:
    missing = [name for name in needed if name not in rows.columns]
    if missing:
        raise ValueError(
            f"{path} lacks {len(missing)} of the {len(needed)} columns that the bundle needs: {', '.join(missing)};"
            f" it has {', '.join(map(str, rows.columns[:20]))}"
        )


def _images(path: Path, card: BundleCard, rule: LabelRule | None) -> Iterator[Chunk]:
    home = path if path.is_dir() else path.parent
    if rule is not None and rule.positive not in class_folders(home):
        raise ValueError(
            f"{home} has no folder {rule.positive!r}, which the bundle calls positive: there are"
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
        for files in _batched(_walk(path, in_class_folders=rule is not None) if path.is_dir() else iter([path])):
            some = True
            results = list(pool.map(attempt, files))
            good = [result for result in results if not isinstance(result, str)]
            ids = [file.relative_to(home).as_posix() for file in files]
            yield Chunk(
                ids,
                np.stack(good) if good else np.empty((0, *size, 3), np.uint8),
                [result if isinstance(result, str) else "" for result in results],
                None if rule is None else folder_labels(ids, rule, home, partial=True)[0],
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
