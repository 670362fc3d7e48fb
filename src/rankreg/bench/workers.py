"""Processes that attempt runs side by side: this machine's, or a Dask cluster's. Both through joblib."""

import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rankreg.bench.planning import Plan
from rankreg.bench.records import Outcome, Records

Reason = Literal["recorded", "busy", "stopped", "failed"]
BEAT = 0.5  # seconds between two looks for the parent
_TURN = threading.Lock()  # a run owns torch's random numbers: two at once in one process would share them


@dataclass(frozen=True)
class Place:
    """Where runs work: their checkpoints, the records and the data, as every worker sees these folders."""

    records: Path
    runs: Path
    data: Path | None = None

    def folder(self, plan: Plan) -> Path:
        """Where a run keeps its checkpoints until it is recorded."""
        return self.runs / plan.name

    def claim(self, plan: Plan) -> Path:
        """What a worker locks from before its first look at a run until the run is recorded."""
        return self.runs / f"{plan.name}.claim"

    def in_use(self, plan: Plan) -> bool:
        """Whether a worker is at the run."""
        return in_use(self.claim(plan)) or in_use(self.folder(plan))


@dataclass(frozen=True, eq=False)
class Answer:
    """A worker's answer: an outcome, or why there is none."""

    plan: Plan
    outcome: Outcome | None = None
    reason: Reason | None = None
    message: str = ""


@dataclass(frozen=True)
class Pool:
    """Workers, at plans in the order given; `missing` says by loader which data they do not find."""

    attempts: Callable[[Sequence[Plan], Place], Generator[Answer]]
    missing: Callable[[Sequence[str], Path | None], dict[str, str]]


def attempt(plan: Plan, place: Place, bench: int | None = None) -> Answer:
    """One run in a worker, recorded by it; what goes wrong is an answer too, and stops no other run.

    bench: the process without which there is no point in going on, if it is the worker's parent.
    """
    from rankreg.train.folder import FolderInUseError, locked

    if bench is not None and bench != os.getpid():
        end_with(bench)
    claim = place.claim(plan)
    try:
        with locked(claim), _TURN:
            answer = _perform(plan, place)
    except FolderInUseError:
        return Answer(plan, reason="busy")
    except KeyboardInterrupt:
        if bench == os.getpid():
            raise
        return Answer(plan, reason="stopped")  # somebody wants this worker gone, not the bench
    except Exception as error:
        return Answer(plan, reason="failed", message=f"{type(error).__name__}: {error}")
    shutil.rmtree(claim, ignore_errors=True)  # whoever waits for this very lock will find the record
    return answer


def _perform(plan: Plan, place: Place) -> Answer:
    """Train and record, unless another bench has done so: from here to the record nobody else is at it."""
    from rankreg.bench.training import perform

    records, folder = Records(place.records), place.folder(plan)
    if records.has(plan):
        return Answer(plan, reason="recorded")
    outcome = perform(plan, folder, place.data)
    records.write(plan, outcome)
    shutil.rmtree(folder, ignore_errors=True)
    return Answer(plan, outcome)


def in_use(folder: Path) -> bool:
    """Whether a process is training there."""
    from rankreg.train.folder import FolderInUseError, locked

    if not folder.exists():
        return False
    try:
        with locked(folder):
            return False
    except FolderInUseError:
        return True
    except (FileNotFoundError, FileExistsError):  # whoever held it is done and has removed it
        return False


def end_with(parent: int) -> None:
    """End this process when its parent is gone, however that came: an orphan would hold memory and its run.

    Nothing is lost but the epoch under way. (Windows does not tell: an orphan finishes its run there.)
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(BEAT)
        os._exit(1)

    name = f"watching {parent}"
    if name not in {thread.name for thread in threading.enumerate()}:
        threading.Thread(target=watch, name=name, daemon=True).start()


@contextmanager
def local_pool(workers: int) -> Iterator[Pool]:
    """Processes of this machine, one thread each; they end with the pool."""
    from joblib import parallel_config
    from joblib.externals.loky import get_reusable_executor

    from rankreg.bench.training import missing_data

    def attempts(plans: Sequence[Plan], place: Place) -> Generator[Answer]:
        return answers(plans, place, "n_jobs", bench=os.getpid())

    with warnings.catch_warnings(), parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
        # joblib puts a new process in the place of one that holds 300 MB more than at first, as images do
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
        try:
            yield Pool(attempts, missing_data)
        finally:
            if workers > 1:  # joblib runs a single worker's jobs in this process
                get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def answers(plans: Sequence[Plan], place: Place, ahead: str, bench: int | None = None) -> Generator[Answer]:
    """Attempt the plans on joblib's current backend, so many dispatched ahead, and answer as they come in."""
    from joblib import Parallel, delayed

    jobs = (delayed(attempt)(plan, place, bench) for plan in plans)
    found = Parallel(batch_size=1, return_as="generator_unordered", pre_dispatch=ahead)(jobs)
    try:
        for answer in found:  # noqa: UP028 - `yield from` would close it outside of the `finally`
            yield answer
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib regrets work that is left unused on purpose
            found.close()
