"""`rankreg tune`: from a table to a file that `rankreg fit` reads; killed and started again; faults in words."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pytest
from optuna.trial import TrialState

from rankreg.fit import Source, load_source
from tests.conftest import heed_ctrl_c
from tests.own_data import CommandLine, command, run_command, write_images, write_table


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


def started(*arguments: object) -> "subprocess.Popen[str]":
    """`rankreg tune …` as a process of its own."""
    return subprocess.Popen(
        command("tune", *arguments),
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    )


def counted(out: Path) -> list[optuna.trial.FrozenTrial]:
    """The finished trials of the search in that folder."""
    study = optuna.load_study(study_name="rankreg", storage=f"sqlite:///{out / 'study.sqlite3'}")
    return study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))


def outline(out: Path) -> list[tuple[Any, ...]]:
    return [(trial.state, trial.params, trial.value) for trial in counted(out)]


def until_counted(out: Path, number: int) -> None:
    """Wait until that many trials are finished."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            if len(counted(out)) >= number:
                return
        except Exception:  # the file is being made: whatever is wrong with it, it is not yet there
            time.sleep(0.2)
        time.sleep(0.05)
    raise AssertionError("no trial was finished in time")


def test_a_table_becomes_settings_that_fit_reads(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("--target", "sick", "--id", "name", "--tpr", "0.9", "--epochs", 2, "--trials", 5, "--splits", 2)
    status, said, error = rankreg("tune", data, *arguments, "--out", tmp_path / "out")
    assert (status, error) == (0, "")
    assert "The best" in said
    assert "Baseline" in said
    assert "no other part was looked at" in said
    assert "coarse: 90 % of 8 validation positives is all" in said
    commands = [line for line in said.splitlines() if "rankreg fit" in line and "--config" in line]
    assert commands
    best = tmp_path / "out/best.toml"
    assert f"--config {best} --out {tmp_path / 'out/best'} --tpr 0.9 --target sick --id name" in commands[0]
    status, said, error = rankreg(*commands[0].split("rankreg ")[1].split())
    assert (status, error) == (0, "")
    assert "alarm when score" in said
    left_out = load_source(Source(data, target="sick", id_column="name"), tmp_path / "cache")["test"].ids
    assert sorted(pd.read_csv(tmp_path / "out/best/test-scores.csv").id) == sorted(left_out)


def test_a_folder_of_images_is_searched_too(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_images(tmp_path / "images")
    limits = ("--epochs", 1, "--trials", 3, "--method", "buffer", "--loss", "bce", "--size", 16)
    status, said, error = rankreg("tune", data, "--positive", "bad", *limits, "--out", tmp_path / "out")
    assert (status, error) == (0, "")
    assert "none 2, buffer 1" in said
    assert 'name = "resnet10"' in (tmp_path / "out/best.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.csv",), "no file or folder nowhere.csv, nor a data set of that name: digits, cifar10"),
        (("digits", "--target", "sick"), "is cut already: target is for data of your own"),
        (("digits", "--preset", "grid"), "choose 'default' or 'alm'"),
        (("digits", "--preset", "alm", "--trials", "3"), "leave --method and --trials out"),
        (("digits", "--method", "rankrek"), "did you mean 'rankreg'"),
        (("digits", "--loss", "afl"), "did you mean 'a-fl'"),
        (("digits", "--tpr", "1.5"), "tpr"),
        (("digits", "--ratio", "-3"), "ratio"),
        (("digits", "--storage", "nonsense"), "--storage is no storage URL"),
        (("digits", "--config", "nowhere.toml"), "cannot read the settings in nowhere.toml"),
        (("melanoma", "--ratio", "3"), "leave --ratio out"),
        (("digits", "--workers", "0"), "--workers"),
    ],
)
def test_bad_input_is_said_in_words(
    rankreg: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, error = rankreg("tune", *arguments, "--out", "out")
    assert status == 2
    assert words in " ".join(error.split())
    assert not list(tmp_path.rglob("*.toml"))


def test_without_optuna_one_line_says_what_to_do(
    rankreg: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[:2] == ["rankreg", "tune"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("rankreg.tune", raising=False)
    monkeypatch.setitem(sys.modules, "optuna", None)
    status, said, error = rankreg("tune", "digits", "--out", tmp_path / "out")
    assert (status, said) == (2, "")
    assert error == "rankreg: a search needs Optuna: pip install 'rankreg[tune]'\n"


def test_help_needs_neither_torch_nor_optuna() -> None:
    code = "import sys; from rankreg.cli import tune; assert not {'torch', 'optuna'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_teaches(rankreg: CommandLine) -> None:
    status, said, _ = rankreg("tune", "--help")
    assert status == 0
    assert "never looks at the calibration and test parts" in " ".join(said.replace("│", " ").split())
    assert "rankreg tune claims.csv --target fraud" in said


@pytest.mark.slow
def test_killed_and_started_again_it_makes_the_same_search(tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv", rows=1000, positives=100)
    limits = ("--epochs", 6, "--trials", 24, "--splits", 1)  # enough to be killed in the middle on a fast machine
    arguments = (data, "--target", "sick", "--drop", "name", *limits, "--out")
    with started(*arguments, tmp_path / "killed") as run:
        until_counted(tmp_path / "killed", 5)
        run.send_signal(signal.SIGKILL)
    assert run.returncode == -signal.SIGKILL, "it was over before it could be killed"
    assert not list((tmp_path / "killed").glob("*.toml"))
    before = len(counted(tmp_path / "killed"))
    assert before < 24

    with started(*arguments, tmp_path / "killed") as again:
        _, error = again.communicate(timeout=300)
    assert again.returncode == 0, error
    with started(*arguments, tmp_path / "whole") as whole:
        _, error = whole.communicate(timeout=300)
    assert whole.returncode == 0, error
    assert outline(tmp_path / "killed") == outline(tmp_path / "whole")
    names = [
        (place / "best.toml").read_text(encoding="utf-8") for place in (tmp_path / "killed", tmp_path / "whole")
    ]
    assert names[0].splitlines()[1:] == names[1].splitlines()[1:]  # the first line names the trial's number


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    with started("digits", "--epochs", 20, "--trials", 500, "--splits", 1, "--out", tmp_path / "out") as run:
        until_counted(tmp_path / "out", 1)
        run.send_signal(signal.SIGINT)
        _, error = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "the same command again goes on" in error
    assert "Traceback" not in error
    study = optuna.load_study(study_name="rankreg", storage=f"sqlite:///{tmp_path / 'out/study.sqlite3'}")
    assert not study.get_trials(states=(TrialState.RUNNING,))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the system for a process's children")
def test_processes_end_with_the_search_that_started_them(tmp_path: Path) -> None:
    limits = ("--epochs", 3, "--trials", 500, "--splits", 1, "--workers", 2)
    with started("digits", *limits, "--out", tmp_path / "out") as run:
        until_counted(tmp_path / "out", 1)
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        assert len(children) >= 2
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=300)  # ends only when no process holds the search's output any more


def test_the_command_line_starts_without_the_extra() -> None:
    assert run_command("--version").returncode == 0
