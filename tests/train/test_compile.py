"""Training with `torch.compile`: the same results up to rounding, and exact resuming."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankreg.datasets.splits import Splits
from rankreg.train import TrainConfig, train
from tests.train.test_resume import Killer, assert_same, crash

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own
needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")


def config_of(*, dropout: float = 0.0, **settings: Any) -> TrainConfig:
    return TrainConfig.model_validate(
        {
            "epochs": 3,
            "learning_rate": 0.02,
            "model": {"name": "mlp", "hidden": [16], "dropout": dropout},
            "precision": "float32",
            "method": "buffer",
            "batch_size": 32,
            **settings,
        }
    )


@pytest.mark.slow
@needs_a_compiler
def test_compiled_training_differs_by_rounding_only(rows: Splits) -> None:
    plain, compiled, other = (
        train(rows, config_of(**settings)).scores["test"].values
        for settings in ({}, {"compile": True}, {"seed": 1})
    )
    np.testing.assert_allclose(compiled, plain, atol=1e-3)
    assert np.abs(other - plain).max() > 0.1


@pytest.mark.slow
@needs_a_compiler
def test_compiled_training_resumes_exactly(rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(compile=True, dropout=0.2)
    whole = train(rows, config, tmp_path / "whole")
    Killer(monkeypatch, 23, crash)
    with pytest.raises(RuntimeError, match="power cut"):
        train(rows, config, tmp_path / "cut")
    assert_same(train(rows, config, tmp_path / "cut"), whole)


def test_without_a_compiler_compile_is_refused(rows: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ValueError, match="no-such-compiler"):
        train(rows, config_of(compile=True))
