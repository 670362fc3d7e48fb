"""Image files as uint8 arrays of one size, and folders of images with one folder per class."""

import csv
import hashlib
import io
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import platformdirs
from numpy.typing import NDArray
from PIL import Image

from rankreg.datasets.partitions import SHARES, check_both_classes, distinct_or_none, linked, own_parts
from rankreg.datasets.splits import Splits, image_preprocessing, samples_of
from rankreg.labels import LabelRule, Reading, read_labels
from rankreg.names import look_up
from rankreg.safe_files import check_regular, read_rgb
from rankreg.terminal import progress_bar

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
# A name with a number in it, then which image of that thing: lesion_12_a, lesion_12b, patient3-1, 17_left, x7 (2).
OF_ONE_THING = re.compile(
    r"(?P<thing>.*\d.*?)(?:[ _.-]+\(?(?:[a-z]|\d{1,2}|left|right|top|bottom|front|back)\)?|(?<=\d)[a-z])",
    re.IGNORECASE,
)
DATE = re.compile(r"(?<!\d)(?:19|20)\d\d([-_.]?)[01]\d\1[0-3]\d(?!\d)")  # its day is not an image of its month
MOST_OF_ONE_THING = 20  # images: a larger set that shares a name is a series, not a thing
FEW = 0.05  # of the images: so many shared names may be chance
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


def cache_folder(given: Path | str | None, home: Path | None = None) -> Path:
    """Where decoded images go: the folder given, else "decoded" in `home`, else the user's cache."""
    if given is not None:
        return Path(given).expanduser()
    if home is not None and os.access(home, os.W_OK) and home.stat().st_mode & stat.S_IWUSR:
        return home / "decoded"  # the mode counts too: root may write what is read-only
    return platformdirs.user_cache_path("rankreg") / "decoded"


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


def image_folder(
    path: Path | str,
    *,
    positive: str | None = None,
    negative: Collection[str] = (),
    rest_negative: bool = False,
    size: int | Sequence[int] = 64,
    seed: int = 0,
    member: int = 0,
    shares: Mapping[str, float] = SHARES,
    groups: Path | str | None = None,
    cache: Path | str | None = None,
) -> Splits:
    """Load a folder with one folder of images per class, and cut it into stratified parts.

    Images of equal bytes stay in one part and count as one unit.

    Args:
        path: the folder.
        positive: the class folder that is critical; by default "positive", beside "negative".
        negative: the negative class folders. Needed if there are several.
        rest_negative: every other class folder is negative.
        size: side in pixels, or (height, width). Images are squeezed to it.
        seed: decides the parts.
        member: another member of an ensemble gets other training and validation images, all else alike.
        shares: the share of the images in each part, by name.
        groups: a CSV file with the columns file (as in the ids) and group, e.g. a patient.
            Images of one group stay in one part and count as one unit.
        cache: a folder for decoded images; by default they are kept in memory.

    Returns:
        The parts. Ids are paths relative to `path`.

    Raises:
        ValueError: an image cannot be read, a class folder was not named, or a part would lack a class.
    """
    home, sides = Path(path), image_size(size)
    kinds = class_folders(home)
    if positive is None:
        if kinds != ["negative", "positive"]:
            raise ValueError(f"say which folder of {home} is the positive class: {', '.join(kinds)}")
        positive = "positive"
    look_up(dict.fromkeys(kinds), positive, f"class folder in {home}:")
    rule = LabelRule(positive, tuple(negative), rest_negative)
    paths = [image for kind in kinds for image in walk_images(home / kind)]
    ids = np.asarray([image.relative_to(home).as_posix() for image in paths])
    classes = np.asarray([kinds.index(name.split("/")[0]) for name in ids])
    labels, found = folder_labels(ids.tolist(), rule, home)
    check_both_classes(labels, shares, ("negative", "positive"))

    copies = np.unique([_digest(image) for image in paths], return_inverse=True)[1].astype(np.int64)
    units = distinct_or_none(copies)
    hint = "too many images are copies of each other"
    if groups is not None:
        units = distinct_or_none(linked(copies, read_groups(Path(groups), ids.tolist())))
        hint = f"groups of {groups} are too large or too few: use more images, or try another seed"
    parts = own_parts(labels, classes, units, shares, seed=seed, member=member, hint=hint)
    images = decode(paths, ids.tolist(), sides, cache=Path(cache) if cache is not None else None)
    return Splits(
        name=home.resolve().name,
        parts=samples_of(parts, images, labels, ids, units),
        classes=(found.negative, positive),
        preprocessing=image_preprocessing(sides) | rule.described(),
    )


