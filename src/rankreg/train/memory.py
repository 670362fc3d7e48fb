"""A run that leaves no files, for data so small that it is sooner repeated than resumed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rankreg.datasets.splits import Splits
from rankreg.distributed import World, device_named
from rankreg.models import build_model
from rankreg.train.bars import epoch_summary, training_bar
from rankreg.train.config import TrainConfig
from rankreg.train.loop import Training
from rankreg.train.randomness import borrowed_randomness
from rankreg.train.scoring import check_model
from rankreg.train.task import complete, task_of


class Trained(NamedTuple):
    """The network of the best epoch, on the CPU; the config with what the data filled in; a record per epoch."""

    model: nn.Module
    config: TrainConfig
    history: list[dict[str, Any]]
    best_epoch: int


def train_in_memory(
    splits: Splits,
    config: TrainConfig,
    *,
    model: nn.Module | None = None,
    weights: NDArray[np.floating] | None = None,
    progress: bool | None = None,
) -> Trained:
    """As `train`, in one process and without a folder: the same steps, the same network, nothing to resume.

    weights: one factor per training sample of its base loss (see `Training`).
    """
    with (
        training_in_memory(splits, config, model=model, weights=weights) as training,
        training_bar(training, progress) as bar,
    ):
        shown = bar.add_task("", total=config.epochs * training.batches.steps)
        for record in training.run():
            if record is None:
                bar.advance(shown)
            else:
                bar.update(shown, description=epoch_summary(record, config))
    best, network = training.best, training.network
    assert best is not None  # there is at least one epoch
    network.cpu().load_state_dict(best["model"])
    return Trained(network.eval(), training.config, training.history, best["epoch"])


@contextmanager
def training_in_memory(
    splits: Splits,
    config: TrainConfig,
    *,
    model: nn.Module | None = None,
    weights: NDArray[np.floating] | None = None,
) -> Iterator[Training]:
    """A training that is ready to start, in one process; its random numbers are its own as long as it is open."""
    world = World(device=device_named(config.device, 0))
    task = task_of(splits, config)
    config = complete(config, task, splits["train"], own_model=model is not None)
    with borrowed_randomness(config.seed):
        network = build_model(config.model) if config.model is not None else model
        assert network is not None  # `complete` left one of the two
        training = Training(splits, config, task, network, world, weights=weights)
        check_model(network, splits["train"], task.classes, world.device)
        yield training
