"""CIFAR-10 and CIFAR-100 as rare-class tasks (binary, any ratio), and long-tailed CIFAR-10."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets.cifar_files import Pictures, class_indices, read_cifar
from rankreg.datasets.partitions import (
    DRAW,
    NoiseName,
    Partition,
    binary_split,
    flip_labels,
    long_tail_counts,
    partition_class,
    shuffled,
)
from rankreg.datasets.splits import Samples, Splits, image_preprocessing

Class = int | str
PICTURE = image_preprocessing((32, 32))

# (negative classes, positive classes) of the 5,000 or 500 training images per class: docs/decisions/0010
PARTITIONS = {
    "cifar10": (Partition(validation=100, tuning=245), Partition(validation=100, tuning=900, extended=3000)),
    "cifar100": (Partition(validation=50, tuning=25), Partition(validation=50, tuning=100, extended=150)),
}


def cifar10(
    data_dir: Path | str | None = None,
    *,
    ratio: float = 100,
    seed: int = 0,
    negatives: Sequence[Class] = (1,),
    positives: Sequence[Class] = (9,),
    noise: float = 0.0,
    noise_kind: NoiseName = "balanced",
    partitions: tuple[Partition, Partition] = PARTITIONS["cifar10"],
) -> Splits:
    """Automobiles against rare trucks, or any other classes, by index or name.

    `ratio` training negatives per positive; `seed` draws the split; `noise` is the share η of training labels
    flipped. Validation, tuning, extended and official test are the same for every seed and ratio down to 5
    (lower ones shorten the extended test).
    """
    return _binary("cifar10", data_dir, ratio, seed, negatives, positives, noise, noise_kind, partitions)


def cifar100(
    data_dir: Path | str | None = None,
    *,
    ratio: float = 100,
    seed: int = 0,
    negatives: Sequence[Class] = (72, 4, 95, 30, 55),
    positives: Sequence[Class] = (73,),
    noise: float = 0.0,
    noise_kind: NoiseName = "balanced",
    partitions: tuple[Partition, Partition] = PARTITIONS["cifar100"],
) -> Splits:
    """Aquatic mammals against rare sharks, or any other fine classes; arguments as in `cifar10`."""
    return _binary("cifar100", data_dir, ratio, seed, negatives, positives, noise, noise_kind, partitions)


def cifar10_long_tailed(
    data_dir: Path | str | None = None,
    *,
    imbalance: float = 100,
    seed: int = 0,
    critical: Class = 9,
    validation: int = 100,
) -> Splits:
    """All ten classes, class k thinned to n₀ · imbalance^(−k/9); labels stay class indices.

    `validation` images per class are set apart first, the same ones for every seed; truck, the rarest class, is
    critical unless another is named.
    """
    pictures = read_cifar("cifar10", data_dir)
    members = _members(pictures, range(len(pictures.class_names)))
    largest = min(len(indices) for indices in members.values()) - validation
    train, held_out = [], []
    for label, count in enumerate(long_tail_counts(largest, imbalance, len(members))):
        cut = partition_class(members[label], Partition(validation), label=label, at_least=count)
        train.append(shuffled(cut["pool"], DRAW, seed, label)[:count])
        held_out.append(cut["validation"])
    rows = {
        "train": np.concatenate(train),
        "validation": np.concatenate(held_out),
        "test": np.flatnonzero(pictures.ids >= pictures.first_test_id),
    }
    return Splits(
        name=f"cifar10-lt-{imbalance:g}",
        parts={name: _samples(pictures, part, pictures.labels[part]) for name, part in rows.items()},
        classes=pictures.class_names,
        critical=class_indices(pictures.class_names, [critical])[0],
        preprocessing=PICTURE,
    )


def _binary(
    name: str,
    data_dir: Path | str | None,
    ratio: float,
    seed: int,
    negatives: Sequence[Class],
    positives: Sequence[Class],
    noise: float,
    noise_kind: NoiseName,
    partitions: tuple[Partition, Partition],
) -> Splits:
    pictures = read_cifar(name, data_dir, [*negatives, *positives])
    no, yes = (class_indices(pictures.class_names, side) for side in (negatives, positives))
    if not no or not yes or len({*no, *yes}) < len(no) + len(yes):
        raise ValueError(f"give at least one class on each side, each class once: got {negatives} and {positives}")
    parts = binary_split(
        _members(pictures, [*no, *yes]),
        no,
        yes,
        negative_sizes=partitions[0],
        positive_sizes=partitions[1],
        ratio=ratio,
        seed=seed,
    )
    official = np.flatnonzero(pictures.ids >= pictures.first_test_id)
    is_critical = np.isin(pictures.labels, yes)
    parts["test"] = (official[~is_critical[official]], official[is_critical[official]])
    samples = {}
    for part, sides in parts.items():
        rows = np.sort(np.concatenate(sides))
        labels = is_critical[rows].astype(np.int64)
        if part == "train" and noise:
            labels = flip_labels(labels, noise, noise_kind, seed=seed)
        if len(rows):
            samples[part] = _samples(pictures, rows, labels)
    return Splits(
        name=f"{name}-{ratio:g}",
        parts=samples,
        classes=(_named(pictures, no), _named(pictures, yes)),
        preprocessing=PICTURE,
    )


def _members(pictures: Pictures, labels: Sequence[int]) -> dict[int, NDArray[np.int64]]:
    """Where the training images of each class are."""
    training = pictures.ids < pictures.first_test_id
    return {label: np.flatnonzero(training & (pictures.labels == label)) for label in labels}


def _samples(pictures: Pictures, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> Samples:
    return Samples(pictures.images, rows, labels, pictures.ids[rows])


def _named(pictures: Pictures, labels: Sequence[int]) -> str:
    return " or ".join(pictures.class_names[label] for label in labels)
