"""CIFAR-10 and CIFAR-100 as rare-class tasks. The official files are read in place, as data only."""

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
from rankreg.datasets.partitions import Partition, binary_split, flip_labels, long_tailed_split
from rankreg.datasets.splits import Samples, Splits, image_preprocessing, samples_of
from rankreg.names import renamed
from rankreg.safe_files import check_regular
from rankreg.table_files import DAMAGE, is_of_the_system
from rankreg.terminal import progress_bar

Class = int | str
PICTURE = image_preprocessing((32, 32))

# (negative classes, positive classes) of the 5,000 or 500 training images per class: docs/decisions/0010
PARTITIONS = {
    "cifar10": (Partition(validation=100, tuning=245), Partition(validation=100, tuning=900, extended=3000)),
    "cifar100": (Partition(validation=50, tuning=25), Partition(validation=50, tuning=100, extended=150)),
}

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


def cifar10(
    data_dir: Path | str | None = None,
    *,
    ratio: float = 100,
    seed: int = 0,
    negatives: Sequence[Class] = (1,),
    positives: Sequence[Class] = (9,),
    noise: float = 0.0,
    noise_kind: str = "balanced",
    partitions: tuple[Partition, Partition] = PARTITIONS["cifar10"],
) -> Splits:
    """Load automobiles against rare trucks, or any other classes of CIFAR-10.

    Validation, tuning, extended and official test parts are the same for every seed and for ratios down
    to 5. Lower ratios shorten the extended test.

    Args:
        data_dir: the folder of the data sets; by default as `rankreg.datasets.catalog.data_folder` says.
        ratio: training negatives per positive.
        seed: draws the training samples.
        negatives: the negative classes, by index or name.
        positives: the critical classes, by index or name.
        noise: the share of training positives that change sides with as many negatives.
        noise_kind: only "balanced", which records name.
        partitions: how many samples of each negative and of each positive class are set apart.

    Returns:
        The parts "train", "validation", "test", "tuning" and "extended", the last with positives only.
    """
    return _binary("cifar10", data_dir, ratio, seed, (negatives, positives), noise, noise_kind, partitions)


def cifar100(
    data_dir: Path | str | None = None,
    *,
    ratio: float = 100,
    seed: int = 0,
    negatives: Sequence[Class] = (72, 4, 95, 30, 55),
    positives: Sequence[Class] = (73,),
    noise: float = 0.0,
    noise_kind: str = "balanced",
    partitions: tuple[Partition, Partition] = PARTITIONS["cifar100"],
) -> Splits:
    """Load aquatic mammals against rare sharks, or any other fine classes; arguments as in `cifar10`."""
    return _binary("cifar100", data_dir, ratio, seed, (negatives, positives), noise, noise_kind, partitions)


@renamed(critical="positive")
def cifar10_long_tailed(
    data_dir: Path | str | None = None,
    *,
    imbalance: float = 100,
    seed: int = 0,
    positive: Class = 9,
    validation: int = 100,
) -> Splits:
    """Load all ten classes, class k thinned to n₀ · imbalance^(−k/9); labels stay class indices.

    Args:
        data_dir: the folder of the data sets; by default as `rankreg.datasets.catalog.data_folder` says.
        imbalance: images of the largest class per image of the smallest.
        seed: draws the training images.
        positive: the critical class, by index or name; by default truck, the rarest.
        validation: images per class that are set apart first, the same for every seed.

    Returns:
        The parts "train", "validation" and "test".
    """
    pictures = read_cifar("cifar10", data_dir)
    members = _members(pictures, range(len(pictures.class_names)))
    rows = long_tailed_split(members, Partition(validation), imbalance=imbalance, seed=seed)
    rows["test"] = np.flatnonzero(pictures.ids >= pictures.first_test_id)
    return Splits(
        name=f"cifar10-lt-{imbalance:g}",
        parts=samples_of(rows, pictures.images, pictures.labels, pictures.ids),
        classes=pictures.class_names,
        critical=class_indices(pictures.class_names, [positive])[0],
        preprocessing=PICTURE,
    )


def _binary(
    name: str,
    data_dir: Path | str | None,
    ratio: float,
    seed: int,
    sides: tuple[Sequence[Class], Sequence[Class]],
    noise: float,
    noise_kind: str,
    partitions: tuple[Partition, Partition],
) -> Splits:
    if noise_kind != "balanced":
        raise ValueError(f"noise_kind must be 'balanced', got {noise_kind!r}")
    pictures = read_cifar(name, data_dir, [*sides[0], *sides[1]])
    no, yes = (class_indices(pictures.class_names, side) for side in sides)
    if not no or not yes or len({*no, *yes}) < len(no) + len(yes):
        raise ValueError(f"give at least one class on each side, each class once: got {sides[0]} and {sides[1]}")
    members = _members(pictures, [*no, *yes])
    parts = binary_split(members, no, yes, sizes=partitions, ratio=ratio, seed=seed)
    parts["test"] = np.flatnonzero(pictures.ids >= pictures.first_test_id)
    labels = np.isin(pictures.labels, yes).astype(np.int64)
    samples = samples_of(
        {part: rows for part, rows in parts.items() if len(rows)}, pictures.images, labels, pictures.ids
    )
    if noise:
        train = samples["train"]
        noisy = flip_labels(train.labels, noise, seed=seed)
        samples["train"] = Samples(train.source, train.rows, noisy, train.ids)
    names = [" or ".join(pictures.class_names[label] for label in side) for side in (no, yes)]
    return Splits(f"{name}-{ratio:g}", samples, classes=(names[0], names[1]), preprocessing=PICTURE)


def _members(pictures: Pictures, labels: Sequence[int]) -> dict[int, NDArray[np.int64]]:
    """Where the training images of each class are."""
    training = pictures.ids < pictures.first_test_id
    return {label: np.flatnonzero(training & (pictures.labels == label)) for label in labels}


def read_cifar(name: str, data_dir: Path | str | None, wanted: Sequence[int | str] | None = None) -> Pictures:
    """The images of the wanted classes (indices or names; all of them by default)."""
    layout, place = LAYOUTS[name], located(name, data_dir)
    class_names: tuple[str, ...] = ()
    kept: dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]] = {}
    for file, content in _files(place, layout):
        source = f"{place}: {file}"
        fields = read_pickle(content, source)
        needed = (layout.names,) if file == layout.meta else (b"data", layout.labels)
        for key in needed:
            if key not in fields:
                raise ValueError(f"{source} is not an official CIFAR file: it has no {key.decode()!r}")
        if file == layout.meta:
            class_names = _class_names(fields[layout.names], source)
        else:
            kept[file] = _pixels_and_labels(fields[b"data"], fields[layout.labels], source)
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


def _class_names(names: Any, source: str) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(
        isinstance(name, bytes) and len(name) < LONGEST_NAME for name in names
    ):
        raise ValueError(f"{source} is not an official CIFAR file: its classes have no names")
    return tuple(name.decode("latin1") for name in names)


def _pixels_and_labels(pixels: Any, labels: Any, source: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
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
