"""scikit-learn's handwritten digits, one of them rare: embedded, nothing to download."""

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets.partitions import DRAW, Partition, binary_split, long_tail_counts, partition_class, shuffled
from rankreg.datasets.splits import Samples, Splits

# Of about 180 images of a digit. Positives that are never trained on are test data.
NEGATIVES = Partition(validation=27, test=45)
POSITIVES = Partition(validation=27, test=45, extended=42)


def digits(*, critical: int = 8, ratio: float = 50, seed: int = 0) -> Splits:
    """One digit against the nine others, 64 grey values in 0 … 1.

    `ratio` training negatives per positive; `seed` draws the split; validation and test are the same for every seed
    and ratio down to 15 (lower ones shorten the test part).
    """
    if critical not in range(10):
        raise ValueError(f"critical must be a digit 0 … 9, got {critical!r}")
    inputs, targets = _rows()
    others = [digit for digit in range(10) if digit != critical]
    found = binary_split(
        {digit: np.flatnonzero(targets == digit) for digit in range(10)},
        others,
        [critical],
        negative_sizes=NEGATIVES,
        positive_sizes=POSITIVES,
        ratio=ratio,
        seed=seed,
    )
    parts = {}
    for name, pieces in {"train": ["train"], "validation": ["validation"], "test": ["test", "extended"]}.items():
        rows = np.sort(np.concatenate([side for piece in pieces for side in found[piece]]))
        parts[name] = Samples(inputs, rows, (targets[rows] == critical).astype(np.int64), rows)
    return Splits(name=f"digits-{critical}-{ratio:g}", parts=parts, classes=("another digit", str(critical)))


def digits_long_tailed(*, imbalance: float = 20, seed: int = 0, critical: int = 9) -> Splits:
    """All ten digits, digit k thinned to n₀ · imbalance^(−k/9); labels stay the digits, 9 is critical."""
    if critical not in range(10):
        raise ValueError(f"critical must be a digit 0 … 9, got {critical!r}")
    inputs, targets = _rows()
    members = {digit: np.flatnonzero(targets == digit) for digit in range(10)}
    largest = min(map(len, members.values())) - NEGATIVES.validation - NEGATIVES.test
    parts: dict[str, list[NDArray[np.int64]]] = {"train": [], "validation": [], "test": []}
    for digit, count in enumerate(long_tail_counts(largest, imbalance, len(members))):
        cut = partition_class(members[digit], NEGATIVES, label=digit, at_least=count)
        parts["train"].append(shuffled(cut["pool"], DRAW, seed, digit)[:count])
        parts["validation"].append(cut["validation"])
        parts["test"].append(cut["test"])
    rows = {name: np.concatenate(pieces) for name, pieces in parts.items()}
    return Splits(
        name=f"digits-lt-{imbalance:g}",
        parts={name: Samples(inputs, part, targets[part], part) for name, part in rows.items()},
        classes=tuple(map(str, range(10))),
        critical=critical,
    )


def _rows() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    images, targets = load_digits(return_X_y=True)
    return np.asarray(images / 16, dtype=np.float32), np.asarray(targets, dtype=np.int64)
