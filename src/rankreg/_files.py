"""Files that are there whole or, after a crash or on a full disk, as they were before."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4

STANDARD_OUTPUT = 1  # its number


def write_whole(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Write all of it, or nothing; see `whole_file`."""
    with whole_file(path, shared=shared) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, *, shared: bool = False) -> Iterator[IO[bytes]]:
    """A file to write into that takes its name once it is whole; the folder must exist.

    A symbolic link stays, and the file it leads to is replaced. Pipes, terminals, /dev/null and the standard output
    are written into as they are; other devices, sockets and folders are refused.

    shared: others, on whatever machines, may be writing the same file. Without, what a kill left behind is written
    over.
    """
    if is_stream(path):
        with _opened_stream(path) as stream:
            yield stream
        return
    target = path.resolve()
    unfinished = target.with_name(
        f"{target.name}.{uuid4().hex}.unfinished" if shared else f"{target.name}.unfinished"
    )
    unfinished.unlink(missing_ok=True)  # never written through a link that somebody put there
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    if sys.platform != "win32":  # the new name must survive a power cut too
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def is_stream(path: Path) -> bool:
    """Whether what is written there is passed on at once: to a pipe, a terminal, /dev/null, the standard output.

    A folder, another device or a socket is a ValueError: nothing can be written there, or should be.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(found.st_mode):
        raise ValueError(f"{path} is a folder: give the name of a file to write")
    if _is_standard_output(found) or stat.S_ISFIFO(found.st_mode):
        return True
    if stat.S_ISREG(found.st_mode):
        return False
    if stat.S_ISCHR(found.st_mode) and found.st_rdev in _harmless_devices():
        return True
    raise ValueError(f"{path} is a device or a socket: give the name of a file to write")


def _is_standard_output(found: os.stat_result) -> bool:
    try:
        return os.path.samestat(found, os.fstat(STANDARD_OUTPUT))
    except OSError:  # it was closed
        return False


def _harmless_devices() -> set[int]:
    """/dev/null and the terminals of this process; no other device is opened even to ask what it is."""
    terminals = {os.fstat(number).st_rdev for number in (0, 1, 2) if os.isatty(number)}
    return terminals | {place.stat().st_rdev for place in (Path(os.devnull), Path("/dev/tty")) if place.exists()}


def _opened_stream(path: Path) -> IO[bytes]:
    if _is_standard_output(path.stat()):  # opened by its name, a file behind it would be emptied
        sys.stdout.flush()
        return os.fdopen(os.dup(STANDARD_OUTPUT), "wb")
    return path.open("wb")
