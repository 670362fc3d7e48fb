"""scikit-learn's handwritten digits, one of them rare: nothing to download."""

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets.partitions import Partition, binary_split, long_tailed_split
from rankreg.datasets.splits import Splits, samples_of
from rankreg.names import renamed

# Of about 180 images of a digit. Positives that are never trained on are test data.
NEGATIVES = Partition(validation=27, test=45)
POSITIVES = Partition(validation=27, test=45, extended=42)


@renamed(critical="positive")
def digits(*, positive: int = 8, ratio: float = 50, seed: int = 0) -> Splits:
    """Load one digit against the nine others, as rows of 64 grey values in 0 … 1.

    Validation and test parts are the same for every seed and for ratios down to 15. Lower ratios shorten
    the test part.

    Args:
        positive: the rare digit.
        ratio: training negatives per positive.
        seed: draws the training samples.

    Returns:
        The parts "train", "validation" and "test".

    >>> digits(positive=8, ratio=50)["train"].labels.sum()
    np.int64(17)
    """
    inputs, targets, members = _rows(positive)
    others = [digit for digit in range(10) if digit != positive]
    found = binary_split(members, others, [positive], sizes=(NEGATIVES, POSITIVES), ratio=ratio, seed=seed)
    found["test"] = np.sort(np.append(found["test"], found["extended"]))
    parts = {name: found[name] for name in ("train", "validation", "test")}
    labels = (targets == positive).astype(np.int64)
    return Splits(
        name=f"digits-{positive}-{ratio:g}",
        parts=samples_of(parts, inputs, labels, np.arange(len(inputs))),
        classes=("another digit", str(positive)),
    )


@renamed(critical="positive")
def digits_long_tailed(*, imbalance: float = 20, seed: int = 0, positive: int = 9) -> Splits:
    """Load all ten digits, digit k thinned to n₀ · imbalance^(−k/9); labels stay the digits.

    Args:
        imbalance: images of the largest class per image of the smallest.
        seed: draws the training samples.
        positive: the critical digit.

    Returns:
        The parts "train", "validation" and "test".
    """
    inputs, targets, members = _rows(positive)
    parts = long_tailed_split(members, NEGATIVES, imbalance=imbalance, seed=seed)
    return Splits(
        name=f"digits-lt-{imbalance:g}",
        parts=samples_of(parts, inputs, targets, np.arange(len(inputs))),
        classes=tuple(map(str, range(10))),
        critical=positive,
    )


def _rows(positive: int) -> tuple[NDArray[np.float32], NDArray[np.int64], dict[int, NDArray[np.int64]]]:
    """Inputs, digits, and where each digit is."""
    from sklearn.datasets import load_digits

    if positive not in range(10):
        raise ValueError(f"positive must be a digit 0 … 9, got {positive!r}")
    images, targets = load_digits(return_X_y=True)
    members = {digit: np.flatnonzero(targets == digit) for digit in range(10)}
    return np.asarray(images / 16, dtype=np.float32), np.asarray(targets, dtype=np.int64), members
