"""Runs on an existing Dask cluster, through joblib's Dask backend."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankreg.bench.planning import Plan
from rankreg.bench.training import missing_data
from rankreg.bench.workers import Answer, Place, Pool, answers

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 10.0  # seconds for the scheduler to answer, and for a first worker to join


@contextmanager
def cluster_pool(address: str | None) -> Iterator[Pool]:
    """The cluster's workers; they may come and go."""
    with _client(address) as client:
        from joblib import parallel_config

        def attempts(plans: Sequence[Plan], place: Place) -> Generator[Answer]:
            try:
                yield from answers(plans, place, "all")  # so that workers who join later find work
            except CancelledError as error:
                raise ValueError(
                    f"the Dask cluster has dropped the runs ({error}): the same command goes on with what is left"
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
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise ValueError(f"no workers at {address}: start some, dask worker {address} --nthreads 1") from error
        several = sorted(worker for worker, threads in client.nthreads().items() if threads > 1)
        if several:
            raise ValueError(
                f"{several[0]} has several threads, but a run owns its process: start the workers with --nthreads 1"
                " and, for more at once, --nworkers"
            )
        yield client


def _missing(client: "Client", loaders: Sequence[str], data_dir: Path | None) -> dict[str, str]:
    """By loader, what some worker does not find."""
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
            future.add_done_callback(partial(_answer_for, plan, callback))
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, CancelledError):
                raise out
            return [out] if isinstance(out, Answer) else super().retrieve_result_callback(out)

    return Cluster


def _answer_for(plan: Plan, callback: Callable[[Any], None], future: "Future[Any]") -> None:
    """Answer for a run that was lost: joblib would wait for it forever."""
    if (error := future.exception()) is not None:
        callback(Answer(plan, reason="failed", message=f"{type(error).__name__}: {error}"))
