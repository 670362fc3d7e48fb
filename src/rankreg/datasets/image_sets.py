"""Images known by name: skin lesions (HAM10000, ISIC 2020), solar cells (ELPV) and scikit-learn's digits."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.datasets.catalog import located
from rankreg.datasets.images import cache_folder, decode, image_size
from rankreg.datasets.partitions import (
    PARTITION_SEED,
    Partition,
    binary_split,
    check_parts,
    long_tailed_split,
    stratified_parts,
    thinned,
)
from rankreg.datasets.splits import Splits, image_preprocessing, samples_of
from rankreg.names import look_up, renamed
from rankreg.safe_files import read_arrays, read_within
from rankreg.table_files import readable_csv

DIAGNOSES = {
    "akiec": "actinic keratosis",
    "bcc": "basal cell carcinoma",
    "bkl": "benign keratosis",
    "df": "dermatofibroma",
    "mel": "melanoma",
    "nv": "naevus",
    "vasc": "vascular lesion",
}
LESION_SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}
HAM_FOLDERS = ("HAM10000_images_part_1", "HAM10000_images_part_2", "HAM10000_images", "images", ".")
ISIC_FOLDERS = ("jpeg/train", "train", "jpeg", ".")
ISIC_COLUMNS = ("image_name", "patient_id", "target")  # the others tell the answer
NATIVE = (48, 64)  # height and width of the images in the .npz
Lesions = tuple[Sequence[Any], NDArray[Any], NDArray[Any], NDArray[Any]]  # images, ids, lesions, diagnoses
CELL_SHARES = {"train": 0.6, "validation": 0.1, "test": 0.3}
MOST_BYTES = 10_000_000  # of labels.csv, which has 130,000
DOUBT = 0.5  # experts gave 0, 1/3, 2/3 or 1: the two higher ones count as defective
# Of about 180 images of a digit. Positives that are never trained on are test data.
DIGIT_NEGATIVES = Partition(validation=27, test=45)
DIGIT_POSITIVES = Partition(validation=27, test=45, extended=42)


@renamed(critical="positive")
def ham10000(
    data_dir: Path | str | None = None,
    *,
    positive: str = "mel",
    ratio: float | None = 170,
    seed: int = 0,
    calibration: float = 0.0,
    size: int | Sequence[int] = NATIVE,
    partition_seed: int = PARTITION_SEED,
    cache: Path | str | None = None,
) -> Splits:
    """Load one diagnosis of HAM10000 against the others, 70 / 10 / 20 by lesion.

    The parts are the same for every seed. Only the training part is thinned.

    Args:
        data_dir: the folder of the data sets; by default as `rankreg.datasets.catalog.data_folder` says.
        positive: the critical diagnosis, a key of `DIAGNOSES`.
        ratio: training negatives per positive; None keeps all positives.
        seed: draws the training positives.
        calibration: the share of a calibration part, taken out of the training part.
        size: side of the images in pixels, or (height, width).
        partition_seed: decides the parts.
        cache: the folder for decoded images; by default "decoded" beside the data, if that can be written.

    Returns:
        The parts "train", "validation", "test" and perhaps "calibration"; units are lesions.
    """
    look_up(DIAGNOSES, positive, "diagnosis")
    most = LESION_SHARES["train"]
    if not 0 <= calibration < most:
        raise ValueError(f"calibration must lie in [0, {most}), got {calibration!r}")
    place, sides = located("ham10000", data_dir), image_size(size)
    sources, ids, lesions, diagnoses = _read_npz(place) if place.suffix == ".npz" else _read_official(place)
    labels = (diagnoses == positive).astype(np.int64)
    if not labels.any():
        raise ValueError(f"{place} holds no {positive!r}: {', '.join(np.unique(diagnoses))}")

    shares = LESION_SHARES | {"train": most - calibration} | ({"calibration": calibration} if calibration else {})
    kinds = np.unique(diagnoses, return_inverse=True)[1]
    parts = stratified_parts(kinds, lesions, shares, seed=partition_seed, largest_first=True)  # as recorded
    check_parts(labels, parts, f"there are too few lesions of {positive!r}")
    if ratio is not None:
        parts["train"] = thinned(parts["train"], labels, ratio, seed=seed)

    units = np.unique(lesions, return_inverse=True)[1].astype(np.int64)
    images = decode(sources, ids.tolist(), sides, cache=cache_folder(cache, place.parent))
    return Splits(
        name=f"ham10000-{positive}" + (f"-{ratio:g}" if ratio is not None else ""),
        parts=samples_of(parts, images, labels, ids, units),
        classes=("other", DIAGNOSES[positive]),
        preprocessing=image_preprocessing(sides),
    )


def _read_npz(path: Path) -> Lesions:
    """Images as JPEG bytes, ids, lesions and diagnoses, from the .npz of small images."""
    found = read_arrays(path)
    names = ("image_id", "lesion_id", "dx")
    kinds = {"jpeg": "u", "offsets": "iu"} | dict.fromkeys(names, "U")
    wrong = [name for name, kind in kinds.items() if name not in found or found[name].dtype.kind not in kind]
    if wrong or any(found[name].ndim != 1 for name in kinds):
        raise ValueError(f"{path} is not the HAM10000 .npz: it needs {', '.join(kinds)}")
    jpeg, ends = found["jpeg"], found["offsets"].tolist()
    inside = [0, *ends, len(jpeg)]
    if {len(found[name]) for name in names} != {len(ends) - 1} or inside != sorted(inside):
        raise ValueError(f"{path} is damaged: its offsets do not cut it into one JPEG per image")
    sources = [jpeg[a:b].tobytes() for a, b in pairwise(ends)]
    return sources, found["image_id"], found["lesion_id"], found["dx"]


def _read_official(path: Path) -> Lesions:
    """Paths of the images, ids, lesions and diagnoses, from the official table."""
    needed = ["image_id", "lesion_id", "dx"]
    with readable_csv(path):
        rows = pd.read_csv(path, dtype=str, keep_default_na=False, low_memory=False)
    if not set(needed) <= set(rows.columns) or not len(rows) or (rows[needed] == "").any(axis=None):
        raise ValueError(f"{path} is not the official table: every row needs image_id, lesion_id and dx")
    rows = rows.sort_values("image_id", kind="stable")
    ids = [Path(name).name for name in rows["image_id"]]
    places: dict[str, Path] = {}
    for folder in HAM_FOLDERS:
        for image in (path.parent / folder).glob("*.jpg"):
            places.setdefault(image.stem, image)
    missing = path.parent / HAM_FOLDERS[0]
    sources = [places.get(name, missing / f"{name}.jpg") for name in ids]
    return sources, np.asarray(ids), rows["lesion_id"].to_numpy(dtype=str), rows["dx"].to_numpy(dtype=str)


def melanoma(
    data_dir: Path | str | None = None,
    *,
    size: int | Sequence[int] = 256,
    seed: int = 0,
    member: int = 0,
    shares: Mapping[str, float] = LESION_SHARES,
    cache: Path | str | None = None,
) -> Splits:
    """Load ISIC 2020: malignant against benign, 70 / 10 / 20 by patient; no patient is in two parts.

    Args:
        data_dir: the folder of the data sets; by default as `rankreg.datasets.catalog.data_folder` says.
        size: side of the images in pixels, or (height, width).
        seed: decides the parts.
        member: another member of an ensemble gets other training and validation patients.
        shares: the share of the images in each part, by name.
        cache: the folder for decoded images; by default "decoded" beside train.csv, if that can be written.

    Returns:
        The parts that `shares` names; units are patients.
    """
    table_path = located("melanoma", data_dir)
    home = table_path.parent
    with readable_csv(table_path):
        table = pd.read_csv(table_path, dtype={"image_name": str, "patient_id": str}, low_memory=False)
    if missing := [column for column in ISIC_COLUMNS if column not in table.columns]:
        raise ValueError(f"{table_path} has no column {', '.join(missing)}: it is not the official train.csv")
    table = table[list(ISIC_COLUMNS)]
    if not table["target"].isin([0, 1]).all() or table.isna().any(axis=None):
        raise ValueError(f"{table_path}: every row needs an image_name, a patient_id and a target of 0 or 1")
    names = table["image_name"].tolist()
    if any(Path(name).name != name for name in names):
        raise ValueError(f"{table_path}: an image_name is a plain name, without folders")
    folder = _image_folder(home, names[0])
    sides = image_size(size)
    files = [folder / f"{name}.jpg" for name in names]
    images = decode(files, [file.name for file in files], sides, cache=cache_folder(cache, home))
    labels = table["target"].to_numpy(dtype=np.int64)
    patients = np.unique(table["patient_id"].to_numpy(dtype=str), return_inverse=True)[1].astype(np.int64)
    parts = stratified_parts(labels, patients, shares, seed=seed, member=member)
    check_parts(labels, parts, "too few patients have a melanoma")
    return Splits(
        name="melanoma",
        parts=samples_of(parts, images, labels, np.asarray(names), patients),
        classes=("benign", "malignant"),
        preprocessing=image_preprocessing(sides),
    )


def _image_folder(home: Path, name: str) -> Path:
    for folder in ISIC_FOLDERS:
        if (home / folder / f"{name}.jpg").is_file():
            return home / folder
    raise FileNotFoundError(
        f"no {name}.jpg in {home}/jpeg/train or {home}/train: put the JPEGs of the official archive there"
    )


def elpv(
    data_dir: Path | str | None = None,
    *,
    ratio: float | None = 50,
    seed: int = 0,
    size: int | Sequence[int] = 96,
    partition_seed: int = PARTITION_SEED,
    cache: Path | str | None = None,
) -> Splits:
    """Load 2,624 solar cells, defective against sound, 60 / 10 / 30.

    The parts are the same for every seed. Only the training part is thinned. The cells come from 44 modules, and
    the files do not say which: cells of one module may be in two parts, so results on new modules may be worse.

    Args:
        data_dir: the folder of the data sets, with elpv/labels.csv; else the installed package
            elpv-dataset is read.
        ratio: training negatives per positive; None keeps all positives.
        seed: draws the training positives.
        size: side of the images in pixels, or (height, width); the files have 300 × 300.
        partition_seed: decides the parts.
        cache: the folder for decoded images; by default the user's cache.

    Returns:
        The parts "train", "validation" and "test".

    Raises:
        FileNotFoundError: the data are not here; the message says how to get them.
        ValueError: labels.csv is damaged, or the ratio leaves no positive.

    Reference: Deitsch et al., "Segmentation of photovoltaic module cells in uncalibrated electroluminescence
        images", Machine Vision and Applications 2021.
    """
    place, sides = located("elpv", data_dir), image_size(size)
    names, labels = _read_labels(place)
    parts = stratified_parts(labels, np.arange(len(labels)), CELL_SHARES, seed=partition_seed)
    if ratio is not None:
        parts["train"] = thinned(parts["train"], labels, ratio, seed=seed)
    files = [place.parent / "images" / name for name in names]
    images = decode(files, names, sides, cache=cache_folder(cache))
    return Splits(
        name="elpv" + (f"-{ratio:g}" if ratio is not None else ""),
        parts=samples_of(parts, images, labels, np.asarray(names)),
        classes=("sound", "defective"),
        preprocessing=image_preprocessing(sides),
    )


def _read_labels(path: Path) -> tuple[list[str], NDArray[np.int64]]:
    """The name of each image and whether its cell is defective: lines such as `images/cell0001.png 1.0 mono`."""
    names, labels = [], []
    for number, line in enumerate(read_within(path, MOST_BYTES).decode(errors="replace").splitlines(), start=1):
        try:
            place, probability, _ = line.split()
            defective = float(probability)
        except ValueError:
            place, defective = "", -1.0
        name = Path(place).name
        if place != f"images/{name}" or not 0 <= defective <= 1:
            raise ValueError(
                f"{path}, line {number}: expected `images/NAME.png PROBABILITY TYPE`, got {line[:80]!r}"
            )
        names.append(name)
        labels.append(int(defective > DOUBT))
    if len(set(labels)) < 2:
        raise ValueError(f"{path} holds no {'defective' if 1 not in labels else 'sound'} cell")
    return names, np.asarray(labels, dtype=np.int64)


@renamed(critical="positive")
def digits(*, positive: int = 8, ratio: float = 50, seed: int = 0) -> Splits:
    """Load one digit against the nine others, as rows of 64 grey values in 0 … 1.

    Validation and test parts are the same for every seed and for ratios down to 15. Lower ratios shorten
    the test part.

    Args:
        positive: the rare digit.
        ratio: training negatives per positive.
        seed: draws the training samples.

    Returns:
        The parts "train", "validation" and "test".

    >>> digits(positive=8, ratio=50)["train"].labels.sum()
    np.int64(17)
    """
    inputs, targets, members = _digit_rows(positive)
    others = [digit for digit in range(10) if digit != positive]
    found = binary_split(
        members, others, [positive], sizes=(DIGIT_NEGATIVES, DIGIT_POSITIVES), ratio=ratio, seed=seed
    )
    found["test"] = np.sort(np.append(found["test"], found["extended"]))
    parts = {name: found[name] for name in ("train", "validation", "test")}
    labels = (targets == positive).astype(np.int64)
    return Splits(
        name=f"digits-{positive}-{ratio:g}",
        parts=samples_of(parts, inputs, labels, np.arange(len(inputs))),
        classes=("another digit", str(positive)),
    )


@renamed(critical="positive")
def digits_long_tailed(*, imbalance: float = 20, seed: int = 0, positive: int = 9) -> Splits:
    """Load all ten digits, digit k thinned to n₀ · imbalance^(−k/9); labels stay the digits.

    Args:
        imbalance: images of the largest class per image of the smallest.
        seed: draws the training samples.
        positive: the critical digit.

    Returns:
        The parts "train", "validation" and "test".
    """
    inputs, targets, members = _digit_rows(positive)
    parts = long_tailed_split(members, DIGIT_NEGATIVES, imbalance=imbalance, seed=seed)
    return Splits(
        name=f"digits-lt-{imbalance:g}",
        parts=samples_of(parts, inputs, targets, np.arange(len(inputs))),
        classes=tuple(map(str, range(10))),
        critical=positive,
    )


def _digit_rows(positive: int) -> tuple[NDArray[np.float32], NDArray[np.int64], dict[int, NDArray[np.int64]]]:
    """Inputs, digits, and where each digit is."""
    from sklearn.datasets import load_digits

    if positive not in range(10):
        raise ValueError(f"positive must be a digit 0 … 9, got {positive!r}")
    images, targets = load_digits(return_X_y=True)
    members = {digit: np.flatnonzero(targets == digit) for digit in range(10)}
    return np.asarray(images / 16, dtype=np.float32), np.asarray(targets, dtype=np.int64), members
