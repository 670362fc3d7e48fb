"""The loop: the samples of each step, one step after the other, and all that survives one.

Every random choice of a run comes from its seed. The batches are a pure function of seed and epoch, so a run can go
on from any step.
"""

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from rankreg._checks import values_are_readable
from rankreg.augment import AUGMENTATIONS
from rankreg.buffer import PositiveBuffer
from rankreg.datasets.splits import Samples, Splits
from rankreg.distributed import World
from rankreg.names import look_up
from rankreg.objective import Objective, Terms
from rankreg.scores import Scores, joined
from rankreg.train.config import SCHEDULES, TrainConfig, renamed
from rankreg.train.inference import as_tensor, autocast, resolve_precision, score_together
from rankreg.train.task import Task, counts, merit

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


class DivergenceError(ValueError):
    """Training produced NaN or infinity. The last good checkpoint is kept; the message says what to try."""


class Training:
    """A run under way: `step` on every batch of an epoch, then `end_epoch`; `state_dict` is the whole of it.

    weights: one factor per training sample of its base loss, in the buffer too. They are divided by their mean.
    """

    def __init__(
        self,
        splits: Splits,
        config: TrainConfig,
        task: Task,
        network: nn.Module,
        world: World,
        *,
        weights: NDArray[np.floating] | None = None,
        watch: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        assert config.loss is not None  # `complete` has filled it in
        train, kept = splits["train"], config.method.buffer
        self.splits, self.config, self.task, self.world = splits, config, task, world
        self.watch = dict(watch or {})
        self.network = network.to(world.device)
        self.model = compiled(world.wrap(self.network)) if config.compile else world.wrap(self.network)
        self.batches = Batches(
            train,
            batch_size=config.batch_size,
            sampling=config.sampling,
            seed=config.seed,
            rank=world.rank,
            processes=world.size,
        )
        self.augment = AUGMENTATIONS[config.augmentation]
        self.buffer = PositiveBuffer(world.share(kept.capacity), kept.policy, positive=task.critical)
        self.objective = Objective(
            config.loss.make(counts(train.labels, task.critical)),
            config.method.term(len(train), task.term_critical),
            base_over=kept.base_over,
            gather=self._gather,
        ).to(world.device)
        self.optimizer: Optimizer = config.optimizer.make(self.network.parameters(), config.learning_rate)
        self.randomness = Randomness(config.seed, world.rank, world.device)
        self.precision = resolve_precision(config.precision, world.device)
        self.weights = None if weights is None else _mean_one(weights, len(train)).to(world.device)

        self.epoch = self.steps_done = 0
        self.sums: dict[str, Tensor] = {}  # of this epoch's terms
        self.seconds = 0.0  # of this epoch
        self._clock = 0.0
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None

    @property
    def over(self) -> bool:
        """Whether all epochs are done, or the last better one is too long ago."""
        patience = self.config.patience or math.inf
        waited = self.epoch - 1 - self.best["epoch"] if self.best is not None else 0
        return self.epoch >= self.config.epochs or waited >= patience

    def start_epoch(self) -> None:
        """Before the first step of an epoch, or the first one after a restart."""
        if self.steps_done == 0:
            self.randomness.start_epoch(self.epoch)
        self.model.train()
        self._clock = time.perf_counter()

    def step(self, batch: Batch) -> None:
        """Batch and buffer, forward, backward, one update of the weights, one of the buffer."""
        raw, labels, ids, drawings = (values.to(self.world.device) for values in batch)
        buffered = len(self.buffer)
        (raw, ids), labels, drawings = self.buffer.extend(
            (raw, ids), labels, ids if self.config.method.buffer.unique else drawings
        )
        with autocast(self.precision, self.world.device):
            scores = self.model(self.augment(raw, self.randomness.generator))
        weights = None if self.weights is None else self.weights[ids]
        terms = self.objective(scores.float(), labels, ids, buffered=buffered, weights=weights)
        self._check(terms)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.zero_grad()
        terms.total.backward()
        self.optimizer.step()
        self.buffer.update((raw, ids), labels, self.task.criticality(scores.detach().float()), drawings)

        self.steps_done += 1
        self.sums = {name: value.detach() + self.sums.get(name, 0) for name, value in terms.parts.items()}
        now = time.perf_counter()
        self.seconds, self._clock = self.seconds + now - self._clock, now

    def end_epoch(self) -> dict[str, Any]:
        """Look at the validation part, keep the weights if they are the best so far, and say how it went."""
        self.world.synchronise(self.network)
        scores = score_together(
            self.network, self.splits["validation"], precision=self.config.precision, world=self.world
        )
        if not torch.from_numpy(scores.values).isfinite().all():
            raise DivergenceError(self._divergence("validation scores are not finite"))
        found = self.task.metrics(scores) | {"loss": self._loss(scores)}
        self.config.method.end_epoch(self.objective.term, found["auc"])
        own = merit(self.config.selection, found, self.epoch)
        better = self.best is None or own > self.best["merit"]
        record = {
            "epoch": self.epoch,
            "rate": self.rate(),
            "train": {name: float(value) / self.batches.steps for name, value in self.sums.items()},
            "validation": found,
            "better": better,
            "samples_per_second": len(self.splits["train"]) / max(self.seconds, 1e-9),
        }
        if self.watch:
            record["watched"] = self._watched(scores)
        if better:
            weights = {name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()}
            self.best = {"epoch": self.epoch, "merit": own, "model": weights}
        self.history.append(record)
        self.epoch, self.steps_done, self.sums, self.seconds = self.epoch + 1, 0, {}, 0.0
        return record

    def _watched(self, validation: Scores) -> dict[str, dict[str, float]]:
        """What the weights of this epoch come to on the parts that are watched; nothing is chosen by it."""
        scores = {"validation": validation}
        for part in {part for parts in self.watch.values() for part in parts} - {"validation"}:
            scores[part] = score_together(
                self.network, self.splits[part], precision=self.config.precision, world=self.world
            )
        return {
            name: self.task.watched(joined([scores[part] for part in parts])) for name, parts in self.watch.items()
        }

    def rate(self) -> float:
        """The learning rate now."""
        done = (self.epoch + self.steps_done / self.batches.steps) / self.config.epochs
        return self.config.learning_rate * SCHEDULES[self.config.schedule](done)

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on, over all processes: tensors and plain values."""
        own = {"buffer": self.buffer.state_dict(), "randomness": self.randomness.state_dict()}
        return {
            "epoch": self.epoch,
            "steps_done": self.steps_done,
            "sums": self.sums,
            "seconds": self.seconds,
            "history": self.history,
            "best": self.best,
            "model": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "objective": self.objective.state_dict(),
            "processes": self.world.collect(own),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with as many processes as there were."""
        processes = state["processes"]
        if len(processes) != self.world.size:
            raise ValueError(
                f"the checkpoint is of {len(processes)} processes, these are {self.world.size}: to go on exactly,"
                f" use torchrun --nproc-per-node {len(processes)}"
            )
        load_weights(self.network, state["model"])
        self.optimizer.load_state_dict(renamed(state)["optimizer"])
        self.objective.load_state_dict(state["objective"])
        self.buffer.load_state_dict(processes[self.world.rank]["buffer"])
        self.buffer.to(self.world.device)
        self.randomness.load_state_dict(processes[self.world.rank]["randomness"])
        self.epoch, self.steps_done, self.seconds = state["epoch"], state["steps_done"], state["seconds"]
        self.history, self.best = list(state["history"]), state["best"]
        self.sums = {name: value.to(self.world.device) for name, value in state["sums"].items()}

    def _loss(self, scores: Scores) -> float:
        """The mean base loss, which tells epochs apart that rank the samples alike."""
        values, labels = torch.from_numpy(scores.values), torch.from_numpy(scores.labels)
        return float(self.objective.base(values, labels).mean())

    def _gather(self, values: Tensor) -> Tensor:
        """All processes' values; NaN is seen here, so that all of them stop together."""
        everyone = self.world.gather(values)
        if everyone.is_floating_point() and values_are_readable(everyone) and not everyone.isfinite().all():
            raise DivergenceError(self._divergence("scores are not finite"))
        return everyone

    def _check(self, terms: Terms) -> None:
        if values_are_readable(terms.total) and not terms.total.isfinite():
            values = ", ".join(f"{name} {float(value):g}" for name, value in terms.parts.items())
            raise DivergenceError(self._divergence(f"the loss is {values}"))

    def _divergence(self, what: str) -> str:
        kept = f"The checkpoint of epoch {self.epoch} is kept" if self.epoch else "There is no checkpoint yet"
        return (
            f"training diverged in epoch {self.epoch + 1}, step {self.steps_done + 1}: {what}. {kept};"
            f" try a learning rate below {self.config.learning_rate:g}"
        )


def compiled(model: nn.Module) -> nn.Module:
    """The model with its small operations fused. Batches of all sizes share one graph, so resuming is exact."""
    compiler = os.environ.get("CXX", {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++"))
    if shutil.which(compiler) is None:
        raise ValueError(
            f"compile needs a C++ compiler, and there is no {compiler}: install one or leave compile out"
        )
    return cast(nn.Module, torch.compile(model, dynamic=True))


def _mean_one(weights: NDArray[np.floating], samples: int) -> Tensor:
    """The weights divided by their mean, so that their unit does not count against the term's."""
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (samples,) or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise ValueError(
            f"weights must be {samples} finite numbers of at least 0, one per training sample and not all 0,"
            f" got shape {values.shape}"
        )
    return torch.from_numpy(values / values.mean()).float()


def load_weights(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give the network these weights, or say that they are another one's."""
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"the checkpoint is of another network: {error}") from error
