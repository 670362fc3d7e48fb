"""A folder of images, one folder per class."""

import csv
import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg._names import look_up
from rankreg._untrusted import check_regular
from rankreg.datasets._grouping import (
    SHARES,
    check_both_classes,
    check_parts,
    check_shares_kept,
    distinct_or_none,
    linked,
    stratified_parts,
)
from rankreg.datasets.images import SUFFIXES, decode, image_size
from rankreg.datasets.splits import Samples, Splits, image_preprocessing
from rankreg.labels import LabelRule, Reading, read_labels


def image_folder(
    path: Path | str,
    *,
    positive: str | None = None,
    negative: Collection[str] = (),
    rest_negative: bool = False,
    size: int | Sequence[int] = 64,
    seed: int = 0,
    member: int = 0,
    shares: Mapping[str, float] = SHARES,
    groups: Path | str | None = None,
    cache: Path | str | None = None,
) -> Splits:
    """The images below `path`: folders `negative` and `positive`, or one per class, `positive` the critical one.

    With more than two class folders, say which are negative, or rest_negative (`rankreg.labels.LabelRule`).

    Ids are paths relative to `path`. Images are squeezed to `size`. groups: a CSV file with the columns file (as in
    the ids) and group, e.g. a patient, a row per image. Images of one group stay in one part and are one unit, and
    so are images of equal bytes. Parts are stratified by class and cut by `seed`; another `member` of an ensemble
    gets other training and validation images, the rest alike. With `cache`, a folder, decoded images are kept there
    instead of in memory.
    """
    home, sides = Path(path), image_size(size)
    kinds = class_folders(home)
    critical = _critical(home, kinds, positive)
    rule = LabelRule(critical, tuple(negative), rest_negative)
    paths = [image for kind in kinds for image in list_images(home / kind)]
    ids = np.asarray([image.relative_to(home).as_posix() for image in paths])
    classes = np.asarray([kinds.index(name.split("/")[0]) for name in ids])
    labels, found = folder_labels(ids.tolist(), rule, home)
    check_both_classes(labels, shares, ("negative", "positive"))

    units = np.unique([_digest(image) for image in paths], return_inverse=True)[1].astype(np.int64)
    hint = "too many images are copies of each other"
    if groups is not None:
        units = linked(units, read_groups(Path(groups), ids.tolist()))
        hint = f"groups of {groups} are too large or too few: use more images, or try another seed"
    parts = stratified_parts(classes, units, shares, seed=seed, member=member)
    check_shares_kept(parts, shares, hint)
    check_parts(labels, parts, hint)
    images = decode(paths, ids.tolist(), sides, cache=Path(cache) if cache is not None else None)
    shared = distinct_or_none(units)
    return Splits(
        name=home.resolve().name,
        parts={
            name: Samples(images, rows, labels[rows], ids[rows], None if shared is None else shared[rows])
            for name, rows in parts.items()
        },
        classes=(found.negative, critical),
        preprocessing=image_preprocessing(sides) | rule.described(),
    )


def read_groups(path: Path, ids: Sequence[str]) -> NDArray[np.int64]:
    """The group of each image as a number, from a CSV file that names every image once and no other file."""
    places, group_of = {name: place for place, name in enumerate(ids)}, [""] * len(ids)
    check_regular(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            if not {"file", "group"} <= set(rows.fieldnames or ()):
                raise ValueError(
                    f"its columns are {', '.join(rows.fieldnames or ()) or 'none'}: name two file and group"
                )
            for row in rows:
                name, group = PurePosixPath(row["file"] or "").as_posix(), (row["group"] or "").strip()
                if name not in places:
                    raise ValueError(
                        f"line {rows.line_num}: no image {name!r}; paths are relative to the image folder"
                    )
                if group_of[places[name]]:
                    raise ValueError(f"line {rows.line_num}: {name!r} is there twice; give every image one group")
                if not group:
                    raise ValueError(f"line {rows.line_num}: the group of {name!r} is empty")
                group_of[places[name]] = group
    except (ValueError, csv.Error) as error:  # UnicodeDecodeError is a ValueError
        raise ValueError(f"cannot use the groups in {path}: {error}") from error
    missing = [name for name, group in zip(ids, group_of, strict=True) if not group]
    if missing:
        raise ValueError(
            f"cannot use the groups in {path}: {len(missing)} of {len(ids)} images have none, for instance"
            f" {missing[0]!r}; add a line for each"
        )
    return np.unique(group_of, return_inverse=True)[1].astype(np.int64)


def folder_labels(
    ids: Sequence[str], rule: LabelRule, home: Path, *, partial: bool = False
) -> tuple[NDArray[np.int64], Reading]:
    """1 for images of the positive class folder, 0 for those of negative ones, by their paths below `home`."""
    kinds = pd.Series([name.split("/")[0] for name in ids], name="class folder", dtype=object)
    return read_labels(kinds, rule, f"{home}: the class folder", partial=partial)


def list_images(folder: Path) -> list[Path]:
    """Every image file below the folder, in the order of names; hidden files and folders are left out."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(place, name) for name in files if not name.startswith(".")]
    return sorted(path for path in found if path.suffix.lower() in SUFFIXES)


def class_folders(home: Path) -> list[str]:
    """The names of the class folders."""
    if not home.is_dir():
        raise FileNotFoundError(f"{home} is not a folder: give one with a folder of images per class")
    kinds = sorted(place.name for place in home.iterdir() if place.is_dir() and not place.name.startswith("."))
    kinds = [kind for kind in kinds if list_images(home / kind)]
    if len(kinds) < 2:
        raise ValueError(
            f"{home} holds {len(kinds)} folders with images: two or more are needed, one per class,"
            " for instance negative and positive"
        )
    return kinds


def _critical(home: Path, kinds: list[str], positive: str | None) -> str:
    if positive is None:
        if kinds != ["negative", "positive"]:
            raise ValueError(f"say which folder of {home} is the positive class: {', '.join(kinds)}")
        return "positive"
    look_up(dict.fromkeys(kinds), positive, f"class folder in {home}:")
    return positive


def _digest(path: Path) -> str:
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
