"""What a table was asked for, and the recorded runs that answer it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankreg._names import look_up
from rankreg.bench.arms import ARMS
from rankreg.bench.grids import Experiment, TestSet
from rankreg.bench.planning import Plan, experiment_of, plans_of, stands_in, title_of
from rankreg.bench.records import Records
from rankreg.bench.results import PARTS, Grid, grid_of, read_runs

DEFAULT_FOLDER = Path("records")


@dataclass(frozen=True, eq=False)
class Asked:
    """An experiment at a preset's size, some of it or all, and the folder of its records."""

    name: str
    preset: str
    folder: Path = DEFAULT_FOLDER
    splits: int | None = None
    only: tuple[str, ...] = ()

    @property
    def experiment(self) -> Experiment:
        """What the name stands for; published values belong to the paper's data, not to what stands in for them."""
        experiment = experiment_of(self.name)
        if any(stands_in(self.preset, data) for data in experiment.data):
            return replace(experiment, published=None)
        return experiment

    @property
    def plans(self) -> list[Plan]:
        """All runs that belong to it."""
        return plans_of(self.name, self.preset, splits=self.splits, only=self.only)

    def missing(self) -> str | None:
        """How many runs have no record, and the command that trains them."""
        plans, records = self.plans, Records(self.folder)
        count = sum(not records.has(plan) for plan in plans)
        if not count:
            return None
        return f"{count} of {len(plans)} runs are missing: {self.command()}"

    def command(self, *names: str) -> str:
        """What trains the runs that are missing; names: other experiments than this one, with its settings."""
        words = ["rankreg", "bench", "run", *(names or (self.name,)), "--preset", self.preset]
        words += [] if self.splits is None else ["--splits", str(self.splits)]
        words += [word for name in self.only for word in ("--only", name)]
        words += [] if self.folder == DEFAULT_FOLDER else ["--records", str(self.folder)]
        return shlex.join(words)

    def diverged(self, data: Sequence[str]) -> str | None:
        """Which runs on these data sets ended before their time."""
        records = Records(self.folder)
        found = [
            f"{plan.loss.upper()} {ARMS[plan.arm].title} on {title_of(plan.data, plan.preset)}, split {plan.split}"
            for plan in self.plans
            if plan.data in data and records.has(plan) and records.read(plan).get("diverged")
        ]
        return f"Diverged, and counted with the best epoch before: {'; '.join(found)}." if found else None

    def grids(self, test: str | None = None) -> list[Grid]:
        """The grid on each test set that the experiment is judged on, or on the one that is named."""
        plans = self.plans
        runs = read_runs(plans, self.folder)
        tests = self.tests(test)
        found = [grid for one in (tests if runs else tests[:1]) if (grid := grid_of(plans, runs, one)) is not None]
        if not found:
            raise ValueError(f"no recorded run of {self.name} was scored on the {tests[0]} test set")
        return found

    def tests(self, test: str | None = None) -> Sequence[TestSet]:
        """The test sets that it is judged on, or the one that is named, if it may be shown there."""
        judged_on = self.experiment.judged_on
        allowed: tuple[TestSet, ...] = judged_on if judged_on == ("tuning",) else (*judged_on, "tuning")
        if test is None:
            return judged_on
        look_up({str(name): name for name in PARTS}, test, "test set")
        wanted = [one for one in allowed if one == test]
        if not wanted:
            raise ValueError(
                f"{self.name} chooses settings and is judged on the {' and '.join(judged_on)} pool only, never on a"
                " test set: leave out --test"
            )
        return wanted
