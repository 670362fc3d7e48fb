"""The search: as many trials as are left, here or in worker processes; started again, it goes on."""

import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import optuna
import torch
from optuna.exceptions import TrialPruned
from optuna.trial import FrozenTrial, Trial, TrialState

from rankreg.datasets.splits import Splits
from rankreg.distributed import join
from rankreg.pool import WorkerDied, run_parallel
from rankreg.terminal import progress_bar
from rankreg.train import DivergenceError
from rankreg.train.folder import locked
from rankreg.train.run import epochs
from rankreg.tune.search_data import Data, identity, load_parts
from rankreg.tune.space import DONE, Space
from rankreg.tune.study import TENTHS, claim_study, fail_dead_trials, open_study, quiet

WAIT = 1.0  # seconds between looks at what other machines do

Tell = Callable[[str], None]  # is told after every epoch what is under way


class SuperfluousTrial(Exception):  # noqa: N818 - nothing went wrong
    """Several machines have asked for the same trial, or another one has taken the last."""


@dataclass(frozen=True)
class Job:
    """What a worker process must know: data, plan, and where the search is remembered."""

    data: Data
    plan: Space
    out: Path
    splits: int
    storage: str | None
    study: str

    def open(self) -> optuna.Study:
        """The study, made if it is not there."""
        return open_study(self.storage, self.out, self.study, seed=self.plan.base.seed)


def search(
    data: Data,
    plan: Space,
    out: Path,
    *,
    splits: int = 1,
    workers: int = 1,
    storage: str | None = None,
    study: str = "rankreg",
    parts: list[Splits] | None = None,
) -> list[FrozenTrial]:
    """Run what is left of a search.

    Only training and validation samples are looked at. Stopped or killed, the same call goes on; at most the
    trials under way are lost. With one worker, the same seed gives the same trials, however often it stopped.

    Args:
        data: from `tune_data`.
        plan: a `Space` or an `AlmGrid`. Its base config's seed is the search's.
        out: folder of the search; one process at a time may use it.
        splits: train and judge every trial on so many splits. Default 1.
        workers: how many processes, of one thread each. Default 1: this process.
        storage: an Optuna storage URL that several machines share. Default: a file in `out`.
        study: the name of the search in the storage.
        parts: the samples, if they are loaded already.

    Returns:
        All finished trials, earlier ones included; each has the config's parameters in `params`, and FPR and
        AUC of every split in `user_attrs["splits"]`.

    Raises:
        ValueError: the folder or the study holds another search, or the storage cannot be opened.

    >>> from tempfile import TemporaryDirectory
    >>> from rankreg.train import TrainConfig
    >>> from rankreg.tune.search_data import NamedData
    >>> plan = Space(TrainConfig(epochs=1), methods=("none",), total=2)
    >>> with TemporaryDirectory() as folder:
    ...     [trial.params["sampling"] for trial in search(NamedData("digits"), plan, Path(folder))]
    ['shuffled', 'balanced']
    """
    if splits < 1 or workers < 1:
        raise ValueError(f"splits and workers must be at least 1, got {splits} and {workers}")
    if join("cpu").size > 1:
        raise ValueError("a search runs its own processes: use --workers instead of torchrun")
    parts = load_parts(data, splits) if parts is None else parts
    job = Job(data, plan, out, splits, storage, study)
    with locked(out):
        memory = job.open()
        claim_study(memory, plan.settings() | {"seed": plan.base.seed, "data": identity(data, parts)})
        with progress_bar() as bar:
            task = bar.add_task("searching", total=plan.total)

            def tell(doing: str) -> None:
                """Show how far the search is, over all machines."""
                if not bar.disable:
                    bar.update(task, completed=len(_finished(memory)), description=f"{_best(memory)}{doing}")

            try:
                _until_done(job, memory, parts, workers, tell)
            finally:  # a process that was stopped leaves its trial under way
                fail_dead_trials(memory, shared=storage is not None)
        return _finished(memory)


