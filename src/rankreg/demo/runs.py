"""The demo's runs: four methods on the same splits; finished ones are not repeated."""

import multiprocessing
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankreg._cores import cores
from rankreg.datasets._progress import progress_bar
from rankreg.scores import Scores

CRITICAL, RATIO = 8, 100
SPLITS, EPOCHS = 8, 10


@dataclass(frozen=True)
class Arm:
    """One way to train."""

    title: str
    method: Mapping[str, Any]

    def folder(self, home: Path, split: int) -> Path:
        """Where a split's run lives."""
        return home / str(self.method["name"]) / f"split-{split}"


ARMS: dict[str, Arm] = {
    "bce": Arm("BCE", {"name": "none"}),
    "alm": Arm("BCE + ALM", {"name": "alm"}),
    "buffer": Arm("BCE + buffer", {"name": "buffer"}),
    "rankreg": Arm("BCE + RankReg as published", {"name": "rankreg", "among": "all", "weight": 1.0}),
}


def run_all(
    home: Path, *, arms: Sequence[str] = tuple(ARMS), splits: int = SPLITS, workers: int | None = None
) -> dict[str, list[Scores]]:
    """Every arm's test scores, one per split; what is not there yet is trained, one process per core."""
    todo = [(name, split) for name in arms for split in range(splits)]
    pending = [(n, s) for n, s in todo if not (ARMS[n].folder(home, s) / "finished.json").exists()]
    count = workers or min(cores(), len(pending) or 1)
    if count > 1:
        _run_in_processes(home, pending, count)
    else:
        _run_here(home, pending)
    return {name: [one_run(home, name, split) for split in range(splits)] for name in arms}


def one_run(home: Path, name: str, split: int) -> Scores:
    """Train one arm on one split, or read what was trained before; its scores of the test part."""
    from rankreg.datasets.digits import digits
    from rankreg.train import TrainConfig, train

    arm = ARMS[name]
    config = TrainConfig.model_validate(
        {
            "seed": split,
            "epochs": EPOCHS,
            "batch_size": 32,
            "learning_rate": 0.02,
            "method": dict(arm.method),
            "model": {"name": "mlp", "hidden": (64, 64)},
            "precision": "float32",
            "device": "cpu",
        }
    )
    data = digits(critical=CRITICAL, ratio=RATIO, seed=split)
    return train(data, config, arm.folder(home, split), progress=False).scores["test"]


def _run_here(home: Path, pending: Iterable[tuple[str, int]]) -> None:
    runs = list(pending)
    with progress_bar() as progress:
        for name, split in progress.track(runs, description="training"):
            one_run(home, name, split)


def _run_in_processes(home: Path, pending: Sequence[tuple[str, int]], workers: int) -> None:
    fresh = multiprocessing.get_context("spawn")  # a forked torch may hang
    pool = ProcessPoolExecutor(workers, mp_context=fresh, initializer=_one_thread)
    try:
        with progress_bar() as progress:
            task = progress.add_task("training", total=len(pending))
            for run in as_completed([pool.submit(_finish, home, name, split) for name, split in pending]):
                run.result()
                progress.advance(task)
    finally:
        pool.shutdown(cancel_futures=True)


def _finish(home: Path, name: str, split: int) -> None:
    one_run(home, name, split)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
