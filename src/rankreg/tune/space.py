"""Where a search looks: methods with their own settings, base losses with theirs, sampling, rate and epochs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from optuna.trial import Trial

from rankreg._names import look_up
from rankreg.train import TrainConfig


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]
    default: Any

    def ask(self, trial: Trial, name: str) -> Any:
        """What the trial is to use."""
        return trial.suggest_categorical(name, self.values)


@dataclass(frozen=True)
class Between:
    """A number in a range: ratios matter for real ones, differences for whole ones."""

    low: float
    high: float
    default: float

    def ask(self, trial: Trial, name: str) -> Any:
        """What the trial is to use."""
        if isinstance(self.default, int):
            return trial.suggest_int(name, int(self.low), int(self.high))
        return trial.suggest_float(name, self.low, self.high, log=True)


Knob = Choice | Between
Pick = Callable[[str, Knob], Any]

BUFFER: dict[str, Knob] = {
    "capacity": Choice((8, 16, 32, 64), 32),
    "policy": Choice(("dequeue-max", "dequeue-min", "fifo"), "dequeue-max"),
}
BASE_OVER: dict[str, Knob] = {"base_over": Choice(("union", "batch"), "union")}
ALM_KNOBS: dict[str, Knob] = {
    "mu": Between(1e-9, 1e-2, 1e-5),
    "rho": Choice((2.0, 3.0), 2.0),
    "delta": Choice((0.1, 0.25, 0.5, 1.0), 0.25),
}
METHODS: dict[str, dict[str, Knob]] = {  # a method's own settings
    "none": {},
    "buffer": {},
    "alm": ALM_KNOBS,
    "rankreg": {
        "weight": Between(0.01, 10.0, 0.1),
        "among": Choice(("negatives", "all"), "negatives"),
        "space": Choice(("score", "probability"), "score"),
    },
}
BUFFERED: dict[str, dict[str, Knob]] = {  # base_over "batch" without a term would train nothing on the buffer
    "buffer": BUFFER,
    "rankreg": BUFFER | BASE_OVER,
}
SPACES: dict[str, dict[str, Knob]] = {  # what "far" means depends on what is ranked
    "score": {"reach": Between(0.1, 10.0, 1.0), "margin": Choice((0.0, 0.5, 1.0, 2.0), 0.0)},
    "probability": {"reach": Between(0.03, 1.0, 0.3), "margin": Choice((0.0, 0.1, 0.25), 0.0)},
}
LOSSES: dict[str, dict[str, Knob]] = {
    "bce": {},
    "s-ml": {"margin": Between(0.25, 4.0, 0.5)},
    "s-fl": {"gamma": Between(0.25, 4.0, 0.5)},
    "a-ml": {"margin": Between(0.25, 4.0, 0.5)},
    "a-fl": {"gamma": Between(0.25, 4.0, 1.0)},
    "cb-bce": {"beta": Choice((0.9, 0.99, 0.999, 0.9999), 0.99)},
    "w-bce": {"share": Between(0.1, 1.0, 1.0)},
    "ldam": {},
}
SAMPLINGS = ("shuffled", "balanced")  # for methods without a buffer, which is another way to see positives often
KNOBS = repr((METHODS, BUFFERED, SPACES, LOSSES, SAMPLINGS))  # a search of other knobs cannot go on with these
SEARCHED = ("bce", "w-bce", "a-fl", "a-ml")  # plain, weighted, focal, margin: one of each kind
BASELINE = "none"


@dataclass(frozen=True)
class Space:
    """A base config and what is varied about it.

    methods: the baseline "none" is always among them, since one that cannot win is none. losses: none of them keeps
    the base config's loss. The rate goes from a tenth to ten times the base config's, epochs from a quarter to all.
    """

    base: TrainConfig
    methods: tuple[str, ...] = tuple(METHODS)
    losses: tuple[str, ...] = SEARCHED

    def __post_init__(self) -> None:
        for name in self.methods:
            look_up(METHODS, name, "method")
        for name in self.losses:
            look_up(LOSSES, name, "loss")
        ordered = dict.fromkeys((BASELINE, *self.methods))
        object.__setattr__(self, "methods", tuple(ordered))
        object.__setattr__(self, "losses", tuple(dict.fromkeys(self.losses)))

    def config(self, pick: Pick) -> TrainConfig:
        """The config that results from what `pick` says about each knob in turn."""
        chosen: dict[str, Any] = {"method": self._method(pick)}
        if self.losses:
            name = pick("loss", Choice(self.losses, self.losses[0]))
            chosen["loss"] = {"name": name, "settings": _picked(pick, name, LOSSES[name])}
        if chosen["method"]["name"] not in BUFFERED:
            chosen["sampling"] = pick("sampling", Choice(SAMPLINGS, self.base.sampling))
        rate, epochs = self.base.learning_rate, self.base.epochs
        chosen["learning_rate"] = pick("learning_rate", Between(rate / 10, rate * 10, float(rate)))
        chosen["epochs"] = pick("epochs", Between(math.ceil(epochs / 4), epochs, epochs))
        return TrainConfig.model_validate(self.base.model_dump() | chosen)

    def _method(self, pick: Pick) -> dict[str, Any]:
        name = pick("method", Choice(self.methods, self.methods[0]))
        method = {"name": name} | _picked(pick, name, METHODS[name])
        if "space" in method:
            within = _picked(pick, f"{name}.{method['space']}", SPACES[method["space"]])
            method |= within
        if name in BUFFERED:
            method["buffer"] = _picked(pick, "buffer", BUFFERED[name])
        return method

    def sampled(self, trial: Trial) -> TrainConfig:
        """The config of a trial under way."""
        return self.config(lambda name, knob: knob.ask(trial, name))

    def of(self, params: Mapping[str, Any]) -> TrainConfig:
        """The config of a finished trial, from its parameters."""
        return self.config(lambda name, knob: params[name])

    def defaults(self, method: str) -> dict[str, Any]:
        """The parameters that leave everything but the method as `rankreg fit` has it."""
        params: dict[str, Any] = {}
        self.config(
            lambda name, knob: params.setdefault(name, method if name == "method" else knob.default),
        )
        return params


def _picked(pick: Pick, prefix: str, knobs: Mapping[str, Knob]) -> dict[str, Any]:
    return {key: pick(f"{prefix}.{key}", knob) for key, knob in knobs.items()}
