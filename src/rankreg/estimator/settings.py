"""From constructor parameters to a `TrainConfig`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError
from torch import nn

from rankreg.models import MLPShape, ResNetShape
from rankreg.train import TrainConfig
from rankreg.train.config import faults
from rankreg.train.defaults import DEFAULTS, SMALL

MAY_BE_NONE = ("epochs", "batch_size", "learning_rate", "optimiser", "augmentation")  # as `rankreg fit` has them
USUAL_TPR = 0.98  # at which false alarms choose the epoch when no target is named


def train_config(params: Mapping[str, Any], *, size: tuple[int, int] | None, seed: int) -> TrainConfig:
    """The config of one fit; size: of the images, None for rows. A setting out of bounds is a ValueError."""
    given = {name: _plain(value) for name, value in params.items()}
    chosen = dict(DEFAULTS["table" if size is None else "image"])
    chosen |= {name: given[name] for name in MAY_BE_NONE if given[name] is not None}
    chosen |= {name: given[name] for name in ("loss", "schedule", "selection", "patience", "device")}
    chosen |= {"method": _method(given), "model": _model(given, size), "seed": seed}
    chosen |= {"tpr": given["target_tpr"] or USUAL_TPR, "precision": "float32"}
    try:
        return TrainConfig.model_validate(chosen)
    except ValidationError as error:
        raise ValueError(faults(error)) from error


def _method(given: Mapping[str, Any]) -> Any:
    """A name takes its settings from the constructor, a settings object brings its own."""
    name = given["method"]
    kept = {"capacity": given["buffer_size"], "policy": given["buffer_policy"], "base_over": given["base_over"]}
    if name == "rankreg":
        own = {key: given[key] for key in ("penalty", "reach", "weight")}
        return {"name": name, **own, "buffer": kept}
    return {"name": name, "buffer": kept} if name == "buffer" else name


def _model(given: Mapping[str, Any], size: tuple[int, int] | None) -> Any:
    """The description of the network, or None where the user's own function makes it."""
    network = given["network"]
    if network is None and size is None:
        return {"name": "mlp", "hidden": given["hidden"], "dropout": given["dropout"]}
    if network is None and size is not None:
        stem = "cifar" if max(size) <= SMALL else "imagenet"
        return DEFAULTS["image"]["model"] | {"stem": stem}
    if isinstance(network, ResNetShape | MLPShape):
        return network
    if isinstance(network, nn.Module) or not callable(network):  # a module is callable too
        raise ValueError(
            "network must be None, an MLPShape, a ResNetShape, or a function from the shape of a sample to an"
            f" nn.Module, as every fit starts with a new one, got {network!r:.80}"
        )
    return None


def _plain(value: Any) -> Any:
    """Searches draw numpy's numbers, which are not Python's."""
    return value.item() if isinstance(value, np.generic) else value
