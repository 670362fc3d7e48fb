"""One run of a plan, from data to its record; the only file of the bench that needs torch."""

import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rankreg.bench.measures import measures
from rankreg.bench.planning import Plan
from rankreg.bench.records import Outcome
from rankreg.scores import Scores

OWN_FILES = ("digits", "digits-lt")  # loaders that come with scikit-learn: they take no data folder
PACKAGES = ("rankreg", "torch", "numpy", "scikit-learn")


def perform(plan: Plan, folder: Path, data_dir: Path | None) -> Outcome:
    """Train in `folder`, or go on there, and say what came out and how."""
    import torch

    from rankreg.datasets import load
    from rankreg.train import TrainConfig, train

    torch.set_num_threads(1)  # many small runs side by side
    start = time.perf_counter()
    where = () if plan.loader in OWN_FILES else (data_dir,)
    splits = load(plan.loader, *where, **plan.settings)
    loaded = time.perf_counter()
    run = train(splits, TrainConfig.model_validate(plan.config), folder, progress=False)
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
        **provenance(),
        "best_epoch": run.best_epoch,
        "validation_auc": [round(epoch["validation"]["auc"], 4) for epoch in run.history],
        "measures": _measures(plan, dict(run.scores), splits.critical),
    }
    return Outcome(record, run.scores)


def provenance() -> dict[str, Any]:
    """Commit, versions and machine."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed_since": bool(_git("status", "--porcelain", "--", "src")),
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "machine": f"{platform.system()} {platform.machine()}",
    }


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
    """What git says about this package's sources, if they are a checkout."""
    command = ["git", "-C", str(Path(__file__).parents[3]), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
