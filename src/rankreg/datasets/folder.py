"""A folder of images, one folder per class."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rankreg._names import look_up
from rankreg._untrusted import check_regular
from rankreg.datasets._grouping import SHARES, check_both_classes, check_parts, stratified_parts
from rankreg.datasets.images import SUFFIXES, decode, image_size
from rankreg.datasets.splits import Samples, Splits, image_preprocessing


def image_folder(
    path: Path | str,
    *,
    positive: str | None = None,
    size: int | Sequence[int] = 64,
    seed: int = 0,
    member: int = 0,
    shares: Mapping[str, float] = SHARES,
    cache: Path | str | None = None,
) -> Splits:
    """The images below `path`: folders `negative` and `positive`, or one per class, `positive` the critical one.

    Ids are paths relative to `path`. Images are squeezed to `size`; those of equal bytes stay in one part; parts
    are stratified by class and cut by `seed`; another `member` of an ensemble gets other training and validation
    images, the rest alike. With `cache`, a folder, decoded images are kept there instead of in memory.
    """
    home, sides = Path(path), image_size(size)
    kinds = class_folders(home)
    critical = _critical(home, kinds, positive)
    paths = [image for kind in kinds for image in list_images(home / kind)]
    ids = np.asarray([image.relative_to(home).as_posix() for image in paths])
    classes = np.asarray([kinds.index(name.split("/")[0]) for name in ids])
    labels = (classes == kinds.index(critical)).astype(np.int64)
    check_both_classes(labels, shares, ("negative", "positive"))

    copies = np.asarray([_digest(image) for image in paths])
    parts = stratified_parts(classes, copies, shares, seed=seed, member=member)
    check_parts(labels, parts, "too many images are copies of each other")
    images = decode(paths, ids.tolist(), sides, cache=Path(cache) if cache is not None else None)
    others = [kind for kind in kinds if kind != critical]
    return Splits(
        name=home.resolve().name,
        parts={name: Samples(images, rows, labels[rows], ids[rows]) for name, rows in parts.items()},
        classes=(others[0] if len(others) == 1 else "other", critical),
        preprocessing=image_preprocessing(sides),
    )


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
