"""What data sets there are, where they live on this machine, and where to get them."""

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

VARIABLE = "RANKREG_DATA"


@dataclass(frozen=True)
class Entry:
    """A data set: files or folders any one of which means that it is there, and how to get it."""

    title: str
    found_by: tuple[str, ...]  # relative to the data folder, the first choice first
    by_hand: str
    url: str | None = None
    md5: str | None = None


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
    "digits": Entry(title="scikit-learn digits", found_by=(), by_hand="it comes with scikit-learn, nothing to get"),
}


def data_folder(given: Path | str | None = None) -> Path:
    """The folder given, else the one in RANKREG_DATA, else the user's cache."""
    if given is not None:
        return Path(given).expanduser()
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return platformdirs.user_cache_path("rankreg") / "data"


def find(name: str, given: Path | str | None = None) -> Path | None:
    """Where the data set is: the folder may hold it, or the path may be one of its files or folders itself."""
    place = data_folder(given)
    for choice in CATALOG[name].found_by:
        tail = Path(choice)
        if place.name == tail.name and place.exists():
            return place
        if (place / tail).exists():
            return place / tail
    return None


def located(name: str, given: Path | str | None = None) -> Path:
    """Where the data set is, or an error that says how to get it."""
    place = find(name, given)
    if place is None:
        entry = CATALOG[name]
        get = f"run `rankreg data get {name}`, or " if entry.url else ""
        raise FileNotFoundError(
            f"{entry.title} is not in {data_folder(given)}: {get}{entry.by_hand};"
            f" another folder is named by --data-dir or {VARIABLE}"
        )
    return place
