"""Fetching a file: resumed where it broke off, checked by md5, whole or not there."""

import hashlib
import http.client
import urllib.error
import urllib.request
from pathlib import Path

from rankreg._names import look_up
from rankreg.datasets._progress import progress_bar
from rankreg.datasets.catalog import CATALOG, data_folder, find

ATTEMPTS = 4
BLOCK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte


def get(name: str, data_dir: Path | str | None = None) -> Path:
    """Download a data set unless it is there; where it is."""
    entry = look_up(CATALOG, name, "data set")
    if (place := find(name, data_dir)) is not None:
        if place.is_file() and entry.md5 is not None and file_md5(place) != entry.md5:
            raise ValueError(f"{place} is not the official file, or is damaged: remove it and get it again")
        return place
    if entry.url is None or entry.md5 is None:
        raise ValueError(f"no download for {entry.title}: {entry.by_hand} (data folder: {data_folder(data_dir)})")
    target = data_folder(data_dir) / entry.url.rpartition("/")[2]
    try:
        fetch(entry.url, target, entry.md5)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"could not get {entry.title}: {error}. By hand: {entry.by_hand} and put it into {target.parent}"
        ) from error
    return target


def fetch(url: str, target: Path, md5: str, *, attempts: int = ATTEMPTS, timeout: float = TIMEOUT) -> None:
    """Write the file at `url` to `target` if its md5 is right.

    What has come stays in a .part file beside it, and the next attempt or the next call asks only for the rest.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for attempt in range(1, attempts + 1):
        try:
            _append(url, part, timeout)
            break
        except urllib.error.HTTPError as error:
            raise ValueError(f"{url} answers {error.code} {error.reason}") from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            if attempt == attempts:
                kept = f"; {part} is kept, and the same command goes on from there" if part.exists() else ""
                raise ValueError(f"{url}: {getattr(error, 'reason', error)}{kept}") from error
    found = file_md5(part)
    if found != md5:
        part.unlink()
        raise ValueError(f"{url} has md5 {found}, expected {md5}: the file was damaged on the way or has changed")
    part.replace(target)


def file_md5(path: Path) -> str:
    """The md5 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _append(url: str, part: Path, timeout: float) -> None:
    """Add what is missing to the .part file; ConnectionError if the stream ends early."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "rankreg"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:
            if error.headers.get("Content-Range", "").endswith(f"/{have}"):
                return  # nothing is missing
            part.unlink()
            raise ConnectionError("the part on disk is longer than the file: starting again") from error
        raise
    with response, progress_bar(in_bytes=True) as progress:
        resumed = response.status == 206
        expected = response.headers.get("Content-Length")
        total = int(expected) + (have if resumed else 0) if expected else None
        task = progress.add_task(part.name.removesuffix(".part"), total=total, completed=have if resumed else 0)
        size = have if resumed else 0
        with part.open("ab" if resumed else "wb") as file:
            while block := response.read(BLOCK):
                file.write(block)
                size += len(block)
                progress.advance(task, len(block))
    if total is not None and size < total:
        raise ConnectionError(f"the connection broke off after {size} of {total} bytes")
