"""Many processes, started by torchrun: the rank of this one, and values of all of them brought together."""

import atexit
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

Value = TypeVar("Value")


@dataclass(frozen=True)
class World:
    """This process among all: its rank, their number, its device. Alone, every method is the identity."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def gather(self, values: Tensor) -> Tensor:
        """The rows of all processes, in order of rank, differentiably; each may bring any number of rows.

        Meant for a loss that every process computes alike from the gathered values, under
        DistributedDataParallel, which averages the processes' gradients. Each process back-propagates its own rows
        times the number of processes, so that this average is the sum over all rows: the gradient of one process
        with the concatenated batch.
        """
        if self.size == 1:
            return values
        gathered: Tensor = _Gather.apply(values, self.rank, self.size)  # type: ignore[no-untyped-call]
        return gathered

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model whose gradients are averaged over all processes."""
        if self.size == 1:
            return model
        return DistributedDataParallel(model, device_ids=[self.device] if self.device.type == "cuda" else None)

    def share(self, total: int) -> int:
        """This process's share of a number: shares differ by at most one and add up to it."""
        return total // self.size + (self.rank < total % self.size)

    def any(self, flag: bool) -> bool:
        """Whether the flag is up in any process."""
        if self.size == 1:
            return flag
        flags = torch.tensor(int(flag), device=self.device)
        dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        return bool(flags)

    def collect(self, value: Value) -> list[Value]:
        """The value of every process, in order of rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def first(self, function: Callable[[], Value]) -> Value:
        """What the function returns, or raises, in the first process: it runs there alone."""
        if self.size == 1:
            return function()
        outcome: list[Any] = [None, None]
        if self.rank == 0:
            try:
                outcome[0] = function()
            except Exception as error:  # all processes must hear of it, or they wait for ever
                outcome[1] = error
        dist.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        value: Value = outcome[0]
        return value

    def synchronise(self, model: nn.Module) -> None:
        """Give every process the first one's running statistics, which no gradient keeps equal."""
        if self.size > 1:
            for values in model.buffers():
                dist.broadcast(values, src=0)


def join(device: str = "auto") -> World:
    """The world as torchrun describes it in the environment: gloo on CPUs, nccl on GPUs."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    place = device_named(device, int(os.environ.get("LOCAL_RANK", "0")))
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size(), place)
    if size == 1:
        return World(device=place)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
    atexit.register(_leave)  # once per process: several runs may follow each other
    return World(dist.get_rank(), dist.get_world_size(), place)


def _leave() -> None:
    if dist.is_initialized():
        gc.collect()  # a training is a circle of references that holds the group; freed any later, it may abort
        dist.destroy_process_group()


def device_named(name: str, local_rank: int) -> torch.device:
    """The device of that name, "auto" being a GPU if there is one, for the process of that rank on its machine."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device 'cuda' was asked for, but torch sees no GPU: use device 'auto' or 'cpu'")
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)


class _Gather(torch.autograd.Function):
    """All rows forward; backward this process's rows, times the number of processes (see `World.gather`)."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rank: int, size: int) -> Tensor:
        own = torch.tensor([len(values)], device=values.device)
        counts = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(counts, own)
        rows = [int(count) for count in counts]
        ctx.start, ctx.stop, ctx.size = sum(rows[:rank]), sum(rows[: rank + 1]), size

        sent = values.to(torch.uint8) if values.dtype == torch.bool else values
        padded = sent.new_zeros((max(rows), *values.shape[1:]))
        padded[: len(values)] = sent
        received = [torch.empty_like(padded) for _ in range(size)]
        dist.all_gather(received, padded)
        return torch.cat([part[:n] for part, n in zip(received, rows, strict=True)]).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *incoming: Tensor) -> tuple[Tensor, None, None]:
        return incoming[0][ctx.start : ctx.stop] * ctx.size, None, None
