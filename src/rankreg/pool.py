"""Processes of this machine: how many cores there are, and tasks side by side in worker processes."""

import ctypes
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

DEATHS = 2  # of workers in a row without a result; then tasks run one at a time to find the deadly one
PR_SET_PDEATHSIG = 1  # of Linux's prctl.h


@dataclass(frozen=True)
class WorkerDied:
    """What `run_parallel` gives for a task that killed its worker process.

    reason: what is known about it, e.g. the signal.
    """

    reason: str


def run_parallel(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    workers: int | None = None,
    backend: Any = "loky",
) -> Generator[tuple[Task, Result | WorkerDied]]:
    """Call a function on every task, side by side in worker processes.

    Tasks begin in the order given. Results come as they are ready. Each worker uses one thread, ignores
    Ctrl-C, and ends when this process ends (killed, too: on Linux). Closing the generator ends all workers.

    A worker that dies (killed, out of memory) takes the tasks under way with it. They are started again,
    so a task must survive being run twice. After two deaths in a row tasks run one at a time: the deadly
    task alone is given up and comes with a `WorkerDied` in place of a result.

    Function and tasks must be picklable. workers: one per core by default; with one (or one task) and
    the default backend everything runs in this process. backend: "loky", or a joblib backend such as
    the Dask one, whose cluster has its own workers. What the function raises ends all tasks.
    """
    from joblib import parallel_config
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left, deaths = dict(enumerate(tasks)), 0
    local = backend == "loky"
    count = min(workers or cores(), max(1, len(left)))
    settings = {"n_jobs": count, "inner_max_num_threads": 1} if local else {}
    with warnings.catch_warnings(), parallel_config(backend, **settings):
        # joblib replaces a process that holds 300 MB more than at first, as one with images does
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
        try:
            while left:
                alone = deaths >= DEATHS  # loky ends all workers with the one that died: nobody knows which
                now = dict([next(iter(left.items()))]) if alone else dict(left)
                try:
                    for place, result in _results(function, now, pre_dispatch="n_jobs" if local else "all"):
                        deaths = 0
                        yield left.pop(place), result
                except TerminatedWorkerError as error:
                    deaths += 1
                    if alone:
                        yield left.pop(next(iter(now))), WorkerDied(" ".join(str(error).split()))
        finally:
            if local and count > 1:
                get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def _results(
    function: Callable[[Task], Result], tasks: dict[int, Task], *, pre_dispatch: str
) -> Generator[tuple[int, Result]]:
    """Each task's number and result, on joblib's current backend."""
    from joblib import Parallel, delayed

    jobs = (delayed(_call)(task, place, function, os.getpid()) for place, task in tasks.items())
    found = Parallel(batch_size=1, return_as="generator_unordered", pre_dispatch=pre_dispatch)(jobs)
    try:
        for pair in found:  # noqa: UP028 - `yield from` would close it outside of the `finally`
            yield pair
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of work that is left unused on purpose
            found.close()


def _call(task: Task, place: int, function: Callable[[Task], Result], parent: int) -> tuple[int, Result]:
    """Run one task; a child of `parent` is a worker, unless it is a Dask worker, which runs tasks in a thread."""
    if os.getppid() == parent and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches all; the parent ends us
        if sys.platform == "linux":  # elsewhere an orphan finishes its task
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return place, function(task)


def cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Let this process reuse the memory it frees instead of returning it to the system.

    Small networks train a sixth faster: glibc maps every block above 128 kB anew, and the system clears its pages.
    On other systems nothing happens. The process keeps its largest footprint, so only workers should call this.
    """
    trim_threshold, mmap_threshold = -1, -3  # of malloc.h
    if sys.platform == "linux":
        allocator = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if allocator is not None:
            allocator(mmap_threshold, 2**30)
            allocator(trim_threshold, 2**31 - 1)


def return_freed_memory() -> None:
    """Give memory that was freed back to the system; on systems without glibc nothing happens."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
