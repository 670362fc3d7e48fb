"""From what a user asks to a plan: settings that stay, and settings that are searched."""

from dataclasses import dataclass
from pathlib import Path

from rankreg.fit import settings
from rankreg.train import TrainConfig
from rankreg.tune.data import Data
from rankreg.tune.presets import AlmGrid, Plan, Search
from rankreg.tune.space import METHODS, SEARCHED, Space

TRIALS = 50


@dataclass(frozen=True)
class Asked:
    """A preset, the target TPR, how many trials, what to restrict the search to; the rest as for `rankreg fit`."""

    preset: str = "default"
    tpr: float = 0.98
    trials: int | None = None
    methods: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    epochs: int | None = None
    seed: int | None = None
    file: Path | None = None


def base_config(data: Data, asked: Asked) -> TrainConfig:
    """The settings that are not searched: the defaults of `rankreg fit`, then the file, then the options."""
    if asked.preset not in ("default", "alm"):
        raise ValueError(f"unknown preset {asked.preset!r}: choose 'default' or 'alm'")
    if asked.file is not None and "method" in TrainConfig.from_toml(asked.file).model_fields_set:
        raise ValueError(
            f"{asked.file} sets method, which the search chooses: remove it there; --method restricts the search"
        )
    if asked.preset == "alm":
        if asked.methods or asked.trials is not None:
            raise ValueError("the grid of --preset alm is fixed: leave --method and --trials out")
        if len(asked.losses) > 1:
            raise ValueError("--preset alm searches with one base loss: give one --loss")
    loss = asked.losses[0] if asked.losses and asked.preset == "alm" else None
    kind = "table" if data.side is None else "image"
    base = settings(
        kind, asked.tpr, size=data.side, file=asked.file, loss=loss, epochs=asked.epochs, seed=asked.seed
    )
    return base.model_copy(update={"tpr": asked.tpr})


def plan_of(asked: Asked, base: TrainConfig, *, classes: int = 2) -> Plan:
    """The plan; the base loss is searched unless the file names one, or there are many classes."""
    if asked.preset == "alm":
        return AlmGrid(base)
    losses = asked.losses or (() if base.loss is not None or classes > 2 else SEARCHED)
    return Search(Space(base, asked.methods or tuple(METHODS), losses), total=asked.trials or TRIALS)
