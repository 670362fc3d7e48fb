"""Where a search looks: methods and losses with their settings, sampling, rate and epochs; or the paper's grid."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal

from optuna.trial import FrozenTrial, Trial, TrialState

from rankreg.fit import settings as fit_settings
from rankreg.names import look_up
from rankreg.train import TrainConfig
from rankreg.tune.search_data import Data

TRIALS = 50
BASELINE = "none"
DONE = (TrialState.COMPLETE, TrialState.PRUNED)  # a failed trial was killed: it neither counts nor blocks


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
Params = dict[str, Any]

BUFFER: dict[str, Knob] = {
    "capacity": Choice((8, 16, 32, 64), 32),
    "policy": Choice(("dequeue-max", "dequeue-min", "fifo"), "dequeue-max"),
}
METHODS: dict[str, dict[str, Knob]] = {  # a method's own settings
    "none": {},
    "buffer": {},
    "alm": {
        "mu": Between(1e-9, 1e-2, 1e-5),
        "rho": Choice((2.0, 3.0), 2.0),
        "delta": Choice((0.1, 0.25, 0.5, 1.0), 0.25),
    },
    "rankreg": {
        "weight": Between(0.01, 10.0, 0.1),
        "among": Choice(("negatives", "all"), "negatives"),
        "space": Choice(("score", "probability"), "score"),
    },
}
BUFFERED: dict[str, dict[str, Knob]] = {  # base_over "batch" without a term would train nothing on the buffer
    "buffer": BUFFER,
    "rankreg": BUFFER | {"base_over": Choice(("union", "batch"), "union")},
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


@dataclass(frozen=True)
class Space:
    """A base config and what is varied about it.

    Every method is tried with its defaults first. `none` is always added and comes first, so every search
    has a baseline; it is tried with shuffled and with balanced batches. Then Optuna draws. The learning rate
    goes from a tenth to ten times the base's, epochs from a quarter to all of them.

    Args:
        base: the settings that are not searched.
        methods: of "none", "buffer", "alm", "rankreg". Default: all.
        losses: base losses to try. An empty tuple keeps the loss of `base`. Default: four of them.
        total: how many trials in all. Default 50.

    >>> Space(TrainConfig(), methods=("rankreg",)).methods
    ('none', 'rankreg')
    """

    base: TrainConfig
    methods: tuple[str, ...] = tuple(METHODS)
    losses: tuple[str, ...] = SEARCHED
    total: int = TRIALS

    judge: ClassVar[Literal["fpr", "auc"]] = "fpr"  # validation FPR at the target TPR, ties by AUC
    prunes: ClassVar[bool] = True  # whether trials that lag behind are given up
    draws: ClassVar[bool] = True  # whether Optuna draws trials beyond the wanted ones
    may_win: ClassVar[tuple[str, ...]] = tuple(METHODS)  # methods that can be the result

    def __post_init__(self) -> None:
        for name in self.methods:
            look_up(METHODS, name, "method")
        for name in self.losses:
            look_up(LOSSES, name, "loss")
        object.__setattr__(self, "methods", tuple(dict.fromkeys((BASELINE, *self.methods))))
        object.__setattr__(self, "losses", tuple(dict.fromkeys(self.losses)))

    def wanted(self, trials: Sequence[FrozenTrial]) -> Mapping[str, Params]:
        """Trials with given parameters that are due now, by name.

        Args:
            trials: all trials so far.
        """
        other = next(sampling for sampling in SAMPLINGS if sampling != self.base.sampling)
        plain, *methods = self.methods
        return {
            f"{plain} by default": self.defaults(plain),
            f"{plain}, {other}": self.defaults(plain) | {"sampling": other},
            **{f"{method} by default": self.defaults(method) for method in methods},
        }

    def left(self, trials: Sequence[FrozenTrial]) -> int:
        """How many trials may be started now.

        Args:
            trials: all trials so far.
        """
        done = [trial for trial in trials if trial.state in DONE]
        defaults = {trial.user_attrs["fixed"] for trial in done if "fixed" in trial.user_attrs}
        first = min(self.total, len(self.wanted(trials)))  # a baseline whose process died is run again
        return max(self.total - len(done), first - len(defaults))

    def settings(self) -> dict[str, Any]:
        """What must be the same when a search goes on; not how many trials are wanted."""
        config = self.base.model_dump(mode="json")
        return {
            "preset": "default",
            "config": config,
            "methods": self.methods,
            "losses": self.losses,
            "knobs": KNOBS,
        }

    def config(self, pick: Pick) -> TrainConfig:
        """The config that results from what `pick` says about each knob in turn.

        Args:
            pick: from a knob's name and the knob to its value.
        """
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
            method |= _picked(pick, f"{name}.{method['space']}", SPACES[method["space"]])
        if name in BUFFERED:
            method["buffer"] = _picked(pick, "buffer", BUFFERED[name])
        return method

    def sampled(self, trial: Trial) -> TrainConfig:
        """The config of a trial under way.

        Args:
            trial: Optuna's, which is asked for every knob.
        """
        return self.config(lambda name, knob: knob.ask(trial, name))

    def of(self, params: Mapping[str, Any]) -> TrainConfig:
        """The config of a finished trial.

        Args:
            params: the trial's parameters.
        """
        return self.config(lambda name, knob: params[name])

    def defaults(self, method: str) -> Params:
        """The parameters that leave everything but the method as the learner `network` has it.

        Args:
            method: its name.
        """
        params: Params = {}
        self.config(lambda name, knob: params.setdefault(name, method if name == "method" else knob.default))
        return params


RHO = (2.0, 3.0)
MU = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
DELTA = (0.1, 0.25, 0.5, 1.0)
FIRST_DELTA = 0.25  # the paper does not say which margin step 1 uses: docs/decisions/0063
GRID = {"rho": Choice(RHO, 2.0), "mu": Choice(MU, 1e-5), "delta": Choice(DELTA, FIRST_DELTA)}


@dataclass(frozen=True)
class AlmGrid(Space):
    """The paper's search for ALM: ρ and μ₀ first, then δ at the best of them; all by validation AUC.

    Everything else, the base loss too, is the base config's. The base loss alone is trained once beside it.

    Args:
        base: the settings that are not searched.
        methods: fixed.
        losses: fixed: the loss of `base`.
        total: fixed: the baseline, 16 points, and 3 more, as step 1's winner is one of step 2's four.

    >>> AlmGrid(TrainConfig()).total
    20
    """

    methods: tuple[str, ...] = ("alm", BASELINE)
    losses: tuple[str, ...] = ()
    total: int = 1 + len(RHO) * len(MU) + len(DELTA) - 1

    judge = "auc"
    prunes = False
    draws = False
    may_win = ("alm",)

    def wanted(self, trials: Sequence[FrozenTrial]) -> Mapping[str, Params]:
        first = _points((rho, mu, FIRST_DELTA) for rho, mu in product(RHO, MU))
        due = {f"{BASELINE} by default": {"method": BASELINE}, **first}
        done = {trial.user_attrs.get("fixed"): trial for trial in trials if trial.state in DONE}
        scored = [done[name] for name in first if name in done and done[name].value is not None]
        if not scored or any(name not in done for name in first):
            return due
        best = min(scored, key=lambda trial: (trial.value, trial.number)).params
        return due | _points((best["alm.rho"], best["alm.mu"], delta) for delta in DELTA)

    def left(self, trials: Sequence[FrozenTrial]) -> int:
        return sum(trial.state is TrialState.WAITING for trial in trials)

    def settings(self) -> dict[str, Any]:
        return {"preset": "alm", "config": self.base.model_dump(mode="json")}

    def config(self, pick: Pick) -> TrainConfig:
        name = pick("method", Choice(("alm", BASELINE), "alm"))
        method = {"name": name} | (_picked(pick, "alm", GRID) if name == "alm" else {})
        return TrainConfig.model_validate(self.base.model_dump() | {"method": method})


def plan_search(
    data: Data,
    *,
    preset: str = "default",
    tpr: float = 0.95,
    trials: int | None = None,
    methods: Sequence[str] = (),
    losses: Sequence[str] = (),
    epochs: int | None = None,
    seed: int | None = None,
    file: Path | None = None,
) -> Space:
    """What to search, from what a user asks.

    Settings that are not searched are the defaults of `rankreg fit`, then those of the file, then these options.

    data decides between the defaults for tables and for images. preset: "default", or "alm" for the
    paper's two-step grid. epochs: the most a trial may train. file: a TOML file as for
    `rankreg fit --config`; it must not name a method. The baseline "none" is always added.
    """
    if preset not in ("default", "alm"):
        raise ValueError(f"unknown preset {preset!r}: choose 'default' or 'alm'")
    if file is not None and "method" in TrainConfig.from_toml(file).model_fields_set:
        raise ValueError(
            f"{file} sets method, which the search chooses: remove it there; --method restricts the search"
        )
    if preset == "alm" and (methods or trials is not None):
        raise ValueError("the grid of --preset alm is fixed: leave --method and --trials out")
    if preset == "alm" and len(losses) > 1:
        raise ValueError("--preset alm searches with one base loss: give one --loss")
    kind = "table" if data.side is None else "image"
    loss = losses[0] if losses and preset == "alm" else None
    base = fit_settings(kind, tpr, size=data.side, file=file, loss=loss, epochs=epochs, seed=seed)
    if preset == "alm":
        return AlmGrid(base)
    searched = tuple(losses) or (() if base.loss is not None or data.classes > 2 else SEARCHED)
    return Space(base, tuple(methods) or tuple(METHODS), searched, trials or TRIALS)


def _picked(pick: Pick, prefix: str, knobs: Mapping[str, Knob]) -> dict[str, Any]:
    return {key: pick(f"{prefix}.{key}", knob) for key, knob in knobs.items()}


def _points(points: Iterable[tuple[float, float, float]]) -> dict[str, Params]:
    return {
        f"rho {rho:g}, mu {mu:g}, delta {delta:g}": {
            "method": "alm",
            "alm.rho": rho,
            "alm.mu": mu,
            "alm.delta": delta,
        }
        for rho, mu, delta in points
    }
