"""Ways to search: a sensible one for one's own data, and the paper's two-step grid for ALM."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, Protocol

from optuna.trial import FrozenTrial, Trial, TrialState

from rankreg.train import TrainConfig
from rankreg.tune.space import BASELINE, KNOBS, SAMPLINGS, Choice, Space

DONE = (
    TrialState.COMPLETE,
    TrialState.PRUNED,
)  # a failed one was killed or superfluous: it neither counts nor blocks
JudgeName = Literal["fpr", "auc"]


class SuperfluousTrial(Exception):  # noqa: N818 - nothing went wrong
    """Machines that share a storage have each asked for the same trial, or another one has taken the last."""


class Plan(Protocol):
    """What the search asks: which trials must be, how many in all, what a trial trains, by what it is judged."""

    @property
    def judge(self) -> JudgeName:
        """By validation FPR at the target TPR (ties by AUC), or by validation AUC."""

    @property
    def prunes(self) -> bool:
        """Whether trials that lag behind are given up."""

    @property
    def total(self) -> int:
        """How many trials there will be."""

    def wanted(self, trials: Sequence[FrozenTrial]) -> Mapping[str, dict[str, Any]]:
        """Trials with given parameters that are due now, by name."""

    def left(self, trials: Sequence[FrozenTrial]) -> int:
        """How many trials may be started now."""

    def sampled(self, trial: Trial) -> TrainConfig:
        """The config of a trial under way."""

    def of(self, params: Mapping[str, Any]) -> TrainConfig:
        """The config of a finished trial."""

    def may_win(self, method: str) -> bool:
        """Whether a trial of that method can be the result."""

    def settings(self) -> dict[str, Any]:
        """What must be the same when a search goes on; not how many trials are wanted."""


@dataclass(frozen=True)
class Search:
    """Every method at its defaults first, the baseline leading, then wherever the results so far point.

    The baseline is run with classes drawn equally often too: what a buffer gains may be had without one.
    """

    space: Space
    total: int = 50
    judge: JudgeName = "fpr"
    prunes: bool = True

    def wanted(self, trials: Sequence[FrozenTrial]) -> Mapping[str, dict[str, Any]]:
        other = next(sampling for sampling in SAMPLINGS if sampling != self.space.base.sampling)
        plain, *methods = self.space.methods
        return {
            f"{plain} by default": self.space.defaults(plain),
            f"{plain}, {other}": self.space.defaults(plain) | {"sampling": other},
            **{f"{method} by default": self.space.defaults(method) for method in methods},
        }

    def left(self, trials: Sequence[FrozenTrial]) -> int:
        return self.total - sum(trial.state in DONE for trial in trials)

    def sampled(self, trial: Trial) -> TrainConfig:
        return self.space.sampled(trial)

    def of(self, params: Mapping[str, Any]) -> TrainConfig:
        return self.space.of(params)

    def may_win(self, method: str) -> bool:
        return True

    def settings(self) -> dict[str, Any]:
        space = self.space
        return {
            "preset": "default",
            "config": space.base.model_dump(mode="json"),
            "methods": space.methods,
            "losses": space.losses,
            "knobs": KNOBS,
        }


RHO = (2.0, 3.0)
MU = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
DELTA = (0.1, 0.25, 0.5, 1.0)
FIRST_DELTA = 0.25  # the paper does not say which margin step 1 uses: docs/decisions/0063


@dataclass(frozen=True)
class AlmGrid:
    """The paper's search for ALM: ρ and μ₀ first, then δ at the best of them; all by validation AUC.

    Everything else, the base loss too, is the base config's. The base loss alone is trained once beside the grid.
    """

    base: TrainConfig
    judge: JudgeName = "auc"
    prunes: bool = False

    @property
    def total(self) -> int:
        """The baseline, 16 points, and 3 more: the first step's winner is one of the second step's four."""
        return 1 + len(RHO) * len(MU) + len(DELTA) - 1

    def wanted(self, trials: Sequence[FrozenTrial]) -> Mapping[str, dict[str, Any]]:
        first = _named(_point(rho, mu, FIRST_DELTA) for rho, mu in product(RHO, MU))
        done = {trial.user_attrs.get("fixed"): trial for trial in trials if trial.state in DONE}
        scored = [done[name] for name in first if name in done and done[name].value is not None]
        due = {f"{BASELINE} by default": {"method": BASELINE}, **first}
        if not scored or any(name not in done for name in first):
            return due
        best = min(scored, key=lambda trial: (trial.value, trial.number)).params
        return due | _named(_point(best["alm.rho"], best["alm.mu"], delta) for delta in DELTA)

    def left(self, trials: Sequence[FrozenTrial]) -> int:
        return sum(trial.state is TrialState.WAITING for trial in trials)

    def sampled(self, trial: Trial) -> TrainConfig:
        if "fixed" not in trial.user_attrs:  # drawn, since none was waiting any more
            raise SuperfluousTrial
        method = Choice(("alm", BASELINE), "alm").ask(trial, "method")
        grid = GRID if method == "alm" else {}
        return self.of({"method": method} | {name: knob.ask(trial, name) for name, knob in grid.items()})

    def of(self, params: Mapping[str, Any]) -> TrainConfig:
        settings = {name.removeprefix("alm."): value for name, value in params.items() if name in GRID}
        method = {"name": params["method"]} | settings
        return TrainConfig.model_validate(self.base.model_dump() | {"method": method})

    def may_win(self, method: str) -> bool:
        return method == "alm"

    def settings(self) -> dict[str, Any]:
        return {"preset": "alm", "config": self.base.model_dump(mode="json")}


GRID = {"alm.rho": Choice(RHO, 2.0), "alm.mu": Choice(MU, 1e-5), "alm.delta": Choice(DELTA, FIRST_DELTA)}


def _point(rho: float, mu: float, delta: float) -> dict[str, Any]:
    return {"method": "alm", "alm.rho": rho, "alm.mu": mu, "alm.delta": delta}


def _named(points: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"rho {p['alm.rho']:g}, mu {p['alm.mu']:g}, delta {p['alm.delta']:g}": p for p in points}
