"""From checked arrays to a trained network."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rankreg.datasets.splits import Samples, Splits
from rankreg.estimator.inputs import Images, Rows
from rankreg.estimator.settings import train_config
from rankreg.thresholding.parts import Places, Units, check_share, hold_out
from rankreg.train import DivergenceError, TrainConfig, score, train_in_memory
from rankreg.train.randomness import borrowed_randomness, derived_seed

Labels = NDArray[np.int64]
Parts = dict[str, dict[str, int]]


@dataclass(frozen=True, eq=False)
class Fit:
    """A network and what it was fitted with.

    recall: that of the validation positives at a score of 0; parts: samples and positives of each part.
    """

    network: nn.Module
    config: TrainConfig
    inputs: Rows | Images
    history: list[dict[str, Any]]
    best_epoch: int
    recall: float
    parts: Parts

    def scores(self, data: NDArray[Any]) -> NDArray[np.float32]:
        """One finite float32 score per row of checked data; on the CPU, like those the threshold was chosen on."""
        places = np.arange(len(data))
        samples = Samples(self.inputs.prepared(data), places, np.zeros_like(places), places)
        values: NDArray[np.float32] = score(self.network, samples, precision="float32").values
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(
                f"the network's score of X[{row}] is not a finite number, so that no alarm can be told"
            )
        return values


def fit_network(
    estimator: Any,
    data: NDArray[Any],
    labels: Labels,
    kept: Places,
    *,
    weights: NDArray[np.float64] | None,
    units: Units,
    random: np.random.RandomState,
) -> Fit:
    """Train on the rows at `kept`, a share of which chooses the epoch.

    No unit is on both sides of that cut, unless a class has too few units left for it: the choice promises nothing.
    """
    share = check_share(estimator.validation_size, "validation_size")
    own, positive = None if units is None else units[kept], labels[kept] == 1
    if own is not None and min(len(np.unique(own[positive])), len(np.unique(own[~positive]))) < 2:
        own = None
    train, validation = (kept[places] for places in hold_out(positive, share, random, own))
    rows = data.ndim == 2
    inputs = Rows.of(data[train]) if rows else Images(data.shape[1], data.shape[2])
    source = inputs.prepared(data)
    config = train_config(
        estimator.get_params(deep=False),
        size=None if rows else (data.shape[1], data.shape[2]),
        seed=int(random.randint(2**31 - 1)),
    )
    parts = {"train": train, "validation": validation}
    splits = Splits("the data", {name: Samples(source, at, labels[at], at) for name, at in parts.items()})
    trained = _trained(
        splits,
        config,
        model=_own_network(estimator.network, data, config.seed) if config.model is None else None,
        weights=None if weights is None else weights[train],
        progress=estimator.progress,
    )
    checked = score(trained.model, splits["validation"], precision="float32")
    return Fit(
        network=trained.model,
        config=trained.config,
        inputs=inputs,
        history=trained.history,
        best_epoch=trained.best_epoch,
        recall=float(np.mean(checked.values[checked.labels == 1] >= 0)),
        parts={name: counted(labels[at]) for name, at in parts.items()},
    )


def counted(labels: Labels) -> dict[str, int]:
    """How many samples and how many positives."""
    return {"samples": len(labels), "positives": int(np.count_nonzero(labels == 1))}


def _trained(splits: Splits, config: TrainConfig, **arguments: Any) -> Any:
    try:
        return train_in_memory(splits, config, **arguments)
    except DivergenceError as error:
        raise ValueError(f"training diverged: try a learning_rate below {config.learning_rate:g}") from error


def _own_network(function: Any, data: NDArray[Any], seed: int) -> nn.Module:
    """What the user's function makes of the shape of a sample, as the network gets it."""
    shape = (data.shape[1],) if data.ndim == 2 else (3, data.shape[1], data.shape[2])
    with borrowed_randomness(derived_seed(seed, 1)):
        network = function(shape)
    if not isinstance(network, nn.Module):
        raise ValueError(f"network must make an nn.Module, it made a {type(network).__name__}")
    for name, values in network.state_dict().items():
        if torch.is_tensor(values) and not bool(values.isfinite().all()):
            raise ValueError(f"the network has weights that are not finite: {name}")
    return network
