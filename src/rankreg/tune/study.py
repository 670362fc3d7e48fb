"""The memory of a search: an Optuna study in a file of its own, or in a storage that many machines share."""

import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning, OptunaError
from optuna.pruners import MedianPruner
from optuna.samplers import TPESampler
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError

from rankreg.train.config import renamed
from rankreg.train.loop import derived_seed

FILE = "study.sqlite3"
STARTUP = 10  # trials before the sampler trusts what it has seen
TENTHS = 10  # trials have different numbers of epochs: they are compared by the share of their run that is over
BEAT, GRACE = 30, 120  # seconds: a trial on a shared storage that is silent for so long is dead
ATTEMPTS, PAUSE = 5, 0.3  # at opening a storage, and the seconds between two
SQLITE = {"connect_args": {"timeout": 120, "isolation_level": None}}  # wait one's turn; no hidden BEGIN


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
    url = storage or f"sqlite:///{(out / FILE).resolve()}"
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
    different = _different(held | {"config": renamed(held.get("config", {}))}, wanted)
    if different:
        raise ValueError(
            f"the study {study.study_name!r} is a search that differs in {', '.join(different)}:"
            " choose another --out, or another --study on a shared storage"
        )


def _different(held: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The names of the settings that differ, those of the training's config one by one."""
    names = sorted(key for key in {*wanted, *held} if wanted.get(key) != held.get(key))
    if "config" not in names:
        return names
    inner = _different(held.get("config", {}), wanted.get("config", {}))
    return [*inner, *(name for name in names if name != "config")]


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
