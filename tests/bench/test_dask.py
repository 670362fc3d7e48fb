"""The bench on a real Dask cluster: a scheduler and workers in processes of their own, some of which are killed."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from rankreg_bench import queue, runs
from rankreg_bench.grids import plan_run
from rankreg_bench.queue import run_all
from rankreg_bench.records import RecordFolder
from tests.bench.processes import (
    Process,
    Start,
    assert_same,
    bench_command,
    kill_at_work,
    long_plans,
    place_in,
    processes,
    scores_in,
    until,
)
from tests.conftest import Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
QUICK = plan_run("smoke", "cifar10-100", "bce", "base", 0)
LOCAL = ("--host", "127.0.0.1", "--no-dashboard")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with processes(tmp_path) as begin:
        yield begin


def scheduler(start: Start, tmp_path: Path) -> str:
    """The address of a new scheduler."""
    file = tmp_path / "scheduler.json"
    start("distributed.cli.dask_scheduler", "--port", "0", *LOCAL, "--scheduler-file", str(file))
    until(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
    return str(json.loads(file.read_text())["address"])


def worker(start: Start, address: str, threads: int = 1) -> Process:
    return start("distributed.cli.dask_worker", address, "--nthreads", str(threads), "--no-nanny", *LOCAL)


@pytest.mark.slow
def test_a_killed_worker_of_a_cluster_costs_no_run(start: Start, tmp_path: Path) -> None:
    address = scheduler(start, tmp_path)
    workers = [worker(start, address), worker(start, address)]
    bench = start(*bench_command(tmp_path, "--on", "dask", "--address", address))
    run = kill_at_work(tmp_path, lambda: [one.pid for one in workers], signal.SIGKILL)
    assert bench.wait(240) == 0
    assert "4 runs done, 0 left" in (tmp_path / "said").read_text()

    undisturbed = tmp_path / "undisturbed"
    run_all(long_plans(), place_in(undisturbed), workers=2)
    assert_same(scores_in(tmp_path), scores_in(undisturbed))
    resumed = [plan for plan in long_plans() if RecordFolder(tmp_path / "records").read(plan)["resumed"]]
    assert [place_in(tmp_path).folder(plan) for plan in resumed] == [run]


@pytest.mark.slow
def test_a_run_that_the_cluster_gives_up_stops_no_other(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    address = scheduler(start, tmp_path)
    workers = [worker(start, address), worker(start, address)]
    command = bench_command(tmp_path, "--on", "dask", "--address", address)
    bench = start(*command)
    kill_at_work(tmp_path, lambda: [one.pid for one in workers], signal.SIGKILL)
    assert bench.wait(240) == 1
    said = (tmp_path / "said").read_text()
    assert "failed, 0 left" in said
    assert "KilledWorker: " in said
    assert 2 <= len(scores_in(tmp_path)) < 4  # a worker may have a second run in hand
    assert start(*command).wait(240) == 0  # on the worker that is left
    assert len(scores_in(tmp_path)) == 4


@pytest.mark.slow
def test_a_cluster_must_have_workers_of_one_thread(
    start: Start, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = scheduler(start, tmp_path)
    command = ("bench", "run", "controls", "--preset", "smoke", "--on", "dask", "--address", address)
    with monkeypatch.context() as patience:
        patience.setattr(queue, "DASK_PATIENCE", 1.0)
        status, _, said = run(*command)
    assert status == 2
    assert f"no workers at {address}: start some" in said

    several = worker(start, address, threads=2)
    monkeypatch.setattr(queue, "DASK_PATIENCE", 120.0)
    status, _, said = run(*command)
    assert status == 2
    assert "start the workers with --nthreads 1" in said
    os.kill(several.pid, signal.SIGKILL)
    until(lambda: "Remove worker" in (tmp_path / "said").read_text())  # the scheduler has noticed

    worker(start, address)
    monkeypatch.setattr(runs, "perform", None)  # whoever does the run, it must not be this process
    assert run_all([QUICK], place_in(tmp_path), on="dask", address=address).done == [QUICK.name]


def test_an_absent_cluster_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("bench", "run", "controls", "--preset", "smoke", "--on", "dask")
    status, _, said = run(*command)
    assert status == 2
    assert "needs --address" in said
    monkeypatch.setattr(queue, "DASK_PATIENCE", 0.5)
    status, _, said = run(*command, "--address", "tcp://127.0.0.1:9")
    assert status == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in said
    assert "Traceback" not in said
    status, _, said = run(*command, "--address", "nowhere://")
    assert status == 2
    monkeypatch.setitem(sys.modules, "distributed", None)
    status, _, said = run(*command, "--address", "tcp://127.0.0.1:9")
    assert status == 2
    assert "pip install 'rankreg[dask]'" in said
