"""From plans and records to numbers: what each cell of a grid came to, on one test set. No torch, no data sets."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from rankreg.bench.grids import DATA, TestSet
from rankreg.bench.intervals import intervals_of
from rankreg.bench.measures import measures, names_of
from rankreg.bench.planning import Plan
from rankreg.bench.records import Records
from rankreg.ensemble import mean_scores
from rankreg.operating import Interval
from rankreg.scores import Scores, joined

# Parts that are one test set together. The tuning pool is added to validation where there is one.
PARTS: Mapping[TestSet, tuple[str, ...]] = {
    "official": ("test",),
    "extended": ("test", "extended"),
    "tuning": ("validation", "tuning"),
}
OPTIONAL = ("tuning",)

Key = tuple[str, str, str]  # data set, loss, arm


@dataclass(frozen=True, eq=False)
class Cell:
    """One way to train on one data set: how many splits were planned, and the scores of those that are recorded."""

    data: str
    planned: int
    scores: Mapping[int, Scores]

    @cached_property
    def singles(self) -> dict[int, dict[str, float]]:
        """Every split's measures, in percent."""
        critical = DATA[self.data].critical
        return {split: measures(self.data, [scores], critical) for split, scores in sorted(self.scores.items())}

    @cached_property
    def mean(self) -> Scores:
        """The mean of the splits' scores."""
        return mean_scores({f"split {split}": scores for split, scores in sorted(self.scores.items())})

    @cached_property
    def ensemble(self) -> dict[str, Interval]:
        """What the mean measures, with intervals over test samples, in percent; empty without a record."""
        return intervals_of(DATA[self.data], self.mean) if self.scores else {}

    @property
    def splits(self) -> tuple[int, ...]:
        """The splits that are recorded."""
        return tuple(sorted(self.scores))

    def on(self, splits: Sequence[int]) -> "Cell":
        """The same with these splits only."""
        if self.splits == tuple(splits):
            return self
        return Cell(self.data, self.planned, {split: self.scores[split] for split in splits})


@dataclass(frozen=True, eq=False)
class Grid:
    """The cells of an experiment on one test set."""

    test: TestSet
    cells: Mapping[Key, Cell]

    def names(self, place: int) -> list[str]:
        """Its data sets (0), losses (1) or arms (2), in the order of the plans."""
        return list(dict.fromkeys(key[place] for key in self.cells))

    def measures(self, data: str) -> tuple[str, ...]:
        """What is measured on a data set."""
        return names_of(DATA[data])

    def shared(
        self, data: str, losses: Sequence[str], arms: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The losses that have all of these arms on some split, and the splits that all of those have in common."""
        common: dict[str, set[int]] = {}
        for loss in losses:
            cells = [self.cells.get((data, loss, arm)) for arm in arms]
            splits = set.intersection(*(set(cell.splits) if cell else set() for cell in cells))
            common |= {loss: splits} if splits else {}
        return tuple(common), tuple(sorted(set.intersection(*common.values()))) if common else ()

    def counts(self, data: str) -> tuple[int, int] | None:
        """Positives and others in the test set; None without a record."""
        for key, cell in self.cells.items():
            if key[0] == data and cell.scores:
                labels = next(iter(cell.scores.values())).labels
                positives = int((labels == DATA[data].critical).sum())
                return positives, len(labels) - positives
        return None


def read_runs(plans: Iterable[Plan], folder: Path) -> dict[str, dict[str, Scores]]:
    """All scores of the runs that are recorded, by name."""
    records = Records(folder)
    return {plan.name: records.by_part(plan) for plan in plans if records.has(plan)}


def grid_of(plans: Iterable[Plan], runs: Mapping[str, Mapping[str, Scores]], test: TestSet) -> Grid | None:
    """The runs of some plans on one test set; None where no run was scored on it."""
    planned: dict[Key, int] = {}
    found: dict[Key, dict[int, Scores]] = {}
    first: dict[str, Scores] = {}
    for plan in plans:
        key = (plan.data, plan.loss, plan.arm)
        planned[key] = planned.get(key, 0) + 1
        found.setdefault(key, {})
        scores = scores_on(runs.get(plan.name, {}), test)
        if scores is not None:
            check_same_samples(first.setdefault(plan.data, scores), scores, plan.name, plan.data)
            found[key][plan.split] = scores
    if runs and not any(found.values()):
        return None
    return Grid(test, {key: Cell(key[0], planned[key], scores) for key, scores in found.items()})


def scores_on(parts: Mapping[str, Scores], test: TestSet) -> Scores | None:
    """A run's scores on a test set, if it has them."""
    wanted = parts_of(test, parts)
    return joined([parts[part] for part in wanted]) if wanted else None


def parts_of(test: TestSet, known: Collection[str]) -> tuple[str, ...]:
    """The parts that make up a test set, none if one is lacking."""
    wanted = tuple(part for part in PARTS[test] if part in known or part not in OPTIONAL)
    return wanted if all(part in known for part in wanted) else ()


def check_same_samples(first: Scores, scores: Scores, name: str, data: str) -> None:
    """Ensembles and paired comparisons need every run of a data set to be scored on the same samples."""
    if not (np.array_equal(first.ids, scores.ids) and np.array_equal(first.labels, scores.labels)):
        raise ValueError(
            f"{name} was scored on other samples than the runs of {data} before it: its record is of a"
            " different version of the data set; delete it and run again"
        )
