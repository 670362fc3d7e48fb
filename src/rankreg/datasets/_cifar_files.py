"""The official CIFAR folders and archives, read in place."""

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg._tables import DAMAGE, is_of_the_system
from rankreg._untrusted import check_regular
from rankreg.datasets._pickles import LARGEST_FILE, read_pickle
from rankreg.datasets._progress import progress_bar
from rankreg.datasets.catalog import located

MOST = 1000  # classes; CIFAR-100 has 100
LONGEST_NAME = 200  # bytes


@dataclass(frozen=True)
class Layout:
    """Names inside an official folder or archive."""

    folder: str
    train: tuple[str, ...]
    test: str
    labels: bytes
    meta: str
    names: bytes


LAYOUTS = {
    "cifar10": Layout(
        folder="cifar-10-batches-py",
        train=tuple(f"data_batch_{k}" for k in range(1, 6)),
        test="test_batch",
        labels=b"labels",
        meta="batches.meta",
        names=b"label_names",
    ),
    "cifar100": Layout(
        folder="cifar-100-python",
        train=("train",),
        test="test",
        labels=b"fine_labels",
        meta="meta",
        names=b"fine_label_names",
    ),
}


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images (N, 32, 32, 3) of the wanted classes; ids count the training images first, then the test images."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    ids: NDArray[np.int64]
    first_test_id: int
    class_names: tuple[str, ...]


def read_cifar(name: str, data_dir: Path | str | None, wanted: Sequence[int | str] | None = None) -> Pictures:
    """The images of the wanted classes (indices or names; all of them by default)."""
    layout, place = LAYOUTS[name], located(name, data_dir)
    class_names: tuple[str, ...] = ()
    kept: dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]] = {}
    for file, content in _files(place, layout):
        source = f"{place}: {file}"
        fields = read_pickle(content, source)
        if file == layout.meta:
            class_names = _class_names(_field(fields, layout.names, source), source)
        else:
            kept[file] = _pixels_and_labels(fields, layout, source)
    chosen = class_indices(class_names, wanted if wanted is not None else range(len(class_names)))
    counts = [len(kept[file][1]) for file in (*layout.train, layout.test)]
    labels = np.concatenate([kept[file][1] for file in (*layout.train, layout.test)])
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names):
        raise ValueError(f"{place}: labels are not in 0 … {len(class_names) - 1}")
    ids = np.flatnonzero(np.isin(labels, chosen))
    pixels = [
        kept[file][0][np.isin(kept[file][1], chosen)].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        for file in (*layout.train, layout.test)
    ]
    return Pictures(np.concatenate(pixels, dtype=np.uint8), labels[ids], ids, sum(counts[:-1]), class_names)


def class_indices(names: Sequence[str], wanted: Sequence[int | str]) -> list[int]:
    """Class indices, from indices or names."""
    chosen = []
    for label in wanted:
        index = names.index(label) if label in names else label
        if not isinstance(index, int | np.integer) or not 0 <= index < len(names):
            raise ValueError(
                f"unknown class {label!r}: give an index in 0 … {len(names) - 1} or a name: {', '.join(names)}"
            )
        chosen.append(int(index))
    return chosen


def _files(place: Path, layout: Layout) -> Iterator[tuple[str, bytes]]:
    """Each file that is needed, with its bytes. Archives are read, never unpacked: no member can land anywhere."""
    needed = {*layout.train, layout.test, layout.meta}
    if place.is_dir():
        for file in sorted(needed):
            path = place / file
            if not path.is_file():
                raise FileNotFoundError(f"{place} is incomplete: {file} is missing; remove it and get it again")
            _check_size(path.stat().st_size, f"{place}: {file}")
            yield file, path.read_bytes()
        return
    found: set[str] = set()
    check_regular(place)
    try:
        with tarfile.open(place, "r|*") as archive, progress_bar() as progress:
            task = progress.add_task(f"reading {place.name}", total=len(needed))
            for member in archive:
                folder, _, file = member.name.removeprefix("./").rpartition("/")
                if folder == layout.folder and file in needed - found and member.isfile():
                    _check_size(member.size, f"{place}: {member.name}")
                    stream = archive.extractfile(member)
                    assert stream is not None  # a regular file has one
                    found.add(file)
                    yield file, stream.read()
                    progress.advance(task)
    except (*DAMAGE, OSError) as error:
        if is_of_the_system(error):
            raise
        raise ValueError(f"{place} is not a tar archive or is damaged: {error}; get it again") from error
    if missing := needed - found:
        raise ValueError(f"{place} lacks {', '.join(sorted(missing))}: it is not the official archive")


def _check_size(size: int, name: str) -> None:
    if size > LARGEST_FILE:
        raise ValueError(f"{name} has {size} bytes: no official CIFAR file is that large")


def _field(fields: dict[bytes, Any], key: bytes, source: str) -> Any:
    if key not in fields:
        raise ValueError(f"{source} is not an official CIFAR file: it has no {key.decode()!r}")
    return fields[key]


def _class_names(names: Any, source: str) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(
        isinstance(name, bytes) and len(name) < LONGEST_NAME for name in names
    ):
        raise ValueError(f"{source} is not an official CIFAR file: its classes have no names")
    return tuple(name.decode("latin1") for name in names)


def _pixels_and_labels(
    fields: dict[bytes, Any], layout: Layout, source: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    pixels, labels = _field(fields, b"data", source), _field(fields, layout.labels, source)
    good = isinstance(pixels, np.ndarray) and pixels.shape[1:] == (3072,)
    if not good or not isinstance(labels, list) or not all(type(k) is int and 0 <= k < MOST for k in labels):
        raise ValueError(f"{source} is not an official CIFAR file: expected rows of 3072 bytes and integer labels")
    if len(labels) != len(pixels):
        raise ValueError(f"{source} has {len(pixels)} images and {len(labels)} labels")
    return pixels, np.asarray(labels, dtype=np.int64)
