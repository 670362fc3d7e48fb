"""Processes that run trials: each takes one after the other until none is left, and ends when its parent does."""

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Semaphore
from queue import Empty
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from rankreg.tune.search import Request

News = tuple[str, str]  # what kind, and what it says


def run_in_processes(request: "Request", trials: int, workers: int, look: Callable[[str], None]) -> None:
    """Run so many trials in so many processes; the first fault of one ends all, and is raised here."""
    fresh = multiprocessing.get_context("spawn")  # a forked torch may hang
    tickets, news = fresh.Semaphore(trials), fresh.Queue()
    crew = [fresh.Process(target=work, args=(request, tickets, news), daemon=True) for _ in range(workers)]
    try:
        for process in crew:
            process.start()
        while any(process.is_alive() for process in crew):
            _listen(news, look)
        _listen(news, look)
        if any(process.exitcode for process in crew):
            raise ValueError(
                "a process of the search has ended before its time, perhaps because memory ran out: the same"
                " command again goes on, with fewer --workers if need be"
            )
    finally:
        for process in crew:
            if process.pid is not None:
                process.terminate()
                process.join()


def _listen(news: "Queue[News]", look: Callable[[str], None]) -> None:
    """Wait a moment, then hear all there is; of what is under way, show the latest."""
    latest, wait = "", 0.5
    try:
        while True:
            kind, latest = news.get(timeout=wait)
            if kind == "fault":
                raise ValueError(latest)
            wait = 0.01
    except Empty:
        if latest:
            look(latest)


def work(request: "Request", tickets: Semaphore, news: "Queue[News]") -> None:
    """What a process does; Ctrl-C is for its parent, which ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    from rankreg.tune.search import run_one

    parent = multiprocessing.parent_process()

    def beat(doing: str) -> None:
        if parent is not None and not parent.is_alive():
            news.cancel_join_thread()  # nobody listens any more
            raise SystemExit("the search has ended")
        news.put(("progress", doing))

    try:
        study, parts = request.open(), request.parts()
        while tickets.acquire(block=False):
            run_one(study, request.plan, parts, beat)
    except (ValueError, OSError) as error:
        news.put(("fault", str(error)))
