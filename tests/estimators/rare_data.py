"""Small real data with a rare class, and settings that learn them in a fraction of a second."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from rankreg.models import MLPShape

Array = NDArray[Any]
QUICK: dict[str, Any] = {
    "epochs": 8,
    "network": MLPShape(hidden=(16,), dropout=0.1),
    "learning_rate": 0.01,
    "random_state": 0,
}


@cache
def cancer() -> tuple[Array, Array]:
    """Breast cancer with two of three malignant ones left out: 71 of 428."""
    rows, y = load_breast_cancer(return_X_y=True)
    malignant = np.flatnonzero(y == 0)
    kept = np.setdiff1d(np.arange(len(y)), malignant[np.arange(len(malignant)) % 3 > 0])
    return rows[kept], (y[kept] == 0).astype(int)


def eights(negatives: int = 300, positives: int = 30) -> tuple[Array, Array]:
    """Rare eights among the digits, as grey uint8 images."""
    digits = load_digits()
    labels = digits.target == 8
    kept = np.concatenate([np.flatnonzero(~labels)[:negatives], np.flatnonzero(labels)[:positives]])
    images = np.repeat((digits.images[kept] * 15.9).astype(np.uint8)[..., None], 3, axis=3)
    return images, labels[kept].astype(int)
