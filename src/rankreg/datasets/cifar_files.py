"""The official CIFAR folders and archives, read in place and as data only."""

import io
import pickle
import pickletools
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets.catalog import located
from rankreg.safe_files import check_regular
from rankreg.table_files import DAMAGE, is_of_the_system
from rankreg.terminal import progress_bar

MOST = 1000  # classes; CIFAR-100 has 100
LONGEST_NAME = 200  # bytes
LARGEST_FILE = 400_000_000  # bytes; the largest official file has 155 million
MOST_STEPS = 500_000  # the official file with most of them has 200,362
PUTS = ("PUT", "BINPUT", "LONG_BINPUT")


class Layout(NamedTuple):
    """Names inside an official folder or archive."""

    folder: str
    train: tuple[str, ...]
    test: str
    labels: bytes
    meta: str
    names: bytes


TEN = tuple(f"data_batch_{k}" for k in range(1, 6))
LAYOUTS = {
    "cifar10": Layout("cifar-10-batches-py", TEN, "test_batch", b"labels", "batches.meta", b"label_names"),
    "cifar100": Layout("cifar-100-python", ("train",), "test", b"fine_labels", "meta", b"fine_label_names"),
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


def read_pickle(content: bytes, name: str) -> dict[bytes, Any]:
    """The dictionary in an official CIFAR file, its array as uint8 rows."""
    try:
        _check_memory(content)
        loaded = _Reader(io.BytesIO(content)).load()
    except Exception as error:  # hostile bytes can make the reader raise anything
        raise ValueError(f"{name} is not an official CIFAR file or is damaged: {error}") from error
    if not isinstance(loaded, dict):
        raise ValueError(f"{name} is not an official CIFAR file: it holds no dictionary")
    return {key: _array(value, name) if hasattr(value, "array_state") else value for key, value in loaded.items()}


def _check_memory(content: bytes) -> None:
    """Refuse what takes memory out of proportion: Python's reader sets aside what an instruction asks for first.

    Lengths must lie within the file, and a place in the list of things to remember among those passed already.
    """
    for step, (code, argument, _) in enumerate(pickletools.genops(content)):
        number = argument if isinstance(argument, int) else 0
        if step > MOST_STEPS:
            raise ValueError("it has too many instructions")
        if code.name == "FRAME" and number > len(content):
            raise ValueError("it is cut short")
        if code.name in PUTS and not 0 <= number <= step:
            raise ValueError("it asks for memory that no official file needs")


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="bytes")

        # Made anew for each file: a hostile one could set attributes on them, and must not meet the next.
        class Record:
            array_state: Any = None

            def __init__(self, *ignored: Any) -> None:
                self.arguments = ignored

            def __setstate__(self, state: Any) -> None:
                self.array_state = state

        self._known = {
            ("numpy.core.multiarray", "_reconstruct"): Record,
            ("numpy", "ndarray"): Record,
            ("numpy", "dtype"): Record,
        }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no official file does")
        return self._known[module, name]


def _array(record: Any, name: str) -> NDArray[np.uint8]:
    """The uint8 array that (version, shape, dtype, fortran order, bytes) describe."""
    try:
        _, (rows, columns), dtype, fortran, content = record.array_state
        whole = all(type(value) is int and value >= 0 for value in (rows, columns)) and type(content) is bytes
        good = whole and dtype.arguments[0] in (b"u1", "u1") and not fortran and rows * columns == len(content)
    except (TypeError, ValueError, AttributeError, IndexError):
        good = False
    if not good:
        raise ValueError(f"{name} is not an official CIFAR file: its array is not rows of bytes")
    return np.frombuffer(content, dtype=np.uint8).reshape(rows, columns)