def _until_done(job: Job, study: optuna.Study, parts: list[Splits], workers: int, tell: Tell) -> None:
    """Put the trials that are due in the queue, run as many as may be; again until none is due."""
    while True:
        fail_dead_trials(study, shared=job.storage is not None)
        enqueue(study, job.plan)
        tell("")
        trials = study.get_trials(deepcopy=False)
        left = job.plan.left(trials)
        if left > 0 and min(workers, left) == 1:
            for _ in range(left):
                run_trial(study, job.plan, parts, tell)
        elif left > 0:
            content = pickle.dumps(job)
            for _, ended in run_parallel(partial(_run_elsewhere, content), range(left), workers=workers):
                if isinstance(ended, WorkerDied):
                    raise ValueError(
                        f"a process of the search died ({ended.reason}), perhaps because memory ran out:"
                        " the same command again goes on, with fewer --workers if need be"
                    )
                tell("")
        elif len(_finished(study)) < job.plan.total and any(t.state is TrialState.RUNNING for t in trials):
            time.sleep(WAIT)  # another machine has the rest of a step under way
        else:
            return


def enqueue(study: optuna.Study, plan: Space) -> None:
    """Ask for the trials that are due and that nobody has run, runs or is to run."""
    trials = study.get_trials(deepcopy=False)
    there = _asked_for(trials)
    for name, params in plan.wanted(trials).items():
        if name not in there:
            study.enqueue_trial(params, user_attrs={"fixed": name})


def _run_elsewhere(job: bytes, number: int) -> None:
    """One trial in a worker process."""
    study, plan, parts = _opened(job)
    run_trial(study, plan, parts, lambda doing: None)


@cache
def _opened(job: bytes) -> tuple[optuna.Study, Space, list[Splits]]:
    """A worker opens the study and loads the data once."""
    found: Job = pickle.loads(job)  # from our own parent process
    return found.open(), found.plan, load_parts(found.data, found.splits)


def run_trial(study: optuna.Study, plan: Space, parts: list[Splits], tell: Tell) -> None:
    """One trial, unless other machines have done the last one meanwhile."""
    if plan.left(study.get_trials(deepcopy=False)) > 0:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums depend on the number of threads, results must not
        try:
            with quiet():
                study.optimize(lambda trial: _judged(trial, plan, parts, tell), n_trials=1, catch=SuperfluousTrial)
        finally:
            torch.set_num_threads(threads)


def _judged(trial: Trial, plan: Space, parts: Sequence[Splits], tell: Tell) -> float:
    """Train on every split; the mean over splits of what the plan judges by, lower being better.

    For each split counts the epoch that training itself would choose, so `rankreg fit` gives the same network.
    A trial with given parameters is never given up: others are measured against it. A trial that diverges is.
    """
    fixed = trial.user_attrs.get("fixed")
    if fixed in _asked_for(trial.study.get_trials(deepcopy=False)[: trial.number]):
        raise SuperfluousTrial
    if fixed is None and not plan.draws:
        raise SuperfluousTrial
    config = plan.sampled(trial)
    may_stop = plan.prunes and fixed is None
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
                    tell(f"trial {trial.number}, split {split + 1}, epoch {record['epoch'] + 1}/{own.epochs}")
                    tenths = (record["epoch"] + 1) * TENTHS // own.epochs
                    if tenths > reported:
                        reported = tenths
                        trial.report(value_of([*found, now], plan, parts), split * TENTHS + tenths)
                        over = tenths == TENTHS and split == len(parts) - 1
                        if may_stop and not over and trial.should_prune():
                            raise TrialPruned
        except DivergenceError as error:
            trial.set_user_attr("diverged", str(error))
            raise TrialPruned from error
        found.append(now)
        trial.set_user_attr("splits", found)
    trial.set_user_attr("seconds", time.perf_counter() - start)
    return value_of(found, plan, parts)


def value_of(found: Sequence[dict[str, float]], plan: Space, parts: Sequence[Splits]) -> float:
    """What is made small: 1 − AUC, or the mean FPR with a part of 1 − AUC too small to do more than break ties."""
    short_of_perfect = 1 - float(np.mean([split["auc"] for split in found]))
    if plan.judge == "auc":
        return short_of_perfect
    negatives = max(int(np.count_nonzero(split["validation"].labels != split.critical)) for split in parts)
    least = 1 / (negatives * len(found))  # by which two means can differ
    return float(np.mean([split["fpr"] for split in found])) + short_of_perfect * least / 2


def _asked_for(trials: Sequence[FrozenTrial]) -> set[str]:
    """The trials with given parameters that have been run, run or are to run, by name."""
    there = [trial.user_attrs.get("fixed") for trial in trials if trial.state is not TrialState.FAIL]
    return {name for name in there if name is not None}


def _finished(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that count."""
    return study.get_trials(deepcopy=False, states=DONE)


def _best(study: optuna.Study) -> str:
    values = [trial.value for trial in _finished(study) if trial.value is not None]
    return f"best {100 * min(values):.1f} %, " if values else ""
