"""One run of a plan, from data to its record, and the same run again to verify a record; needs torch."""

import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from rankreg.datasets import Splits, load
from rankreg.datasets.catalog import data_folder, located
from rankreg.pool import keep_freed_memory
from rankreg.scores import Scores
from rankreg.train import Run, TrainConfig, train
from rankreg.train.config import renamed
from rankreg.train.inference import score_samples
from rankreg_bench.arms import PRESETS
from rankreg_bench.grids import RunPlan, loader_options
from rankreg_bench.records import PARTS, Outcome, RecordFolder, compact, parts_of, plan_of

OWN_FILES = ("digits", "digits-lt", "table")  # loaders of scikit-learn's files, or of a file of one's own
FILES_OF = {"cifar10-lt": "cifar10"}  # loaders that read another one's files
PACKAGES = ("rankreg", "torch", "numpy", "scikit-learn")


def missing_data(loaders: Sequence[str], data_dir: Path | None) -> dict[str, str]:
    """By loader, what to do about data that are not here."""
    missing = {}
    for loader in loaders:
        try:
            if loader not in OWN_FILES:
                located(FILES_OF.get(loader, loader), data_dir)
        except FileNotFoundError as error:
            missing[loader] = str(error)
    return missing


def perform(plan: RunPlan, folder: Path, data_dir: Path | None, *, progress: bool | None = False) -> Outcome:
    """Train in `folder`, or resume there, and return scores and record.

    A run that diverges after its first epoch counts with its best one, as the others do. In the record, the seconds
    of training are of all epochs; if the run was resumed, the total is of its last part only.
    """
    torch.set_num_threads(1)  # many small runs side by side
    keep_freed_memory()
    made_by = provenance()
    start = time.perf_counter()
    settings = loader_options(plan.settings)
    if plan.loader == "table":
        settings["path"] = data_folder(data_dir) / settings["path"]
    splits = load(plan.loader, *(() if plan.loader in OWN_FILES else (data_dir,)), **settings)
    loaded = time.perf_counter()
    resumed = (folder / "last.pt").exists()
    config = TrainConfig.model_validate(as_meant(plan.config))
    curves = PRESETS[plan.preset].curves
    watch = {str(test): wanted for test in PARTS if curves and (wanted := parts_of(test, splits.parts))}
    run = train(splits, config, folder, progress=progress, keep_diverged=True, watch=watch)
    end = time.perf_counter()
    training = sum(len(splits["train"]) / epoch["samples_per_second"] for epoch in run.history)
    record = {
        **asdict(plan),
        "hash": plan.hash,
        "complete_config": run.config.model_dump(mode="json"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": {
            "total": round(end - start, 2),
            "loading": round(loaded - start, 2),
            "training": round(training, 2),
        },
        "resumed": resumed,
        **made_by,
        "critical": splits.critical,
        "best_epoch": run.best_epoch,
        "diverged": run.diverged,
        "validation_auc": [round(epoch["validation"]["auc"], 4) for epoch in run.history],
        "training_losses": {
            term: [float(f"{epoch['train'][term]:.4g}") for epoch in run.history]
            for term in run.history[0]["train"]
        },
    }
    if not curves:
        return Outcome(record, run.scores)
    record["curves"] = {
        name: {key: [round(100 * epoch["watched"][name][key], 2) for epoch in run.history] for key in first}
        for name, first in run.history[0]["watched"].items()
    }
    return Outcome(record, {**run.scores, **_last_scores(run, splits)})


def _last_scores(run: Run, splits: Splits) -> dict[str, Scores]:
    """The scores of the last epoch's weights, by "last-" and the part, as float16."""
    assert run.folder is not None  # `perform` gave one
    state = torch.load(run.folder / "last.pt", map_location="cpu", weights_only=True)
    run.model.load_state_dict(state["model"])
    precision = run.config.precision
    found = {f"last-{part}": score_samples(run.model, splits[part], precision=precision) for part in run.scores}
    return {name: replace(scores, values=scores.values.astype(np.float16)) for name, scores in found.items()}


def as_meant(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a plan in full, in today's words.

    Unless the config says otherwise, published ranks are among all, and the TPR is 0.98. Plans still say
    `optimiser`, because the name of a record contains the hash of its plan.
    """
    today = {"tpr": 0.98, **renamed(config)}
    method = today["method"]
    return {**today, "method": {"among": "all", **method}} if method["name"] == "rankreg" else today


@cache  # a commit made while a worker runs is not what the worker runs
def provenance() -> dict[str, Any]:
    """Commit, versions and machine."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed_since": bool(_git("status", "--porcelain", "--", "src")),
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "machine": machine(),
    }


