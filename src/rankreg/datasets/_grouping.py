"""Stratified parts of one's own data: samples that belong together stay together, rare classes spread first."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.datasets._imbalance import GROUPS, PARTITION, shuffled

FEWEST = 2  # of either class in every part: fewer say nothing
SHARES: dict[str, float] = {"train": 0.6, "validation": 0.1, "calibration": 0.15, "test": 0.15}


def stratified_parts(
    labels: NDArray[np.int64],
    groups: NDArray[Any],
    shares: Mapping[str, float],
    *,
    seed: int,
    member: int = 0,
    largest_first: bool = False,
) -> dict[str, NDArray[np.int64]]:
    """Indices of each part: no group is in two parts, and each class is shared out as `shares` say.

    A group's part does not depend on its size, so that every part has large and small groups as the data have
    them: a threshold certified on a part without large groups would promise nothing about them. Another `member`
    of an ensemble deals training and validation samples anew among these two parts, and leaves the others, which
    judge the ensemble, as they are. largest_first: the older rule of recorded partitions. It meets the shares more
    closely, but puts most large groups into the training part.
    """
    _check_shares(shares)
    parts = _cut(labels, groups, shares, largest_first, seed)
    if member and "validation" in shares:
        both = np.sort(np.append(parts["train"], parts["validation"]))
        two = {name: shares[name] for name in ("train", "validation")}
        anew = _cut(labels[both], groups[both], two, largest_first, seed, member)
        parts |= {name: both[rows] for name, rows in anew.items()}
    return parts


def _cut(
    labels: NDArray[np.int64], groups: NDArray[Any], shares: Mapping[str, float], largest_first: bool, *words: int
) -> dict[str, NDArray[np.int64]]:
    """Classes are dealt from the rarest on, a group going with the rarest class it holds: first groups too large to
    be dealt by chance, then groups of several samples, then single samples to fill the parts up exactly."""
    codes = np.unique(groups, return_inverse=True)[1].reshape(-1)
    totals = np.bincount(codes)
    part_of = np.full(len(totals), -1)
    kinds, sizes = np.unique(labels, return_counts=True)
    fills_a_part = totals > _second_largest(apportion(len(labels), list(shares.values())))
    for label, size in sorted(zip(kinds, sizes, strict=True), key=lambda pair: (pair[1], pair[0])):
        counts = np.bincount(codes[labels == label], minlength=len(part_of))
        wanted = apportion(int(size), list(shares.values()))
        todo = shuffled(np.flatnonzero((part_of < 0) & (counts > 0)), PARTITION, *words, int(label))
        several, huge = counts[todo] > 1, fills_a_part[todo] | (counts[todo] > _second_largest(wanted))
        first = todo[several if largest_first else huge]
        by_chance = todo[several & ~huge & (not largest_first)]
        part_of[first] = _to_the_emptiest(counts[first], _lacking(wanted, counts, part_of))
        part_of[by_chance] = _spread(counts[by_chance], _lacking(wanted, counts, part_of), *words, int(label))
        single = todo[part_of[todo] < 0]
        part_of[single] = _fill(len(single), _lacking(wanted, counts, part_of))
    return {name: np.flatnonzero(part_of[codes] == k) for k, name in enumerate(shares)}


def _lacking(wanted: NDArray[np.int64], counts: NDArray[np.int64], part_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each part still needs of a class; part_of: of each group, −1 if it is not dealt yet."""
    dealt = part_of >= 0
    given = np.bincount(part_of[dealt], weights=counts[dealt], minlength=len(wanted))
    return wanted - given.astype(np.int64)


def _second_largest(values: NDArray[np.int64]) -> int:
    return int(np.sort(values)[-2:][0])


def _spread(weights: NDArray[np.int64], lacking: NDArray[np.int64], *words: int) -> NDArray[np.int64]:
    """The part of each group, by chance: of every size, parts get groups in proportion to what they lack.

    The parts alternate in an even pattern along the groups in the order of their weight. The pattern is turned by
    chance, so a group's chance of a part is the same whatever its weight.
    """
    number, places = len(weights), lacking.clip(min=0)
    places = places if places.any() else np.ones_like(places)
    start, turn = np.random.PCG64(np.random.SeedSequence([GROUPS, *words])).random_raw(2).tolist()
    edges = np.cumsum(places) / places.sum() * number + (start >> 11) * 2.0**-53  # rounded by chance
    counts = np.diff(np.floor(edges[:-1]), prepend=0, append=number).astype(np.int64)
    while number >= FEWEST * len(places) and counts[places > 0].min() < FEWEST:
        counts[np.argmin(np.where(places > 0, counts, number))] += 1
        counts[np.argmax(counts)] -= 1
    spread = np.concatenate([(np.arange(count) + 0.5) / count for count in counts.tolist()])
    pattern = np.repeat(np.arange(len(places)), counts)[np.argsort(spread, kind="stable")]
    given = np.empty(number, dtype=np.int64)
    given[np.argsort(-weights, kind="stable")] = np.roll(pattern, turn % max(number, 1))
    return given


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


def _to_the_emptiest(weights: NDArray[np.int64], lacking: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of each group, large ones first, each to the part that lacks most."""
    given = np.empty(len(weights), dtype=np.int64)
    for group in np.argsort(-weights, kind="stable"):
        given[group] = part = np.argmax(lacking)
        lacking[part] -= weights[group]
    return given


def _fill(number: int, lacking: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of each of so many single samples; they are no more than the parts lack."""
    places = np.repeat(np.arange(len(lacking)), lacking.clip(min=0))
    return places[(np.arange(number) * 2 + 1) * len(places) // max(2 * number, 1)]


def linked(*codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number per set of samples that are connected by a code they share, e.g. copies that two patients have."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    found = codes[0]
    for more in codes[1:]:
        nodes = int(found.max(initial=-1)) + 1
        size = nodes + int(more.max(initial=-1)) + 1
        graph = coo_array((np.ones(len(found)), (found, more + nodes)), shape=(size, size))
        found = np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)[found]
    return found


def distinct_or_none(units: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The units, or None if every sample is a unit of its own."""
    return None if len(np.unique(units)) == len(units) else units


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


def check_shares_kept(parts: Mapping[str, NDArray[np.int64]], shares: Mapping[str, float], hint: str) -> None:
    """Large groups can make parts of quite other sizes than wanted."""
    rows = sum(map(len, parts.values()))
    for name, share in shares.items():
        wanted = share / sum(shares.values())
        if rows >= 100 and abs(len(parts[name]) / rows - wanted) > 0.1:
            raise ValueError(
                f"the {name} part would get {len(parts[name]) / rows:.0%} of the samples instead of {wanted:.0%},"
                f" since groups and copies stay together: {hint}"
            )


def _check_shares(shares: Mapping[str, float]) -> None:
    bad = [name for name, share in shares.items() if not (share > 0 and math.isfinite(share))]
    if bad or "train" not in shares:
        raise ValueError(f"shares must be numbers above 0 and include 'train', got {dict(shares)}")
