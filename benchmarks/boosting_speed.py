"""What the boosting objective costs in a round: against one sort of the scores and against LightGBM's own round."""

import lightgbm
import numpy as np
from rich.table import Table

from benchmarks.timing import best_times, duration, verdict
from rankreg.boosting import lightgbm_objective

ROWS, FEATURES, LEAVES = 1_000_000, 30, 255
SORTS_TARGET, ROUND_TARGET = 2.0, 0.3
SHARES = (0.001, 0.01, 0.1)


def table() -> Table:
    """A million rows: scores without ties, and those that 20 trees of LightGBM give."""
    result = Table(title=f"The objective of one boosting round, {ROWS:,} rows, one thread")
    for column in ("positives", "scores", "argsort", "objective", "objective ÷ argsort", "÷ LightGBM's round"):
        result.add_column(column, justify="right")
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((ROWS, FEATURES), dtype=np.float32)
    objective = lightgbm_objective()
    for share in SHARES:
        hidden = inputs[:, :5].sum(axis=1) + generator.standard_normal(ROWS)
        labels = (hidden > np.quantile(hidden, 1 - share)).astype(np.float64)
        booster = _booster(inputs, labels) if share == 0.01 else None
        kinds = {"no ties": generator.standard_normal(ROWS) + 2 * labels}
        if booster is not None:
            kinds["of trees"] = booster.predict(inputs[:, :], raw_score=True)
        for kind, scores in kinds.items():
            work = {
                "argsort": lambda scores=scores: np.argsort(scores),
                "objective": lambda scores=scores, labels=labels: objective(labels, scores),
            }
            times = best_times(work, seconds=3.0)
            whole = ""
            if booster is not None:
                whole = verdict(
                    times["objective"] / best_times({"round": booster.update}, least_rounds=3)["round"],
                    ROUND_TARGET,
                )
            result.add_row(
                f"{share:.1%}",
                kind,
                duration(times["argsort"]),
                duration(times["objective"]),
                verdict(times["objective"] / times["argsort"], SORTS_TARGET),
                whole,
            )
    return result


def _booster(inputs: np.ndarray, labels: np.ndarray) -> lightgbm.Booster:  # type: ignore[type-arg]
    """LightGBM with its own log-loss, some rounds along."""
    settings = {"objective": "binary", "num_leaves": LEAVES, "num_threads": 1, "verbose": -1}
    booster = lightgbm.Booster(settings, lightgbm.Dataset(inputs, labels))
    for _ in range(5):
        booster.update()
    return booster
