"""Resuming equals never stopping: after exceptions, Ctrl-C, SIGKILL, a full disk."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rankreg.datasets.splits import Splits
from rankreg.train import DivergenceError, Interrupted, Run, TrainConfig, train
from rankreg.train.folder import locked
from rankreg.train.inference import score_samples
from rankreg.train.loop import Batch, Training
from tests.train.conftest import digit_splits

METHODS: list[dict[str, Any]] = [
    {"method": {"name": "alm", "mu": 1e-3}, "optimizer": "adamw", "schedule": "cosine"},
    {"method": "rankreg", "batch_size": 32, "sampling": "balanced"},
]


def config_of(**settings: Any) -> TrainConfig:
    """With dropout, so that torch's own generator matters too."""
    return TrainConfig.model_validate(
        {"epochs": 5, "learning_rate": 0.02, "model": {"name": "mlp", "dropout": 0.2}, **settings}
    )


def assert_same(one: Run, other: Run) -> None:
    assert one.best_epoch == other.best_epoch
    for part, scores in one.scores.items():
        np.testing.assert_array_equal(scores.values, other.scores[part].values)
    for a, b in zip(one.history, other.history, strict=True):
        assert {**a, "samples_per_second": 0} == {**b, "samples_per_second": 0}


class Killer:
    """Acts after a given number of steps, counted over all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, action: Any) -> None:
        self.left = after
        step = Training.step

        def counted(training: Training, batch: Batch) -> None:
            step(training, batch)
            self.left -= 1
            if self.left == 0:
                action()

        monkeypatch.setattr(Training, "step", counted)


def crash() -> None:
    raise RuntimeError("power cut")


@pytest.mark.parametrize("settings", METHODS)
@pytest.mark.parametrize("after", [1, 23, 30])
def test_a_crash_in_mid_epoch_changes_nothing(
    rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], after: int
) -> None:
    config = config_of(**settings)
    whole = train(rows, config, tmp_path / "whole")
    Killer(monkeypatch, after, crash)
    with pytest.raises(RuntimeError, match="power cut"):
        train(rows, config, tmp_path / "cut")
    assert_same(train(rows, config, tmp_path / "cut"), whole)


@pytest.mark.parametrize("settings", METHODS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_in_mid_epoch_and_says_how_to_go_on(
    rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], number: int
) -> None:
    config, before = config_of(**settings), signal.getsignal(number)
    whole = train(rows, config, tmp_path / "whole")
    Killer(monkeypatch, 23, lambda: signal.raise_signal(number))
    with pytest.raises(Interrupted, match="the same command again goes on from"):
        train(rows, config, tmp_path / "cut")
    assert signal.getsignal(number) is before
    assert torch.load(tmp_path / "cut" / "last.pt", weights_only=True)["steps_done"] > 0
    assert_same(train(rows, config, tmp_path / "cut"), whole)


def test_a_signal_during_the_handler_of_another_does_not_hang() -> None:
    """SIGTERM arrives at the first, second, … call that the handler of SIGINT makes."""
    program = """
import signal, sys
from rankreg.train.run import _stop_requests

def interrupt(frame, event, what):
    global calls
    while frame is not None and frame.f_code is not handler.__code__:
        frame = frame.f_back
    if frame is not None and event in ("call", "c_call") and what is not signal.raise_signal:
        calls += 1
        if calls == moment:
            signal.raise_signal(signal.SIGTERM)

signal.signal(signal.SIGTERM, lambda *_: None)
for moment in range(1, 20):
    with _stop_requests(True) as requests:
        calls, handler = 0, signal.getsignal(signal.SIGINT)
        sys.setprofile(interrupt)
        signal.raise_signal(signal.SIGINT)
        sys.setprofile(None)
    assert calls > 0 and requests
