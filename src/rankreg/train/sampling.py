"""Every random choice of a run comes from its seed: which samples a step sees, augmentation, dropout.

The batches are a pure function of seed and epoch, so a run can go on from any step.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankreg.datasets.splits import Samples
from rankreg.names import look_up

Positions = NDArray[np.int64]


class Batch(NamedTuple):
    """One process's part of a step: raw inputs, labels, positions in the training part, a number per drawing."""

    inputs: Tensor
    labels: Tensor
    ids: Tensor
    drawings: Tensor


def shuffled(labels: NDArray[np.int64], rng: np.random.Generator) -> Positions:
    """Every sample once."""
    return rng.permutation(len(labels))


def balanced(labels: NDArray[np.int64], rng: np.random.Generator) -> Positions:
    """As many drawings as samples, every class equally often, and within a class every sample, to within one."""
    classes = np.unique(labels)
    wanted = len(labels) // len(classes) + (rng.permutation(len(classes)) < len(labels) % len(classes))
    drawn = []
    for label, number in zip(classes, wanted, strict=True):
        members = np.flatnonzero(labels == label)
        rounds = -(-number // len(members))
        drawn.append(np.concatenate([rng.permutation(members) for _ in range(rounds)])[:number])
    return rng.permutation(np.concatenate(drawn))


SAMPLINGS: dict[str, Callable[[NDArray[np.int64], np.random.Generator], Positions]] = {
    "shuffled": shuffled,
    "balanced": balanced,
}


class Batches:
    """The batches of every epoch, for one process of many.

    An epoch's order is cut into ⌈n / batch_size⌉ batches whose sizes differ by one at most, so that no step rests
    on a handful of left-over samples; each is cut again among the processes.
    """

    def __init__(
        self, samples: Samples, *, batch_size: int, sampling: str, seed: int, rank: int, processes: int
    ) -> None:
        if min(batch_size, len(samples)) < processes:
            raise ValueError(
                f"{processes} processes cannot share batches of {batch_size} from {len(samples)} samples: use fewer"
            )
        self.samples, self.seed, self.rank, self.processes = samples, seed, rank, processes
        self.order_of = look_up(SAMPLINGS, sampling, "sampling")
        self.steps = -(-len(samples) // batch_size)

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        """The batches of that epoch from step `start` on."""
        order = self.order_of(self.samples.labels, np.random.default_rng([self.seed, epoch]))
        drawings = epoch * len(order) + np.arange(len(order))
        for whole in np.array_split(np.arange(len(order)), self.steps)[start:]:
            own = np.array_split(whole, self.processes)[self.rank]
            positions = order[own]
            yield Batch(
                as_tensor(self.samples.inputs(positions)),
                torch.from_numpy(self.samples.labels[positions]),
                torch.from_numpy(positions),
                torch.from_numpy(drawings[own]),
            )


def as_tensor(inputs: NDArray[np.generic]) -> Tensor:
    """Images (N, H, W, C) become a channels-last view (N, C, H, W); rows stay as they are."""
    tensor = torch.from_numpy(np.ascontiguousarray(inputs))
    return tensor.permute(0, 3, 1, 2) if tensor.ndim == 4 else tensor


def derived_seed(*numbers: int) -> int:
    """A seed of its own for every tuple of numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Randomness:
    """The generator for augmentation, and torch's global one, which dropout draws from; both start every epoch
    anew from (seed, epoch, rank)."""

    def __init__(self, seed: int, rank: int, device: torch.device) -> None:
        self.seed, self.rank, self.device = seed, rank, device
        self.generator = torch.Generator()

    def start_epoch(self, epoch: int) -> None:
        """Forget what was drawn before."""
        self.generator.manual_seed(derived_seed(self.seed, epoch, self.rank, 0))
        torch.manual_seed(derived_seed(self.seed, epoch, self.rank, 1))

    def state_dict(self) -> dict[str, Any]:
        """Where all generators stand."""
        state = {"augmentation": self.generator.get_state(), "global": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.generator.set_state(state["augmentation"])
        torch.set_rng_state(state["global"])
        if self.device.type == "cuda" and "cuda" in state:
            torch.cuda.set_rng_state(state["cuda"], self.device)


@contextmanager
def borrowed_randomness(seed: int) -> Iterator[None]:
    """Torch's global generators start from the seed inside, and are as they were afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed))
        yield
