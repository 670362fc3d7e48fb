"""Buffer and ranking term for any LightningModule, as a callback of its Trainer.

Works with `lightning` and with `pytorch_lightning`, whichever is in use.
"""

import sys
from collections.abc import Mapping
from functools import reduce, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from rankreg._checks import at_least_float32
from rankreg.buffer import PolicyName, PositiveBuffer, join_rows, map_rows
from rankreg.distributed import World
from rankreg.metrics import positive_score
from rankreg.regularizer import RankReg

Held = dict[str, Any]  # what `PositiveBuffer.get_extra_state` returns
PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _callback_class() -> Any:
    """Lightning's Callback, from the package that is imported already, else from the one that is installed."""
    for package in sorted(PACKAGES, key=lambda name: name not in sys.modules):
        try:
            return import_module(package).Callback
        except ModuleNotFoundError as error:
            if error.name is None or not package.startswith(error.name):
                raise  # installed, but something it needs is not
    raise ImportError("RankRegCallback needs Lightning: pip install 'rankreg[lightning]'")


if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    Callback = _callback_class()


class RankRegCallback(Callback):
    """Appends hard positives to every training batch and adds the ranking term to the loss.

    `training_step` stays as it is, but returns its raw scores too: `{"loss": loss, "scores": scores}`.
    Its loss is then over batch and buffer. Scores are (N,), or logits (N, K) for a term with
    `positive`. The term is logged under its name, "rankreg".

    Samples are held as `training_step` gets them. Augment in there, and a held sample looks different
    each time. The Trainer's checkpoints hold the buffers of all processes, weights files do not.
    With several processes, ranks are over the batches of all of them.

    Args:
        term: the ranking term. Default `RankReg()`. A weight of 0 leaves the buffer alone.
        capacity: how many positives the buffers of all processes hold together. Default 32.
        policy: which held sample leaves, as in `PositiveBuffer`.
        labels: where in the batch the labels are, an index or a key. Default 1.
        scores: the key of the scores in what `training_step` returns.

    Raises:
        ValueError: optimization is manual, so there is no loss to add to, or labels or scores are not
            where they should be. With manual optimization, use `PositiveBuffer` and `RankReg` directly.

    Example:
        >>> from rankreg.integrations import RankRegCallback
        >>> callback = RankRegCallback(capacity=64, labels="target")  # Trainer(callbacks=[callback])
        >>> callback.term
        RankReg('squared', reach=1.0, space='score', margin=0.0, among='negatives', weight=0.1)
    """

    def __init__(
        self,
        term: RankReg | None = None,
        *,
        capacity: int = 32,
        policy: PolicyName = "dequeue-max",
        labels: int | str = 1,
        scores: str = "scores",
    ) -> None:
        super().__init__()
        self.term = RankReg() if term is None else term
        self.capacity, self.policy = capacity, policy
        self.labels_at, self.scores_at = labels, scores
        self.world = World()
        self.buffer = self._new_buffer()
        self._saved: list[Held] | None = None  # from a checkpoint, until training starts
        self._seen: tuple[Any, Tensor, Tensor] | None = None  # batch and buffer, labels, scores of this step
        self._stands_in = False  # between the Trainer and training_step
        self._replaced: Any = None  # a training_step of the instance rather than of its class

    def _new_buffer(self) -> PositiveBuffer:
        positive = 1 if self.term.positive is None else self.term.positive
        return PositiveBuffer(self.world.share(self.capacity), self.policy, positive=positive)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        # Before training: take a place between the Trainer and `training_step`.
        if stage != "fit":
            return
        if not pl_module.automatic_optimization:
            raise ValueError(
                "RankRegCallback adds to the loss that training_step returns, which manual optimization does not"
                " use: call PositiveBuffer and RankReg in training_step instead"
            )
        if type(trainer.strategy).__name__ == "ModelParallelStrategy":
            raise ValueError("RankRegCallback needs processes that each have batches of their own: use 'ddp'")
        if dist.is_available() and dist.is_initialized():
            self.world = World(dist.get_rank(), dist.get_world_size(), pl_module.device)
        if self.buffer.capacity != self.world.share(self.capacity):
            self.buffer = self._new_buffer()
        self._seen = None
        self._step_aside(pl_module)
        self._replaced = pl_module.__dict__.get("training_step")
        step = pl_module.training_step

        @wraps(step)  # Lightning looks at the signature
        def with_buffer_and_term(batch: Any, *rest: Any) -> Any:
            return self._step(pl_module, step, batch, rest)

        pl_module.training_step = with_buffer_and_term
        self._stands_in = True

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        # Hold what the checkpoint held; it has been read by now, if there is one.
        if self._saved is not None:
            self.buffer.set_extra_state(dealt(self._saved, self.world.rank, self.world.size))
            self._saved = None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        # Take in the batch's positives, once, however often the optimizer evaluated the loss.
        if self._seen is not None:
            self.buffer.update(*self._seen)
            self._seen = None

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        # After training the module is as it was.
        if stage == "fit":
            self._step_aside(pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        # As after training: another fit may follow.
        self._step_aside(pl_module)

    def _step_aside(self, module: Any) -> None:
        if self._stands_in and self._replaced is not None:
            module.training_step = self._replaced
        elif self._stands_in:
            del module.training_step
        self._stands_in = False

    def _step(self, module: Any, training_step: Any, batch: Any, rest: tuple[Any, ...]) -> Any:
        batch, labels = self.buffer.extend(map_rows(lambda leaf: leaf, batch), self._labels_of(batch))
        output = training_step(batch, *rest)
        if output is None:  # Lightning's way to skip a batch
            return None
        scores = self._scores_of(output)
        term = self.term(self.world.gather(scores), self.world.gather(labels))
        positive = self.term.positive
        self._seen = (
            batch,
            labels,
            scores.detach() if positive is None else positive_score(scores.detach(), positive),
        )
        module.log(self.term.name, term.detach(), batch_size=len(labels))
        return {**output, "loss": output["loss"] + term}

    def _labels_of(self, batch: Any) -> Tensor:
        try:
            labels = batch[self.labels_at]
        except (KeyError, IndexError, TypeError):
            labels = None
        if not isinstance(labels, Tensor) or isinstance(batch, Tensor):
            raise ValueError(
                f"no labels at {self.labels_at!r} in a batch that is {_described(batch)}: say where they are,"
                " e.g. RankRegCallback(labels='target')"
            )
        return labels

    def _scores_of(self, output: Any) -> Tensor:
        if not isinstance(output, Mapping) or not {"loss", self.scores_at} <= output.keys():
            raise ValueError(
                f"training_step returned {_described(output)}, RankRegCallback needs the raw scores too:"
                f" return {{'loss': loss, {self.scores_at!r}: scores}}"
            )
        return at_least_float32(output[self.scores_at])

    def state_dict(self) -> dict[str, Any]:
        """The buffers of all processes: every process saves checkpoints, the first one's is written."""
        return {"processes": self.world.collect(on_cpu(self.buffer.get_extra_state()))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # Kept until training starts; testing needs none.
        self._saved = state_dict["processes"]


def _described(value: Any) -> str:
    return f"keys {', '.join(map(repr, value))}" if isinstance(value, Mapping) else f"a {type(value).__name__}"


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
