"""One run of a plan, from data to its record; the only file of the bench that needs torch."""

import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankreg._cores import keep_freed_memory
from rankreg.bench.measures import measures
from rankreg.bench.planning import Plan
from rankreg.bench.presets import PRESETS
from rankreg.bench.records import Outcome
from rankreg.bench.results import PARTS, parts_of
from rankreg.scores import Scores

if TYPE_CHECKING:
    from rankreg.datasets.splits import Splits
    from rankreg.train import Run

OWN_FILES = ("digits", "digits-lt", "table")  # loaders of scikit-learn's files, or of a file of one's own
FILES_OF = {"cifar10-lt": "cifar10"}  # loaders that read another one's files
PACKAGES = ("rankreg", "torch", "numpy", "scikit-learn")


def missing_data(loaders: Sequence[str], data_dir: Path | None) -> dict[str, str]:
    """By loader, what to do about data that are not here."""
    from rankreg.datasets.catalog import located

    missing = {}
    for loader in loaders:
        if loader not in OWN_FILES:
            try:
                located(FILES_OF.get(loader, loader), data_dir)
            except FileNotFoundError as error:
                missing[loader] = str(error)
    return missing


def perform(plan: Plan, folder: Path, data_dir: Path | None, *, progress: bool | None = False) -> Outcome:
    """Train in `folder`, or go on there, and say what came out and how.

    A run that diverges after its first epoch counts with its best one, as the others do. Of the seconds, training's
    are of all epochs; if the run was resumed, the total is of its last part only.
    """
    import torch

    from rankreg.datasets import load
    from rankreg.train import TrainConfig, train

    torch.set_num_threads(1)  # many small runs side by side
    keep_freed_memory()
    made_by = _own_provenance()
    start = time.perf_counter()
    splits = load(plan.loader, *(() if plan.loader in OWN_FILES else (data_dir,)), **_located(plan, data_dir))
    loaded = time.perf_counter()
    resumed = (folder / "last.pt").exists()
    config = TrainConfig.model_validate(as_meant(plan.config))
    curves = PRESETS[plan.preset].curves
    watch = {str(test): wanted for test in PARTS if curves and (wanted := parts_of(test, splits.parts))}
    run = train(splits, config, folder, progress=progress, keep_diverged=True, watch=watch)
    end = time.perf_counter()
    training = sum(len(splits["train"]) / epoch["samples_per_second"] for epoch in run.history)
    record = {
        "preset": plan.preset,
        "data": plan.data,
        "loss": plan.loss,
        "arm": plan.arm,
        "split": plan.split,
        "hash": plan.hash,
        "loader": plan.loader,
        "settings": plan.settings,
        "config": plan.config,
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
        "measures": _measures(plan, dict(run.scores), splits.critical),
    }
    if not curves:
        return Outcome(record, run.scores)
    record["curves"] = _curves(run.history)
    return Outcome(record, {**run.scores, **_last_scores(run, splits)})


def _located(plan: Plan, data_dir: Path | None) -> dict[str, Any]:
    """The loader's settings; the path of a table of one's own is absolute, or below the folder of the data sets."""
    if plan.loader != "table":
        return plan.settings
    from rankreg.datasets import data_folder

    return plan.settings | {"path": data_folder(data_dir) / plan.settings["path"]}


def _curves(history: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """By test set and measure, the value after every epoch, in percent."""
    first = history[0]["watched"]
    return {
        name: {key: [round(100 * epoch["watched"][name][key], 2) for epoch in history] for key in first[name]}
        for name in first
    }


def _last_scores(run: "Run", splits: "Splits") -> dict[str, Scores]:
    """The scores of the last epoch's weights, by "last-" and the part, as float16."""
    from rankreg.train import score
    from rankreg.train.folder import read_state

    state = read_state(run.folder / "last.pt")
    if state is None:
        raise ValueError(f"{run.folder} has no last.pt: the last epoch's weights are lost; delete the folder")
    run.model.load_state_dict(state["model"])
    found = {f"last-{part}": score(run.model, splits[part], precision=run.config.precision) for part in run.scores}
    return {name: replace(scores, values=scores.values.astype(np.float16)) for name, scores in found.items()}


def as_meant(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a plan in full: ranks that are not said to be among negatives are the published ones."""
    method = config["method"]
    return {**config, "method": {"among": "all", **method}} if method["name"] == "rankreg" else config


def provenance() -> dict[str, Any]:
    """Commit, versions and machine."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed_since": bool(_git("status", "--porcelain", "--", "src")),
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "machine": machine(),
    }


def machine() -> str:
    """The kind of machine: the last bits of a score, and what training makes of them, follow the processor."""
    import torch

    known = (f"{platform.system()} {platform.machine()}", torch.backends.cpu.get_cpu_capability(), _processor())
    return ", ".join(filter(None, known))


def _processor() -> str:
    """Name, family and model, where the system tells."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return ""
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    return "{} family {} model {}".format(*(told.get(key, "?") for key in ("model name", "cpu family", "model")))


@cache
def _own_provenance() -> dict[str, Any]:
    """That of the code in this process: what is committed while a worker is at it is not what it runs."""
    return provenance()


def _measures(plan: Plan, scores: dict[str, Scores], critical: int) -> dict[str, dict[str, float]]:
    """By part; the extended test is official test and fresh positives together, tuning has validation in it."""
    return {
        name: measures(plan.data, [scores[part] for part in parts], critical)
        for name, parts in {
            "validation": ("validation",),
            "tuning": ("validation", "tuning"),
            "test": ("test",),
            "extended": ("test", "extended"),
        }.items()
        if all(part in scores for part in parts)
    }


def _git(*arguments: str) -> str | None:
    """What git says about this package's sources, if they are a checkout of it."""
    this = Path(__file__)
    root, place = this.parents[3], "/".join(this.parts[-4:])

    def ask(*words: str) -> str:
        found = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=10
        )
        return found.stdout.strip()

    try:
        # installed, it may lie in somebody else's repository
        if ask("ls-files", "--full-name", "--error-unmatch", "--", place) != "src/rankreg/bench/training.py":
            return None
        return ask(*arguments)
    except (OSError, subprocess.SubprocessError):
        return None
