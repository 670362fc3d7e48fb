"""What `rankreg bench list`, `run` and `status` show."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from rankreg.bench.grids import EXPERIMENTS
from rankreg.bench.planning import Plan, plans_of
from rankreg.bench.presets import PRESETS
from rankreg.bench.records import Records
from rankreg.bench.running import Summary, unique


def experiment_table() -> Table:
    """The experiments, and how many runs they take at each size."""
    table = Table("experiment", "what", *PRESETS, title="Runs by preset", title_justify="left")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.title, *(str(len(unique(plans_of(name, preset)))) for preset in PRESETS))
    return table


def preset_table() -> Table:
    """The presets."""
    table = Table("preset", "size")
    for name, preset in PRESETS.items():
        table.add_row(name, preset.title)
    return table


class RunDisplay:
    """A bar over the cost of the runs, with how many are done and left, and the time to go."""

    def __init__(self, plans: Iterable[Plan], records: Path) -> None:
        folder, every = Records(records), unique(plans)
        self.left = [plan for plan in every if not folder.has(plan)]
        self.done = len(every) - len(self.left)
        self.console = Console(stderr=True, highlight=False)
        columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(elapsed_when_finished=True))
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.progress.add_task(self._words(), total=sum(plan.cost for plan in self.left))
        self.settled_runs = 0

    def __enter__(self) -> "RunDisplay":
        if self.done:
            self.console.print(f"{self.done} of {self.done + len(self.left)} runs are recorded already")
        self.progress.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.progress.stop()

    def settled(self, plan: Plan, state: str) -> None:
        """One run more is done, or cannot be."""
        self.settled_runs += 1
        self.progress.update(self.task, advance=plan.cost, description=self._words())
        if self.progress.disable or state != "done":
            self.console.print(f"{plan.name}: {state} ({self._words()})", soft_wrap=True)

    def conclude(self, summary: Summary) -> None:
        """What was done, and what is left and why."""
        self.console.print(f"{len(summary.done)} runs done")
        if summary.busy:
            self.console.print(
                f"{len(summary.busy)} runs are another bench's at the moment: run again to check on them"
            )
        for name, reason in summary.failed.items():
            self.console.print(f"failed: {name}: {reason}", markup=False, soft_wrap=True)

    def _words(self) -> str:
        settled = getattr(self, "settled_runs", 0)
        return f"{self.done + settled} runs done, {len(self.left) - settled} left"
