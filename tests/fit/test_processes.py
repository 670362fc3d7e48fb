"""A fit as a process of its own, or two: killed, stopped, started again, together."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rankreg.bundle import load_bundle
from tests.conftest import heed_ctrl_c
from tests.own_data import command, run_command, write_table


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_scores(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv", rows=2000, positives=200)
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--epochs", 30, "--out")
    whole = run_command(*arguments, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr

    records = tmp_path / "killed/run/metrics.jsonl"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command(*arguments, tmp_path / "killed"), env=environment, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 120
        while not records.exists() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    assert run.returncode == -signal.SIGKILL, "it was over before it could be killed"
    assert not (tmp_path / "killed/bundle").exists()

    again = run_command(*arguments, tmp_path / "killed")
    assert again.returncode == 0, again.stderr
    for name in ("test-scores.csv", "calibration-scores.csv", "bundle/bundle.json", "bundle/model.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv", rows=2000, positives=200)
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--epochs", 200, "--out", tmp_path / "out")
    start = command(*arguments)
    with subprocess.Popen(start, text=True, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c) as run:
        deadline = time.monotonic() + 120
        while not (tmp_path / "out/run/metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
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
    options = ("--target", "sick", "--drop", "name", "--epochs", 2, "--out", tmp_path / "out")
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
