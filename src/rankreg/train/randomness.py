"""Every random choice of a run comes from its seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


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