def machine() -> str:
    """The kind of machine: the last bits of a score depend on the processor."""
    known = [f"{platform.system()} {platform.machine()}", torch.backends.cpu.get_cpu_capability()]
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return ", ".join(known)
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    name, family, model = (told.get(key, "?") for key in ("model name", "cpu family", "model"))
    return ", ".join((*known, f"{name} family {family} model {model}"))


def _git(*arguments: str) -> str | None:
    """What git says about this package's sources; None if they are not a checkout of rankreg."""
    this = Path(__file__)
    root, place = this.parents[2], "/".join(this.parts[-3:])

    def ask(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        # an installed package may lie in another repository
        if ask("ls-files", "--full-name", "--error-unmatch", "--", place) != "src/rankreg_bench/runs.py":
            return None
        return ask(*arguments)
    except (OSError, subprocess.SubprocessError):
        return None


@dataclass(frozen=True)
class Verification:
    """A run that was run again: by part the largest absolute difference of a score, and what has changed since."""

    plan: RunPlan
    by_part: Mapping[str, float]
    changes: tuple[str, ...]

    @property
    def difference(self) -> float:
        """The largest absolute difference, infinite where the two cannot be compared."""
        return max(self.by_part.values())

    def sentence(self, tolerance: float) -> str:
        """The verdict, then the details."""
        verdict = "the same" if self.difference <= tolerance else "DIFFERENT"
        parts = ", ".join(f"{part} {difference:.3g}" for part, difference in self.by_part.items())
        head = f"{self.plan.name}: {verdict}, largest difference of a score {self.difference:.3g}"
        changes = f"\n  since then: {'; '.join(self.changes)}" if self.changes else ""
        return f"{head} (by part: {parts}; tolerance {tolerance:g}){changes}"


def draw_records(folder: Path, count: int, seed: int | None = None) -> list[Path]:
    """So many records at random, of this kind of machine if there are any; without a seed, others every time."""
    files = list(RecordFolder(folder).files())
    if not files:
        raise ValueError(f"{folder} holds no records")
    files = [file for file in files if RecordFolder.read_file(file).get("machine") == machine()] or files
    return Random(seed).sample(files, min(count, len(files)))


def verify(path: Path, data_dir: Path | None = None) -> Verification:
    """Train as the record says, in a temporary folder, and compare the scores with the recorded ones."""
    record = RecordFolder.read_file(path)
    try:
        plan = plan_of(record)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    folder = path.absolute().parents[2]
    if record.get("hash") != plan.hash or path.absolute() != folder / f"{plan.name}.json":
        raise ValueError(f"{path} does not fit its own config: it was edited, renamed or moved")
    expected = RecordFolder(folder).by_part(plan)
    with TemporaryDirectory(prefix="rankreg-verify-") as scratch:
        outcome = perform(plan, Path(scratch) / "run", data_dir, progress=None)
    parts = dict.fromkeys((*expected, *outcome.scores))
    by_part = {part: _difference(expected.get(part), outcome.scores.get(part)) for part in parts}
    return Verification(plan, by_part, tuple(_changes(record, outcome.record)))


def _difference(expected: Scores | None, found: Scores | None) -> float:
    """Rounded as records are; infinite if not of the same samples, or if a score is not a number."""
    if expected is None or found is None or expected.values.shape != found.values.shape:
        return float("inf")
    if not (np.array_equal(expected.ids, found.ids) and np.array_equal(expected.labels, found.labels)):
        return float("inf")
    gaps = np.abs(compact(found.values).astype(np.float64) - expected.values.astype(np.float64))
    return float(np.nan_to_num(gaps, nan=np.inf).max(initial=0.0))


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has changed: commit, versions, machine, the complete config (keys that are newer do not count)."""
    then, today = (
        {
            "commit": str(record.get("commit"))[:10],
            **record.get("versions", {}),
            "machine": record.get("machine"),
            **flat(renamed(record.get("complete_config", {}))),
        }
        for record in (before, now)
    )
    changes = [f"{name} {old}, now {today.get(name)}" for name, old in then.items() if old != today.get(name)]
    when = {"then": before.get("changed_since"), "now": now["changed_since"]}
    return changes + [f"uncommitted changes {word}" for word, changed in when.items() if changed]


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables as one: "method.reach" for the reach of the method."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inner = {f"{name}.{key}": deep for key, deep in flat(value).items()} if isinstance(value, dict) else {}
        found |= inner or {name: value}
    return found
