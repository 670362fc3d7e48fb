"""The runs of a grid, side by side on this machine's cores or on a Dask cluster; finished ones are never repeated.

joblib does both: loky for processes of this machine, its Dask backend for a cluster.
"""

import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankreg.extension import cores
from rankreg_bench.grids import RunPlan, unique
from rankreg_bench.records import Outcome, RecordFolder

if TYPE_CHECKING:
    from distributed import Client

Report = Callable[[RunPlan, str], None]
BEAT = 0.5  # seconds between two looks for the parent
DEATHS = 2  # of workers, without any run finishing in between, after which runs are attempted one by one
PATIENCE = 2.0  # seconds between two looks at what another bench is doing
DASK_PATIENCE = 10.0  # seconds for the scheduler to answer, and for a first worker to join
_TURN = threading.Lock()  # a run owns torch's random numbers: two at once in one process would share them


@dataclass(frozen=True)
class Place:
    """Where runs work: the folders of records, checkpoints and data, as every worker sees them."""

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
        """Whether a worker is at the run."""
        from rankreg.train import in_use

        return in_use(self.claim(plan)) or in_use(self.folder(plan))


@dataclass(frozen=True, eq=False)
class Answer:
    """A worker's answer: an outcome, or why there is none."""

    plan: RunPlan
    outcome: Outcome | None = None
    reason: Literal["recorded", "busy", "stopped", "failed"] | None = None
    message: str = ""


@dataclass(frozen=True)
class Pool:
    """Workers: `attempts` answers plans, begun in this order; `missing` says by loader which data they lack."""

    attempts: Callable[[Sequence[RunPlan], Place], Generator[Answer]]
    missing: Callable[[Sequence[str], Path | None], dict[str, str]]


def run_all(
    plans: Iterable[RunPlan],
    place: Place,
    *,
    workers: int | None = None,
    on: Literal["loky", "dask"] = "loky",
    address: str | None = None,
    report: Report = lambda plan, state: None,
) -> "Ledger":
    """Train what has no record yet, in the order given, and record each run as it comes in.

    report: called with every plan that is "done" or "failed", and once with each that is "busy": another bench
    trains it, and it is waited for. A worker that dies takes its run with it; the run is tried again, from its last
    checkpoint. ValueError if no run has the data it needs.
    """
    ledger = Ledger(RecordFolder(place.records), place, report)
    left = [plan for plan in unique(plans) if not ledger.records.has(plan)]
    if not left:
        return ledger
    with cluster_pool(address) if on == "dask" else local_pool(workers or cores()) as pool:
        left = ledger.with_data(left, pool)
        while left:
            with closing(persistently(left, place, pool)) as found:
                again = [answer.plan for answer in found if not ledger.settled(answer)]
            while again and not any(ledger.records.has(plan) or not place.in_use(plan) for plan in again):
                time.sleep(PATIENCE)
            left = again
    return ledger


@dataclass(frozen=True)
class Ledger:
    """What became of the runs, by name: done, failed with the reason, reported as busy."""

    records: RecordFolder
    place: Place
    report: Report
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)

    def with_data(self, plans: Sequence[RunPlan], pool: Pool) -> list[RunPlan]:
        """The plans whose data are there; the others fail before they start."""
        missing = pool.missing(sorted({plan.loader for plan in plans}), self.place.data)
        if all(plan.loader in missing for plan in plans):
            raise ValueError("\n".join(dict.fromkeys(missing.values())))
        for plan in plans:
            if plan.loader in missing:
                self.settled(Answer(plan, reason="failed", message=missing[plan.loader]))
        return [plan for plan in plans if plan.loader not in missing]

    def settled(self, answer: Answer) -> bool:
        """Note the outcome or the failure; False if the run must be attempted again."""
        plan = answer.plan
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


