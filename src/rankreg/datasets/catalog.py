"""The data sets: where they are on this machine, and how to download them."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from rankreg.names import look_up
from rankreg.terminal import progress_bar

VARIABLE = "RANKREG_DATA"
ATTEMPTS = 4
BLOCK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Entry:
    """A data set: files or folders any one of which means that it is there, and how to get it."""

    title: str
    found_by: tuple[str, ...]  # relative to the data folder, the first choice first
    by_hand: str
    url: str | None = None
    md5: str | None = None
    package: tuple[str, str] | None = None  # an installed package that holds it, and the file inside


def _cifar(number: int, folder: str, md5: str) -> Entry:
    archive = f"cifar-{number}-python.tar.gz"
    return Entry(
        title=f"CIFAR-{number}",
        found_by=(folder, archive),
        by_hand=f"download {archive} from https://www.cs.toronto.edu/~kriz/cifar.html (no need to unpack it)",
        url=f"https://www.cs.toronto.edu/~kriz/{archive}",
        md5=md5,
    )


CATALOG: dict[str, Entry] = {
    "cifar10": _cifar(10, "cifar-10-batches-py", "c58f30108f718f92721af3b95e74349a"),
    "cifar100": _cifar(100, "cifar-100-python", "eb9058c3a382ffc7106e4002c42a8d85"),
    "melanoma": Entry(
        title="ISIC 2020 / Kaggle SIIM Melanoma",
        found_by=("melanoma/train.csv", "siim-isic-melanoma-classification/train.csv", "train.csv"),
        by_hand="accept the terms at https://www.kaggle.com/c/siim-isic-melanoma-classification/data or"
        " https://challenge2020.isic-archive.com and put train.csv and jpeg/train/*.jpg (or train/*.jpg)"
        " into the folder melanoma",
    ),
    "ham10000": Entry(
        title="HAM10000",
        found_by=(
            "ham10000/HAM10000_metadata.csv",
            "ham10000/HAM10000_metadata",
            "ham10000/ham10000_64x48.npz",
            "HAM10000_metadata.csv",
            "HAM10000_metadata",
            "ham10000_64x48.npz",
        ),
        by_hand="download HAM10000_metadata and HAM10000_images_part_1.zip and _2.zip from"
        " https://doi.org/10.7910/DVN/DBW86T, unpack the images, and put all into the folder ham10000",
    ),
    "elpv": Entry(
        title="ELPV solar cells",
        found_by=("elpv/labels.csv", "elpv-dataset/src/elpv_dataset/data/labels.csv", "labels.csv"),
        by_hand="pip install elpv-dataset (90 MB of images, CC BY-NC-SA 4.0), or put its labels.csv and images"
        " into the folder elpv",
        package=("elpv_dataset", "data/labels.csv"),
    ),
    "digits": Entry(title="scikit-learn digits", found_by=(), by_hand="it comes with scikit-learn, nothing to get"),
}


def data_folder(given: Path | str | None = None) -> Path:
    """The folder of the data sets: the one given, else $RANKREG_DATA, else the user's cache."""
    if given is not None:
        return Path(given).expanduser()
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return platformdirs.user_cache_path("rankreg") / "data"


def find(name: str, given: Path | str | None = None) -> Path | None:
    """Where the data set is: the folder may hold it, or the path may be one of its files or folders itself."""
    place, entry = data_folder(given), CATALOG[name]
    for choice in entry.found_by:
        tail = Path(choice)
        if place.name == tail.name and place.exists():
            return place
        if (place / tail).exists():
            return place / tail
    package, file = entry.package or ("", "")
    found = find_spec(package) if package else None  # the package's code is not run
    places = [Path(folder) / file for folder in (found.submodule_search_locations or ())] if found else []
    return next((place for place in places if place.is_file()), None)


def located(name: str, given: Path | str | None = None) -> Path:
    """Where the data set is, or an error that says how to get it."""
    place = find(name, given)
    if place is None:
        entry = CATALOG[name]
        get = f"run `rankreg data get {name}`, or " if entry.url else ""
        raise FileNotFoundError(
            f"{entry.title} is not in {data_folder(given)}: {get}{entry.by_hand};"
            f" name another folder with --data-dir or {VARIABLE}"
        )
    return place


def get(name: str, data_dir: Path | str | None = None) -> Path:
    """Where the data set is; it is downloaded if it is not there."""
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
        size = have if response.status == 206 else 0  # other servers start again
        expected = response.headers.get("Content-Length")
        total = int(expected) + size if expected else None
        task = progress.add_task(part.name.removesuffix(".part"), total=total, completed=size)
        with part.open("ab" if size else "wb") as file:
            while block := response.read(BLOCK):
                file.write(block)
                size += len(block)
                progress.advance(task, len(block))
    if total is not None and size < total:
        raise ConnectionError(f"the connection broke off after {size} of {total} bytes")
