"""Image files as uint8 arrays of one size, kept decoded on disk when there are many."""

import hashlib
import io
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray
from PIL import Image

from rankreg._images import read_rgb
from rankreg.datasets._progress import progress_bar

try:
    import fcntl
except ImportError:  # Windows: two processes decoding at once repeat the work
    fcntl = None  # type: ignore[assignment]

Pixels = NDArray[np.uint8]
Size = tuple[int, int]
SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
CHUNK = 256  # images between two writes to the cache
SHOWN = 5  # bad files named in an error
SMALLEST = 8
MOST_PIXELS = 4096  # along one side: a larger number is a slip or a fault, and would fill the memory


def image_size(size: int | Sequence[int]) -> Size:
    """(height, width), from one number or two."""
    sides = (size, size) if isinstance(size, int | np.integer) else tuple(size)
    good = [isinstance(side, int | np.integer) and SMALLEST <= side <= MOST_PIXELS for side in sides]
    if len(sides) != 2 or not all(good):
        raise ValueError(
            "size must be one whole number or (height, width), each at least"
            f" {SMALLEST} and at most {MOST_PIXELS} pixels: got {size!r}"
        )
    return int(sides[0]), int(sides[1])


def read_image(source: Path | bytes, size: Size) -> Pixels:
    """One image as `read_rgb` reads it, squeezed to (height, width); ValueError if it cannot be read."""
    height, width = size
    upright = read_rgb(io.BytesIO(source) if isinstance(source, bytes) else source, 2 * max(size))
    if upright.size != (width, height):
        upright = upright.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return np.asarray(upright)


def decode(
    sources: Sequence[Path] | Sequence[bytes], names: Sequence[str], size: Size, *, cache: Path | None = None
) -> Pixels:
    """All images (N, height, width, 3); with `cache`, a folder, they are decoded once and then mapped from disk.

    Unreadable files are an error that names the first few of them. An interrupted decoding goes on where it was.
    """
    shape = (len(sources), *size, 3)
    if cache is None:
        images = np.empty(shape, dtype=np.uint8)
        for start, chunk in _chunks(sources, names, size, 0):
            images[start : start + len(chunk)] = chunk
        return images
    path = cache / f"{size[0]}x{size[1]}-{_fingerprint(sources, names)}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(path.with_suffix(".lock")):
            if not path.exists():  # another process may have made it meanwhile
                _write(path, sources, names, shape)
    mapped: Pixels = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def cache_folder(given: Path | str | None, home: Path) -> Path:
    """Where decoded images go: the folder given, else "decoded" beside the data, else the user's cache."""
    if given is not None:
        return Path(given).expanduser()
    writable = os.access(home, os.W_OK) and home.stat().st_mode & stat.S_IWUSR  # root may write what is read-only
    return home / "decoded" if writable else platformdirs.user_cache_path("rankreg") / "decoded"


def _write(path: Path, sources: Sequence[Any], names: Sequence[str], shape: tuple[int, int, int, int]) -> None:
    """An .npy file, appended to under another name until whole; its length says how far it came.

    Written, not mapped: a full disk is then an error and not a crash.
    """
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    start, row = len(header.getvalue()), shape[1] * shape[2] * 3
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("ab") as file:
        done = max(file.tell() - start, 0) // row // CHUNK * CHUNK
        file.truncate(start + done * row if done else 0)
        if not done:
            file.write(header.getvalue())
        for _, chunk in _chunks(sources, names, (shape[1], shape[2]), done):
            file.write(chunk.tobytes())
            file.flush()
            os.fsync(file.fileno())
    unfinished.replace(path)


def _chunks(
    sources: Sequence[Any], names: Sequence[str], size: Size, first: int
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Decoded images in order, a chunk at a time, with the place of each chunk."""
    bad: list[str] = []

    def attempt(k: int) -> Pixels | str:
        try:
            return read_image(sources[k], size)
        except (ValueError, FileNotFoundError) as error:
            return f"{names[k]} ({'missing' if isinstance(error, FileNotFoundError) else error})"

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool, progress_bar() as progress:
        task = progress.add_task("decoding images", total=len(sources), completed=first)
        for start in range(first, len(sources), CHUNK):
            results = list(pool.map(attempt, range(start, min(start + CHUNK, len(sources)))))
            bad += [result for result in results if isinstance(result, str)]
            progress.advance(task, len(results))
            if not bad:
                yield start, np.stack([result for result in results if not isinstance(result, str)])
            elif len(bad) > SHOWN:
                break
    if bad:
        more = " and more" if len(bad) > SHOWN else ""
        raise ValueError(f"cannot read {', '.join(bad[:SHOWN])}{more}: repair or remove these images")


def _fingerprint(sources: Sequence[Any], names: Sequence[str]) -> str:
    """Changes when a file does."""
    digest = hashlib.blake2b(digest_size=8)
    for source, name in zip(sources, names, strict=True):
        if isinstance(source, Path):
            state = source.stat() if source.exists() else None
            digest.update(f"{name}\0{state and (state.st_size, state.st_mtime_ns)}\0".encode())
        else:
            digest.update(hashlib.blake2b(source).digest())
    return digest.hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process decodes the same images; the lock dies with its process, its file stays."""
    with path.open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
