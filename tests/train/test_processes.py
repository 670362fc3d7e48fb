"""Two processes under torchrun: the same run as one, and resumed as exactly."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rankreg.scores import Scores
from rankreg.train import TrainConfig, train
from tests.train.conftest import digit_splits

SCRIPT = """
import json, os, signal, sys
import torch
torch.set_num_threads(1)
from rankreg.train import TrainConfig, train
from rankreg.train.loop import Training
from tests.train.conftest import digit_splits

def run(folder, settings, after=0):
    step, left = Training.step, after
    def counted(training, batch):
        nonlocal left
        step(training, batch)
        left -= 1
        if left == 0 and training.world.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    Training.step = counted
    found = train(digit_splits(), TrainConfig.model_validate(settings), folder)
    Training.step = step
    return found

for job in json.loads(sys.argv[1]):
    run(*job)
"""

EXACT = {"epochs": 3, "precision": "float32"}  # in half precision the sums of two processes differ more
ALM = {**EXACT, "learning_rate": 0.05, "method": {"name": "alm", "mu": 1e-3}}
RANKED = {**EXACT, "learning_rate": 0.05, "method": {"name": "rankreg", "buffer": {"capacity": 0}}}
BUFFERED = {
    "epochs": 4,
    "batch_size": 32,
    "learning_rate": 0.05,
    "method": {"name": "rankreg", "buffer": {"capacity": 7}},
    "model": {"name": "mlp", "dropout": 0.2},
}


def torchrun(tmp_path: Path, *jobs: tuple[str, dict[str, object], int]) -> int:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    listed = json.dumps([(str(tmp_path / name), settings, after) for name, settings, after in jobs])
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [*command, listed], cwd=root, env=environment, timeout=240, capture_output=True, text=True
    )
    print(done.stderr)
    return done.returncode


@pytest.mark.slow
def test_two_processes_train_as_one_does_and_resume_exactly(tmp_path: Path) -> None:
    jobs = (("alm", ALM, 0), ("ranked", RANKED, 0), ("whole", BUFFERED, 0), ("cut", BUFFERED, 45))
    assert torchrun(tmp_path, *jobs) != 0
    assert torchrun(tmp_path, ("cut", BUFFERED, 0)) == 0

    for name, settings in (("alm", ALM), ("ranked", RANKED)):
        alone = train(digit_splits(), TrainConfig.model_validate(settings), tmp_path / f"{name}-alone")
        together = Scores.load(tmp_path / name / "scores-test.npz")
        np.testing.assert_allclose(together.values, alone.scores["test"].values, rtol=1e-3, atol=1e-3)
    one, two = (
        torch.load(tmp_path / name / "last.pt", weights_only=True)["objective"] for name in ("alm-alone", "alm")
    )
    torch.testing.assert_close(two["term.multipliers"], one["term.multipliers"], rtol=1e-3, atol=1e-6)

    for part in ("validation", "test"):
        whole, cut = (Scores.load(tmp_path / name / f"scores-{part}.npz") for name in ("whole", "cut"))
        np.testing.assert_array_equal(cut.values, whole.values)
    shares = torch.load(tmp_path / "cut" / "last.pt", weights_only=True)["processes"]
    assert [len(share["buffer"]["_extra_state"]["scores"]) for share in shares] == [4, 3]

    (tmp_path / "cut" / "finished.json").unlink()
    with pytest.raises(ValueError, match=r"of 2 processes.*--nproc-per-node 2"):
        train(digit_splits(), TrainConfig.model_validate(BUFFERED), tmp_path / "cut")
