"""How to train when the user does not say: one choice for tables, one for images, and what replaces it."""

import math
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from rankreg.names import look_up
from rankreg.train.config import TrainConfig, faults

# docs/decisions/0042
DEFAULTS: dict[str, dict[str, Any]] = {
    "table": {
        "epochs": 40,
        "batch_size": 128,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "optimizer": {"name": "adamw"},
        "method": {"name": "buffer"},
        "model": {"name": "mlp", "hidden": (64, 64), "dropout": 0.1},
        "precision": "float32",  # where bfloat16 is fast, layers as small as these are a quarter slower in it
    },
    "image": {
        "epochs": 30,
        "batch_size": 64,
        "learning_rate": 0.02,
        "schedule": "cosine",
        "optimizer": {"name": "sgd"},
        "method": {"name": "buffer"},
        "model": {"name": "resnet10", "width": 0.25, "pixels": "imagenet"},
        "augmentation": "cifar",
    },
}
SMALL = 48  # pixels: beyond, a stem that quarters the image costs a ninth of the time (docs/decisions/0042)
NAMED = ("loss", "method", "model", "optimizer")  # a name and settings that belong to it
# How `fit` trains on images, so that positives are not learned by heart (docs/decisions/0046): few steps, rotations
# by any angle and tints. Then no epoch need be chosen, and every positive trains. Oversampling is best with about
# 300 steps, the plain loss from 1,000 on (docs/decisions/0058 and 0059).
IMAGES: dict[str, Any] = {"augmentation": "dermoscopy", "selection": "last", "method": {"name": "none"}}
IMAGE_STEPS, LONG_STEPS = 300, 1000


def stem_for(side: int) -> Literal["cifar", "imagenet"]:
    """The first layers of a ResNet for images of that size."""
    return "cifar" if side <= SMALL else "imagenet"


def settings(
    kind: str,
    tpr: float,
    *,
    size: int | None = None,
    samples: int | None = None,
    file: Path | None = None,
    **options: Any,
) -> TrainConfig:
    """The settings of a training: the defaults, then a TOML file, then the options that are not None.

    Args:
        kind: "table" or "image".
        tpr: the target TPR, which the choice of an epoch by FPR uses.
        size: the side of the images in pixels, which decides the network's stem unless the file does.
        samples: how many images there are; then the settings are those of `fit` on images: about 300 steps (at most
            30 epochs), rotations and tints, the last epoch, and half of each batch positives. Images are taken as
            they come if a method is named, even "none", or so many epochs that they make 1,000 steps.
        file: a TOML file with keys of `TrainConfig`.
        options: keys of `TrainConfig`, e.g. epochs or seed; loss, method, model and optimizer by name.

    Returns:
        The complete settings.

    Raises:
        ValueError: if a key or a value is wrong; names the nearest valid one.

    >>> settings("table", 0.95, epochs=3, method="buffer").method.name
    'buffer'
    """
    chosen, said = look_up(DEFAULTS, kind, "kind of data"), {}
    if file is not None:
        said = TrainConfig.from_toml(file).model_dump(exclude_unset=True)
        if "tpr" in said:
            raise ValueError(f"{file}: the target is --tpr, not a line of the file: remove tpr from it")
    given = {key: value for key, value in options.items() if value is not None}
    given = {key: {"name": value} if key in NAMED else value for key, value in given.items()}
    recipe = kind == "image" and samples is not None
    chosen = _merged(_merged(chosen | IMAGES if recipe else chosen, said), given)
    if recipe:
        chosen = chosen | _length_and_sampling(chosen, said | given, samples or 1)
    resnet = str(chosen["model"].get("name", "")).startswith("resnet")
    if kind == "image" and size is not None and resnet and "stem" not in chosen["model"]:
        chosen = chosen | {"model": chosen["model"] | {"stem": stem_for(size)}}
    try:
        return TrainConfig.model_validate(chosen | {"tpr": tpr})
    except ValidationError as error:
        raise ValueError(faults(error)) from error


def _length_and_sampling(chosen: dict[str, Any], named: dict[str, Any], samples: int) -> dict[str, Any]:
    """About 300 steps with oversampling; images as they come if the user wants a method or 1,000 steps."""
    steps = samples / chosen["batch_size"]  # of an epoch
    epochs = named.get("epochs", min(math.ceil(IMAGE_STEPS / steps), chosen["epochs"]))
    long = "epochs" in named and epochs * steps >= LONG_STEPS
    sampling = "shuffled" if long or "method" in named else "balanced"
    return {"epochs": epochs, "sampling": named.get("sampling", sampling)}


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Keys of `above` win; settings of a named choice are kept as long as the new choice has them too."""
    merged = dict(below)
    for key, value in above.items():
        before = merged.get(key)
        if key in NAMED and isinstance(value, dict) and isinstance(before, dict) and _alike(before, value):
            value = before | value
        merged[key] = value
    return merged


def _alike(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """The same name, or two sizes of one kind of network."""
    first, second = str(before.get("name")), str(after.get("name", before.get("name")))
    return first == second or (first.startswith("resnet") and second.startswith("resnet"))
