"""Files from strangers: read as data, within bounds; what is wrong with one is a ValueError that names it."""

import io
import json
import math
import stat
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_JSON = 20_000_000  # bytes
LARGEST_TOML = 1_000_000
LARGEST_ARRAYS = 4_000_000_000  # unpacked
DEEPEST = 100  # lists and objects inside each other
HIGHEST = 10**300  # every whole number up to here is a float too
TOML_HIGHEST = 2**63 - 1  # whole numbers have 64 bits there


def check_regular(path: Path) -> None:
    """A file with an end: a device or a pipe may have none, and would be waited for without one."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ValueError(f"{path} is a folder: give a file")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is not a regular file but a device, a pipe or a socket: save its content first")


def read_json(path: Path, advice: str = "") -> Any:
    """What the JSON file holds; advice: what to do if it cannot be read, the end of the message."""
    raw = read_within(path, LARGEST_JSON)
    try:
        content = json.loads(raw.decode())
        _check_values(content, HIGHEST)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is truncated or not JSON ({_reason(error)}){advice}") from error
    return content


def read_toml(path: Path) -> dict[str, Any]:
    """What the TOML file holds."""
    raw = read_within(path, LARGEST_TOML)
    try:
        content = tomllib.loads(raw.decode())
        _check_values(content, TOML_HIGHEST)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a TOML file: {_reason(error)}") from error
    return content


def read_arrays(path: Path) -> "dict[str, NDArray[Any]]":
    """The arrays in an .npz file, by name; none is made of Python objects."""
    import numpy as np

    content = io.BytesIO(read_within(path, LARGEST_ARRAYS))  # from here on a fault is the content's, not the disk's
    try:
        with zipfile.ZipFile(content) as archive:
            _check_sizes(archive)
        content.seek(0)
        with np.load(content, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # bad bytes make numpy and zipfile raise anything
        raise ValueError(f"{path} holds no arrays or is damaged ({_reason(error)})") from error


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """No array claims more bytes than its file has: numpy sets them aside before it reads."""
    from numpy.lib import format as npy

    size = sum(member.file_size for member in archive.infolist())
    if size > LARGEST_ARRAYS:
        raise ValueError(f"unpacked it has {size:,} bytes, more than {LARGEST_ARRAYS:,}")
    for member in archive.infolist():
        with archive.open(member) as file:
            read_header = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read_header(file)
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"{member.filename} is shorter than it says")


def read_within(path: Path, most: int) -> bytes:
    """All of a regular file, unless it has more bytes than that."""
    check_regular(path)
    size = path.stat().st_size
    if size > most:
        raise ValueError(f"{path} has {size:,} bytes, more than {most:,} bytes")
    with path.open("rb") as file:
        return file.read(size)  # not more, should it grow


def _check_values(content: Any, highest: int) -> None:
    """Not nested too deeply for what comes after, and no whole number that is too large for it."""
    level = [content]
    for _ in range(DEEPEST):
        deeper: list[Any] = []
        for value in level:
            if isinstance(value, dict | list):
                deeper += value.values() if isinstance(value, dict) else value
            elif isinstance(value, int) and abs(value) > highest:
                raise ValueError(f"a whole number in it has {value.bit_length():,} bits")
        if not deeper:
            return
        level = deeper
    raise ValueError("it is nested too deeply")


def _reason(error: BaseException) -> str:
    """The first line of what was wrong."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return (str(error) or type(error).__name__).splitlines()[0]
