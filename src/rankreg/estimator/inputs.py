# ruff: noqa: N803 - scikit-learn's name for the data is X
"""What comes in: rows of numbers, checked by scikit-learn and standardised, or images as they are."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from rankreg.datasets._grouping import distinct_or_none, linked
from rankreg.datasets.images import image_size
from rankreg.datasets.preprocessing import FARTHEST, NumericColumn, TablePreprocessor, is_far, spread, standardised
from rankreg.datasets.splits import image_preprocessing
from rankreg.operating.units import unit_codes

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """(x − mean) / scale of every column, as the training rows had them, within ±`FARTHEST`."""

    median: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, rows: Floats) -> "Rows":
        """Read off the training rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            median, mean, scale = np.median(rows, axis=0), rows.mean(axis=0), spread(rows)
        if not np.isfinite(scale).all():
            raise ValueError("Input X contains values too large to be standardised: rescale these features")
        return cls(median, mean, scale)

    def prepared(self, rows: Floats) -> NDArray[np.float32]:
        """What the network sees."""
        return standardised(rows, self.mean, self.scale).astype(np.float32)

    def check(self, rows: Floats) -> None:
        """No value is so far from the training rows that a score would mean nothing."""
        far = np.argwhere(is_far(rows, self.mean, self.scale))
        if len(far):
            row, column = far[0].tolist()
            raise ValueError(
                f"Input X contains values too large to be scored: X[{row}, {column}] = {rows[row, column]:g} is"
                f" more than {FARTHEST:,.0f} standard deviations from the training mean. Are the units the same?"
            )

    def described(self, names: list[str]) -> dict[str, Any]:
        """As the preprocessing of a bundle, which applies it to tables."""
        numbers = zip(names, self.median.tolist(), self.mean.tolist(), self.scale.tolist(), strict=True)
        columns = tuple(NumericColumn(*values, may_miss=False) for values in numbers)
        return TablePreprocessor(columns, ()).to_dict()


@dataclass(frozen=True)
class Images:
    """uint8 images of one size; the network's first layer normalises them."""

    height: int
    width: int

    def prepared(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What the network sees."""
        return images

    def described(self) -> dict[str, Any]:
        """As the preprocessing of a bundle."""
        return image_preprocessing((self.height, self.width))


def checked(estimator: Any, X: Any, *, known: Rows | Images | None = None) -> NDArray[Any]:
    """The data as float64 rows (N, F) or uint8 images (N, H, W, 3), or scikit-learn's own error.

    known: what the estimator was fitted on; without it, names and number of the features are taken from X.
    """
    if isinstance(known, Images) or (known is None and getattr(X, "ndim", 2) == 4):
        return _checked_images(X, known if isinstance(known, Images) else None)
    rows: NDArray[Any] = validate_data(estimator, X, reset=known is None, dtype=np.float64)
    if known is not None:
        known.check(rows)
    return rows


def _checked_images(X: Any, known: Images | None) -> NDArray[np.uint8]:
    images: NDArray[Any] = check_array(X, allow_nd=True, ensure_2d=False, dtype=None, input_name="X")
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise ValueError(f"Expected uint8 images (N, H, W, 3), got {images.dtype} of shape {images.shape} instead.")
    size = image_size(images.shape[1:3])
    if known is not None and size != (known.height, known.width):
        raise ValueError(
            f"X has images of {size[0]} x {size[1]} pixels, but the classifier is expecting"
            f" {known.height} x {known.width} as input."
        )
    return images


def checked_units(data: NDArray[Any], groups: ArrayLike | None, *, copies: bool) -> NDArray[np.int64] | None:
    """A number per row, the same for rows of one group and, with `copies`, for equal rows; None if all differ."""
    codes = [_copies(data)] if copies else []
    if groups is not None:
        check_consistent_length(data, groups)
        codes.append(unit_codes(groups, len(data)))
    return distinct_or_none(linked(*codes)) if codes else None


def _copies(data: NDArray[Any]) -> NDArray[np.int64]:
    """A number per distinct row or image, in the order of their first appearance."""
    rows = np.ascontiguousarray(data.reshape(len(data), -1) + data.dtype.type(0))  # -0.0 and 0.0 are equal
    numbers: dict[bytes, int] = {}
    digests = (hashlib.blake2b(row, digest_size=16).digest() for row in rows)
    return np.asarray([numbers.setdefault(digest, len(numbers)) for digest in digests], dtype=np.int64)


def checked_weights(sample_weight: ArrayLike | None, rows: int) -> Floats | None:
    """One weight per row, finite and not negative, not all of them 0."""
    if sample_weight is None:
        return None
    weights: Floats = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    check_consistent_length(np.empty(rows), weights)
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`.")
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights
