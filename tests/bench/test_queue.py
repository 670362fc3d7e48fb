"""Runs that are killed, fail, or are another bench's: nothing is done twice and nothing is left undone."""

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankreg.pool import WorkerDied
from rankreg.scores import Scores
from rankreg.train.folder import in_use, locked
from rankreg_bench import cli, queue
from rankreg_bench.grids import RunPlan, plan_run, plans_of
from rankreg_bench.queue import Answer, Place, run_all
from rankreg_bench.records import Outcome, RecordFolder
from rankreg_bench.status import RunDisplay
from tests.bench.processes import (
    Process,
    Values,
    assert_same,
    bench_command,
    kill_at_work,
    long_plans,
    members,
    place_in,
    processes,
    scores_in,
    under_way,
    until,
    workers,
)
from tests.conftest import Run

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
QUICK = plan_run("smoke", "cifar10-100", "bce", "base", 0)
SCORES = {"test": Scores(np.arange(4), np.arange(4) % 2, np.zeros(4))}


def diverging() -> RunPlan:
    return replace(QUICK, arm="wild", config={**QUICK.config, "learning_rate": 1e30})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Values]:
    """The scores of a bench that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert len(run_all(long_plans(), place_in(folder), workers=1).done) == 4
    assert not any(RecordFolder(folder / "records").read(plan)["resumed"] for plan in long_plans())
    return scores_in(folder)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Process]]:
    """Starts a bench on two workers in the test's folder."""
    with processes(tmp_path) as begin:
        yield lambda: begin(*bench_command(tmp_path, "--workers", "2"))


def test_finished_runs_are_not_repeated(run: Run, tmp_path: Path) -> None:
    command = ("bench", "run", "controls", "--preset", "smoke", "--only", "base", "--workers", "1")
    status, _, said = run(*command, "--splits", "1")
    assert status == 0
    assert "2 runs done, 0 left" in said
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*.*")}
    assert len(before) == 5  # a record and its scores, twice, and the samples they share
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]

    status, _, said = run(*command, "--splits", "2")
    assert status == 0
    assert "2 of 4 runs are recorded already" in said
    assert "4 runs done, 0 left" in said
    assert {path: path.stat().st_mtime_ns for path in before} == before


@on_linux
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_bench_goes_on_when_a_worker_dies(
    tmp_path: Path, start: Callable[[], Process], undisturbed: dict[str, Values], number: signal.Signals
) -> None:
    bench = start()
    until(lambda: under_way(tmp_path))
    crew = workers(bench.pid)
    assert len(crew) == 2
    for process in crew:
        assert b"\0OMP_NUM_THREADS=1\0" in b"\0" + Path(f"/proc/{process}/environ").read_bytes()
    kill_at_work(tmp_path, lambda: crew, number)
    assert bench.wait(240) == 0
    assert "4 runs done, 0 left" in (tmp_path / "said").read_text()
    assert_same(scores_in(tmp_path), undisturbed)
    until(lambda: not members(bench.pid), 20)


@on_linux
@pytest.mark.slow
def test_after_a_kill_of_the_whole_bench_only_unfinished_runs_are_done(
    tmp_path: Path, start: Callable[[], Process], undisturbed: dict[str, Values]
) -> None:
    records = tmp_path / "records"
    bench = start()
    until(lambda: list(records.glob("*/*/*.json")) and under_way(tmp_path))
    os.kill(bench.pid, signal.SIGKILL)
    bench.wait()
    until(lambda: not members(bench.pid), 20)  # no orphan goes on
    before = {path: path.stat().st_mtime_ns for path in records.glob("*/*/*")}
    begun = {path.parent.name for path in (tmp_path / "runs").glob("*/*/*/last.pt")}
    unfinished = begun - {path.stem for path in before if path.suffix == ".json"}
    assert unfinished

    assert start().wait(240) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_same(scores_in(tmp_path), undisturbed)
    resumed = [plan for plan in long_plans() if RecordFolder(records).read(plan)["resumed"]]
    assert sorted(plan.name.split("/")[-1] for plan in resumed) == sorted(unfinished)


@on_linux
@pytest.mark.slow
def test_two_benches_share_the_work(
    tmp_path: Path, start: Callable[[], Process], undisturbed: dict[str, Values]
) -> None:
    benches = [start(), start()]
    assert [bench.wait(240) for bench in benches] == [0, 0]
    assert_same(scores_in(tmp_path), undisturbed)
    assert (tmp_path / "said").read_text().count(" was trained\n") == 4  # none twice


@on_linux
@pytest.mark.slow
def test_ctrl_c_leaves_at_once_and_nobody_behind(tmp_path: Path, start: Callable[[], Process]) -> None:
    bench = start()
    until(lambda: under_way(tmp_path))
    os.killpg(bench.pid, signal.SIGINT)  # as a terminal does
    assert bench.wait(20) == 130
    until(lambda: not members(bench.pid), 20)
    said = (tmp_path / "said").read_text()
    assert "stopped; the same command continues" in said
    assert "Traceback" not in said


