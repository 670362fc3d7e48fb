"""Files that are there whole or, after a crash or on a full disk, as they were before."""

import os
import sys
from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Write under another name, then rename; the folder must exist.

    shared: others, on whatever machines, may be writing the same file. Without, what a kill left behind is written
    over.
    """
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}.unfinished" if shared else f"{path.name}.unfinished")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    if sys.platform != "win32":  # the new name must survive a power cut too
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
