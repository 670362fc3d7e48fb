"""The waist: ids, labels and values of one part of one data set, in memory and on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg._files import whole_file
from rankreg._untrusted import read_arrays


@dataclass(frozen=True, eq=False)
class Scores:
    """One row per sample: values are raw scores (N,), higher = more critical, or logits (N, K)."""

    ids: NDArray[Any]
    labels: NDArray[np.int64]
    values: NDArray[np.floating]

    def __post_init__(self) -> None:
        if not (self.ids.shape == self.labels.shape == self.values.shape[:1]) or self.values.ndim not in (1, 2):
            raise ValueError(
                f"expected ids (N,), labels (N,) and values (N,) or (N, K), got shapes {self.ids.shape},"
                f" {self.labels.shape} and {self.values.shape}"
            )

    def __len__(self) -> int:
        return len(self.ids)

    def save(self, path: Path) -> None:
        """Write an .npz file: whole, or not at all."""
        with whole_file(path) as file:
            np.savez_compressed(file, ids=self.ids, labels=self.labels, values=self.values)

    @classmethod
    def load(cls, path: Path) -> "Scores":
        """Read what `save` wrote; nothing in the file is executed."""
        found = read_arrays(path)
        kinds = {name: found[name].dtype.kind for name in ("ids", "labels", "values") if name in found}
        if len(kinds) < 3 or kinds["labels"] not in "iu" or kinds["values"] != "f" or kinds["ids"] not in "biufUS":
            raise ValueError(f"{path} is not a scores file: it lacks ids, whole labels or values that are numbers")
        return cls(found["ids"], found["labels"], found["values"])
