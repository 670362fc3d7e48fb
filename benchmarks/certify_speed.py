"""Certifying beside one sort of the scores, and the command's work beside reading its file."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.timing import best_times, duration, verdict
from rankreg import score_files
from rankreg.operating import certify, compare

SCORES = 10_000_000
ROWS = 1_000_000
Row = tuple[str, float, float, float | None]  # what, its seconds, its ratio to the yardstick, the most that may be


def rows() -> Iterator[Row]:
    """Every measurement."""
    for share in (0.01, 0.5):
        labels, scores = sample(SCORES, share)
        times = best_times(
            {"sort": lambda s=scores: np.sort(s), "certify": lambda y=labels, s=scores: certify(y, s)}  # type: ignore[misc]
        )
        yield (
            f"certify, {SCORES:,} scores, {share:.0%} positive ÷ numpy.sort",
            times["certify"],
            times["certify"] / times["sort"],
            3,
        )
    labels, scores = sample(ROWS, 0.001)
    with tempfile.TemporaryDirectory() as folder:
        path, columns = Path(folder) / "scores.csv", score_files.ScoreColumns("s", "y")
        pd.DataFrame({"y": labels, "s": scores}).to_csv(path, index=False)
        times = best_times(
            {
                "read": lambda: score_files.read_scores(path, columns),
                "certify": lambda: certify(labels, scores),
                "compare": lambda: compare(labels, scores, scores**3),
            }
        )
    yield f"certify, {ROWS:,} rows ÷ reading their CSV", times["certify"], times["certify"] / times["read"], 1
    yield f"compare, {ROWS:,} rows ÷ reading their CSV", times["compare"], times["compare"] / times["read"], None


def sample(size: int, share: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels and scores of two overlapping normal classes."""
    generator = np.random.default_rng(0)
    labels = (generator.random(size) < share).astype(np.int64)
    return labels, generator.standard_normal(size) + 2 * labels


def table() -> Table:
    """The measurements beside their targets."""
    result = Table(title="The operating point")
    for column in ("what", "time", "ratio"):
        result.add_column(column, justify="right")
    for what, seconds, ratio, at_most in rows():
        result.add_row(what, duration(seconds), f"{ratio:.2f} ×" if at_most is None else verdict(ratio, at_most))
    return result
