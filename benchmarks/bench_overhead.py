"""How much of a compact CIFAR-100 run is not the network's forward and backward pass, and how many run in an hour.

    python -m benchmarks bench_overhead

One run without and one with RankReg, whole: reading the data, training, checkpoints, scoring, the record. The
network's calls (training and scoring), the losses and the backward pass are timed inside an otherwise unchanged
run. Wall time counts the waiting for the disk; on a busy machine it also counts other processes' turns, inside and
outside alike, so CPU time stands beside it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.table import Table

import rankreg.datasets
import rankreg.train.run
from benchmarks.timing import duration
from rankreg.datasets import cifar
from rankreg.datasets.catalog import find
from rankreg.models import ResNet
from rankreg.objective import Objective
from rankreg_bench.grids import plan_run, plans_of
from rankreg_bench.records import RecordFolder
from rankreg_bench.runs import perform

ARMS = ("base", "rankreg")
TARGET = 0.15
TABLE = "cifar100-100"
CORES = 2
ROOT = Path(__file__).parents[1]
# what is timed: where the function is looked up, its name, what it belongs to
INSIDE: tuple[tuple[Any, str, str], ...] = (
    (ResNet, "__call__", "forward"),
    (Objective, "__call__", "loss"),
    (torch.Tensor, "backward", "backward"),
)
OUTSIDE: tuple[tuple[Any, str, str], ...] = (
    (rankreg.datasets, "load", "data"),
    (rankreg.train.run, "claim", "fingerprint"),
    (rankreg.train.run, "_save", "checkpoints"),
    (rankreg.train.run, "write_finished", "checkpoints"),
    (RecordFolder, "write", "record"),
)
Times = dict[str, "np.ndarray[tuple[int], np.dtype[np.float64]]"]  # wall and CPU seconds


def now() -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Wall and CPU time."""
    return np.array([perf_counter(), process_time()])


def timed(function: Callable[..., Any], spent: Times, name: str) -> Callable[..., Any]:
    """The same function, whose time is added up."""

    def call(*arguments: Any, **options: Any) -> Any:
        start = now()
        try:
            return function(*arguments, **options)
        finally:
            spent[name] = spent.get(name, 0) + now() - start

    return call


def run_times(arm: str, data_dir: Path | None) -> Times:
    """Where the time of one run goes; "total" is all of it."""
    plan, spent = plan_run("compact", TABLE, "bce", arm, 0), Times()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for owner, attribute, name in (*INSIDE, *OUTSIDE):
            stack.enter_context(patch.object(owner, attribute, timed(getattr(owner, attribute), spent, name)))
        start = now()
        outcome = perform(plan, Path(folder) / "run", data_dir)
        RecordFolder(Path(folder) / "records").write(plan, outcome)
        spent["total"] = now() - start
    return spent


@contextmanager
def cifar100() -> Iterator[tuple[Path | None, str]]:
    """A folder with CIFAR-100 (None: the usual one) and what it is: found, unpacked, or made of random images."""
    if find("cifar100") is not None:
        yield None, "CIFAR-100"
        return
    shared = Path(os.environ.get("RANKREG_SHARED_DATA") or ROOT.parent / "shared/data")
    with tempfile.TemporaryDirectory() as folder:
        if (shared / "unpack_cifar").exists():
            command = [sys.executable, str(shared / "unpack_cifar"), folder, "cifar100"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            yield Path(folder), "CIFAR-100"
            return
        with (
            patch.object(cifar, "_files", random_files),
            patch.object(cifar, "read_pickle", lambda content, name: content),
            patch.object(cifar, "located", lambda name, given: Path(folder)),
        ):
            yield Path(folder), "random images"


def random_files(place: Path, layout: Any) -> Iterator[tuple[str, Any]]:
    """What official files would hold."""
    random = np.random.default_rng(0)
    yield layout.meta, {layout.names: [f"class {k}".encode() for k in range(100)]}
    for file, size in (("train", 50_000), ("test", 10_000)):
        pixels = random.integers(0, 256, (size, 3072), dtype=np.uint8)
        yield file, {b"data": pixels, layout.labels: [k % 100 for k in range(size)]}


def recorded_seconds() -> list[float]:
    """How long the recorded runs of the table took; of one that was resumed, its training at least."""
    records = RecordFolder(ROOT / "records")
    found = [records.read(plan)["seconds"] for plan in plans_of(TABLE, "compact") if records.has(plan)]
    return [max(seconds["total"], seconds["training"]) for seconds in found]


def table() -> Table:
    """The share beside forward and backward for both arms, and runs per hour."""
    with cifar100() as (data_dir, what):
        times = {arm: run_times(arm, data_dir) for arm in ARMS}
    columns = ("forward", "loss", "backward", "data", "fingerprint", "checkpoints", "record")
    result = Table(title=f"One compact run, {what}, one thread: wall / CPU time")
    for column in ("arm", "whole run", *columns, "the rest", "beside forward and backward"):
        result.add_column(column, justify="right")
    for arm, spent in times.items():
        total = spent["total"]
        inside = sum(spent[name] for name in ("forward", "loss", "backward"))
        rest = total - sum(spent[name] for name in columns)
        wall, cpu = 1 - inside / total
        met = "met" if wall <= TARGET else "MISSED"
        result.add_row(
            arm,
            *(" / ".join(map(duration, value)) for value in (total, *(spent[name] for name in columns), rest)),
            f"{wall:.1%} / {cpu:.1%} ({met}: ≤ {TARGET:.0%})",
        )
    # half of the table's arms are as dear as base (ALM), half as RankReg (the buffer alone)
    per_run = float(np.mean([spent["total"][1] for spent in times.values()]))
    lines = [f"{3600 * CORES / per_run:.0f} runs an hour on {CORES} cores that do nothing else, by CPU time"]
    recorded = recorded_seconds()
    if recorded:
        rate = 3600 * CORES / float(np.mean(recorded))
        lines.append(f"{rate:.0f} by the wall time of {len(recorded)} recorded runs, beside whatever else ran")
    result.caption = "; ".join(lines)
    return result
