"""Stratified parts of one's own data: samples that belong together stay together, rare classes spread first."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets._imbalance import PARTITION, shuffled

FEWEST = 2  # of either class in every part: fewer say nothing
SHARES: dict[str, float] = {"train": 0.6, "validation": 0.1, "calibration": 0.15, "test": 0.15}


def stratified_parts(
    labels: NDArray[np.int64], groups: NDArray[Any], shares: Mapping[str, float], *, seed: int, member: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Indices of each part: no group is in two parts, and each class is shared out as `shares` say.

    Another `member` of an ensemble deals training and validation samples anew among these two parts, and leaves
    the others, which judge the ensemble, as they are.
    """
    _check_shares(shares)
    parts = _cut(labels, groups, shares, seed)
    if member and "validation" in shares:
        both = np.sort(np.append(parts["train"], parts["validation"]))
        two = {name: shares[name] for name in ("train", "validation")}
        parts |= {name: both[rows] for name, rows in _cut(labels[both], groups[both], two, seed, member).items()}
    return parts


def _cut(
    labels: NDArray[np.int64], groups: NDArray[Any], shares: Mapping[str, float], *words: int
) -> dict[str, NDArray[np.int64]]:
    """Classes are dealt from the rarest on, a group going with the rarest class it holds; large groups first, each
    to the part that lacks most, then single samples to fill the parts up exactly."""
    codes = np.unique(groups, return_inverse=True)[1].reshape(-1)
    part_of = np.full(int(codes.max(initial=-1)) + 1, -1)
    kinds, sizes = np.unique(labels, return_counts=True)
    for label, size in sorted(zip(kinds, sizes, strict=True), key=lambda pair: (pair[1], pair[0])):
        counts = np.bincount(codes[labels == label], minlength=len(part_of))
        dealt = part_of >= 0
        lacking = apportion(int(size), list(shares.values()))
        lacking -= np.bincount(part_of[dealt], weights=counts[dealt], minlength=len(shares)).astype(np.int64)
        todo = shuffled(np.flatnonzero(~dealt & (counts > 0)), PARTITION, *words, int(label))
        part_of[todo] = _deal(counts[todo], lacking)
    return {name: np.flatnonzero(part_of[codes] == k) for k, name in enumerate(shares)}


def apportion(total: int, shares: Sequence[float]) -> NDArray[np.int64]:
    """A total in whole numbers by shares (largest remainders), at least `FEWEST` each where the total allows."""
    floor = FEWEST if total >= FEWEST * len(shares) else 0
    exact = np.asarray(shares) / math.fsum(shares) * total
    counts = np.maximum(np.floor(exact + 1e-9).astype(np.int64), floor)
    while counts.sum() < total:
        counts[np.argmax(exact - counts)] += 1
    while counts.sum() > total:
        counts[np.argmax(np.where(counts > floor, counts - exact, -np.inf))] -= 1
    return counts


def _deal(weights: NDArray[np.int64], lacking: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of each group, by its weight and what each part lacks."""
    given = np.empty(len(weights), dtype=np.int64)
    heavy = np.flatnonzero(weights > 1)
    missing = lacking.tolist()
    for group in heavy[np.argsort(-weights[heavy], kind="stable")]:
        given[group] = part = missing.index(max(missing))
        missing[part] -= int(weights[group])
    single = np.flatnonzero(weights == 1)
    places = np.repeat(np.arange(len(missing)), np.maximum(missing, 0))  # at least as many as there are singles
    given[single] = places[(np.arange(len(single)) * 2 + 1) * len(places) // max(2 * len(single), 1)]
    return given


def check_both_classes(labels: NDArray[np.int64], shares: Mapping[str, float], names: Sequence[str]) -> None:
    """Both classes are there, with enough samples for every part."""
    counts = [int(np.count_nonzero(labels == k)) for k in (0, 1)]
    needed = FEWEST * len(shares)
    for name, count, other in zip(names, counts, reversed(counts), strict=True):
        if count == 0:
            raise ValueError(
                f"no {name} samples: all {other} belong to one class, and there is nothing to tell apart;"
                " check which label or folder is the positive one"
            )
        if count < needed:
            raise ValueError(
                f"only {count} {name} samples: at least {needed} are needed,"
                f" {FEWEST} for each of {', '.join(shares)}; collect more"
            )


def check_parts(labels: NDArray[np.int64], parts: Mapping[str, NDArray[np.int64]], hint: str) -> None:
    """Every part holds both classes: groups that are too large can prevent it."""
    for name, rows in parts.items():
        if len(np.unique(labels[rows])) < 2:
            raise ValueError(f"the {name} part got samples of one class only, since groups stay together: {hint}")


def _check_shares(shares: Mapping[str, float]) -> None:
    bad = [name for name, share in shares.items() if not (share > 0 and math.isfinite(share))]
    if bad or "train" not in shares:
        raise ValueError(f"shares must be numbers above 0 and include 'train', got {dict(shares)}")
