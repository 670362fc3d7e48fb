"""Optimisers and learning-rate schedules: the rate is a function of how far the run is, so it has no state."""

import math
from collections.abc import Callable, Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat
from torch import nn
from torch.optim import SGD, AdamW, Optimizer


class SGDSettings(BaseModel):
    """Stochastic gradient descent with momentum; the defaults are the paper's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: NonNegativeFloat = 2e-4

    def make(self, parameters: Iterable[nn.Parameter], rate: float) -> Optimizer:
        """The optimiser of these parameters."""
        return SGD(parameters, rate, momentum=self.momentum, weight_decay=self.weight_decay, fused=True)


class AdamWSettings(BaseModel):
    """Adam with decoupled weight decay."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["adamw"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: NonNegativeFloat = 1e-2

    def make(self, parameters: Iterable[nn.Parameter], rate: float) -> Optimizer:
        """The optimiser of these parameters."""
        return AdamW(parameters, rate, betas=self.betas, weight_decay=self.weight_decay, fused=True)


# From the share of the run that is over, in [0, 1), to the factor of the learning rate.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
}


def set_rate(optimiser: Optimizer, rate: float) -> None:
    """Use this learning rate from now on."""
    for group in optimiser.param_groups:
        group["lr"] = rate
