"""CIFAR-10 and CIFAR-100 as rare-class tasks (binary, any ratio), and long-tailed CIFAR-10."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets.cifar_files import Pictures, class_indices, read_cifar
from rankreg.datasets.partitions import Partition, binary_split, flip_labels, long_tailed_split
from rankreg.datasets.splits import Samples, Splits, image_preprocessing, samples_of
from rankreg.names import renamed

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
