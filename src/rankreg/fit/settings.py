"""The settings of a fit: defaults, then what a file says, then what is asked for."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rankreg._names import look_up
from rankreg.train import TrainConfig
from rankreg.train.config import faults
from rankreg.train.defaults import DEFAULTS, SMALL

NAMED = ("loss", "method", "model", "optimiser")  # a name and settings that belong to it


def settings(
    kind: str, tpr: float, *, size: int | None = None, file: Path | None = None, **options: Any
) -> TrainConfig:
    """The defaults for "table" or "image", then what a TOML file says, then the options that are not None.

    size: of the images, which decides the network's stem unless the file does.
    """
    chosen = look_up(DEFAULTS, kind, "kind of data")
    if file is not None:
        said = TrainConfig.from_toml(file).model_dump(exclude_unset=True)
        if "tpr" in said:
            raise ValueError(f"{file}: no tpr is read from a file, the target is --tpr: remove that line")
        chosen = _merged(chosen, said)
    given = {key: value for key, value in options.items() if value is not None}
    chosen = _merged(chosen, {key: {"name": value} if key in NAMED else value for key, value in given.items()})
    if kind == "image" and size is not None and "stem" not in chosen["model"]:
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
