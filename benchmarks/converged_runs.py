"""Runs beside the bench's own, in the splits and budget of its preset converged: one line of a file for each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankreg.datasets import Splits, load
from rankreg.train import TrainConfig
from rankreg.train.task import Task, complete, task_of
from rankreg_bench.grids import loader_options, plan_run
from rankreg_bench.runs import as_meant

RECORDS = Path(__file__).parents[1] / "records"


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
