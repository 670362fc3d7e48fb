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
    """Where the data are and what is critical in them; options for tables are refused for images, and vice versa.

    group: the column of a table, groups: the CSV file for a folder of images, that says which samples are one unit,
    e.g. a patient. calibration: the share of samples that certify the threshold; the training part gets what it
    leaves. member: another one deals training and validation samples anew, and leaves calibration and test parts as
    they are.
    """

    path: Path
    seed: int = 0
    calibration: float = SHARES["calibration"]
    groups: Path | None = None
    size: int | None = None
    member: int = 0

    @property
    def is_images(self) -> bool:
        """A folder holds images, a file is a table."""
        return self.path.is_dir()

    @property
    def side(self) -> int | None:
        """Of the images that the network sees, in pixels."""
        return (SIZE if self.size is None else self.size) if self.is_images else None


def load_source(source: Source, cache: Path) -> Splits:
    """The parts; decoded images are kept in `cache`, so that a run that is started again need not decode them."""
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