def persistently(plans: Sequence[RunPlan], place: Place, pool: Pool) -> Generator[Answer]:
    """An answer for every plan, also when workers die: their runs are attempted again, in the end one by one."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left, deaths = list(plans), 0
    while left:
        alone = deaths >= DEATHS  # loky ends all workers with the one that died, so the culprit is not known
        try:
            with closing(pool.attempts(left[:1] if alone else left[:], place)) as found:  # left changes meanwhile
                for answer in found:
                    left.remove(answer.plan)
                    deaths = 0
                    yield answer
        except TerminatedWorkerError as error:
            deaths += 1
            if alone:
                reason = " ".join(str(error).split())
                message = f"its worker died, also without others beside it: is memory short? ({reason})"
                yield Answer(left.pop(0), reason="failed", message=message)


def attempt(plan: RunPlan, place: Place, bench: int | None = None) -> Answer:
    """One run in a worker, recorded by it; an error is an answer too, and stops no other run.

    bench: the process id of the bench, if it is the worker's parent: the worker ends with it.
    """
    from rankreg.train import FolderInUseError, locked
    from rankreg_bench.runs import perform

    if bench is not None and bench != os.getpid():
        end_with(bench)
    records, claim, folder = RecordFolder(place.records), place.claim(plan), place.folder(plan)
    answer = Answer(plan, reason="recorded")
    try:
        with locked(claim), _TURN:  # from here to the record nobody else is at it
            if not records.has(plan):
                outcome = perform(plan, folder, place.data)
                records.write(plan, outcome)
                answer = Answer(plan, outcome)
                shutil.rmtree(folder, ignore_errors=True)
    except FolderInUseError:
        return Answer(plan, reason="busy")
    except KeyboardInterrupt:
        if bench == os.getpid():
            raise
        return Answer(plan, reason="stopped")  # somebody ends this worker, not the bench
    except Exception as error:
        return Answer(plan, reason="failed", message=f"{type(error).__name__}: {error}")
    shutil.rmtree(claim, ignore_errors=True)  # whoever waits for this very lock will find the record
    return answer


def end_with(parent: int) -> None:
    """End this process when its parent is gone.

    loky's workers do not watch their parent: after a kill of the bench they would go on, for hours with large runs.
    Only the epoch under way is lost. (Windows does not tell: an orphan finishes its run there.)
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(BEAT)
        os._exit(1)

    name = f"watching {parent}"
    if name not in {thread.name for thread in threading.enumerate()}:
        threading.Thread(target=watch, name=name, daemon=True).start()


def answers(plans: Sequence[RunPlan], place: Place, ahead: str, bench: int | None = None) -> Generator[Answer]:
    """Attempt the plans on joblib's current backend, so many dispatched ahead, and answer as they come in."""
    from joblib import Parallel, delayed

    jobs = (delayed(attempt)(plan, place, bench) for plan in plans)
    found = Parallel(batch_size=1, return_as="generator_unordered", pre_dispatch=ahead)(jobs)
    try:
        for answer in found:  # noqa: UP028 - `yield from` would close it outside of the `finally`
            yield answer
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of work that is left unused on purpose
            found.close()


@contextmanager
def local_pool(workers: int) -> Iterator[Pool]:
    """Processes of this machine, one thread each; they end with the pool."""
    from joblib import parallel_config
    from joblib.externals.loky import get_reusable_executor

    from rankreg_bench.runs import missing_data

    with warnings.catch_warnings(), parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
        # joblib replaces a process that holds 300 MB more than at first, as one with images does
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
        try:
            yield Pool(lambda plans, place: answers(plans, place, "n_jobs", bench=os.getpid()), missing_data)
        finally:
            if workers > 1:  # joblib runs a single worker's jobs in this process
                get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


@contextmanager
def cluster_pool(address: str | None) -> Iterator[Pool]:
    """The workers of an existing Dask cluster; they may come and go."""
    with _client(address) as client:
        from joblib import parallel_config

        def attempts(plans: Sequence[RunPlan], place: Place) -> Generator[Answer]:
            try:
                yield from answers(plans, place, "all")  # so that workers who join later find work
            except CancelledError as error:
                raise ValueError(
                    f"the Dask cluster has dropped the runs ({error}): start the same command again"
                ) from error

        with parallel_config(_backend()(client=client)):
            yield Pool(attempts, partial(_missing, client))


@contextmanager
def _client(address: str | None) -> Iterator["Client"]:
    """A client of the cluster, once it has workers of one thread each."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ValueError("--on dask needs the Dask extra: pip install 'rankreg[dask]'") from error
    if address is None:
        raise ValueError("--on dask needs --address, the scheduler's: such as tcp://10.0.0.1:8786")
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


def _missing(client: "Client", loaders: Sequence[str], data_dir: Path | None) -> dict[str, str]:
    """By loader, what some worker does not find."""
    from rankreg_bench.runs import missing_data

    try:
        found = client.run(missing_data, loaders, data_dir)
    except ImportError as error:
        raise ValueError(f"a Dask worker cannot import rankreg ({error}): install it there too") from error
    return {
        loader: f"{message} (says the worker {worker})"
        for worker, missing in found.items()
        for loader, message in missing.items()
    }


def _backend() -> Any:
    """joblib's Dask backend, except that it notices lost runs and leaves none to this process."""
    from joblib._dask import DaskDistributedBackend

    class Cluster(DaskDistributedBackend):  # type: ignore[misc] # joblib has no types
        def effective_n_jobs(self, n_jobs: int) -> int:
            found: int = super().effective_n_jobs(n_jobs)
            return max(2, found)  # joblib would do a single worker's jobs here

        def submit(self, func: Any, callback: Callable[[Any], None]) -> "Future[Any]":
            future: Future[Any] = super().submit(func, callback)
            plan = func.items[0][1][0]  # the first argument of the only call

            def answer(future: Future[Any]) -> None:
                """Answer for a run that was lost: joblib would wait for it forever."""
                if (error := future.exception()) is not None:
                    callback(Answer(plan, reason="failed", message=f"{type(error).__name__}: {error}"))

            future.add_done_callback(answer)
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, CancelledError):
                raise out
            return [out] if isinstance(out, Answer) else super().retrieve_result_callback(out)

    return Cluster
