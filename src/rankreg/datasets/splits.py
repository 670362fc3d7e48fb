"""Samples with inputs, labels and ids: one's own as a whole, and the parts that every data set gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Samples:
    """One part of a data set: rows of a source array (perhaps a memory map), with a label and an id each.

    Args:
        source: uint8 images (M, H, W, 3) or float32 rows (M, F), shared by all parts.
        rows: which rows of the source are in this part.
        labels: 0 or 1 with 1 critical, or class indices.
        ids: integers or strings that name the samples.
        units: a number per sample, the same for samples that are not independent of each other (copies,
            images of one patient) in all parts; None if every sample is a unit of its own.
    """

    source: NDArray[Any]
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    ids: NDArray[Any]
    units: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not len(self.rows) == len(self.labels) == len(self.ids):
            raise ValueError(f"{len(self.rows)} rows, {len(self.labels)} labels and {len(self.ids)} ids differ")
        if self.units is not None and len(self.units) != len(self.rows):
            raise ValueError(f"{len(self.rows)} rows and {len(self.units)} units differ")

    def __len__(self) -> int:
        return len(self.rows)

    def inputs(self, positions: NDArray[np.int64] | slice = slice(None)) -> NDArray[Any]:
        """The inputs of some samples.

        Args:
            positions: their positions in the part; by default all.
        """
        return np.asarray(self.source[self.rows[positions]])

    def take(self, positions: NDArray[np.int64]) -> "Samples":
        """Some samples as a part of their own.

        Args:
            positions: their positions in the part.
        """
        units = None if self.units is None else self.units[positions]
        return Samples(self.source, self.rows[positions], self.labels[positions], self.ids[positions], units)


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set cut into disjoint parts.

    Args:
        name: what to call the data set.
        parts: "train", "validation" and some of "tuning", "calibration", "test", "extended". The last has
            fresh positives only: the extended test set is `join("test", "extended")`.
        classes: the names of the classes, by label.
        critical: the label of the critical class.
        preprocessing: how inputs came from files, as JSON values, so that a saved model treats new files alike.
    """

    name: str
    parts: Mapping[str, Samples]
    classes: tuple[str, ...] = ("negative", "positive")
    critical: int = 1
    preprocessing: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, part: str) -> Samples:
        if part not in self.parts:
            raise KeyError(f"{self.name} has no part {part!r}: it has {', '.join(self.parts)}")
        return self.parts[part]

    def join(self, *names: str) -> Samples:
        """Several parts as one, in this order.

        Args:
            names: the parts.
        """
        parts = [self[name] for name in names]
        units = [part.units for part in parts if part.units is not None]
        return Samples(
            parts[0].source,
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate(units) if units else None,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnData:
    """All samples of one's own data, not yet cut into parts: an `OwnTable` or `OwnImages`.

    Attributes:
        name: what to call the data.
        labels: 0 or 1 for each sample, (N,).
        ids: the names of the samples, (N,).
        units: the number of each sample's unit, where copies and groups make units of several; else None.
        classes: the names of the negative and of the positive class.
        preprocessing: what a bundle must know, beside a `TablePreprocessor`, to read new samples alike.
        temporary: nobody needs the samples after a fit, which may empty a table to save memory.
    """

    kind: ClassVar[Literal["table", "image"]]

    name: str
    labels: NDArray[np.int64]
    ids: NDArray[Any]
    units: NDArray[np.int64] | None
    classes: tuple[str, str]
    preprocessing: Mapping[str, Any]
    temporary: bool = False

    def units_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The units of some samples."""
        return None if self.units is None else self.units[rows]


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnImages(OwnData):
    """A folder of images as uint8 (N, H, W, 3), perhaps a memory map."""

    kind: ClassVar[Literal["table", "image"]] = "image"

    images: NDArray[np.uint8]


def samples_of(
    parts: Mapping[str, NDArray[np.int64]],
    source: NDArray[Any],
    labels: NDArray[np.int64],
    ids: NDArray[Any],
    units: NDArray[np.int64] | None = None,
) -> dict[str, Samples]:
    """Each part's samples, where parts say which rows of the source it has."""
    return {
        name: Samples(source, rows, labels[rows], ids[rows], None if units is None else units[rows])
        for name, rows in parts.items()
    }


def image_preprocessing(size: tuple[int, int]) -> dict[str, Any]:
    """What a saved model must know to read new images: height and width."""
    return {"kind": "image", "height": size[0], "width": size[1]}
