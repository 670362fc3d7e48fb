"""The user's data: a table or a folder of images, cut into training, validation, calibration and test parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankreg.datasets import load
from rankreg.datasets.partitions import SHARES
from rankreg.datasets.splits import Splits

KEPT = SHARES["validation"] + SHARES["test"]
MOST = round(1 - KEPT - 0.1, 9)  # the largest calibration share: a tenth at least is left to train on
SIZE = 64
HINTS = {  # what to use instead
    "--target": "; name the critical class with --positive",
    "--group": "; say which images belong together with --groups FILE.csv",
    "--groups": "; name the column that says which rows belong together with --group",
}


@dataclass(frozen=True)
class Source:
    """Where the data are and what is critical in them; options for tables are refused for images, and vice versa.

    group: the column of a table, groups: the CSV file for a folder of images, that says which samples are one unit,
    e.g. a patient. calibration: the share of samples that certify the threshold; the training part gets what it
    leaves. member: another one deals training and validation samples anew, and leaves calibration and test parts as
    they are.
    """

    path: Path
    target: str | None = None
    positive: str | None = None
    negative: tuple[str, ...] = ()
    rest_negative: bool = False
    seed: int = 0
    calibration: float = SHARES["calibration"]
    group: str | None = None
    groups: Path | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    id_column: str | None = None
    header: bool = True
    keep_copies_together: bool = True
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
        _refuse(source, "a folder of images", _table_options(source))
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
    if source.target is None:
        raise ValueError(f"{source.path.name} is a table: say which column is the target with --target COLUMN")
    return load(
        "table",
        source.path,
        target=source.target,
        positive=source.positive,
        negative=source.negative,
        rest_negative=source.rest_negative,
        seed=source.seed,
        member=source.member,
        shares=shares,
        drop=source.drop,
        categorical=source.categorical,
        group=source.group,
        id_column=source.id_column,
        header=source.header,
        keep_copies_together=source.keep_copies_together,
    )


def _shares(calibration: float) -> dict[str, float]:
    if not 0 < calibration <= MOST:
        raise ValueError(
            f"the calibration share must lie above 0 and be at most {MOST:g}, got {calibration!r}:"
            f" validation and test take {KEPT:g}, and something must be left to train on"
        )
    return SHARES | {"calibration": calibration, "train": 1 - KEPT - calibration}


def _table_options(source: Source) -> Mapping[str, Any]:
    return {
        "--target": source.target,
        "--group": source.group,
        "--drop": source.drop,
        "--categorical": source.categorical,
        "--id": source.id_column,
        "--no-header": not source.header,
        "--split-copies": not source.keep_copies_together,
    }


def _refuse(source: Source, what: str, options: Mapping[str, Any]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        hint = HINTS.get(given[0], "")
        raise ValueError(f"{source.path} is {what}, for which there is no {', '.join(given)}{hint}")
