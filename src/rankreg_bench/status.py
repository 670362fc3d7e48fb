"""Progress of the experiments: what `rankreg bench list`, `run` and `status` show."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from rankreg.pool import cores
from rankreg.terminal import Terminal
from rankreg_bench.arms import PRESETS
from rankreg_bench.grids import DATA, EXPERIMENTS, RunPlan, offers, plans_of, unique
from rankreg_bench.records import RecordFolder, Selection


@dataclass(frozen=True)
class Standing:
    """One experiment at one size; seconds: mean of a run, None without a record; hours: left, None if unknown."""

    experiment: str
    preset: str
    done: int
    total: int
    seconds: float | None
    hours: float | None


def experiment_table() -> Table:
    """The experiments, and how many runs they take at each size."""
    table = Table("experiment", "what", *PRESETS, title="Runs by preset", title_justify="left")
    for name, experiment in EXPERIMENTS.items():
        able = {preset: offers(preset, *experiment.data) for preset in PRESETS}
        counts = [str(len(unique(plans_of(name, preset)))) if able[preset] else "–" for preset in PRESETS]
        table.add_row(name, experiment.title, *counts)
    return table


def status_of(folder: Path, workers: int | None = None) -> tuple[list[Standing], list[str]]:
    """What is recorded in a folder: every experiment of a preset that was begun, and what else there is to say."""
    seconds, damaged = _seconds(folder)
    standings: list[Standing] = []
    known: set[str] = set()
    for preset in PRESETS:
        if not any(name.startswith(f"{preset}/") for name in seconds):
            continue
        able = [name for name, one in EXPERIMENTS.items() if offers(preset, *one.data)]
        plans = {name: unique(plans_of(name, preset)) for name in able}
        plans["all"] = unique(plan for each in plans.values() for plan in each)
        known |= {plan.name for plan in plans["all"]}
        pace = _pace([plan for plan in plans["all"] if plan.name in seconds], seconds)
        for name, each in plans.items():
            done = [seconds[plan.name] for plan in each if plan.name in seconds]
            left = [plan for plan in each if plan.name not in seconds]
            expected = [pace.get(DATA[plan.data].family, pace[""]) * plan.cost for plan in left] if pace else None
            hours = None if expected is None else sum(expected) / (workers or cores()) / 3600
            mean = float(np.mean(done)) if done else None
            standings.append(Standing(name, preset, len(done), len(each), mean, hours))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    lines = [f"{folder}: {len(seconds):,} records, {size / 1e6:.2f} MB"]
    if seconds:
        of = f"on {workers or cores()} cores at the pace of the records"
        lines.append(f"hours left: {of}; failed runs leave no record and count as left")
    if others := set(seconds) - known:
        lines.append(f"{len(others)} records belong to no experiment: its settings have changed")
    lines += [f"damaged: {reason}; delete it and run again" for reason in damaged]
    if not seconds:
        lines.append(f"begin with: {Selection('cifar100-100', 'compact', folder, only=('bce',)).command()}")
    return standings, lines


def _seconds(folder: Path) -> tuple[dict[str, float], list[str]]:
    """The wall time of every record by the name of its run, and what could not be read."""
    found, damaged = {}, []
    for path in RecordFolder(folder).files():
        try:
            spent = RecordFolder.read_file(path)["seconds"]
            whole = max(spent["total"], spent.get("training", 0.0))  # of a resumed run, total is of its last part
            found[path.relative_to(folder).with_suffix("").as_posix()] = float(whole)
        except (KeyError, TypeError):
            damaged.append(f"{path} does not say how long the run took")
        except ValueError as error:
            damaged.append(str(error))
    return found, damaged


def _pace(done: Iterable[RunPlan], seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds per unit of cost by family of data sets, and over all under the name ""."""
    found: dict[str, list[float]] = {}
    for plan in done:
        for family in (DATA[plan.data].family, ""):
            found.setdefault(family, []).append(seconds[plan.name] / plan.cost)
    return {family: float(np.mean(values)) for family, values in found.items()}


def status_table(standings: Iterable[Standing]) -> Table:
    """One row for every experiment of a preset that was begun."""
    numbers = [Column(head, justify="right") for head in ("done", "left", "s a run", "hours left")]
    table = Table("preset", "experiment", *numbers, title="Runs", title_justify="left")
    for one in standings:
        left = one.total - one.done
        hours = "?" if one.hours is None else f"{one.hours:.1f}" if left else "–"
        mean = "–" if one.seconds is None else f"{one.seconds:.0f}"
        last = one.experiment == "all"
        name = "all, shared runs once" if last else one.experiment
        table.add_row(one.preset, name, f"{one.done}/{one.total}", str(left), mean, hours, end_section=last)
    return table


class RunDisplay:
    """A bar over the cost of the runs, with how many are done, failed and left, and the time to go.

    The time to go follows from the cost of all that is done: the bar's own guess forgets runs of minutes.
    """

    def __init__(self, plans: Iterable[RunPlan], records: Path) -> None:
        folder, every = RecordFolder(records), unique(plans)
        left = [plan for plan in every if not folder.has(plan)]
        self.done, self.failed, self.total = len(every) - len(left), 0, len(every)
        self.console = Terminal(stderr=True, highlight=False)
        columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.start, self.cost_done, self.cost = time.monotonic(), 0.0, sum(plan.cost for plan in left)
        self.task = self.progress.add_task(self._state(), total=self.cost)

    def __enter__(self) -> "RunDisplay":
        if self.done:
            self.console.print(f"{self.done} of {self.total} runs are recorded already")
        self.progress.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.progress.stop()

    def settled(self, plan: RunPlan, state: str) -> None:
        """A run is "done", has "failed", or is "busy": another bench trains it."""
        if state == "busy":
            self.console.print(f"{plan.name}: another bench trains it, waiting (Ctrl-C leaves)", soft_wrap=True)
            return
        self.done, self.failed = self.done + (state == "done"), self.failed + (state == "failed")
        self.cost_done += plan.cost
        self.progress.update(self.task, advance=plan.cost, description=self._state())
        if self.progress.disable or state != "done":
            self.console.print(f"{plan.name}: {state} ({self._state()})", soft_wrap=True)

    def conclude(self, done: int, failed: Mapping[str, str]) -> None:
        """How many runs were done, and which failed and why."""
        self.console.print(f"{done} runs done")
        for reason in dict.fromkeys(failed.values()):
            names = [name for name, why in failed.items() if why == reason]
            some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            self.console.print(f"failed: {some}: {reason}", markup=False, soft_wrap=True)

    def _state(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        left = self.total - self.done - self.failed
        pace = (time.monotonic() - self.start) / self.cost_done if self.cost_done else 0.0
        to_go = f", {timedelta(seconds=round(pace * (self.cost - self.cost_done)))} to go" if pace and left else ""
        return f"{self.done} runs done{failed}, {left} left{to_go}"
