"""ISIC 2020 / Kaggle SIIM Melanoma in its official layout: train.csv and JPEGs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from rankreg._tables import readable_csv
from rankreg.datasets._grouping import check_parts, stratified_parts
from rankreg.datasets.catalog import located
from rankreg.datasets.images import cache_folder, decode, image_size
from rankreg.datasets.splits import Samples, Splits, image_preprocessing

SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}
IMAGE_FOLDERS = ("jpeg/train", "train", "jpeg", ".")
NEEDED = ("image_name", "patient_id", "target")  # not benign_malignant, not diagnosis: they are the answer


def melanoma(
    data_dir: Path | str | None = None,
    *,
    size: int | Sequence[int] = 256,
    seed: int = 0,
    member: int = 0,
    shares: Mapping[str, float] = SHARES,
    cache: Path | str | None = None,
) -> Splits:
    """Malignant against benign, 70 / 10 / 20 by patient, so that no patient is in two parts.

    `seed` cuts the parts; another `member` of an ensemble gets other training and validation patients. Images are
    decoded once, to `cache` (by default a folder "decoded" beside train.csv, if that can be written).
    """
    table_path = located("melanoma", data_dir)
    home = table_path.parent
    with readable_csv(table_path):
        table = pd.read_csv(table_path, dtype={"image_name": str, "patient_id": str}, low_memory=False)
    if missing := [column for column in NEEDED if column not in table.columns]:
        raise ValueError(f"{table_path} has no column {', '.join(missing)}: it is not the official train.csv")
    table = table[list(NEEDED)]
    if not table["target"].isin([0, 1]).all() or table.isna().any(axis=None):
        raise ValueError(f"{table_path}: every row needs an image_name, a patient_id and a target of 0 or 1")
    names = table["image_name"].tolist()
    if any(Path(name).name != name for name in names):
        raise ValueError(f"{table_path}: an image_name is a plain name, without folders")
    folder = _image_folder(home, names[0])
    sides = image_size(size)
    images = decode(
        [folder / f"{name}.jpg" for name in names],
        [f"{name}.jpg" for name in names],
        sides,
        cache=cache_folder(cache, home),
    )
    labels = table["target"].to_numpy(dtype=np.int64)
    patients = np.unique(table["patient_id"].to_numpy(dtype=str), return_inverse=True)[1].astype(np.int64)
    parts = stratified_parts(labels, patients, shares, seed=seed, member=member)
    check_parts(labels, parts, "too few patients have a melanoma")
    ids = np.asarray(names)
    return Splits(
        name="melanoma",
        parts={
            name: Samples(images, rows, labels[rows], ids[rows], patients[rows]) for name, rows in parts.items()
        },
        classes=("benign", "malignant"),
        preprocessing=image_preprocessing(sides),
    )


def _image_folder(home: Path, name: str) -> Path:
    for folder in IMAGE_FOLDERS:
        if (home / folder / f"{name}.jpg").is_file():
            return home / folder
    raise FileNotFoundError(
        f"no {name}.jpg in {home}/jpeg/train or {home}/train: put the JPEGs of the official archive there"
    )
