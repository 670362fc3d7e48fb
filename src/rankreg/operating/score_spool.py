"""Scores that come once, part by part: positives stay in memory, negatives on disk once they are many."""

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike

from rankreg.metrics import Bools, Floats, check_scores
from rankreg.operating.score_summary import ScoreSummary

HELD = 1 << 26  # bytes of negatives' scores that are kept in memory
CHUNK = 1 << 20  # scores read back at once


class ScoreSpool:
    """Collects labelled scores part by part, and gives their `ScoreSummary`.

    A summary needs all positives before it can count a negative. So negatives wait, in memory up to
    64 MB and then in a temporary file, 4 or 8 bytes each. Memory does not grow with their number.

    Args:
        dtype: of all scores, float32 or float64.

    >>> with ScoreSpool(np.float64) as spool:
    ...     spool.add(np.array([True, False]), np.array([0.9, 0.1]))
    ...     spool.add(np.array([False, True]), np.array([0.5, 0.4]))
    ...     spool.summary().auc()
    0.75
    """

    def __init__(self, dtype: type[np.float32] | type[np.float64]) -> None:
        self.dtype = dtype
        self.rows = 0
        self._positives: list[Floats] = []
        self._negatives = SpooledTemporaryFile(max_size=HELD)  # noqa: SIM115 - it is closed with the spool

    def __enter__(self) -> "ScoreSpool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._negatives.close()

    def add(self, positive: Bools, scores: Floats) -> None:
        """Another part.

        Args:
            positive: which samples are positive, shape (N,).
            scores: their scores, shape (N,).

        Raises:
            ValueError: a score is NaN, or the shapes do not fit.
        """
        values: Floats = check_scores(scores).astype(self.dtype, copy=False)
        if positive.shape != values.shape:
            raise ValueError(f"expected one label per score, got shapes {positive.shape} and {values.shape}")
        self.rows += len(values)
        self._positives.append(values[positive])
        self._negatives.write(values[~positive].tobytes())

    def summary(self, levels: ArrayLike = ()) -> ScoreSummary:
        """The summary of all parts so far.

        Args:
            levels: further thresholds at which negatives are counted.

        Returns:
            The summary, the same as of all scores at once.
        """
        found = ScoreSummary.of_positives(
            np.concatenate([np.zeros(0, self.dtype), *self._positives]), levels=levels
        )
        for part in self._parts():
            found = found.count(part)
        return found

    def _parts(self) -> Iterator[Floats]:
        self._negatives.seek(0)
        while content := self._negatives.read(CHUNK * np.dtype(self.dtype).itemsize):
            yield np.frombuffer(content, dtype=self.dtype)
        self._negatives.seek(0, 2)
