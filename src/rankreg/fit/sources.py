"""The user's data: a table or a folder of images, cut into training, validation, calibration and test parts."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rankreg.datasets import load
from rankreg.datasets.partitions import SHARES
from rankreg.datasets.splits import Splits
from rankreg.datasets.table import TableOptions

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
        calibration: the share that certifies the threshold, default 0.15, taken from training.
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
    if not source.path.exists():
        raise FileNotFoundError(f"no file or folder {source.path}")
    shares = _shares(source.calibration)
    if source.is_images:
        _refuse(source, "a folder of images", source.column_options())
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
    _refuse(source, "a table", {"--size": source.size is not None, "--groups": source.groups})
    options = TableOptions(**{field.name: getattr(source, field.name) for field in fields(TableOptions)})
    return load("table", source.path, options, seed=source.seed, member=source.member, shares=shares)


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
