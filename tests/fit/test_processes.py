"""A fit as a process of its own, or two: killed, stopped, started again, together."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from rankreg.bundle import load_bundle
from tests.conftest import heed_ctrl_c
from tests.own_data import command, run_command, write_table

LEARNERS = ("--learner", "logistic", "--learner", "forest", "--learner", "mlp")


def wait_for(run: "subprocess.Popen[Any]", home: Path, pattern: str) -> None:
    """Until the fit has written such a file."""
    deadline = time.monotonic() + 120
    while not [*home.glob(pattern)] and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learners", "sign"),
    [(LEARNERS, "run/*/logistic.json"), (("--epochs", 10, "--folds", 2), "run/*/network/member-1/metrics.jsonl")],
    ids=["learners", "network"],
)
def test_killed_and_started_again_it_ends_with_the_same_bundle(
    tmp_path: Path, learners: tuple[object, ...], sign: str
) -> None:
    data = write_table(tmp_path / "data.csv", rows=1000, positives=100)
    arguments = ("fit", data, "--target", "sick", "--drop", "name", *learners, "--out")
    whole = run_command(*arguments, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr

    killed = tmp_path / "killed"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command(*arguments, killed), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as run:
        wait_for(run, killed, sign)
        run.send_signal(signal.SIGKILL)
    assert run.returncode == -signal.SIGKILL, "it was over before it could be killed"
    assert not (killed / "bundle").exists()
    finished = {file: file.stat().st_mtime_ns for file in killed.glob("run/*/logistic.json")}

    again = run_command(*arguments, killed)
    assert again.returncode == 0, again.stderr
    assert {file: file.stat().st_mtime_ns for file in finished} == finished  # not trained again
    files = sorted(file.relative_to(tmp_path / "whole") for file in (tmp_path / "whole/bundle").iterdir())
    assert sorted(file.relative_to(killed) for file in (killed / "bundle").iterdir()) == files
    for file in [*files, Path("out-of-fold-scores.csv")]:
        assert (killed / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv", rows=1000, positives=100)
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--epochs", 200, "--out", tmp_path / "out")
    start = command(*arguments)
    with subprocess.Popen(
        start, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c
    ) as run:
        wait_for(run, tmp_path / "out", "run/*/network/member-*/metrics.jsonl")
        run.send_signal(signal.SIGINT)
        _, error = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "the same command again goes on" in error
    assert "Traceback" not in error


def together(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Two processes under torchrun."""
    start = command(*arguments)
    options = ["--nproc-per-node", "2", "--standalone"]
    launcher = [start[0], "-m", "torch.distributed.run", *options, *start[1:]]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(launcher, capture_output=True, text=True, env=environment, timeout=300, check=False)


@pytest.mark.slow
def test_two_processes_fit_together_and_one_speaks(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    options = ("--target", "sick", "--drop", "name", "--epochs", 2, "--folds", 2, "--out", tmp_path / "out")
    done = together("fit", data, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("alarm when score") == 1
    load_bundle(tmp_path / "out")


@pytest.mark.slow
def test_two_processes_say_a_common_fault_once(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    done = together("fit", data, "--target", "sikc", "--out", tmp_path / "out")
    assert done.returncode != 0
    assert done.stderr.count("did you mean 'sick'") == 1
