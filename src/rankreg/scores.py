"""The waist: ids, labels and values of one part of one data set, in memory and on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.safe_files import read_arrays, whole_file


@dataclass(frozen=True, eq=False)
class Scores:
    """One row per sample: values are raw scores (N,), higher = more critical, or logits (N, K).

    units: a number per sample, the same for samples that are not independent of each other; None: all are.
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
        """Write an .npz file: whole, or not at all."""
        arrays: dict[str, Any] = {"ids": self.ids, "labels": self.labels, "values": self.values}
        arrays |= {} if self.units is None else {"units": self.units}
        with whole_file(path) as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> "Scores":
        """Read what `save` wrote; nothing in the file is executed."""
        found = read_arrays(path)
        kinds = {name: found[name].dtype.kind for name in ("ids", "labels", "values") if name in found}
        if len(kinds) < 3 or kinds["labels"] not in "iu" or kinds["values"] != "f" or kinds["ids"] not in "biufUS":
            raise ValueError(f"{path} is not a scores file: it lacks ids, whole labels or values that are numbers")
        if "units" in found and found["units"].dtype.kind not in "iu":
            raise ValueError(f"{path} is not a scores file: its units are no whole numbers")
        return cls(found["ids"], found["labels"], found["values"], found.get("units"))


def joined(parts: Sequence[Scores]) -> Scores:
    """Several parts of one data set as one; units are kept where all parts have them."""
    units = [part.units for part in parts if part.units is not None]
    return Scores(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate(units) if len(units) == len(parts) else None,
    )
