"""Ctrl-C, and the signal by which clusters take a machine back: finish the step, save, leave."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A run was asked to stop and has saved itself; the message says how to go on."""


class Request:
    """Whether somebody asked the run to stop."""

    made = False


@contextmanager
def stop_requests() -> Iterator[Request]:
    """Turn the first SIGINT or SIGTERM into a request; a second one acts at once, as usual."""
    request = Request()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield request
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        request.made = True
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
