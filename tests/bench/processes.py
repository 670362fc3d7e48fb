"""`rankreg bench run` in a process of its own, with runs long enough to be killed in the middle."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.pool import WorkerDied
from rankreg_bench import cli, queue
from rankreg_bench.grids import RunPlan, plan_run
from rankreg_bench.queue import Answer, Place
from rankreg_bench.records import RecordFolder
from tests.conftest import heed_ctrl_c

EPOCHS = 60
ROOT = Path(__file__).parents[2]
Values = dict[str, NDArray[Any]]


def long_plans(*arguments: Any, **options: Any) -> list[RunPlan]:
    """Four runs on digits of a few seconds each, whatever was asked for."""
    found = [plan_run("smoke", "cifar10-100", "bce", arm, split) for split in (0, 1) for arm in ("rankreg", "base")]
    return [replace(plan, config={**plan.config, "epochs": EPOCHS}) for plan in found]


def place_in(folder: Path) -> Place:
    return Place(folder / "records", folder / "runs")


Process = subprocess.Popen[bytes]
Start = Callable[..., Process]


@contextmanager
def processes(folder: Path) -> Iterator[Start]:
    """Starts commands in sessions of their own, whose every process ends here; what they say goes to `said`."""
    begun: list[Process] = []

    def start(*command: str) -> Process:
        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        with (folder / "said").open("a") as said:
            begun.append(
                subprocess.Popen(
                    [sys.executable, "-m", *command],
                    cwd=ROOT,
                    env=environment,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                    preexec_fn=heed_ctrl_c,
                )
            )
        return begun[-1]

    try:
        yield start
    finally:
        for process in begun:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def bench_command(folder: Path, *options: str) -> list[str]:
    """A bench of the long runs."""
    places = ("--records", str(folder / "records"), "--runs", str(folder / "runs"))
    return ["tests.bench.processes", "bench", "run", "controls", "--preset", "smoke", *places, *options]


def until(condition: Callable[[], Any], seconds: float = 180.0) -> None:
    """Wait for something to become true, on a busy machine too."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def under_way(folder: Path) -> list[Path]:
    """Runs that have a checkpoint and are not finished."""
    found = (folder / "runs").glob("*/*/*/last.pt")
    return [path.parent for path in found if not (path.parent / "finished.json").exists()]


def members(group: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found


def workers(bench: int) -> list[int]:
    """The loky processes of a bench."""
    found = []
    for process in members(bench):
        with suppress(OSError):  # it may have ended
            if process != bench and b"LokyProcess" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def kill_at_work(folder: Path, candidates: Callable[[], list[int]], number: signal.Signals) -> Path:
    """Send a signal to a process that is in the middle of a run: it holds the lock. The run's folder."""
    found: list[tuple[int, Path]] = []

    def search() -> bool:
        for run in under_way(folder):
            for process in candidates():
                with suppress(OSError):  # it may have ended
                    held = {file.readlink() for file in Path(f"/proc/{process}/fd").iterdir()}
                    if run / "lock" in held:
                        found.append((process, run))
        return bool(found)

    until(search)
    process, run = found[0]
    os.kill(process, number)
    return run


def scores_in(folder: Path) -> dict[str, Values]:
    """Every value of every recorded run."""
    records = RecordFolder(folder / "records")
    return {
        plan.name: {part: scores.values for part, scores in records.by_part(plan).items()}
        for plan in long_plans()
        if records.has(plan)
    }


def assert_same(found: dict[str, Values], expected: dict[str, Values]) -> None:
    """Bit for bit."""
    assert found.keys() == expected.keys()
    for name, parts in expected.items():
        assert found[name].keys() == parts.keys()
        for part, values in parts.items():
            np.testing.assert_array_equal(found[name][part], values)


def settle_and_tell(ledger: queue.Ledger, plan: RunPlan, answer: Answer | WorkerDied) -> bool:
    """Say whether a worker of this bench has done the run, and if so from the start."""
    if isinstance(answer, Answer) and answer.outcome is not None:
        print(f"{plan.name} was {'resumed' if answer.outcome.record['resumed'] else 'trained'}", flush=True)
    return settled(ledger, plan, answer)


if __name__ == "__main__":
    from rankreg.cli import main

    setattr(cli, "plans_of", long_plans)  # noqa: B010 - the name is not exported
    settled = queue.Ledger.settled
    queue.Ledger.settled = settle_and_tell  # type: ignore[assignment, method-assign]
    main()
