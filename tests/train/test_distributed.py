import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from rankreg.alm import ALM
from rankreg.distributed import World, join
from rankreg.losses import make_loss
from rankreg.objective import Objective, Term
from rankreg.regularizer import RankReg

ROWS = (5, 8)  # of the two processes: ragged
METHODS = ("none", "rankreg", "alm")


def term_of(method: str) -> Term | None:
    return {"none": None, "rankreg": RankReg(reach=2.0), "alm": ALM(20, mu=0.1)}[method]


def batch() -> tuple[Tensor, Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(0)
    inputs = torch.randn(sum(ROWS), 4, generator=numbers, dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0])
    return inputs, labels, torch.arange(sum(ROWS)) + 3


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0)).double()


def gradients_of(method: str, world: World) -> dict[str, Tensor]:
    """After two steps: every gradient, and the multipliers if there are any."""
    everything = batch()
    rows = slice(None) if world.size == 1 else (slice(0, ROWS[0]), slice(ROWS[0], None))[world.rank]
    inputs, labels, ids = (values[rows] for values in everything)
    plain = network()
    model = world.wrap(plain)
    objective = Objective(make_loss("bce"), term_of(method), gather=world.gather, base_over="batch")
    buffered = 2 if world.rank == world.size - 1 else 0  # the last two samples of all
    for _ in range(2):
        model.zero_grad()
        objective(model(inputs), labels, ids, buffered=buffered).total.backward()
    found = {name: value.grad for name, value in plain.named_parameters() if value.grad is not None}
    return found | objective.state_dict()


def work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    world = join("cpu")
    flags = [world.any(False), world.any(rank == 1)]
    told = world.first(lambda: f"from {rank}")
    try:
        world.first(lambda: [][1])
    except IndexError:
        told += ", error heard"
    found = {method: gradients_of(method, world) for method in METHODS}
    torch.save((found, flags, told, world.collect(rank), world.share(5)), folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_have_the_gradient_of_one_with_the_concatenated_batch(tmp_path: Path) -> None:
    spawn(work, (tmp_path,), nprocs=2)
    reports = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for method in METHODS:
        alone = gradients_of(method, World())
        for report in reports:
            assert report[0][method].keys() == alone.keys()
            for name, value in alone.items():
                torch.testing.assert_close(report[0][method][name], value, rtol=1e-12, atol=1e-14, equal_nan=True)
    for _, flags, told, ranks, _ in reports:
        assert flags == [False, True]
        assert told == "from 0, error heard"
        assert ranks == [0, 1]
    assert [report[4] for report in reports] == [3, 2]


def test_alone_every_method_is_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    world, values, model = join("cpu"), torch.ones(3, requires_grad=True), nn.Linear(1, 1)
    assert world == World()
    assert world.gather(values) is values
    assert world.wrap(model) is model
    assert world.collect("a") == ["a"]
    assert world.share(7) == 7


def test_a_gpu_that_is_not_there_is_an_error() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="no GPU"):
        join("cuda")
