"""Records of finished runs, and the results of an experiment read from them: no torch, no data sets.

A record is a JSON file that says how the run was made, with its scores beside it. Ids and labels, the same for many
runs, are kept once, named by their digest.
"""

import hashlib
import io
import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.names import look_up
from rankreg.operating import Interval
from rankreg.safe_files import read_arrays, read_json
from rankreg.scores import Scores, joined, mean_scores
from rankreg_bench.arms import ARMS
from rankreg_bench.estimates import intervals_of, measured
from rankreg_bench.grids import DATA, Experiment, RunPlan, TestSet, experiment_of, plans_of, stands_in, title_of
from rankreg_bench.pages import write

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run came to: its record and its scores by part."""

    record: dict[str, Any]
    scores: Mapping[str, Scores]


@dataclass(frozen=True)
class RecordFolder:
    """The records' folder."""

    folder: Path

    def has(self, plan: RunPlan) -> bool:
        return self._path(plan, ".json").exists()

    def write(self, plan: RunPlan, outcome: Outcome) -> None:
        """Write scores, then the record, each whole: a run without a record is unfinished."""
        arrays: dict[str, NDArray[Any]] = {}
        for part, scores in outcome.scores.items():
            arrays |= {f"{part}-ids": scores.ids, f"{part}-labels": scores.labels}
        digest = _digest(arrays)
        samples = self.folder / "samples" / f"{digest}.npz"
        if not samples.exists():
            write(samples, _compressed(arrays), shared=True)
        values = {part: compact(scores.values) for part, scores in outcome.scores.items()}
        write(self._path(plan, ".npz"), _compressed(values), shared=True)
        record = {"format": FORMAT, **outcome.record, "samples": digest}
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        write(self._path(plan, ".json"), text.encode(), shared=True)

    def read(self, plan: RunPlan) -> dict[str, Any]:
        return self.read_file(self._path(plan, ".json"))

    def by_part(self, plan: RunPlan) -> dict[str, Scores]:
        record, path, digest = self._path(plan, ".json"), self._path(plan, ".npz"), self.read(plan).get("samples")
        if not isinstance(digest, str):
            raise ValueError(f"{record} is damaged: it names no samples; delete it and run again")
        samples = self.folder / "samples" / f"{digest}.npz"
        with _readable(samples, f"delete it and {record}"):  # any run on these samples writes them anew
            known = _arrays(samples, samples.stat().st_mtime_ns)
        with _readable(path, f"delete {record}"):
            found = _arrays(path, path.stat().st_mtime_ns).items()
            return {part: Scores(known[f"{part}-ids"], known[f"{part}-labels"], array) for part, array in found}

    def files(self) -> Iterator[Path]:
        """Every record there is, of any experiment and preset."""
        return iter(sorted(self.folder.glob("*/*/*.json")))

    @staticmethod
    def read_file(path: Path) -> dict[str, Any]:
        record = read_json(path, ": it is not a record or is damaged")
        if not isinstance(record, dict):
            raise ValueError(f"{path} is not a record: it holds no JSON object")
        if record.get("format") != FORMAT:
            raise ValueError(f"{path} has format {record.get('format')!r}, this version reads {FORMAT}")
        return dict(record)

    def _path(self, plan: RunPlan, suffix: str) -> Path:
        return self.folder / (plan.name + suffix)


def plan_of(record: Mapping[str, Any]) -> RunPlan:
    """The plan that a record was made from."""
    names = ("preset", "data", "loss", "arm", "split", "loader", "settings", "config")
    lacking = [name for name in names if name not in record]
    if lacking:
        raise ValueError(f"the record lacks {', '.join(lacking)}")
    return RunPlan(**{name: record[name] for name in names})