def test_a_run_of_another_bench_is_waited_for(tmp_path: Path) -> None:
    place, seen = place_in(tmp_path), []
    with ExitStack() as other:
        other.enter_context(locked(place.folder(QUICK)))

        def report(plan: RunPlan, state: str) -> None:
            seen.append((plan, state))
            if state == "busy":
                other.close()

        found = run_all([QUICK], place, workers=1, report=report)
    assert seen == [(QUICK, "busy"), (QUICK, "done")]
    assert found.done == [QUICK.name]
    assert RecordFolder(place.records).has(QUICK)


def test_a_claim_that_goes_while_it_is_looked_at_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = place_in(tmp_path).claim(QUICK)
    claim.mkdir(parents=True)

    def removed(path: Path, *_: Any, **__: Any) -> None:  # between making sure of the folder and opening its lock
        path.rmdir()

    monkeypatch.setattr(Path, "mkdir", removed)
    assert not in_use(claim)
    assert not claim.exists()


def test_a_run_that_another_bench_records_meanwhile_is_not_done_again(tmp_path: Path) -> None:
    place, elsewhere = place_in(tmp_path), place_in(tmp_path / "elsewhere")
    run_all([QUICK], elsewhere, workers=1)
    with locked(place.folder(QUICK)):

        def report(plan: RunPlan, state: str) -> None:
            if state == "busy":
                elsewhere.records.rename(place.records)

        assert run_all([QUICK], place, workers=1, report=report).done == [QUICK.name]
    assert not list(place.runs.rglob("*.pt"))


def test_a_failed_run_is_reported_and_stops_no_other(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "plans_of", lambda *arguments, **options: [diverging(), QUICK])
    status, _, said = run("bench", "run", "controls", "--workers", "1")
    assert status == 1
    assert "1 runs done, 1 failed, 0 left" in said
    assert f"failed: {diverging().name}: DivergenceError: training diverged in epoch 1" in said
    assert RecordFolder(tmp_path / "records").has(QUICK)
    assert not RecordFolder(tmp_path / "records").has(diverging())


def test_a_run_that_diverges_after_an_epoch_counts_with_the_best_one_before(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    plan = replace(QUICK, arm="wild", config={**QUICK.config, "learning_rate": 1e3, "epochs": 30})
    assert run_all([plan], place, workers=1).done == [plan.name]
    record = RecordFolder(place.records).read(plan)
    assert record["diverged"].startswith(f"training diverged in epoch {len(record['validation_auc']) + 1}, step")
    assert record["best_epoch"] == int(np.argmax(record["validation_auc"]))


def test_a_run_that_kills_its_workers_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = plans_of("controls", "smoke", splits=1, only=["cifar10-100"])
    deadly, outcome = plans[1], Outcome({}, SCORES)

    def pool(task: Any, plans: Sequence[RunPlan], **how: Any) -> Generator[tuple[RunPlan, Answer | WorkerDied]]:
        for plan in plans:
            yield plan, WorkerDied("SIGKILL(-9)") if plan == deadly else Answer(outcome)

    monkeypatch.setattr(queue, "run_parallel", pool)
    found = run_all(plans, place_in(tmp_path))
    assert found.done == [plan.name for plan in plans if plan != deadly]
    assert list(found.failed) == [deadly.name]
    assert "SIGKILL" in found.failed[deadly.name]


def test_without_any_data_no_worker_is_started(run: Run, tmp_path: Path) -> None:
    status, _, said = run("bench", "run", "cifar10-100", "multiclass", "--data-dir", str(tmp_path))
    assert status == 2
    assert said.count("CIFAR-10 is not in") == 1
    assert "rankreg data get cifar10" in said


def test_what_has_its_data_is_done_where_other_data_are_missing(tmp_path: Path) -> None:
    elsewhere = plan_run("compact", "cifar100-100", "bce", "base", 0)
    found = run_all([elsewhere, QUICK], Place(tmp_path / "records", tmp_path / "runs", tmp_path), workers=1)
    assert found.done == [QUICK.name]
    assert "CIFAR-100 is not in" in found.failed[elsewhere.name]


def test_only_what_is_done_counts_as_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plans = plans_of("controls", "smoke")
    display = RunDisplay(plans, tmp_path)
    for plan, state in zip(plans, ("busy", "failed", "done"), strict=False):
        display.settled(plan, state)
    said = capsys.readouterr().err.splitlines()
    assert "another bench trains it" in said[0]
    assert f"0 runs done, 1 failed, {len(plans) - 1} left" in said[1]
    assert f"1 runs done, 1 failed, {len(plans) - 2} left" in said[2]


def test_the_time_to_go_follows_the_pace_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    plans = plans_of("controls", "smoke", only=["cifar10-100", "base"], splits=4)  # of one cost
    monkeypatch.setattr("rankreg_bench.status.time.monotonic", lambda: now[0])
    display = RunDisplay(plans, tmp_path)
    said = []
    monkeypatch.setattr(display.console, "print", lambda line, **_: said.append(line))
    for plan in plans[:2]:
        now[0] += 90
        display.settled(plan, "done")
    assert said[0].endswith("(1 runs done, 3 left, 0:04:30 to go)")
    assert said[1].endswith("(2 runs done, 2 left, 0:03:00 to go)")
