"""One trial: train on every split, look at the validation part after every epoch, give up what lags behind."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np
from optuna.exceptions import TrialPruned
from optuna.trial import FrozenTrial, Trial, TrialState

from rankreg.datasets.splits import Splits
from rankreg.train import DivergenceError, epochs
from rankreg.tune.presets import JudgeName, Plan, SuperfluousTrial

TENTHS = 10  # trials have different numbers of epochs: they are compared by the share of their run that is over

Beat = Callable[[str], None]  # told after every epoch what is under way


def judged(trial: Trial, plan: Plan, parts: Sequence[Splits], beat: Beat) -> float:
    """The mean over splits of what the plan judges by, lower being better; kept with the trial split by split.

    Of a split counts the epoch that training itself would choose, so that `rankreg fit` gives the same network. A
    trial with given parameters is never given up: others are measured against it. One that diverges is.
    """
    if _asked_for_before(trial):
        raise SuperfluousTrial
    config = plan.sampled(trial)
    may_stop = plan.prunes and "fixed" not in trial.user_attrs
    found: list[dict[str, float]] = []
    start = time.perf_counter()
    for split, data in enumerate(parts):
        own = config.model_copy(update={"seed": config.seed + split})
        reported = 0
        try:
            with closing(epochs(data, own)) as run:
                for record in run:
                    if record["better"]:
                        now = dict(record["validation"], epoch=record["epoch"])
                    beat(f"trial {trial.number}, split {split + 1}, epoch {record['epoch'] + 1}/{own.epochs}")
                    tenths = (record["epoch"] + 1) * TENTHS // own.epochs
                    if tenths > reported:
                        reported = tenths
                        trial.report(value_of([*found, now], plan.judge, parts), split * TENTHS + tenths)
                        over = tenths == TENTHS and split == len(parts) - 1
                        if may_stop and not over and trial.should_prune():
                            raise TrialPruned
        except DivergenceError as error:
            trial.set_user_attr("diverged", str(error))
            raise TrialPruned from error
        found.append(now)
        trial.set_user_attr("splits", found)
    trial.set_user_attr("seconds", time.perf_counter() - start)
    return value_of(found, plan.judge, parts)


def _asked_for_before(trial: Trial) -> bool:
    """Whether an earlier trial has the same given parameters."""
    return trial.user_attrs.get("fixed") in asked_for(trial.study.get_trials(deepcopy=False)[: trial.number])


def asked_for(trials: Sequence[FrozenTrial]) -> set[str]:
    """The trials with given parameters that have been run, run or are to run, by name."""
    there = [trial.user_attrs.get("fixed") for trial in trials if trial.state is not TrialState.FAIL]
    return {name for name in there if name is not None}


def value_of(found: Sequence[dict[str, float]], judge: JudgeName, parts: Sequence[Splits]) -> float:
    """What is made small: 1 − AUC, or the mean FPR with a part of 1 − AUC too small to do more than break ties."""
    short_of_perfect = 1 - float(np.mean([split["auc"] for split in found]))
    if judge == "auc":
        return short_of_perfect
    negatives = max(int(np.count_nonzero(split["validation"].labels != split.critical)) for split in parts)
    least = 1 / (negatives * len(found))  # by which two means can differ
    return float(np.mean([split["fpr"] for split in found])) + short_of_perfect * least / 2
