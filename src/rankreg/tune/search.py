"""The search: as many trials as are left, here or in processes of their own; started again, it goes on."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import optuna
import torch
from optuna.trial import FrozenTrial, TrialState

from rankreg._terminal import progress_bar
from rankreg.datasets.splits import Splits
from rankreg.distributed import join
from rankreg.train.folder import locked
from rankreg.tune.data import Data, identity, load_parts
from rankreg.tune.presets import DONE, Plan, SuperfluousTrial
from rankreg.tune.study import bury_the_dead, claim, open_study, quiet
from rankreg.tune.trial import Beat, asked_for, judged
from rankreg.tune.workers import run_in_processes

WAIT = 1.0  # seconds between looks at what other machines do


@dataclass(frozen=True)
class Request:
    """A search: data, plan, number of splits, and where it is remembered. All of it can be sent to a process."""

    data: Data
    plan: Plan
    out: Path
    splits: int = 1
    storage: str | None = None
    study: str = "rankreg"
    seed: int = 0

    def parts(self) -> list[Splits]:
        """Training and validation samples of every split, and no others."""
        return load_parts(self.data, self.splits)

    def open(self) -> optuna.Study:
        """The study, made if it is not there."""
        return open_study(self.storage, self.out, self.study, seed=self.seed)


def search(request: Request, *, parts: list[Splits] | None = None, workers: int = 1) -> list[FrozenTrial]:
    """Run what is left of the search and return all its finished trials.

    parts: as `request.parts()` gives them, if they are loaded already. workers: processes of one thread each;
    with one, the same seed gives the same trials, however often the search was stopped.
    """
    if request.splits < 1 or workers < 1:
        raise ValueError(f"splits and workers must be at least 1, got {request.splits} and {workers}")
    if join("cpu").size > 1:
        raise ValueError("a search runs its own processes: use --workers instead of torchrun")
    if parts is None:
        parts = request.parts()
    with locked(request.out):
        study = request.open()
        claim(study, request.plan.settings() | {"seed": request.seed, "data": identity(request.data, parts)})
        with progress_bar() as bar:
            task = bar.add_task("searching", total=request.plan.total)

            def look(doing: str) -> None:
                """Show how far the search is, over all machines."""
                if not bar.disable:
                    bar.update(task, completed=len(finished(study)), description=f"{_best(study)}{doing}")

            try:
                _until_done(request, study, parts, workers, look)
            finally:  # a process that was stopped leaves its trial under way
                bury_the_dead(study, shared=request.storage is not None)
        return finished(study)


def _until_done(
    request: Request, study: optuna.Study, parts: list[Splits], workers: int, look: Callable[[str], None]
) -> None:
    """Put the trials that are due in the queue, run as many as may be; again until none is due."""
    shared = request.storage is not None
    while True:
        bury_the_dead(study, shared=shared)
        enqueue(study, request.plan)
        look("")
        trials = study.get_trials(deepcopy=False)
        left = request.plan.left(trials)
        if left > 0 and min(workers, left) == 1:
            for _ in range(left):
                run_one(study, request.plan, parts, look)
        elif left > 0:
            run_in_processes(request, left, min(workers, left), look)
        elif len(finished(study)) < request.plan.total and any(t.state is TrialState.RUNNING for t in trials):
            time.sleep(WAIT)  # another machine has the rest of a step under way
        else:
            return


def enqueue(study: optuna.Study, plan: Plan) -> None:
    """Ask for the trials that are due and that nobody has run, runs or is to run."""
    trials = study.get_trials(deepcopy=False)
    there = asked_for(trials)
    for name, params in plan.wanted(trials).items():
        if name not in there:
            study.enqueue_trial(params, user_attrs={"fixed": name})


def run_one(study: optuna.Study, plan: Plan, parts: list[Splits], beat: Beat) -> None:
    """One trial, unless other machines have done the last one meanwhile."""
    if plan.left(study.get_trials(deepcopy=False)) > 0:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums depend on the number of threads, results must not
        try:
            with quiet():
                study.optimize(lambda trial: judged(trial, plan, parts, beat), n_trials=1, catch=SuperfluousTrial)
        finally:
            torch.set_num_threads(threads)


def finished(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that count."""
    return study.get_trials(deepcopy=False, states=DONE)


def _best(study: optuna.Study) -> str:
    values = [trial.value for trial in finished(study) if trial.value is not None]
    return f"best {100 * min(values):.1f} %, " if values else ""
