"""A bounded selection of the rows of score files: the hardest of each class, and some at even distances."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankreg.metrics import Floats

EVEN = 1 << 17  # rows at even distances that are kept
Places = NDArray[np.int64]


class Rows(NamedTuple):
    """Some rows: where they stand, counted from 0 over all files, and their scores."""

    places: Places
    scores: Floats


NONE = Rows(np.zeros(0, np.int64), np.zeros(0))


class Hardest(NamedTuple):
    """The positives with the lowest scores and the negatives with the highest, hardest first."""

    positives: Rows
    negatives: Rows


class Overview(NamedTuple):
    """What is known after the first pass: all positives' scores, some negatives', the lowest and highest of all."""

    positives: Floats
    negatives: Floats
    span: tuple[float, float]


def hardest_rows(positive: NDArray[np.bool_], scores: Floats, most: int) -> Hardest:
    """The hardest rows of either class in memory, at most so many."""
    places = np.flatnonzero(positive), np.flatnonzero(~positive)
    return Hardest(
        lowest(Rows(places[0], scores[places[0]]), most), highest(Rows(places[1], scores[places[1]]), most)
    )


def lowest(rows: Rows, most: int) -> Rows:
    """The rows with the lowest scores, lowest first; of equal scores the first row comes first."""
    return _first(rows, rows.scores, most)


def highest(rows: Rows, most: int) -> Rows:
    """The rows with the highest scores, highest first; of equal scores the first row comes first."""
    return _first(rows, -rows.scores, most)


def even_step(rows: int) -> int:
    """The least power of two that leaves at most `EVEN` rows if every row at that distance is kept."""
    return 1 << max(0, (-(-rows // EVEN) - 1).bit_length())


def _first(rows: Rows, by: Floats, most: int) -> Rows:
    chosen = np.arange(len(by))
    if len(by) > most:
        chosen = np.flatnonzero(by <= np.partition(by, most - 1)[most - 1])
    order = chosen[np.lexsort((rows.places[chosen], by[chosen]))][:most]
    return Rows(rows.places[order], rows.scores[order])


@dataclass(eq=False)
class Selection:
    """Rows of a stream, chosen as they pass; memory does not grow with their number.

    most: of the hardest rows of each label. start: the number of the first row. Which labels are positive is known
    only after the first pass. So labels that may be are kept apart, and all others are held under None.
    """

    most: int
    start: int = 0
    rows: int = 0
    step: int = 1
    span: tuple[float, float] = (np.inf, -np.inf)
    lows: dict[Any, Rows] = field(default_factory=dict)
    highs: dict[Any, Rows] = field(default_factory=dict)
    even: Rows = NONE
    even_labels: NDArray[np.object_] = field(default_factory=lambda: np.zeros(0, dtype=object))

    def add(
        self, labels: NDArray[np.object_], codes: NDArray[np.integer], scores: Floats, own: Mapping[Any, Places]
    ) -> None:
        """More rows with labels[codes]. own: the places of each label that may be positive, and of all others."""
        if not len(scores):
            return
        first = self.start + self.rows
        for label, places in own.items():
            rows = Rows(first + places, scores[places])
            self.highs[label] = highest(_joined(self.highs.get(label), rows), self.most)
            if label is not None:
                self.lows[label] = lowest(_joined(self.lows.get(label), rows), self.most)
        self.span = min(self.span[0], float(scores.min())), max(self.span[1], float(scores.max()))
        picked = np.arange(-first % self.step, len(scores), self.step)
        self.rows += len(scores)
        self._keep(Rows(first + picked, scores[picked]), labels[codes[picked]])

    def next(self) -> "Selection":
        """An empty selection for the file that follows."""
        return Selection(self.most, self.start + self.rows, step=self.step)

    def join(self, other: "Selection") -> None:
        """What was chosen from the file that follows."""
        for mine, theirs, choose in ((self.lows, other.lows, lowest), (self.highs, other.highs, highest)):
            for label, rows in theirs.items():
                mine[label] = choose(_joined(mine.get(label), rows), self.most)
        self.span = min(self.span[0], other.span[0]), max(self.span[1], other.span[1])
        self.rows, self.step = self.rows + other.rows, max(self.step, other.step)
        self._keep(other.even, other.even_labels)

    def negatives(self, positive: Collection[Any]) -> Floats:
        """The scores of negatives at even distances."""
        chosen = np.array([label not in positive for label in self.even_labels], dtype=bool)
        scores: Floats = self.even.scores[chosen]
        return scores

    def hardest(self, positive: Collection[Any]) -> Hardest:
        """The hardest rows of either class."""
        low = [rows for label, rows in self.lows.items() if label in positive]
        high = [rows for label, rows in self.highs.items() if label is None or label not in positive]
        return Hardest(lowest(_joined(*low), self.most), highest(_joined(*high), self.most))

    def _keep(self, rows: Rows, labels: NDArray[np.object_]) -> None:
        """Rows at even distances, of which every other one goes when they are too many."""
        rows, labels = _joined(self.even, rows), np.append(self.even_labels, labels)
        while True:
            keep = rows.places % self.step == 0
            rows, labels = Rows(rows.places[keep], rows.scores[keep]), labels[keep]
            if len(labels) <= EVEN:
                break
            self.step *= 2
        self.even, self.even_labels = rows, labels


def _joined(*parts: Rows | None) -> Rows:
    known = [part for part in parts if part is not None and len(part.places)]
    if not known:
        return NONE
    return Rows(np.concatenate([part.places for part in known]), np.concatenate([part.scores for part in known]))
