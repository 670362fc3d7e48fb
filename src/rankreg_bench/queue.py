"""The queue of runs: trained side by side on this machine's cores or on a Dask cluster, none of them twice."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankreg.pool import WorkerDied, run_parallel
from rankreg_bench.grids import RunPlan, unique
from rankreg_bench.records import Outcome, RecordFolder

if TYPE_CHECKING:
    from distributed import Client

Report = Callable[[RunPlan, str], None]
PATIENCE = 2.0  # seconds between two looks at what another bench is doing
DASK_PATIENCE = 10.0  # seconds for the scheduler to answer, and for a first worker to join
_TURN = threading.Lock()  # a run owns torch's random numbers: two at once in one process would share them


@dataclass(frozen=True)
class Place:
    """The folders of records, checkpoints and data, as every worker sees them.

    Args:
        records: folder of the records.
        runs: folder for the checkpoints of unfinished runs.
        data: folder of the data sets, default that of `rankreg.datasets`.
    """

    records: Path
    runs: Path
    data: Path | None = None

    def folder(self, plan: RunPlan) -> Path:
        """Where a run keeps its checkpoints until it is recorded."""
        return self.runs / plan.name

    def claim(self, plan: RunPlan) -> Path:
        """What a worker locks from before its first look at a run until the run is recorded."""
        return self.runs / f"{plan.name}.claim"

    def in_use(self, plan: RunPlan) -> bool:
        """Whether a worker is training the run."""
        from rankreg.train.folder import in_use

        return in_use(self.claim(plan)) or in_use(self.folder(plan))


@dataclass(frozen=True, eq=False)
class Answer:
    """A worker's answer: an outcome, or the reason why there is none."""

    outcome: Outcome | None = None
    reason: Literal["recorded", "busy", "stopped", "failed"] | None = None
    message: str = ""


def run_all(
    plans: Iterable[RunPlan],
    place: Place,
    *,
    workers: int | None = None,
    on: Literal["loky", "dask"] = "loky",
    address: str | None = None,
    report: Report = lambda plan, state: None,
) -> "Ledger":
    """Train the runs that have no record yet, in the order given, and record each one.

    A worker that dies takes its run with it. The run is tried again, from its last checkpoint.

    Args:
        plans: the runs.
        place: the folders.
        workers: processes of this machine, default one per core.
        on: "loky" for this machine, "dask" for an existing cluster.
        address: the Dask scheduler's.
        report: called with each plan that is "done" or "failed", and once with each that is "busy": another bench
            trains it, and this one waits for it.

    Returns:
        The names of the runs that are done, and of those that failed with the reason.

    Raises:
        ValueError: if no run has the data it needs, or the cluster cannot be used.
    """
    from rankreg_bench.runs import missing_data

    ledger = Ledger(RecordFolder(place.records), report)
    left = [plan for plan in unique(plans) if not ledger.records.has(plan)]
    if not left:
        return ledger
    with _cluster(address) if on == "dask" else nullcontext() as client:
        loaders, backend = sorted({plan.loader for plan in left}), _backend(client) if client else "loky"
        missing = _missing_there(client, loaders, place.data) if client else missing_data(loaders, place.data)
        left = ledger.with_data(left, missing)
        task = partial(attempt, place=place, bench=None if client else os.getpid())
        while left:
            try:
                with closing(run_parallel(task, left, workers=workers, backend=backend)) as found:
                    again = [plan for plan, answer in found if not ledger.settled(plan, answer)]
            except CancelledError as error:
                raise ValueError(
                    f"the Dask cluster has dropped the runs ({error}): start the same command again"
                ) from error
            while again and not any(ledger.records.has(plan) or not place.in_use(plan) for plan in again):
                time.sleep(PATIENCE)
            left = again
    return ledger


