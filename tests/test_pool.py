"""Tasks in worker processes: results of all, in the order begun, and a deadly task alone is lost."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from rankreg.pool import WorkerDied, run_parallel

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


def square(number: int) -> int:
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number**2


def die_at(deadly: int, number: int) -> int:
    """A task that ends its own process as the system does when memory is short."""
    if number == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_once(folder: Path, number: int) -> int:
    mark = folder / str(number)
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def note_and_sleep(folder: Path, seconds: float) -> int:
    (folder / str(os.getpid())).touch()
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_has_its_result(workers: int) -> None:
    assert sorted(run_parallel(square, range(5), workers=workers)) == [(k, k**2) for k in range(5)]
    assert list(run_parallel(square, [], workers=workers)) == []


def test_a_single_worker_is_this_process_and_tasks_begin_in_order(tmp_path: Path) -> None:
    assert [task for task, _ in run_parallel(square, [3, 1, 2], workers=1)] == [3, 1, 2]
    assert [pid for _, pid in run_parallel(partial(note_and_sleep, tmp_path), [0.0], workers=2)] == [os.getpid()]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_function_is_raised_here(workers: int) -> None:
    with pytest.raises(ValueError, match="-1 is negative"):
        list(run_parallel(square, [1, -1, 2], workers=workers))


@on_linux
def test_a_task_whose_worker_was_killed_is_run_again(tmp_path: Path) -> None:
    assert sorted(run_parallel(partial(die_once, tmp_path), range(4), workers=2)) == [(k, k) for k in range(4)]


@on_linux
def test_a_task_that_always_kills_its_worker_is_lost_alone() -> None:
    found = dict(run_parallel(partial(die_at, 1), range(4), workers=2))
    lost = found.pop(1)
    assert isinstance(lost, WorkerDied)
    assert "SIGKILL" in lost.reason
    assert found == {0: 0, 2: 2, 3: 3}


@on_linux
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "from functools import partial; from pathlib import Path; from rankreg.pool import run_parallel;"
        "from tests.test_pool import note_and_sleep;"
        f"list(run_parallel(partial(note_and_sleep, Path({str(tmp_path)!r})), [600, 600], workers=2))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[1]) as parent:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        parent.kill()
    deadline = time.monotonic() + 20
    while any(_is_alive(int(file.name)) for file in tmp_path.iterdir()):
        assert time.monotonic() < deadline, "an orphan goes on"
        time.sleep(0.05)


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
