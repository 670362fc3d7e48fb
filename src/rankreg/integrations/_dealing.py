"""What the buffers of several processes held, dealt out to as many or another number of them."""

from functools import reduce
from typing import Any

import torch
from torch import Tensor

from rankreg._trees import join_rows, map_rows

Held = dict[str, Any]  # what `PositiveBuffer.get_extra_state` returns


def dealt(states: list[Held], rank: int, size: int) -> Held:
    """This process's state: its own if there are as many processes as before, else every `size`-th sample of all.

    Processes that share a capacity fairly have room for what they are dealt.
    """
    if len(states) == size:
        return states[rank]
    full = [state for state in states if len(state["scores"])]
    if not full:
        return {"inputs": None, "scores": torch.empty(0), "ids": None}
    every = slice(rank, None, size)
    inputs = reduce(join_rows, (state["inputs"] for state in full))
    scores: Tensor = torch.cat([state["scores"] for state in full])
    return {"inputs": map_rows(lambda leaf: leaf[every], inputs), "scores": scores[every], "ids": None}


def on_cpu(state: Held) -> Held:
    """The same tensors where every process can read them."""
    inputs = state["inputs"]
    return {
        "inputs": inputs if inputs is None else map_rows(Tensor.cpu, inputs),
        "scores": state["scores"].cpu(),
        "ids": state["ids"],
    }
