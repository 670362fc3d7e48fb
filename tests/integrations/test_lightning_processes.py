"""The callback in two processes: the gradients of one with the whole batch, and checkpoints of both buffers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from rankreg.integrations import RankRegCallback
from rankreg.integrations.lightning import dealt
from tests.integrations.test_lightning import QUIET, Module, data
from tests.integrations.test_lightning import pytestmark as pytestmark


def test_buffers_of_other_numbers_of_processes_are_dealt_out_whole() -> None:
    def held(values: list[float]) -> dict[str, Any]:
        return {"inputs": [torch.tensor(values)], "scores": torch.tensor(values), "ids": None}

    states = [held([1.0, 2.0, 3.0]), {"inputs": None, "scores": torch.empty(0), "ids": None}, held([4.0, 5.0])]
    hands = [dealt(states, rank, 2) for rank in range(2)]
    assert [hand["scores"].tolist() for hand in hands] == [[1, 3, 5], [2, 4]]
    assert [hand["inputs"][0].tolist() for hand in hands] == [[1, 3, 5], [2, 4]]
    assert dealt(states, 2, 3) is states[2]
    assert len(dealt(states[1:2], 0, 2)["scores"]) == 0


class Recorded(Module):
    """Keeps the gradients of every step."""

    def __init__(self) -> None:
        super().__init__()
        self.gradients: list[Tensor] = []

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        found = [value.grad.flatten() for value in self.parameters() if value.grad is not None]
        self.gradients.append(torch.cat(found).clone())


def halves(rank: int, size: int) -> DataLoader[Any]:
    """Each step's 16 rows, or this process's half of them, one positive in each: the processes' base losses are
    averaged, so they are the loss of one only if batch and buffer are equally large everywhere."""
    inputs, labels = data(200).tensors
    negatives, positives = ((labels == label).nonzero().squeeze(1) for label in (0, 1))
    steps = torch.cat([negatives[: 6 * 14].view(6, 14), positives[: 6 * 2].view(6, 2)], dim=1)
    mine = steps[:, torch.arange(rank, 16, size)]
    kept = mine.flatten()
    return DataLoader(TensorDataset(inputs[kept], labels[kept]), batch_size=16 // size)


def two_processes(folder: Path) -> None:
    """Run by torchrun: train, save a checkpoint, go on from it."""
    from lightning.pytorch.strategies import DDPStrategy

    torch.set_num_threads(1)

    def trainer(epochs: int, callback: RankRegCallback) -> lightning.pytorch.Trainer:
        changes = QUIET | {"devices": 2, "strategy": DDPStrategy(process_group_backend="gloo")}
        return lightning.pytorch.Trainer(
            max_epochs=epochs, callbacks=[callback], use_distributed_sampler=False, **changes
        )

    rank = int(os.environ["LOCAL_RANK"])
    module, callback = Recorded(), RankRegCallback(capacity=16)
    first = trainer(1, callback)
    first.fit(module, halves(rank, 2))
    first.save_checkpoint(folder / "one.ckpt")
    resumed, again = Recorded(), RankRegCallback(capacity=16)
    trainer(2, again).fit(resumed, halves(rank, 2), ckpt_path=folder / "one.ckpt")
    whole, never_stopped = Recorded(), RankRegCallback(capacity=16)
    trainer(2, never_stopped).fit(whole, halves(rank, 2))
    torch.save(
        {
            "gradients": whole.gradients,
            "resumed": resumed.gradients,
            "held": never_stopped.buffer.get_extra_state(),
            "held again": again.buffer.get_extra_state(),
        },
        folder / f"{rank}.pt",
    )


@pytest.mark.slow
def test_two_processes_have_the_gradients_of_one_with_the_whole_batch(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    subprocess.run(
        [*command, "-m", "tests.integrations.test_lightning_processes", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
        timeout=600,
        capture_output=True,
    )
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    alone, callback = Recorded(), RankRegCallback(capacity=16)
    # One epoch: in the next a sample and its held copy tie, or not, by the last bit of a matrix product.
    lightning.pytorch.Trainer(max_epochs=1, callbacks=[callback], **QUIET).fit(alone, halves(0, 1))
    assert len(alone.gradients) == 6
    for k, gradient in enumerate(alone.gradients):
        torch.testing.assert_close(first["gradients"][k], gradient, rtol=1e-5, atol=1e-7)
        assert torch.equal(first["gradients"][k], second["gradients"][k])
    for report in (first, second):
        assert all(map(torch.equal, report["resumed"], report["gradients"][6:]))
        assert torch.equal(report["held"]["scores"], report["held again"]["scores"])
    saved = torch.load(tmp_path / "one.ckpt", weights_only=True)["callbacks"]["RankRegCallback"]["processes"]
    assert [len(state["scores"]) for state in saved] == [6, 6]
    assert not torch.equal(saved[0]["inputs"][0], saved[1]["inputs"][0])


if __name__ == "__main__":
    two_processes(Path(sys.argv[1]))
