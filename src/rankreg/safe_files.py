"""Files of any origin, read as data and within bounds. Files that we write are whole, or as they were before."""

import errno
import io
import json
import math
import os
import stat
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

LARGEST_JSON = 20_000_000  # bytes
LARGEST_TOML = 1_000_000
LARGEST_ARRAYS = 4_000_000_000  # unpacked
DEEPEST = 100  # lists and objects inside each other
HIGHEST = 10**300  # every whole number up to here is a float too
TOML_HIGHEST = 2**63 - 1  # whole numbers have 64 bits there
STANDARD_OUTPUT = 1  # its number
# Others that Pillow knows are not images from a camera, and some start another program.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")


def check_regular(path: Path) -> None:
    """A file with an end: a device or a pipe may have none, and would be waited for without one."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ValueError(f"{path} is a folder: give a file")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is not a regular file but a device, a pipe or a socket: save its content first")


def read_json(path: Path, advice: str = "") -> Any:
    """What a JSON file holds.

    advice: the end of the message if the file cannot be read: what to do.
    """
    raw = read_within(path, LARGEST_JSON)
    try:
        content = json.loads(raw.decode())
        _check_values(content, HIGHEST)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is truncated or not JSON ({_reason(error)}){advice}") from error
    return content


def write_json(path: Path, content: Any) -> None:
    """Write JSON that people can read, whole or not at all."""
    write_whole(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


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
    """The arrays in an .npz file, by name. Python objects are refused."""
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


def write_whole(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Write a file that is there whole or, after a crash or on a full disk, as it was before."""
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
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None:
            error.filename = str(path)  # the system does not say which disk is full
        raise
    finally:
        unfinished.unlink(missing_ok=True)
    if sys.platform != "win32":  # the new name must survive a power cut too
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def check_not_read(out: Path, read: Iterable[Path]) -> None:
    """Refuse to write over a file that is read: the user's data would be lost."""
    if any(out.resolve() == one.resolve() for one in read) and not is_stream(out):
        raise ValueError(f"{out} is the data itself: choose another file to write")


def is_stream(path: Path) -> bool:
    """Whether what is written there is passed on at once: to a pipe, a terminal, /dev/null, the standard output."""
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


class NoRangeError(ValueError):
    """Pixels of which nobody can say what is black and what is white."""


def read_rgb(source: Path | IO[bytes], side: int) -> "Image":
    """One image, turned upright by its EXIF note; a ValueError says why it cannot be read.

    side: a photograph much larger than this may be decoded at a fraction of its size. 16-bit pixels are divided by
    256. 32-bit and floating-point pixels are refused (NoRangeError).
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        if isinstance(source, Path):
            check_regular(source)
        with Image.open(source, formats=FORMATS) as image:
            image.draft("RGB", (side, side))
            return _eight_bit(ImageOps.exif_transpose(image), image.format).convert("RGB")
    except (FileNotFoundError, NoRangeError):
        raise
    except UnidentifiedImageError as error:
        raise ValueError("not an image") from error
    except Exception as error:  # bad bytes make Pillow raise anything
        raise ValueError(str(error) or type(error).__name__) from error


def _eight_bit(image: "Image", kind: str | None) -> "Image":
    """Pillow would clip wider pixels at 255, and turn fractions into black."""
    import numpy as np
    from PIL import Image

    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PNG"):  # which has 16 bits at most
        return Image.fromarray((np.asarray(image) // 256).astype(np.uint8))
    if image.mode in ("I", "F"):
        wide = "floating-point" if image.mode == "F" else "32-bit"
        raise NoRangeError(
            f"{wide} pixels, which do not say what is black and what is white: save the image with 8 or 16 bits"
        )
    return image
