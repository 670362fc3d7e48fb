"""How many scores lie between neighbouring positives, mostly without sorting them."""

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import Floats

Counts = NDArray[np.int64]
CELLS = 1 << 10, 1 << 17  # 16 for each positive, within these limits


class ScoreGrid:
    """An even grid over the scores of positives; most of its cells hold none of them.

    The cell of a score is a monotone function of it. So scores in different cells are in the order of
    their cells, and only scores that share a cell with a positive must be compared with it.

    positives: distinct and ascending; they may be infinite.
    """

    def __init__(self, positives: Floats) -> None:
        finite = positives[np.isfinite(positives)].astype(np.float64)
        self.cells = min(max(16 * len(positives), CELLS[0]), CELLS[1])
        self.low, self.scale = 0.0, 0.0
        with np.errstate(all="ignore"):
            if len(finite) > 1:
                self.low, self.scale = float(finite[0]), float(self.cells / (finite[-1] - finite[0]))
        self.useful = 0 < self.scale < np.inf
        if self.useful:
            self.places = self._cells(positives)
            self.occupied = np.zeros(self.cells + 2, dtype=bool)
            self.occupied[self.places] = True

    def apart(self, scores: Floats) -> tuple[Floats, Counts]:
        """The scores that share a cell with a positive, and how many others lie between neighbouring positives."""
        cells = self._cells(scores)
        counts = np.bincount(cells, minlength=len(self.occupied))
        counts[self.occupied] = 0
        below = np.append(0, np.cumsum(counts))
        return scores[self.occupied[cells]], np.diff(below[np.concatenate([[0], self.places, [len(counts)]])])

    def _cells(self, scores: Floats) -> NDArray[np.int32]:
        """From 0, below all finite positives, to `cells` + 1, above them."""
        with np.errstate(over="ignore"):
            found = np.subtract(scores, self.low, dtype=np.float64)
            found *= self.scale
        np.clip(found, -1, self.cells, out=found)
        found += 1
        return found.astype(np.int32)
