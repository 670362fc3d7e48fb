"""An experiment at a preset's size, spelled out run by run. No torch: a table must find its records without it."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankreg._names import look_up
from rankreg._published import ALM_SETTINGS, LOSS_SETTINGS
from rankreg.bench.arms import ARMS
from rankreg.bench.grids import DATA, EXPERIMENTS, Experiment
from rankreg.bench.presets import PRESETS

ALM_DEFAULT = (1e-5, 0.25)  # μ and δ where none were published


@dataclass(frozen=True)
class Plan:
    """One run: where it stands in the grid, and all that decides its outcome.

    loader, settings: the data set; config: the `TrainConfig`, as JSON. The hash is of these three.
    """

    preset: str
    data: str
    loss: str
    arm: str
    split: int
    loader: str = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    config: dict[str, Any] = field(repr=False)

    @property
    def hash(self) -> str:
        """Sixteen hexadecimal digits that change with the data or the config."""
        content = {"loader": self.loader, "settings": self.settings, "config": self.config}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """The record's path below the records' folder, without suffix."""
        return f"{self.preset}/{self.data}/{self.loss}-{self.arm}-{self.split}-{self.hash[:8]}"

    @property
    def cost(self) -> float:
        """How long it takes, relative to the others: samples seen per sample of the data set."""
        buffered = self.config["method"].get("buffer", {}).get("capacity", 0)
        return float(self.config["epochs"] * (1 + buffered / self.config["batch_size"]))


def offers(preset: str, *data: str) -> bool:
    """Whether a preset says how to train on one of these data sets."""
    return any(DATA[one].family in PRESETS[preset].families for one in data)


def stands_in(preset: str, data: str) -> bool:
    """Whether a preset trains on something else in place of the data set."""
    return offers(preset, data) and PRESETS[preset].families[DATA[data].family].replace


def title_of(data: str, preset: str) -> str:
    """The data set's name; where a preset takes another one in its place, that one's."""
    title = DATA[data].title
    return f"{PRESETS[preset].families[DATA[data].family].loader} for {title}" if stands_in(preset, data) else title


def experiment_of(name: str) -> Experiment:
    """The experiment of that name, or an error that names the nearest."""
    return look_up(EXPERIMENTS, name, "experiment")


def plans_of(name: str, preset: str, *, splits: int | None = None, only: Sequence[str] = ()) -> list[Plan]:
    """All runs of an experiment, split by split, so that whatever is finished compares like with like.

    only: names of data sets, losses or arms; of each kind that is named, the others are left out. Data sets that
    the preset lacks are left out too; ValueError if it lacks all of them.
    """
    experiment, size = experiment_of(name), look_up(PRESETS, preset, "preset")
    if not offers(preset, *experiment.data):
        able = " or ".join(other for other in PRESETS if offers(other, *experiment.data))
        raise ValueError(f"preset {preset} does not say how to train on the data of {name}: use preset {able}")
    count = splits if splits is not None else size.splits if size.splits is not None else experiment.splits
    if count < 1:
        raise ValueError(f"splits must be at least 1, got {count}")
    kinds = [experiment.data, experiment.losses, tuple(experiment.arms)]
    for word in only:
        look_up(dict.fromkeys(word for kind in kinds for word in kind), word, f"part of {name}")
    data, losses, arms = ([w for w in kind if w in only] or kind for kind in kinds)
    return [
        plan_run(preset, one, loss, arm, split)
        for split in range(experiment.first_split, experiment.first_split + count)
        for one in data
        if offers(preset, one)
        for loss in losses
        for arm in arms
    ]


def unique(plans: Iterable[Plan]) -> list[Plan]:
    """Each run once: experiments share them."""
    return list({plan.name: plan for plan in plans}.values())


def plan_run(preset: str, data: str, loss: str, arm: str, split: int) -> Plan:
    """A single run; later choices go before earlier ones: preset, method, loss, arm."""
    source, chosen = DATA[data], ARMS[arm]
    family = PRESETS[preset].families[source.family]
    settings = dict(family.settings) if family.replace else {**source.settings, **family.settings}
    budget = family.config_of(chosen.budget or chosen.config["method"]["name"])
    config: dict[str, Any] = {
        **budget,
        "learning_rate": budget["learning_rate"] * chosen.factors[0],
        "epochs": max(1, round(budget["epochs"] * chosen.factors[1])),
        "loss": {"name": loss, "settings": LOSS_SETTINGS.get(source.published, {}).get(loss, {})},
        **chosen.config,
        "seed": split,
    }
    if config["method"]["name"] == "alm":
        mu, delta = ALM_SETTINGS.get(source.published, {}).get(loss, ALM_DEFAULT)
        config["method"] = {"name": "alm", "mu": mu, "delta": delta, "rho": 2.0}
    return Plan(preset, data, loss, arm, split, family.loader, {**settings, family.split_is: split}, config)