def compact(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Scores as float32, or float16 if they are; logits of several classes, ten times as many, as float16."""
    return values.astype(np.float32 if values.ndim == 1 and values.dtype != np.float16 else np.float16)


@contextmanager
def _readable(path: Path, remedy: str) -> Iterator[None]:
    """What goes wrong inside is the file's fault, and can be mended."""
    try:
        yield
    except (FileNotFoundError, ValueError, KeyError) as error:
        message = f"{path} is missing or damaged ({error}): restore it, or {remedy} and run again"
        raise ValueError(message) from error


@lru_cache(maxsize=32)
def _arrays(path: Path, changed: int) -> dict[str, NDArray[Any]]:
    """What a file holds; changed: its time stamp. Many runs share a file of ids and labels, which is read once."""
    return read_arrays(path)


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    content = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        content.update(f"{name} {array.dtype} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:16]


def _compressed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """An .npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


# Parts that are one test set together. The tuning pool is added to validation where there is one.
PARTS: Mapping[TestSet, tuple[str, ...]] = {
    "official": ("test",),
    "extended": ("test", "extended"),
    "tuning": ("validation", "tuning"),
}
OPTIONAL = ("tuning",)
TEST_TITLES: Mapping[TestSet, str] = {
    "official": "official test set",
    "extended": "extended test set (official and fresh positives)",
    "tuning": "validation and tuning pool",
}

Key = tuple[str, str, str]  # data set, loss, arm
Shared = tuple[tuple[str, ...], tuple[int, ...]]  # losses, splits


@dataclass(frozen=True, eq=False)
class Cell:
    """One way to train on one data set: how many splits were planned, and the scores of those that are recorded."""

    data: str
    planned: int
    scores: Mapping[int, Scores]

    @cached_property
    def singles(self) -> dict[int, dict[str, float]]:
        """The measures of every split, in percent."""
        return {split: measured(DATA[self.data], scores) for split, scores in sorted(self.scores.items())}

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
        return tuple(sorted(self.scores))

    @property
    def count(self) -> str:
        """How many splits are recorded, of how many if some are missing."""
        have = len(self.scores)
        return str(have) if have == self.planned else f"{have}/{self.planned}"

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

    def shared(self, data: str, losses: Sequence[str], arms: Sequence[str]) -> Shared:
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

    def title(self, data: str) -> str:
        """Which test set, and how many samples it has."""
        title, counts = TEST_TITLES[self.test], self.counts(data)
        kinds = ("critical", "others") if DATA[data].several_classes else ("positives", "negatives")
        return title if counts is None else f"{title}: {counts[0]:,} {kinds[0]}, {counts[1]:,} {kinds[1]}"


def grids_of(plans: Sequence[RunPlan], folder: Path, tests: Sequence[TestSet]) -> list[Grid]:
    """The runs of some plans on each test set that one was scored on; without a record on the first, all empty."""
    records = RecordFolder(folder)
    runs = {plan.name: records.by_part(plan) for plan in plans if records.has(plan)}
    grids = [_grid(plans, runs, test) for test in (tests if runs else tests[:1])]
    return [grid for grid in grids if not runs or any(cell.scores for cell in grid.cells.values())]


def _grid(plans: Sequence[RunPlan], runs: Mapping[str, Mapping[str, Scores]], test: TestSet) -> Grid:
    by_key: dict[Key, list[RunPlan]] = {}
    for plan in plans:
        by_key.setdefault((plan.data, plan.loss, plan.arm), []).append(plan)
    first: dict[str, Scores] = {}
    cells = {}
    for key, planned in by_key.items():
        found = {}
        for plan in planned:
            parts = runs.get(plan.name, {})
            if wanted := parts_of(test, parts):
                scores = joined([parts[part] for part in wanted])
                check_same_samples(first.setdefault(plan.data, scores), scores, plan.name, plan.data)
                found[plan.split] = scores
        cells[key] = Cell(key[0], len(planned), found)
    return Grid(test, cells)


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


DEFAULT_FOLDER = Path("records")


@dataclass(frozen=True, eq=False)
class Selection:
    """The runs of an experiment that a table or figure shows.

    Args:
        name: of the experiment.
        preset: its size.
        folder: of the records, default "records".
        splits: how many, default the preset's or the experiment's.
        only: names of data sets, losses or arms, default all.
    """

    name: str
    preset: str
    folder: Path = DEFAULT_FOLDER
    splits: int | None = None
    only: tuple[str, ...] = ()

    @property
    def experiment(self) -> Experiment:
        """The experiment at this size; without published values if other data stand in for the paper's."""
        experiment = experiment_of(self.name).at(self.preset)
        if any(stands_in(self.preset, data) for data in experiment.data):
            return replace(experiment, published=None)
        return experiment

    @property
    def plans(self) -> list[RunPlan]:
        return plans_of(self.name, self.preset, splits=self.splits, only=self.only)

    def missing(self) -> list[str]:
        """A note: how many runs have no record, and the command that trains them."""
        plans, records = self.plans, RecordFolder(self.folder)
        count = sum(not records.has(plan) for plan in plans)
        return [f"{count} of {len(plans)} runs are missing: {self.command()}"] if count else []

    def command(self) -> str:
        words = ["rankreg", "bench", "run", self.name, "--preset", self.preset]
        words += [] if self.splits is None else ["--splits", str(self.splits)]
        words += [word for name in self.only for word in ("--only", name)]
        words += [] if self.folder == DEFAULT_FOLDER else ["--records", str(self.folder)]
        return shlex.join(words)

    def diverged(self, data: Sequence[str]) -> list[str]:
        """A note: which runs on these data sets diverged."""
        records = RecordFolder(self.folder)
        found = [
            f"{plan.loss.upper()} {ARMS[plan.arm].title} on {title_of(plan.data, plan.preset)}, split {plan.split}"
            for plan in self.plans
            if plan.data in data and records.has(plan) and records.read(plan).get("diverged")
        ]
        text = f"These runs diverged and count with their best epoch before that: {'; '.join(found)}."
        return [text] if found else []

    def grids(self, test: str | None = None) -> list[Grid]:
        """The grid on each test set that the experiment is judged on, or on the one that is named."""
        plans, tests = self.plans, test_sets(test, self.experiment.judged_on, self.name)
        if found := grids_of(plans, self.folder, tests):
            return found
        raise ValueError(f"no recorded run of {self.name} was scored on the {tests[0]} test set")


def test_sets(test: str | None, judged_on: Sequence[TestSet], name: str) -> Sequence[TestSet]:
    """The named test set, default all that runs are judged on; ValueError for one if they choose settings."""
    if test is None:
        return judged_on
    found = look_up({str(known): known for known in PARTS}, test, "test set")
    if tuple(judged_on) == ("tuning",) and found != "tuning":
        raise ValueError(
            f"{name} chooses settings: it is judged on the tuning pool, never on a test set; leave out --test"
        )
    return (found,)
