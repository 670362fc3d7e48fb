"""What the boosting objective costs in a round: against one sort of the scores and against LightGBM's own round."""

from functools import partial
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.timing import best_times, duration, verdict
from rankreg.boosting import lightgbm_objective

ROWS, FEATURES, LEAVES = 1_000_000, 30, 255
ROUNDS = 3  # before LightGBM's round is timed, and scores taken
SORTS_TARGET, ROUND_TARGET = 2.0, 0.3


def table() -> Table:
    """A million rows: scores without ties at three shares of positives, and scores that trees gave."""
    result = Table(title=f"The objective in one boosting round, {ROWS:,} rows")
    for column in ("positives", "scores", "numpy.argsort", "objective", "÷ argsort", "÷ LightGBM's round"):
        result.add_column(column, justify="right")
    generator = np.random.default_rng(0)
    for share in (0.001, 0.01, 0.1):
        labels = (generator.random(ROWS) < share).astype(np.float64)
        times = _times(labels, generator.standard_normal(ROWS) + 2 * labels)
        result.add_row(f"{share:.1%}", "no ties", *_cells(times))

    inputs = generator.standard_normal((ROWS, FEATURES), dtype=np.float32)
    hidden = inputs[:, :5].sum(axis=1) + generator.standard_normal(ROWS)
    labels = (hidden > np.quantile(hidden, 0.99)).astype(np.float64)
    settings = {"objective": "binary", "num_leaves": LEAVES, "num_threads": 1, "verbose": -1}
    booster = lightgbm.Booster(settings, lightgbm.Dataset(inputs, labels))
    for _ in range(ROUNDS):
        booster.update()
    times = _times(labels, np.asarray(booster.predict(inputs, raw_score=True)))
    whole = best_times({"round": booster.update}, least_rounds=3)["round"]
    result.add_row("1.0%", f"of {ROUNDS} trees", *_cells(times), verdict(times["objective"] / whole, ROUND_TARGET))
    return result


def _times(labels: NDArray[Any], scores: NDArray[Any]) -> dict[str, float]:
    objective = lightgbm_objective()
    return best_times(
        {"argsort": partial(np.argsort, scores), "objective": partial(objective, labels, scores)}, seconds=3.0
    )


def _cells(times: dict[str, float]) -> list[str]:
    ratio = verdict(times["objective"] / times["argsort"], SORTS_TARGET)
    return [duration(times["argsort"]), duration(times["objective"]), ratio]
