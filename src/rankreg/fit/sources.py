"""The user's data: a table or a folder of images, its parts, and the inputs of learners."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.bundle.ensemble import ImageViews, TableViews
from rankreg.datasets import load
from rankreg.datasets.partitions import SHARES, own_parts
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.datasets.splits import OwnData, OwnImages, Splits
from rankreg.datasets.table import OwnTable, TableOptions, read_own_table
from rankreg.operating import Promises, positives_needed
from rankreg.operating.guarantees import NotEnoughPositives, certified_rank
from rankreg.operating.units import Per, Trials, UnitSizes
from rankreg.pool import return_freed_memory

Rows = NDArray[np.int64]
ThresholdName = Literal["auto", "certified", "cross-fitted"]

ALONE = Promises()  # a recall and nothing beside it
CALIBRATION = 0.2  # the share that certifies a threshold
KEPT = SHARES["validation"] + SHARES["test"]
MOST = round(1 - KEPT - 0.1, 9)  # the largest calibration share: a tenth at least is left to train on
SIZE = 64
HINTS = {  # what to use instead
    "--target": "; name the critical class with --positive",
    "--group": "; say which images belong together with --groups FILE.csv",
    "--groups": "; name the column that says which rows belong together with --group",
}


@dataclass(frozen=True)
class Source(TableOptions):
    """Data of one's own: where they are, what is critical in them, and how they are cut into parts.

    Options for tables are refused for images, and vice versa.

    Args:
        path: a table (CSV, Parquet), or a folder with one folder of images per class.
        target: tables: the column to predict.
        positive: the critical value of the target, or the critical class folder.
        negative: the negative values or class folders. Needed if there are several.
        rest_negative: every value or class folder except the positive one is negative.
        group: tables: the column that names what rows belong to, e.g. a patient.
        drop: tables: columns that are not features.
        categorical: tables: numeric columns to treat as categorical.
        id_column: tables: the column that names the rows.
        header: tables: whether the first line of a CSV file holds the column names.
        keep_copies_together: tables: equal rows stay in one part and count as one unit.
        seed: decides the parts, default 0.
        separator: tables: what stands between the fields of a CSV file. Default: detected.
        decimal: tables: the decimal mark of a CSV file. Default: detected.
        encoding: tables: how a CSV file stores characters. Default: detected.
        calibration: a search leaves this share out, default 0.15.
        groups: images: a CSV file with columns file and group; images of one group stay together.
        size: images: the side in pixels that the network sees, default 64.
        member: another ensemble member gets other training and validation samples.
    """

    path: Path
    seed: int = 0
    calibration: float = SHARES["calibration"]
    groups: Path | None = None
    size: int | None = None
    member: int = 0

    @property
    def is_images(self) -> bool:
        """Whether the data are a folder of images; a file is a table."""
        return self.path.is_dir()

    @property
    def side(self) -> int | None:
        """The side of the images that the network sees, in pixels; None for a table."""
        return (SIZE if self.size is None else self.size) if self.is_images else None


@dataclass(frozen=True, eq=False)
class PreparedData:
    """Inputs of all samples, as learners take them.

    inputs: a matrix of normal scores (N, F), or images. preprocessing: as the bundle's card has it. features: of
    images, by a pretrained network.
    """

    inputs: NDArray[Any]
    preparation: TablePreprocessor | None
    preprocessing: Mapping[str, Any]
    features: NDArray[np.float32] | None = None

    def views(self, rows: NDArray[np.int64]) -> TableViews | ImageViews:
        """Some samples in every form."""
        inputs = self.inputs if len(rows) == len(self.inputs) else self.inputs[rows]
        if self.preparation is not None:
            return TableViews(inputs, self.preparation)
        return ImageViews(inputs, known=None if self.features is None else self.features[rows])


def prepare(data: OwnTable | OwnImages, rows: Rows, *, release: bool = False) -> PreparedData:
    """The inputs of all samples, with what these rows, which train, say about the columns.

    release: empty the table meanwhile, for less memory.
    """
    if isinstance(data, OwnImages):
        return PreparedData(data.images, None, data.preprocessing)
    seen: pd.DataFrame = data.features if len(rows) == len(data.features) else data.features.iloc[rows]
    preparation = TablePreprocessor.fit(seen, categorical=data.categorical)
    del seen
    if release:
        return_freed_memory()
    inputs = preparation.transform(data.features, release=release)
    if release:
        return_freed_memory()
    return PreparedData(inputs, preparation, data.described(preparation))


def read_source(source: Source, cache: Path) -> OwnTable | OwnImages:
    """Read all samples.

    Args:
        source: where they are and what is critical in them.
        cache: the folder for decoded images, so that a fit that is started again need not decode them.

    Returns:
        The samples with labels, ids and units.

    Raises:
        ValueError: if an option does not fit the data, or a class is missing.
        FileNotFoundError: if there are no such data.

    >>> rows = [f"{k % 7},{k % 3},{int(k % 5 == 0)}" for k in range(100)]
    >>> _ = Path("claims.csv").write_text("amount,age,fraud\\n" + "\\n".join(rows))
    >>> own = read_source(Source(Path("claims.csv"), target="fraud"), Path("cache"))
    >>> own.kind, len(own.labels), own.classes
    ('table', 100, ('0', '1'))
    """
    _check_source(source)
    if not source.is_images:
        table = read_own_table(source.path, source)
        if not 0 < int(table.labels.sum()) < len(table.labels):
            raise ValueError(
                f"{source.path}: all {len(table.labels):,} rows belong to one class, there is nothing to tell"
                " apart: check which value is the positive one"
            )
        return table
    splits = _image_parts(source, {"train": 1.0}, cache)
    whole = splits["train"]
    return OwnImages(
        name=splits.name,
        labels=whole.labels,
        ids=whole.ids,
        units=whole.units,
        classes=(splits.classes[0], splits.classes[1]),
        preprocessing=splits.preprocessing,
        images=whole.source if len(whole.source) == len(whole) else whole.inputs(),
    )


def load_source(source: Source, cache: Path) -> Splits:
    """Read the data and cut them into training, validation, calibration and test parts.

    Args:
        source: where they are and what is critical in them.
        cache: the folder for decoded images, so that a run that is started again need not decode them.

    Returns:
        The parts, which never share a sample, a copy or a group.

    Raises:
        ValueError: if an option does not fit the data, or a class is missing or too small.
        FileNotFoundError: if there are no such data.

    >>> rows = [f"{k % 7},{k % 3},{int(k % 5 == 0)}" for k in range(100)]
    >>> _ = Path("claims.csv").write_text("amount,age,fraud\\n" + "\\n".join(rows))
    >>> claims = Source(Path("claims.csv"), target="fraud", keep_copies_together=False)
    >>> {name: len(part) for name, part in load_source(claims, Path("cache")).parts.items()}
    {'train': 60, 'validation': 10, 'calibration': 15, 'test': 15}
    """
    _check_source(source)
    if not 0 < source.calibration <= MOST:
        raise ValueError(
            f"the calibration share must lie above 0 and be at most {MOST:g}, got {source.calibration!r}:"
            f" validation and test take {KEPT:g}, and something must be left to train on"
        )
    shares = SHARES | {"calibration": source.calibration, "train": 1 - KEPT - source.calibration}
    if source.is_images:
        return _image_parts(source, shares, cache)
    return load("table", source.path, source, seed=source.seed, member=source.member, shares=shares)


def _check_source(source: Source) -> None:
    """The data are there, and the options fit their kind."""
    if not source.path.exists():
        raise FileNotFoundError(f"no file or folder {source.path}")
    of_images = {"--size": source.size is not None, "--groups": source.groups is not None}
    what, options = ("a folder of images", source.column_options()) if source.is_images else ("a table", of_images)
    given = [name for name, value in options.items() if value]
    if given:
        hint = HINTS.get(given[0], "")
        raise ValueError(f"{source.path} is {what}, for which there is no {', '.join(given)}{hint}")


def _image_parts(source: Source, shares: Mapping[str, float], cache: Path) -> Splits:
    return load(
        "folder",
        source.path,
        positive=source.positive,
        negative=source.negative,
        rest_negative=source.rest_negative,
        size=source.side,
        seed=source.seed,
        member=source.member,
        shares=shares,
        groups=source.groups,
        cache=cache,
    )


def check_request(
    out: Path, *, tpr: float, confidence: float, calibration: float = CALIBRATION, test: float = 0.0
) -> None:
    """Refuse a target, a share or a folder that cannot be, before anything is read or trained."""
    positives_needed(tpr, confidence)
    if not 0 < calibration <= 0.8:
        raise ValueError(f"the calibration share must lie above 0 and be at most 0.8, got {calibration!r}")
    if not 0 <= test <= 0.5:
        raise ValueError(f"the test share must lie between 0 and 0.5, got {test!r}")
    for place in (out, *out.parents):
        if place.exists():
            if not place.is_dir():
                raise ValueError(f"{place} is a file, but a folder is needed: choose another --out")
            return


def cut_parts(
    data: OwnData,
    tpr: float,
    confidence: float,
    per: Per,
    threshold: ThresholdName,
    calibration: float,
    test: float,
    seed: int,
    promises: Promises = ALONE,
) -> dict[str, Rows]:
    """The rows that train, those that certify and those that test; the last two only if they are wanted.

    promises: beside the recall, which then needs more than the confidence.
    """
    if promises:
        units, positive = data.units, data.labels == 1
        mixed = units is not None and bool(np.isin(units[positive], units[~positive]).any())
        confidence = promises.recall_confidence(tpr, confidence, mixed=mixed)
    wanted = {"train": 1.0 - test} | ({"test": test} if test else {})
    if threshold == "cross-fitted":
        return cut(data, wanted, seed)
    apart = calibration * (1.0 - test)
    with_calibration = wanted | {"train": 1.0 - test - apart, "calibration": apart}
    try:
        parts = cut(data, with_calibration, seed)
    except ValueError:
        if threshold == "certified":
            raise
        return cut(data, wanted, seed)
    held = parts["calibration"]
    positives = held[data.labels[held] == 1]
    trials: Trials = len(positives)
    if data.units is not None:
        sizes = np.unique(data.units[positives], return_counts=True)[1]
        trials = len(sizes) if per == "unit" else UnitSizes.of(sizes)
    if certified_rank(trials, tpr, confidence):
        return parts
    if threshold == "certified":
        shared = ", its share of the risk beside the other promises" if promises else ""
        shortage = NotEnoughPositives(trials, tpr, confidence, shared=shared)
        raise ValueError(
            f"{shortage}. Use --threshold cross-fitted, which needs no calibration part, a larger --calibration,"
            " or a lower --tpr"
        )
    return cut(data, wanted, seed)


def cut(data: OwnData, shares: Mapping[str, float], seed: int) -> dict[str, Rows]:
    return own_parts(
        data.labels,
        data.labels,
        data.units,
        shares,
        seed=seed,
        member=0,
        hint="groups and copies are too large: use more data, or try another --seed",
    )
