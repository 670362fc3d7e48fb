"""A share of the samples held out, with both classes on both sides, and whether it is enough."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.operating import NotEnoughPositives, Per, UnitSizes, certified_rank, units_needed
from rankreg.operating.points import Sample

Places = NDArray[np.int64]
Units = (
    NDArray[np.int64] | None
)  # a number per sample, the same for samples that are not independent; None: all are


def hold_out(
    positive: NDArray[np.bool_], share: float, random: np.random.RandomState, units: Units = None
) -> tuple[Places, Places]:
    """The places that are kept and those held out: ⌈share · n⌉ of each class, at least one on either side.

    With units, n counts units: those with positives for the one class, all others for the other. No unit is on both
    sides. One that holds more than half of a class is kept.
    """
    codes = np.arange(len(positive)) if units is None else np.unique(units, return_inverse=True)[1]
    classes = np.stack([np.bincount(codes, weights=positive == kind) for kind in (False, True)])
    huge = (classes > classes.sum(axis=1, keepdims=True) / 2).any(axis=0)
    held = []
    for kind in (classes[1] == 0, classes[1] > 0):
        members = np.flatnonzero(kind & ~huge)
        number = math.ceil(share * np.count_nonzero(kind) - 1e-9)
        most = len(members) - (not (kind & huge).any())
        held.append(random.permutation(members)[: max(0, min(number, most))])
    out = np.isin(codes, np.concatenate(held))
    for kind in (False, True):
        if out[positive == kind].all() or not out[positive == kind].any():
            least, what = (
                int(np.count_nonzero(classes[int(kind)])),
                "member" if units is None else "independent unit",
            )
            together = "" if units is None else " of similar size; rows of one group and equal rows are one unit"
            raise ValueError(
                f"The least populated class in y has only {least} {what}{'s' if least != 1 else ''}: a share is"
                f" held out of each class, for which at least 2 are needed{together}."
            )
    return np.flatnonzero(~out), np.flatnonzero(out)


def check_share(share: Any, name: str) -> float:
    """A share of the samples."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share < 1:
        raise ValueError(
            f"{name} must be a share strictly between 0 and 1, got {share!r}: write 0.25 for a quarter"
        )
    return float(share)


def check_enough(
    positive: NDArray[np.bool_],
    held: Places,
    units: Units,
    *,
    tpr: float,
    confidence: float,
    per: Per = "row",
    size: str,
) -> None:
    """Whether the positives among the places held out can certify the TPR; said before anything is fitted.

    size: how the share was asked for, for the message.
    """
    scores = np.zeros(len(positive))  # not known yet, and not looked at
    found = Sample(positive[held], scores[held], None if units is None else units[held]).judged(per).trials
    if not certified_rank(found, tpr, confidence):
        counts = np.flatnonzero(positive) if units is None else np.unique(units[positive])
        number, total = found.units if isinstance(found, UnitSizes) else found, len(counts)
        where = f" held out of {total}" if number < total else ""
        in_all = math.ceil(units_needed(found, tpr, confidence) * total / max(number, 1))
        shared = f", which takes about {in_all} in all with {size}" if number < total else ""
        raise NotEnoughPositives(found, tpr, confidence, where, shared)
