"""What a search found: the winner, the baseline beside it, and files to go on with."""

import csv
import io
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from rankreg.safe_files import write_whole
from rankreg.train import TrainConfig
from rankreg.train.folder import write_json
from rankreg.tune.presets import Plan
from rankreg.tune.space import BASELINE
from rankreg.tune.study import quiet
from rankreg.tune.toml import config_toml

ENOUGH = 20  # trials, for a word on which settings mattered


@dataclass(frozen=True, eq=False)
class Tried:
    """A trial that came to its end: validation FPR and AUC of every split, and the config."""

    number: int
    value: float
    config: TrainConfig
    params: Mapping[str, Any]
    splits: Sequence[Mapping[str, float]]
    fixed: str | None

    @property
    def fpr(self) -> float:
        """The mean over splits."""
        return float(np.mean([split["fpr"] for split in self.splits]))

    @property
    def auc(self) -> float:
        """The mean over splits."""
        return float(np.mean([split["auc"] for split in self.splits]))


@dataclass(frozen=True, eq=False)
class Result:
    """The best trial, the baseline, and all others, best first.

    baseline: as `rankreg fit --method none` trains it, shuffled or oversampled, whichever is better.
    """

    best: Tried
    baseline: Tried | None
    ranked: tuple[Tried, ...]
    tries: Mapping[str, int]  # by method, whatever became of them
    given_up: int
    diverged: int
    importance: Mapping[str, float]


def results_of(trials: Iterable[FrozenTrial], plan: Plan) -> Result:
    """Rank the finished trials; ties go to the earlier one."""
    all_of_them = list(trials)
    complete = [trial for trial in all_of_them if trial.state is TrialState.COMPLETE]
    ranked = tuple(sorted((_tried(trial, plan) for trial in complete), key=lambda t: (t.value, t.number)))
    winners = [one for one in ranked if plan.may_win(one.config.method.name)]
    diverged = sum("diverged" in trial.user_attrs for trial in all_of_them)
    if not winners:
        why = f"{diverged} diverged: lower learning_rate in --config" if diverged else "run more --trials"
        raise ValueError(f"no trial of {len(all_of_them)} came to its end; {why}")
    baselines = [one for one in ranked if one.fixed is not None and one.config.method.name == BASELINE]
    return Result(
        best=winners[0],
        baseline=baselines[0] if baselines else None,
        ranked=ranked,
        tries=Counter(trial.params["method"] for trial in all_of_them),
        given_up=len(all_of_them) - len(complete) - diverged,
        diverged=diverged,
        importance=importance(complete) if len(complete) >= ENOUGH else {},
    )


def best_of_each_method(result: Result) -> dict[str, Tried]:
    """By method, in the order of their best trials."""
    found: dict[str, Tried] = {}
    for one in result.ranked:
        found.setdefault(one.config.method.name, one)
    return found


def importance(trials: Sequence[FrozenTrial]) -> dict[str, float]:
    """The share of the variance that each setting common to all trials explains.

    Reference: Hutter et al., "An efficient approach for assessing hyperparameter importance", ICML 2014.
    """
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, about trials that are all alike
        study = optuna.create_study(direction="minimize")
        study.add_trials(trials)
        try:
            return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
        except (RuntimeError, ValueError):  # nothing varies
            return {}


def write_results(out: Path, result: Result, *, tpr: float) -> None:
    """best.toml, baseline.toml, trials.csv and summary.json, each whole or not at all."""
    write_whole(out / "trials.csv", _table(result).encode())
    for name, one in (("baseline", result.baseline), ("best", result.best)):
        if one is not None:
            comments = (
                f"trial {one.number} of a search at a TPR of {tpr:g}: validation FPR {100 * one.fpr:.2f} %,"
                f" AUC {100 * one.auc:.2f} %, mean over {len(one.splits)} splits",
                "the seed also cuts the parts of the data: with another, test samples would have been seen",
            )
            write_whole(out / f"{name}.toml", config_toml(one.config, comments).encode())
    shown = {"best": result.best, "baseline": result.baseline}
    write_json(
        out / "summary.json",
        {
            "tpr": tpr,
            "tries": dict(result.tries),
            "finished": len(result.ranked),
            "given_up": result.given_up,
            "diverged": result.diverged,
        }
        | {name: None if one is None else _plain(one) for name, one in shown.items()}
        | {"importance": dict(result.importance)},
    )


def _tried(trial: FrozenTrial, plan: Plan) -> Tried:
    assert trial.value is not None  # it is complete
    fixed = trial.user_attrs.get("fixed")
    return Tried(trial.number, trial.value, plan.of(trial.params), trial.params, trial.user_attrs["splits"], fixed)


def _plain(one: Tried) -> dict[str, Any]:
    return {
        "trial": one.number,
        "fpr": one.fpr,
        "auc": one.auc,
        "splits": [dict(split) for split in one.splits],
        "params": dict(one.params),
    }


def _table(result: Result) -> str:
    """One line per trial that came to its end, best first."""
    names = sorted({name for one in result.ranked for name in one.params})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "fpr", "auc", *names])
    for one in result.ranked:
        writer.writerow([one.number, one.fpr, one.auc, *(one.params.get(name, "") for name in names)])
    return text.getvalue()
