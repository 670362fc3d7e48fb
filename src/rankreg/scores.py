"""Scores: ids, labels and values of one part of one data set, in memory and on disk. Evaluation starts here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.safe_files import read_arrays, whole_file

__all__ = ["Scores"]


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says about one part of a data set, one row per sample.

    Args:
        ids: the names or numbers of the samples, shape (N,).
        labels: the true classes, shape (N,); 1 for the critical class where there are two.
        values: raw scores, shape (N,), higher = more critical; or logits, shape (N, K).
        units: one number per sample, the same for samples that are not independent of each other,
            e.g. those of one patient. None (default): all samples are independent.

    Raises:
        ValueError: the shapes do not fit together.

    >>> test = Scores(np.array([7, 8]), np.array([0, 1]), np.array([-1.5, 2.0]))
    >>> len(test)
    2
    """

    ids: NDArray[Any]
    labels: NDArray[np.int64]
    values: NDArray[np.floating]
    units: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not (self.ids.shape == self.labels.shape == self.values.shape[:1]) or self.values.ndim not in (1, 2):
            raise ValueError(
                f"expected ids (N,), labels (N,) and values (N,) or (N, K), got shapes {self.ids.shape},"
                f" {self.labels.shape} and {self.values.shape}"
            )
        if self.units is not None and self.units.shape != self.ids.shape:
            raise ValueError(f"expected one unit per sample, shape {self.ids.shape}, got {self.units.shape}")

    def __len__(self) -> int:
        return len(self.ids)

    def save(self, path: Path) -> None:
        """Write an .npz file: whole, or not at all.

        Args:
            path: the file to write.
        """
        arrays: dict[str, Any] = {"ids": self.ids, "labels": self.labels, "values": self.values}
        arrays |= {} if self.units is None else {"units": self.units}
        with whole_file(path) as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> "Scores":
        """Read what `save` wrote. Nothing in the file is executed.

        Args:
            path: the file to read.
        """
        found = read_arrays(path)
        kinds = {name: found[name].dtype.kind for name in ("ids", "labels", "values") if name in found}
        if len(kinds) < 3 or kinds["labels"] not in "iu" or kinds["values"] != "f" or kinds["ids"] not in "biufUS":
            raise ValueError(f"{path} is not a scores file: it lacks ids, whole labels or values that are numbers")
        if "units" in found and found["units"].dtype.kind not in "iu":
            raise ValueError(f"{path} is not a scores file: its units are no whole numbers")
        return cls(found["ids"], found["labels"], found["values"], found.get("units"))


def joined(parts: Sequence[Scores]) -> Scores:
    """Join several parts of one data set. Units are kept if all parts have them."""
    units = [part.units for part in parts if part.units is not None]
    return Scores(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate(units) if len(units) == len(parts) else None,
    )


def mean_scores(members: Mapping[str, Scores]) -> Scores:
    """Average the scores of an ensemble, sample by sample: the mean of raw scores or logits.

    All members must score the same samples in the same order; ids, labels and units are those of the
    first one.
    """
    if not members:
        raise ValueError("an ensemble needs at least one member, got none")
    (first_name, first), *others = members.items()
    for name, scores in others:
        if scores.values.shape != first.values.shape:
            raise ValueError(
                f"member {name} has values of shape {scores.values.shape}, {first_name} {first.values.shape}"
            )
        for what, ours, theirs in (("id", first.ids, scores.ids), ("label", first.labels, scores.labels)):
            different = np.flatnonzero(ours != theirs)
            if len(different):
                row = int(different[0])
                raise ValueError(
                    f"member {name} differs from {first_name} in the {what} of {len(different)} samples, first in"
                    f" row {row}: {theirs[row]} against {ours[row]}; members must score the same samples in the"
                    " same order"
                )
    total = np.mean([scores.values for scores in members.values()], axis=0, dtype=np.float64)
    return Scores(first.ids, first.labels, total.astype(first.values.dtype), first.units)
