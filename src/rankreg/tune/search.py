"""The search: as many trials as are left, here or in worker processes; started again, it goes on.

It is remembered as an Optuna study, in a file of its own or in a storage that many machines share.
"""

import json
import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch
from optuna.exceptions import ExperimentalWarning, OptunaError, TrialPruned
from optuna.pruners import MedianPruner
from optuna.samplers import TPESampler
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy import event
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError

from rankreg.datasets.splits import Splits
from rankreg.distributed import join
from rankreg.pool import WorkerDied, run_parallel
from rankreg.terminal import progress_bar
from rankreg.train import DivergenceError
from rankreg.train.config import as_of_today
from rankreg.train.folder import locked
from rankreg.train.loop import derived_seed
from rankreg.train.run import epochs
from rankreg.tune.search_data import Data, identity, load_parts
from rankreg.tune.space import DONE, Space

WAIT = 1.0  # seconds between looks at what other machines do
STARTUP = 10  # trials before the sampler trusts what it has seen
TENTHS = 10  # trials have different numbers of epochs: they are compared by the share of their run that is over
BEAT, GRACE = 30, 120  # seconds: a trial on a shared storage that is silent for so long is dead
ATTEMPTS, PAUSE = 5, 0.3  # at opening a storage, and the seconds between two
SQLITE = {"connect_args": {"timeout": 120, "isolation_level": None}}  # wait one's turn; no hidden BEGIN

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
                    done = _finished(memory)
                    values = [trial.value for trial in done if trial.value is not None]
                    best = f"best {100 * min(values):.1f} %, " if values else ""
                    bar.update(task, completed=len(done), description=f"{best}{doing}")

            try:
                _until_done(job, memory, parts, workers, tell)
            finally:  # a process that was stopped leaves its trial under way
                fail_dead_trials(memory, shared=storage is not None)
        return _finished(memory)


def _until_done(job: Job, study: optuna.Study, parts: list[Splits], workers: int, tell: Tell) -> None:
    """Put the trials that are due in the queue, run as many as may be; again until none is due."""
    while True:
        fail_dead_trials(study, shared=job.storage is not None)
        trials = study.get_trials(deepcopy=False)
        there = _asked_for(trials)
        for name, params in job.plan.wanted(trials).items():
            if name not in there:
                study.enqueue_trial(params, user_attrs={"fixed": name})
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


def _run_elsewhere(job: bytes, number: int) -> None:
    """One trial in a worker process."""
    study, plan, parts = _loaded(job)
    run_trial(study, plan, parts, lambda doing: None)


@cache
def _loaded(job: bytes) -> tuple[optuna.Study, Space, list[Splits]]:
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
    earlier = trial.study.get_trials(deepcopy=False)[: trial.number]
    if fixed in _asked_for(earlier) or (fixed is None and not plan.draws):
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


class SeededSampler(TPESampler):
    """Optuna's TPE, seeded anew for every trial by the seed and the trial's place.

    A search that was killed and started again draws as if it had not been; failed trials take no place.
    Settings that belong together are sampled together. Trials under way elsewhere count as bad ones, so two
    processes do not try the same.
    """

    def __init__(self, seed: int, place: int = 0) -> None:
        self.seed = seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            super().__init__(
                seed=derived_seed(seed, place) % 2**32,
                n_startup_trials=STARTUP,
                multivariate=True,
                group=True,
                constant_liar=True,
            )

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        failed = study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
        place = trial.number - sum(other.number < trial.number for other in failed)
        SeededSampler.__init__(self, self.seed, place)
        super().before_trial(study, trial)


def open_study(storage: str | None, out: Path, name: str, *, seed: int) -> optuna.Study:
    """The study of that name, made if it is not there; storage: an Optuna URL, or None for a file in `out`."""
    url = storage or f"sqlite:///{(out / 'study.sqlite3').resolve()}"
    with quiet():
        try:
            return _opened(url, name, seed=seed, shared=storage is not None)
        except NoSuchModuleError as error:
            raise ValueError(f"cannot open the search: no driver for {url.split(':')[0]} is installed") from error
        except ArgumentError as error:  # it may hold a password, so it is not repeated
            raise ValueError("--storage is no storage URL; one looks like sqlite:///search.sqlite3") from error
        except (SQLAlchemyError, OptunaError, RuntimeError, ImportError) as error:
            place = make_url(url).render_as_string(hide_password=True)
            raise ValueError(f"cannot open the search in {place}: {str(error).splitlines()[0]}") from error


def _opened(url: str, name: str, *, seed: int, shared: bool) -> optuna.Study:
    """Several processes may open a new storage at once: those that are late find the tables made."""
    sqlite = make_url(url).get_backend_name() == "sqlite"
    beat, grace = (BEAT, GRACE) if shared else (None, None)

    def attempt() -> optuna.Study:
        engine = SQLITE if sqlite else None
        storage = RDBStorage(url, engine_kwargs=engine, heartbeat_interval=beat, grace_period=grace)
        if sqlite:
            event.listen(storage.engine, "begin", _take_the_lock)
        return optuna.create_study(
            storage=storage,
            sampler=SeededSampler(seed),
            pruner=MedianPruner(n_startup_trials=5, n_warmup_steps=3 * TENTHS // 10),
            study_name=name,
            direction="minimize",
            load_if_exists=True,
        )

    for _ in range(ATTEMPTS - 1):
        with suppress(DatabaseError):
            return attempt()
        time.sleep(PAUSE)
    return attempt()


def _take_the_lock(connection: Connection) -> None:
    """SQLite has no SELECT FOR UPDATE: unless the lock comes first, two processes take the same waiting trial."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def claim_study(study: optuna.Study, settings: dict[str, Any]) -> None:
    """Say what is searched here, or refuse when the study already searches something else."""
    wanted = json.loads(json.dumps(settings))
    held = study.user_attrs.get("rankreg")
    if held is None and study.get_trials(deepcopy=False):
        raise ValueError(f"the study {study.study_name!r} was not made by rankreg: choose another --study")
    if held is None:
        study.set_user_attr("rankreg", wanted)
        return
    before = held | {"config": as_of_today(held.get("config", {}))}
    different = [  # the settings of a training one by one, then the others
        *_different(before["config"], wanted.get("config", {})),
        *(name for name in _different(before, wanted) if name != "config"),
    ]
    if different:
        raise ValueError(
            f"the study {study.study_name!r} is a search that differs in {', '.join(different)}:"
            " choose another --out, or another --study on a shared storage"
        )


def _different(held: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The names of the settings that differ."""
    return sorted(key for key in {*wanted, *held} if wanted.get(key) != held.get(key))


def fail_dead_trials(study: optuna.Study, *, shared: bool) -> None:
    """Give up trials whose process is gone, so that they neither count nor keep a place.

    A file of our own is held by a lock, so whatever is under way there is dead. On a shared storage Optuna's
    heartbeat tells.
    """
    if shared:
        with quiet():
            fail_stale_trials(study)
        return
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna says nothing of its own, and nothing about which of its features may change."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
