"""Runs beside the bench's own, in the splits and budget of its preset converged: one line of a file for each."""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets import Splits, load
from rankreg.notation import signed
from rankreg.operating.intervals import mean_of
from rankreg.pool import WorkerDied, run_parallel
from rankreg.train import TrainConfig
from rankreg.train.task import Task, complete, task_of
from rankreg_bench.grids import loader_options, plan_run
from rankreg_bench.runs import as_meant

RECORDS = Path(__file__).parents[1] / "records"
Asked = TypeVar("Asked")


def prepared(data: str, arm: str, split: int, **changes: Any) -> tuple[Splits, TrainConfig, Task]:
    """The data, the config and the task of an arm of the bench; changes: settings that differ."""
    plan = plan_run("converged", data, "bce", arm, split)
    splits = load(plan.loader, None, **loader_options(plan.settings))
    config = TrainConfig.model_validate(as_meant({**plan.config, **changes}))
    task = task_of(splits, config)
    return splits, complete(config, task, splits["train"], own_model=False), task


def recorded(place: Path) -> list[dict[str, Any]]:
    """Every run so far."""
    return [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []


def add(place: Path, record: Mapping[str, Any]) -> None:
    """One more line."""
    with place.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def train_all(
    trained: Callable[[Asked], dict[str, Any]], wanted: Iterable[Asked], place: Path, workers: int
) -> None:
    """Make these runs, and add the record of each as soon as it is there."""
    for _, record in run_parallel(trained, list(wanted), workers=workers):
        if isinstance(record, WorkerDied):
            raise SystemExit(f"a worker died: {record.reason}")
        add(place, record)


def difference_cell(gaps: NDArray[np.float64]) -> str:
    """A mean difference and Student's interval."""
    found = mean_of(gaps)
    if not found.bounded:
        return signed(found.estimate)
    return f"{signed(found.estimate)} ({signed(found.low)} to {signed(found.high)})"


def command(name: str, purpose: str | None, run: Callable[[int], None], table: Callable[[], str]) -> None:
    """The command of a study: run what has no record, or print the answers."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=purpose)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    if asked.command == "run":
        run(asked.workers)
    else:
        print(table())