"""
    subprocess.run([sys.executable, "-c", program], timeout=120, check=True)


def test_a_full_disk_loses_nothing(rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(**METHODS[1])
    whole = train(rows, config, tmp_path / "whole")
    fsync, cut = os.fsync, tmp_path / "cut"
    for room in range(1, 30, 3):  # syncs until the disk is full: at the first file, at checkpoints, at the scores
        left = iter(range(room))

        def full(file: int, left: Any = left) -> None:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(file)

        monkeypatch.setattr(os, "fsync", full)
        if (cut / "finished.json").exists():
            break
        with suppress(OSError):
            train(rows, config, cut)
        assert not list(cut.glob("*.unfinished"))
    assert room > 7  # it took several attempts
    assert_same(train(rows, config, cut), whole)


def test_a_failed_checkpoint_says_what_is_left(
    rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == "last.pt":
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="there was none before: make room and start the run again"):
        train(rows, config_of(), tmp_path)


def test_a_finished_run_is_read_not_repeated(rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(epochs=2)
    first = train(rows, config, tmp_path)
    monkeypatch.setattr(Training, "__init__", lambda *arguments: pytest.fail("it trains again"))
    (tmp_path / "last.pt").unlink()  # large, and no longer needed
    again = train(rows, config, tmp_path)
    assert_same(again, first)
    np.testing.assert_array_equal(score_samples(again.model, rows["test"]).values, first.scores["test"].values)


def test_another_run_s_folder_is_refused(rows: Splits, images: Splits, tmp_path: Path) -> None:
    train(rows, config_of(epochs=1), tmp_path)
    with pytest.raises(ValueError, match=r"differs in epochs, seed \(config.json\)"):
        train(rows, config_of(epochs=2, seed=1), tmp_path)
    other = Splits("digits", {**rows.parts, "test": rows["test"].take(np.arange(5))})
    with pytest.raises(ValueError, match=r"differs in inputs, parts \(data.json\)"):
        train(other, config_of(epochs=1), tmp_path)


def test_two_runs_in_one_folder_are_refused(rows: Splits, tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(ValueError, match="another process is training in"):
        train(rows, config_of(), tmp_path)
    train(rows, config_of(epochs=1), tmp_path)


def test_a_damaged_checkpoint_is_named(rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Killer(monkeypatch, 23, crash)
    with pytest.raises(RuntimeError, match="power cut"):
        train(rows, config_of(), tmp_path)
    whole = (tmp_path / "last.pt").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"nonsense", b""):
        (tmp_path / "last.pt").write_bytes(damaged)
        with pytest.raises(ValueError, match="not a checkpoint or is damaged"):
            train(rows, config_of(), tmp_path)


class Tiring(nn.Module):
    """A network that fails after a number of training steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left, self.linear = steps, nn.Linear(64, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.left -= self.training
        scores: torch.Tensor = self.linear(inputs).squeeze(1)
        return scores * (float("nan") if self.training and self.left < 0 else 1)


def test_divergence_stops_and_keeps_the_last_good_checkpoint(rows: Splits, tmp_path: Path) -> None:
    steps = -(-len(rows["train"]) // 64)
    config = TrainConfig(epochs=5)
    with pytest.raises(DivergenceError, match=r"epoch 3, step 2: scores are not finite. The checkpoint of epoch 2"):
        train(rows, config, tmp_path, model=Tiring(2 * steps + 1))
    state = torch.load(tmp_path / "last.pt", weights_only=True)
    assert state["epoch"] == 2
    assert all(value.isfinite().all() for value in state["model"].values())
    assert len(train(rows, config, tmp_path, model=Tiring(999)).history) == 5  # mended, it goes on


def test_a_diverged_run_can_be_kept_with_the_best_epoch_before(rows: Splits, tmp_path: Path) -> None:
    steps, config = -(-len(rows["train"]) // 64), TrainConfig(epochs=5)
    kept = train(rows, config, tmp_path / "kept", model=Tiring(2 * steps + 1), keep_diverged=True)
    assert kept.diverged is not None
    assert "diverged in epoch 3, step 2" in kept.diverged
    assert len(kept.history) == 2
    assert np.isfinite(kept.scores["test"].values).all()
    again = train(rows, config, tmp_path / "kept", model=Tiring(999))  # it is finished, and read
    assert again.diverged == kept.diverged
    np.testing.assert_array_equal(again.scores["test"].values, kept.scores["test"].values)
    with pytest.raises(DivergenceError, match="There is no checkpoint yet"):
        train(rows, config, tmp_path / "none", model=Tiring(1), keep_diverged=True)


def test_a_learning_rate_far_too_high_is_called_divergence(rows: Splits, tmp_path: Path) -> None:
    with pytest.raises(DivergenceError, match=r"There is no checkpoint yet; try a learning rate below 1e\+30"):
        train(rows, TrainConfig(learning_rate=1e30), tmp_path)


SCRIPT = """
import os, signal, sys
from pathlib import Path
from rankreg.train import TrainConfig, train
from rankreg.train import folder as folder_module
from rankreg.train.loop import Training
from tests.train.conftest import digit_splits

folder, place, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def killing(function):
    left = number
    def counted(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return counted

if place == "step":
    Training.step = killing(Training.step)
if place == "write":
    folder_module.write_lines = killing(folder_module.write_lines)
if place == "fsync":
    os.fsync = killing(os.fsync)
train(digit_splits(images=True, size=200), TrainConfig.model_validate_json(sys.argv[4]), folder)
"""


@pytest.mark.slow
def test_sigkill_at_any_moment_changes_nothing(tmp_path: Path) -> None:
    config = TrainConfig.model_validate(
        {
            "epochs": 4,
            "batch_size": 32,
            "learning_rate": 0.02,
            "method": "rankreg",
            "augmentation": "cifar",
            "model": {"name": "resnet10", "width": 0.0625},
        }
    )

    def start(place: str, number: int) -> int:
        command = [
            sys.executable,
            "-c",
            SCRIPT,
            str(tmp_path / "cut"),
            place,
            str(number),
            config.model_dump_json(),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=Path(__file__).parents[2], env=environment, timeout=600).returncode

    whole = train(digit_splits(images=True, size=200), config, tmp_path / "whole")
    for place, number in (("step", 11), ("write", 1), ("fsync", 3)):
        assert start(place, number) == -signal.SIGKILL
    assert start("never", 0) == 0
    assert_same(train(digit_splits(images=True, size=200), config, tmp_path / "cut"), whole)
