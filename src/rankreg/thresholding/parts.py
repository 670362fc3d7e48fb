"""A share of the samples held out, with both classes on both sides, and whether it is enough."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.operating import NotEnoughPositives, certified_rank, positives_needed

Places = NDArray[np.int64]


def hold_out(positive: NDArray[np.bool_], share: float, random: np.random.RandomState) -> tuple[Places, Places]:
    """The places that are kept and those held out: ⌈share · n⌉ of each class, at least one on either side."""
    held = []
    for members in (np.flatnonzero(~positive), np.flatnonzero(positive)):
        if len(members) < 2:
            raise ValueError(
                f"The least populated class in y has only {len(members)} member: a share is held out of each class,"
                " for which at least 2 are needed."
            )
        number = min(math.ceil(share * len(members) - 1e-9), len(members) - 1)
        held.append(random.permutation(members)[:number])
    out = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(positive)), out), out


def check_share(share: Any, name: str) -> float:
    """A share of the samples."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share < 1:
        raise ValueError(
            f"{name} must be a share strictly between 0 and 1, got {share!r}: write 0.25 for a quarter"
        )
    return float(share)


def check_enough(held: int, total: int, *, tpr: float, confidence: float, size: str) -> None:
    """Whether so many positives can certify the TPR; said before anything is fitted.

    held: the positives held out of `total`; size: how the share was asked for, for the message.
    """
    needed = positives_needed(tpr, confidence)
    if not certified_rank(held, tpr, confidence):
        where = f" held out of {total}" if held < total else ""
        in_all = math.ceil(needed * total / max(held, 1))
        shared = f", which takes about {in_all} in all with {size}" if held < total else ""
        raise NotEnoughPositives(held, tpr, confidence, where, shared)
