"""Which samples of one's own data train, which certify and which test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets.partitions import own_parts
from rankreg.fit.sources import OwnData
from rankreg.operating import Promises, positives_needed
from rankreg.operating.guarantees import NotEnoughPositives, certified_rank
from rankreg.operating.units import Per, Trials, UnitSizes

Rows = NDArray[np.int64]
ThresholdName = Literal["auto", "certified", "cross-fitted"]

ALONE = Promises()  # a recall and nothing beside it
CALIBRATION = 0.2  # the share that certifies a threshold
PARTS_HINT = "groups and copies are too large: use more data, or try another --seed"


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
        confidence = promises.recall_confidence(tpr, confidence, mixed=_mixed(data))
    wanted = {"train": 1.0 - test} | ({"test": test} if test else {})
    if threshold == "cross-fitted":
        return cut(data, wanted, seed)
    held = calibration * (1.0 - test)
    with_calibration = wanted | {"train": 1.0 - test - held, "calibration": held}
    try:
        parts = cut(data, with_calibration, seed)
    except ValueError:
        if threshold == "certified":
            raise
        return cut(data, wanted, seed)
    trials = _trials(data, parts["calibration"], per)
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
    if len(shares) == 1:
        return {"train": np.arange(len(data.labels))}
    units = np.arange(len(data.labels)) if data.units is None else data.units
    return own_parts(data.labels, data.labels, units, shares, seed=seed, member=0, hint=PARTS_HINT)


def _trials(data: OwnData, rows: Rows, per: Per) -> Trials:
    """How many independent positives these rows have, or the sizes of their units."""
    positive = rows[data.labels[rows] == 1]
    if data.units is None:
        return len(positive)
    sizes = np.unique(data.units[positive], return_counts=True)[1]
    return len(sizes) if per == "unit" else UnitSizes.of(sizes)


def _mixed(data: OwnData) -> bool:
    """Whether a unit has rows of both classes."""
    if data.units is None:
        return False
    positive = data.labels == 1
    return bool(np.isin(data.units[positive], data.units[~positive]).any())
