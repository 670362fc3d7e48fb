"""The runs of a grid, side by side on this machine's cores or on a cluster; finished ones are never repeated."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rankreg.bench.planning import Plan
from rankreg.bench.records import Outcome, Records

Backend = Literal["loky", "dask"]
ATTEMPTS = 3  # how often workers may die without any run finishing in between


@dataclass(frozen=True)
class Place:
    """Where runs work: their checkpoints, the records and the data, as every worker sees these folders."""

    records: Path
    runs: Path
    data: Path | None = None


@dataclass
class Summary:
    """What became of the runs, by name; failed ones with the reason."""

    done: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Answer:
    """A worker's answer: an outcome, or why there is none."""

    plan: Plan
    outcome: Outcome | None = None
    reason: Literal["recorded", "busy", "failed"] | None = None
    message: str = ""


def run_all(
    plans: Iterable[Plan],
    place: Place,
    *,
    workers: int | None = None,
    on: Backend = "loky",
    address: str | None = None,
    report: Callable[[Plan, str], None] = lambda plan, state: None,
) -> Summary:
    """Train what has no record yet, in the order given, and record each run as it comes in.

    report: called with every plan that is settled and "done", "busy" (another bench is at it) or "failed". Workers
    that die take their run with them; it is tried again, from its last checkpoint.
    """
    records, summary = Records(place.records), Summary()
    pending = [plan for plan in unique(plans) if not records.has(plan)]
    deaths = 0
    while pending and deaths < ATTEMPTS:
        before = len(pending)
        try:
            with _pool(workers or cores(), on, address) as pool:
                for answer in pool(pending, place):
                    _settle(answer, records, place, summary, report)
                    pending.remove(answer.plan)
        except _deaths() as death:
            deaths = 0 if len(pending) < before else deaths + 1
            last = death
    if pending:
        raise ValueError(
            f"workers died {ATTEMPTS} times in a row ({last}): is memory short? Give fewer --workers;"
            f" the same command goes on with the {len(pending)} runs left"
        )
    return summary


def unique(plans: Iterable[Plan]) -> list[Plan]:
    """Each run once: experiments share them."""
    return list({plan.name: plan for plan in plans}.values())


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _settle(
    answer: _Answer, records: Records, place: Place, summary: Summary, report: Callable[[Plan, str], None]
) -> None:
    plan = answer.plan
    if answer.outcome is not None:
        records.write(plan, answer.outcome)
    if answer.outcome is not None or answer.reason == "recorded" or records.has(plan):
        shutil.rmtree(run_folder(plan, place), ignore_errors=True)
        summary.done.append(plan.name)
        report(plan, "done")
    elif answer.reason == "busy":
        summary.busy.append(plan.name)
        report(plan, "busy")
    else:
        summary.failed[plan.name] = answer.message
        report(plan, "failed")


def run_folder(plan: Plan, place: Place) -> Path:
    """Where a run keeps its checkpoints until it is recorded."""
    return place.runs / plan.name


def attempt(plan: Plan, place: Place) -> _Answer:
    """One run in a worker; what goes wrong with it is an answer too, and stops no other run."""
    from rankreg.bench.training import perform
    from rankreg.train.folder import FolderInUseError

    if Records(place.records).has(plan):  # by another bench, since this one began
        return _Answer(plan, reason="recorded")
    try:
        return _Answer(plan, perform(plan, run_folder(plan, place), place.data))
    except FolderInUseError:
        return _Answer(plan, reason="busy")
    except Exception as error:
        return _Answer(plan, reason="failed", message=f"{type(error).__name__}: {error}")


Pool = Callable[[Sequence[Plan], Place], Iterator[_Answer]]


@contextmanager
def _pool(workers: int, on: Backend, address: str | None) -> Iterator[Pool]:
    """Something that attempts many plans at once, answers in the order they come in."""
    from joblib import Parallel, delayed, parallel_config

    def attempts(plans: Sequence[Plan], place: Place) -> Iterator[_Answer]:
        jobs = (delayed(attempt)(plan, place) for plan in plans)
        parallel = Parallel(batch_size=1, return_as="generator_unordered", pre_dispatch="n_jobs")
        yield from parallel(jobs)

    if on == "dask":
        with _cluster(address), parallel_config("dask"):
            yield attempts
    else:
        with parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
            yield attempts


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """A client of an existing Dask cluster."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ValueError("--on dask needs the Dask extra: pip install 'rankreg[dask]'") from error
    if address is None:
        raise ValueError("--on dask needs --address, the scheduler's: such as tcp://10.0.0.1:8786")
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        yield client


def _deaths() -> tuple[type[BaseException], ...]:
    """What joblib's backends raise when workers die."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        from distributed.scheduler import KilledWorker
    except ModuleNotFoundError:
        return (TerminatedWorkerError,)
    return (TerminatedWorkerError, KilledWorker)
