"""The user's data: a table or a folder of images, as a whole for a fit, or in parts for a search."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.bundle.ensemble import ImageViews, TableViews
from rankreg.datasets import load
from rankreg.datasets.partitions import SHARES
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.datasets.splits import Samples, Splits
from rankreg.datasets.table import OwnTable, TableOptions, read_own_table
from rankreg.pool import return_freed_memory

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

    def table_options(self) -> TableOptions:
        """What was said about the columns."""
        return TableOptions(**{one.name: getattr(self, one.name) for one in fields(TableOptions)})

    @property
    def side(self) -> int | None:
        """The side of the images that the network sees, in pixels; None for a table."""
        return (SIZE if self.size is None else self.size) if self.is_images else None


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnData:
    """All samples of a source, not yet cut into parts.

    Attributes:
        name: what to call the data.
        kind: "table" or "image".
        labels: 0 or 1 for each sample, (N,).
        ids: the names of the samples, (N,).
        units: the number of each sample's unit, where copies and groups make units of several; else None.
        classes: the names of the negative and of the positive class.
        preprocessing: what a bundle must know to read new samples alike.
        images: of a folder of images, uint8 (N, H, W, 3), perhaps a memory map.
        table: of a table, its columns and how they were read.
        temporary: nobody needs the table after a fit, which may empty it to save memory. Default False.
    """

    name: str
    kind: Literal["table", "image"]
    labels: NDArray[np.int64]
    ids: NDArray[Any]
    units: NDArray[np.int64] | None
    classes: tuple[str, str]
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    images: NDArray[np.uint8] | None = None
    table: OwnTable | None = None
    temporary: bool = False

    def prepared(self, rows: NDArray[np.int64], *, release: bool = False) -> "PreparedData":
        """The inputs of all samples, with what these rows, which train, say about the columns.

        release: empty the table meanwhile, for less memory.
        """
        if self.table is None:
            assert self.images is not None
            return PreparedData(self.images, None, self.preprocessing)
        features: pd.DataFrame = self.table.features
        seen = features if len(rows) == len(features) else features.iloc[rows]
        preparation = TablePreprocessor.fit(seen, categorical=self.table.categorical)
        del seen
        if release:
            return_freed_memory()
        unused = (*preparation.unused, *self.table.plan.left_out)
        described = replace(preparation, unused=unused).to_dict() | dict(self.preprocessing)
        inputs = preparation.transform(features, release=release)
        if release:
            return_freed_memory()
        return PreparedData(inputs, preparation, described)


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


def read_source(source: Source, cache: Path) -> OwnData:
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
    if source.is_images:
        splits = _image_parts(source, {"train": 1.0}, cache)
        whole: Samples = splits["train"]
        return OwnData(
            name=splits.name,
            kind="image",
            labels=whole.labels,
            ids=whole.ids,
            units=whole.units,
            classes=(splits.classes[0], splits.classes[1]),
            preprocessing=splits.preprocessing,
            images=whole.source if len(whole.source) == len(whole) else whole.inputs(),
        )
    table = read_own_table(source.path, source.table_options())
    if not 0 < int(table.labels.sum()) < len(table.labels):
        raise ValueError(
            f"{source.path}: all {len(table.labels):,} rows belong to one class, there is nothing to tell apart:"
            " check which value is the positive one"
        )
    return OwnData(
        name=table.name,
        kind="table",
        labels=table.labels,
        ids=table.ids,
        units=table.units,
        classes=table.classes,
        preprocessing=table.preprocessing,
        table=table,
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
    shares = _shares(source.calibration)
    if source.is_images:
        return _image_parts(source, shares, cache)
    return load("table", source.path, source.table_options(), seed=source.seed, member=source.member, shares=shares)


def _check_source(source: Source) -> None:
    """The data are there, and the options fit their kind."""
    if not source.path.exists():
        raise FileNotFoundError(f"no file or folder {source.path}")
    if source.is_images:
        _refuse(source, "a folder of images", source.column_options())
    else:
        _refuse(source, "a table", {"--size": source.size is not None, "--groups": source.groups})


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


def _shares(calibration: float) -> dict[str, float]:
    if not 0 < calibration <= MOST:
        raise ValueError(
            f"the calibration share must lie above 0 and be at most {MOST:g}, got {calibration!r}:"
            f" validation and test take {KEPT:g}, and something must be left to train on"
        )
    return SHARES | {"calibration": calibration, "train": 1 - KEPT - calibration}


def _refuse(source: Source, what: str, options: Mapping[str, Any]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        hint = HINTS.get(given[0], "")
        raise ValueError(f"{source.path} is {what}, for which there is no {', '.join(given)}{hint}")
