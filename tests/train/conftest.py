"""Small real data: scikit-learn's digits, as rows and as images."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from rankreg.datasets.splits import Samples, Splits


def digit_splits(*, images: bool = False, multiclass: bool = False, size: int = 600) -> Splits:
    """Eights (rare in training: one of twelve kept) against the rest, or ten classes with eight critical."""
    digits = load_digits()
    source: NDArray[np.generic] = (digits.data / 16).astype(np.float32)
    if images:
        grey = (digits.images * 15.9).astype(np.uint8)
        source = np.repeat(grey[..., None], 3, axis=3)
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    train, validation, test = order[:size], order[size : size + 300], order[size + 300 : size + 700]
    rare = np.flatnonzero(labels[train] == 8)
    train = np.delete(train, rare[len(rare) // 4 :])
    if not multiclass:
        labels = (labels == 8).astype(np.int64)
    parts = {
        name: Samples(source, rows, labels[rows], rows)
        for name, rows in (("train", train), ("validation", validation), ("test", test))
    }
    if multiclass:
        return Splits("digits", parts, classes=tuple("0123456789"), critical=8)
    return Splits("digits", parts)


@pytest.fixture(scope="session")
def rows() -> Splits:
    return digit_splits()


@pytest.fixture(scope="session")
def images() -> Splits:
    return digit_splits(images=True, size=200)


@pytest.fixture(scope="session")
def classes() -> Splits:
    return digit_splits(multiclass=True)