@dataclass(frozen=True)
class Ledger:
    """What became of the runs, by name: done, failed with the reason, reported as busy."""

    records: RecordFolder
    report: Report
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)

    def with_data(self, plans: Sequence[RunPlan], missing: Mapping[str, str]) -> list[RunPlan]:
        """The plans whose data are there; the others fail before they start."""
        if all(plan.loader in missing for plan in plans):
            raise ValueError("\n".join(dict.fromkeys(missing.values())))
        for plan in plans:
            if plan.loader in missing:
                self.settled(plan, Answer(reason="failed", message=missing[plan.loader]))
        return [plan for plan in plans if plan.loader not in missing]

    def settled(self, plan: RunPlan, answer: Answer | WorkerDied) -> bool:
        """Note the outcome or the failure; False if the run must be attempted again."""
        if isinstance(answer, WorkerDied):
            message = f"its worker died, also without others beside it: is memory short? ({answer.reason})"
            answer = Answer(reason="failed", message=message)
        if answer.outcome is not None and not self.records.has(plan):
            self.records.write(plan, answer.outcome)  # the worker has another disk
        if self.records.has(plan):  # perhaps written by another bench
            self.done.append(plan.name)
            self.report(plan, "done")
            return True
        if answer.reason == "failed":
            self.failed[plan.name] = answer.message
            self.report(plan, "failed")
            return True
        if answer.reason == "busy" and plan.name not in self.busy:
            self.busy.add(plan.name)
            self.report(plan, "busy")
        return False


def attempt(plan: RunPlan, place: Place, bench: int | None = None) -> Answer:
    """Train one run in a worker and record it. An error is an answer too and stops no other run.

    bench: the process id of the bench if it runs on this machine.
    """
    from rankreg.train import FolderInUseError
    from rankreg.train.folder import locked
    from rankreg_bench.runs import perform

    records, claim, folder = RecordFolder(place.records), place.claim(plan), place.folder(plan)
    answer = Answer(reason="recorded")
    try:
        with locked(claim), _TURN:  # from here to the record nobody else is at it
            if not records.has(plan):
                outcome = perform(plan, folder, place.data)
                records.write(plan, outcome)
                answer = Answer(outcome)
                shutil.rmtree(folder, ignore_errors=True)
    except FolderInUseError:
        return Answer(reason="busy")
    except KeyboardInterrupt:
        if bench == os.getpid():
            raise
        return Answer(reason="stopped")  # somebody ends this worker, not the bench
    except Exception as error:
        return Answer(reason="failed", message=f"{type(error).__name__}: {error}")
    shutil.rmtree(claim, ignore_errors=True)  # whoever waits for this very lock will find the record
    return answer


@contextmanager
def _cluster(address: str | None) -> Iterator["Client"]:
    """A client of the Dask cluster, once it has workers of one thread each; workers may come and go."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ValueError("--on dask needs the Dask extra: pip install 'rankreg[dask]'") from error
    if address is None:
        raise ValueError("--on dask needs --address, the scheduler's, such as tcp://10.0.0.1:8786")
    try:
        client = Client(address, timeout=DASK_PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=DASK_PATIENCE)
        except TimeoutError as error:
            raise ValueError(f"no workers at {address}: start some, dask worker {address} --nthreads 1") from error
        several = sorted(worker for worker, threads in client.nthreads().items() if threads > 1)
        if several:
            raise ValueError(
                f"{several[0]} has several threads, but a run needs its own process: start the workers with"
                " --nthreads 1 and, for more at once, --nworkers"
            )
        yield client


def _missing_there(client: "Client", loaders: Sequence[str], data_dir: Path | None) -> dict[str, str]:
    """By loader, what some worker of the cluster does not find."""
    from rankreg_bench.runs import missing_data

    try:
        found = client.run(missing_data, loaders, data_dir)
    except ImportError as error:
        raise ValueError(f"a Dask worker cannot import rankreg ({error}): install it there too") from error
    return {
        loader: f"{message} (on the worker {worker})"
        for worker, missing in found.items()
        for loader, message in missing.items()
    }


def _backend(client: "Client") -> Any:
    """joblib's Dask backend, except that it notices lost runs and leaves none to this process."""
    from joblib._dask import DaskDistributedBackend

    class Cluster(DaskDistributedBackend):  # type: ignore[misc] # joblib has no types
        def effective_n_jobs(self, n_jobs: int) -> int:
            found: int = super().effective_n_jobs(n_jobs)
            return max(2, found)  # joblib would do a single worker's jobs here

        def submit(self, func: Any, callback: Callable[[Any], None]) -> "Future[Any]":
            future: Future[Any] = super().submit(func, callback)
            number = func.items[0][1][1]  # of the task: the second argument of the pool's only call

            def answer(future: Future[Any]) -> None:
                """Answer for a run that was lost: joblib would wait for it forever."""
                if (error := future.exception()) is not None:
                    message = f"{type(error).__name__}: {error}"
                    callback((number, Answer(reason="failed", message=message)))

            future.add_done_callback(answer)
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, CancelledError):
                raise out
            return [out] if isinstance(out, tuple) else super().retrieve_result_callback(out)

    return Cluster(client=client)
