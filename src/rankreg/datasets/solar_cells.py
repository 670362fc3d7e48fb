"""Solar cells: electroluminescence images of sound and defective cells (ELPV)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import platformdirs

from rankreg.datasets.catalog import located
from rankreg.datasets.images import decode, image_size
from rankreg.datasets.partitions import PARTITION_SEED, stratified_parts, thin
from rankreg.datasets.splits import Splits, image_preprocessing, samples_of
from rankreg.safe_files import read_within

SHARES = {"train": 0.6, "validation": 0.1, "test": 0.3}
MOST_BYTES = 10_000_000  # of labels.csv, which has 130,000
DOUBT = 0.5  # experts gave 0, 1/3, 2/3 or 1: the two higher ones count as defective


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
    parts = stratified_parts(labels, np.arange(len(labels)), SHARES, seed=partition_seed)
    if ratio is not None:
        train = parts["train"]
        negatives, positives = train[labels[train] == 0], train[labels[train] == 1]
        parts["train"] = np.sort(np.append(negatives, thin(positives, len(negatives), ratio, seed=seed)))
    files = [place.parent / "images" / name for name in names]
    decoded = Path(cache) if cache is not None else platformdirs.user_cache_path("rankreg") / "decoded"
    images = decode(files, names, sides, cache=decoded)
    return Splits(
        name="elpv" + (f"-{ratio:g}" if ratio is not None else ""),
        parts=samples_of(parts, images, labels, np.asarray(names)),
        classes=("sound", "defective"),
        preprocessing=image_preprocessing(sides),
    )


def _read_labels(path: Path) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int64]]]:
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
