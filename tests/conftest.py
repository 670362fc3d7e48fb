"""Shared oracles and settings."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from numpy.typing import NDArray
from torch import Tensor

from rankreg.cli import main
from tests.browser import browser, open_page  # noqa: F401

settings.register_profile("rankreg", deadline=None)  # a busy machine must not fail a property
settings.load_profile("rankreg")
torch.set_num_threads(1)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command in an empty folder: exit status, output, error output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rankreg", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        out, error = capsys.readouterr()
        return int(left.value.code or 0), out, error

    return call


def heed_ctrl_c() -> None:
    """For `preexec_fn`: a process in the background of a script ignores Ctrl-C, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _same_random_numbers_every_time() -> None:
    torch.manual_seed(0)


def brute_force_rank(scores: Tensor) -> Tensor:
    """Eq. 2 read aloud: one plus how many are higher."""
    return 1 + (scores[..., None, :] > scores[..., :, None]).sum(-1).to(scores.dtype)


def brute_force_gradient(scores: Tensor, incoming: Tensor, gamma: float, scale: float = 1.0) -> Tensor:
    """Section 3.4 read aloud, for ranks divided by `scale`."""
    ranks, perturbed = brute_force_rank(scores) / scale, brute_force_rank(scores + gamma * incoming) / scale
    return -(ranks - perturbed) / gamma


def to_numpy(tensor: Tensor) -> NDArray[np.float64]:
    """A detached float64 copy."""
    return tensor.detach().double().numpy()


@pytest.fixture
def protocol() -> Path:
    """The page that lists the published settings, where it is at hand."""
    page = Path(os.environ.get("RANKREG_PROTOCOL", Path(__file__).parents[2] / "shared/paper/PROTOCOL.md"))
    if not page.exists():
        pytest.skip(f"{page.name} is not here: set RANKREG_PROTOCOL to its path")
    return page
