"""What `rankreg bench list`, `run` and `status` show."""

import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rankreg._terminal import Terminal
from rankreg.bench.grids import EXPERIMENTS
from rankreg.bench.planning import Plan, offers, plans_of, unique
from rankreg.bench.presets import PRESETS
from rankreg.bench.records import Records
from rankreg.bench.running import Summary
from rankreg.bench.verifying import Verification


def experiment_table() -> Table:
    """The experiments, and how many runs they take at each size."""
    table = Table("experiment", "what", *PRESETS, title="Runs by preset", title_justify="left")
    for name, experiment in EXPERIMENTS.items():
        counts = [
            str(len(unique(plans_of(name, preset)))) if offers(preset, *experiment.data) else "–"
            for preset in PRESETS
        ]
        table.add_row(name, experiment.title, *counts)
    return table


def preset_table() -> Table:
    """The presets."""
    table = Table("preset", "size")
    for name, preset in PRESETS.items():
        table.add_row(name, preset.title)
    return table


class RunDisplay:
    """A bar over the cost of the runs, with how many are done, failed and left, and the time to go.

    That time goes by the cost of what is done since the start: a bar's own guess forgets runs of minutes.
    """

    def __init__(self, plans: Iterable[Plan], records: Path) -> None:
        folder, every = Records(records), unique(plans)
        self.left = [plan for plan in every if not folder.has(plan)]
        self.done, self.failed, self.total = len(every) - len(self.left), 0, len(every)
        self.console = Terminal(stderr=True, highlight=False)
        columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.start, self.cost_done, self.cost = time.monotonic(), 0.0, sum(plan.cost for plan in self.left)
        self.task = self.progress.add_task(self._words(), total=self.cost)

    def __enter__(self) -> "RunDisplay":
        if self.done:
            self.console.print(f"{self.done} of {self.done + len(self.left)} runs are recorded already")
        self.progress.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.progress.stop()

    def settled(self, plan: Plan, state: str) -> None:
        """One run more is done or has failed, or is waited for."""
        if state == "busy":
            self.console.print(
                f"{plan.name}: another bench is at it, waiting for it (Ctrl-C leaves)", soft_wrap=True
            )
            return
        self.done, self.failed = self.done + (state == "done"), self.failed + (state == "failed")
        self.cost_done += plan.cost
        self.progress.update(self.task, advance=plan.cost, description=self._words())
        if self.progress.disable or state != "done":
            self.console.print(f"{plan.name}: {state} ({self._words()})", soft_wrap=True)

    def conclude(self, summary: Summary) -> None:
        """What was done, and what failed and why."""
        self.console.print(f"{len(summary.done)} runs done")
        for reason in dict.fromkeys(summary.failed.values()):
            names = [name for name, why in summary.failed.items() if why == reason]
            some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            self.console.print(f"failed: {some}: {reason}", markup=False, soft_wrap=True)

    def _words(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        left = self.total - self.done - self.failed
        pace = (time.monotonic() - self.start) / self.cost_done if self.cost_done else 0.0
        to_go = f", {timedelta(seconds=round(pace * (self.cost - self.cost_done)))} to go" if pace and left else ""
        return f"{self.done} runs done{failed}, {left} left{to_go}"


def verification_words(found: Verification, tolerance: float) -> str:
    """The verdict on a run that was run again."""
    verdict = "the same" if found.difference <= tolerance else "DIFFERENT"
    parts = ", ".join(f"{part} {difference:.3g}" for part, difference in found.by_part.items())
    words = f"{found.plan.name}: {verdict}, largest difference of a score {found.difference:.3g}"
    changes = f"\n  since then: {'; '.join(found.changes)}" if found.changes else ""
    return f"{words} (by part: {parts}; tolerance {tolerance:g}){changes}"