def read_groups(path: Path, ids: Sequence[str]) -> NDArray[np.int64]:
    """The group of each image as a number, from a CSV file that names every image once and no other file."""
    places, group_of = {name: place for place, name in enumerate(ids)}, [""] * len(ids)
    check_regular(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            if not {"file", "group"} <= set(rows.fieldnames or ()):
                raise ValueError(
                    f"its columns are {', '.join(rows.fieldnames or ()) or 'none'}: name two file and group"
                )
            for row in rows:
                name, group = PurePosixPath(row["file"] or "").as_posix(), (row["group"] or "").strip()
                if name not in places:
                    raise ValueError(
                        f"line {rows.line_num}: no image {name!r}; paths are relative to the image folder"
                    )
                if group_of[places[name]]:
                    raise ValueError(f"line {rows.line_num}: {name!r} is there twice; give every image one group")
                if not group:
                    raise ValueError(f"line {rows.line_num}: the group of {name!r} is empty")
                group_of[places[name]] = group
    except (ValueError, csv.Error) as error:  # UnicodeDecodeError is a ValueError
        raise ValueError(f"cannot use the groups in {path}: {error}") from error
    missing = [name for name, group in zip(ids, group_of, strict=True) if not group]
    if missing:
        raise ValueError(
            f"cannot use the groups in {path}: {len(missing)} of {len(ids)} images have none, for instance"
            f" {missing[0]!r}; add a line for each"
        )
    return np.unique(group_of, return_inverse=True)[1].astype(np.int64)


def suspected_groups(ids: Sequence[str]) -> str | None:
    """A warning if file names suggest that several images show one thing, e.g. lesion_12_a.jpg and lesion_12_b.jpg.

    Such images must stay together, or a model is judged on things that it was trained on. Counters alone
    (IMG_0001, IMG_0002) and dates suggest nothing. Names are compared across class folders.

    Args:
        ids: paths of images below the folder, with their class folder.

    Returns:
        The warning, or None if nothing is suspected.

    >>> print(suspected_groups(["ok/tile-1-a.png", "ok/tile-1-b.png", "ok/tile-2-a.png", "ok/tile-2-b.png"])[:56])
    4 of 4 file names suggest several images of one thing, f
    """
    things: dict[tuple[str, str], list[str]] = {}
    for name in ids:
        path = PurePosixPath(name)
        found = OF_ONE_THING.fullmatch(DATE.sub("", path.stem))
        if found:
            things.setdefault(("/".join(path.parts[1:-1]), found["thing"].lower()), []).append(name)
    groups = [names for names in things.values() if 2 <= len(names) <= MOST_OF_ONE_THING]
    count = sum(map(len, groups))
    if len(groups) < 2 or count < FEW * len(ids):
        return None
    return (
        f"{count} of {len(ids)} file names suggest several images of one thing, for instance {groups[0][0]} and"
        f" {groups[0][1]}. If so, keep them together with --groups: a CSV file with the columns file and group."
        " Otherwise the model is judged on things that it has seen, and looks better than it is."
    )


def folder_labels(
    ids: Sequence[str], rule: LabelRule, home: Path, *, partial: bool = False
) -> tuple[NDArray[np.int64], Reading]:
    """1 for images of the positive class folder, 0 for those of negative ones, by their paths below `home`."""
    kinds = pd.Series([name.split("/")[0] for name in ids], name="class folder", dtype=object)
    return read_labels(kinds, rule, f"{home}: the class folder", partial=partial)


def walk_images(folder: Path, *, top: bool = False, in_class_folders: bool = False) -> Iterator[Path]:
    """Image files in the order of names, a folder at a time, so that only one folder's names are held.

    Hidden files and folders are left out. Links to folders are followed at the top only: deeper they
    might lead in circles. in_class_folders: files at the top are left out.
    """
    with os.scandir(folder) as entries:
        found = sorted((e.name, e.is_dir(follow_symlinks=top)) for e in entries if not e.name.startswith("."))
    for name, is_folder in found:
        place = folder / name
        if is_folder:
            yield from walk_images(place)
        elif place.suffix.lower() in SUFFIXES and not in_class_folders:
            yield place


def class_folders(home: Path) -> list[str]:
    """The names of the class folders."""
    if not home.is_dir():
        raise FileNotFoundError(f"{home} is not a folder: give one with a folder of images per class")
    kinds = sorted(place.name for place in home.iterdir() if place.is_dir() and not place.name.startswith("."))
    kinds = [kind for kind in kinds if any(walk_images(home / kind))]
    if len(kinds) < 2:
        raise ValueError(
            f"{home} holds {len(kinds)} folders with images: two or more are needed, one per class,"
            " for instance negative and positive"
        )
    return kinds


def _digest(path: Path) -> str:
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
