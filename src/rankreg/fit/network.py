"""The network as a learner: any loss, method and network of the training loop, one run per fold."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from rankreg.bundle.ensemble import Member, Network
from rankreg.datasets.partitions import stratified_parts
from rankreg.datasets.splits import Samples, Splits
from rankreg.fit.learners import Folds, Labels, Learner
from rankreg.names import look_up
from rankreg.train import TrainConfig, train
from rankreg.train.config import DEFAULTS, SMALL, faults
from rankreg.train.task import complete, task_of

NAMED = ("loss", "method", "model", "optimizer")  # a name and settings that belong to it
# How images are trained, so that positives are not learned by heart (docs/decisions/0046): few steps, rotations by
# any angle and tints. Then no epoch need be chosen, and every positive trains.
IMAGE_STEPS, FEWEST_EPOCHS = 300, 4
IMAGES: dict[str, Any] = {"augmentation": "dermoscopy", "selection": "last"}
CHOOSING = {"train": 0.9, "validation": 0.1}  # of a member's training samples, where an epoch is to be chosen


def network_learner(
    config: TrainConfig,
    home: Path,
    *,
    images: bool,
    units: NDArray[np.int64] | None = None,
    progress: bool | None = None,
) -> Learner:
    """A network per fold, trained in home/member-k; a run that was stopped goes on.

    Where the config chooses an epoch, a tenth of a member's training samples chooses it. The samples that
    judge the member never do. With selection "last" all of them train.

    units: one number per sample, the same for samples that stay together.
    """

    def fit(inputs: NDArray[Any], labels: Labels, folds: Folds) -> list[Member]:
        members: list[Member] = []
        for member in range(folds.members):
            own = config.model_copy(update={"seed": config.seed + member})
            splits = _splits(own, inputs, labels, folds, member, units)
            run = train(splits, own, home / f"member-{member}", score_parts=(), progress=progress)
            members.append(Network(run.model.cpu().eval()))
        return members

    return Learner("images" if images else "normal", fit, config.model_dump(mode="json", exclude_none=True))


def network_shape(config: TrainConfig, inputs: NDArray[Any]) -> Any:
    """The complete description of the networks that `network_learner` trains on such inputs."""
    two = np.arange(2)
    part = Samples(inputs[:2], two, two, two)
    splits = Splits("the data", {"train": part, "validation": part})
    return complete(config, task_of(splits, config), part, own_model=False).model


def _splits(
    config: TrainConfig,
    inputs: NDArray[Any],
    labels: Labels,
    folds: Folds,
    member: int,
    units: NDArray[np.int64] | None,
) -> Splits:
    kept = folds.kept(member)
    rows = {"train": kept, "validation": folds.held(member)}
    if config.selection != "last":
        apart = kept if units is None else units[kept]
        rows = {
            name: kept[part]
            for name, part in stratified_parts(labels[kept], apart, CHOOSING, seed=config.seed).items()
        }
    parts = {name: Samples(inputs, part, labels[part], part) for name, part in rows.items()}
    return Splits("the data", parts)


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
        samples: how many images there are. Then so many epochs that they make about 300 steps (4 to 30), the last
            one counts, and images are rotated and tinted, unless the file says otherwise.
        file: a TOML file with keys of `TrainConfig`.
        options: keys of `TrainConfig`, e.g. epochs, seed, loss, method or model; a name alone will do.

    Returns:
        The complete settings.

    Raises:
        ValueError: if a key or a value is wrong; names the nearest valid one.

    >>> settings("table", 0.95, epochs=3, method="buffer").method.name
    'buffer'
    """
    chosen = look_up(DEFAULTS, kind, "kind of data")
    if kind == "image" and samples is not None:
        enough = math.ceil(IMAGE_STEPS * chosen["batch_size"] / max(samples, 1))
        chosen = chosen | IMAGES | {"epochs": min(max(enough, FEWEST_EPOCHS), chosen["epochs"])}
    if file is not None:
        said = TrainConfig.from_toml(file).model_dump(exclude_unset=True)
        if "tpr" in said:
            raise ValueError(f"{file}: the target is --tpr, not a line of the file: remove tpr from it")
        chosen = _merged(chosen, said)
    given = {key: value for key, value in options.items() if value is not None}
    chosen = _merged(chosen, {key: {"name": value} if key in NAMED else value for key, value in given.items()})
    resnet = str(chosen["model"].get("name", "")).startswith("resnet")
    if kind == "image" and size is not None and resnet and "stem" not in chosen["model"]:
        chosen = chosen | {"model": chosen["model"] | {"stem": "cifar" if size <= SMALL else "imagenet"}}
    try:
        return TrainConfig.model_validate(chosen | {"tpr": tpr})
    except ValidationError as error:
        raise ValueError(faults(error)) from error


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
