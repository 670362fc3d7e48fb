"""Which sample goes to which part: fixed partitions, thinned classes, long tails, groups that stay together.

Orders come from raw generator words, which numpy promises never to change: a split is the same on every version.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

PARTITION, DRAW, NOISE, GROUPS = 1, 2, 3, 4  # what randomness is for: one seed gives independent streams
PARTITION_SEED = 0  # docs/decisions/0010
FEWEST = 2  # of either class in every part: fewer say nothing
SHARES: dict[str, float] = {"train": 0.6, "validation": 0.1, "calibration": 0.15, "test": 0.15}


@dataclass(frozen=True)
class Partition:
    """How many samples of one class go where, the same for all splits. The rest is the training pool.

    Args:
        validation: samples of the validation part.
        tuning: samples that judge settings.
        extended: samples of the extended test.
        test: samples of the test part, for sources without a test set of their own.
    """

    validation: int
    tuning: int = 0
    extended: int = 0
    test: int = 0

    def __post_init__(self) -> None:
        if min(self.validation, self.tuning, self.extended, self.test) < 0:
            raise ValueError(f"a partition counts samples, none below 0: got {self}")


def shuffled(values: NDArray[Any], *words: int) -> NDArray[Any]:
    """The values in an order that the words decide."""
    if any(word < 0 for word in words):
        raise ValueError(f"a seed must be 0 or more, got {min(words)}")
    keys = np.random.PCG64(np.random.SeedSequence(list(words))).random_raw(len(values))
    return values[np.argsort(keys, kind="stable")]


def partition_class(members: Indices, sizes: Partition, *, label: int, at_least: int = 0) -> dict[str, Indices]:
    """One class cut into "validation", "test", "tuning", "extended" and "pool", the same for every split.

    When a split trains on more samples than the pool holds (`at_least`), the pool grows into the extended test.
    """
    reserved = sizes.validation + sizes.test + sizes.tuning
    free = len(members) - reserved
    roomy = min(free, math.ceil(at_least / 0.9))  # a tenth to spare, so that splits differ
    pool = max(free - sizes.extended, roomy)
    if pool < max(at_least, 1):
        raise ValueError(
            f"class {label} has {len(members)} samples, of which {reserved} are for validation, test and tuning:"
            f" {max(free, 0)} are left to train on, {max(at_least, 1)} are needed;"
            " raise the ratio or give a partition with fewer reserved"
        )
    order = shuffled(np.sort(members), PARTITION, PARTITION_SEED, label)
    edges = np.cumsum([sizes.validation, sizes.test, sizes.tuning])
    validation, test, tuning, rest = np.split(order, edges)
    extended, trained = rest[: len(rest) - pool], rest[len(rest) - pool :]
    return {"validation": validation, "test": test, "tuning": tuning, "extended": extended, "pool": trained}


def binary_split(
    members: Mapping[int, Indices],
    negatives: Sequence[int],
    positives: Sequence[int],
    *,
    sizes: tuple[Partition, Partition],
    ratio: float,
    seed: int,
) -> dict[str, Indices]:
    """Sorted indices of "train", "validation", "test", "tuning" and "extended"; sizes: of negatives and positives.

    Training negatives are 90 % of what validation (and test) leave of each negative class, positives are
    negatives / ratio, both drawn from the pools by `seed`; everything else is the same for all seeds and disjoint.
    """
    if not ratio > 0 or not math.isfinite(ratio):
        raise ValueError(f"ratio must be a number above 0 (negatives per positive), got {ratio!r}")
    parts: dict[str, list[Indices]] = {name: [] for name in ("train", "validation", "test", "tuning", "extended")}

    def place(label: int, apart: Partition, count: int) -> None:
        cut = partition_class(members[label], apart, label=label, at_least=count)
        parts["train"].append(shuffled(cut.pop("pool"), DRAW, seed, label)[:count])
        for name, indices in cut.items():
            parts[name].append(indices)

    total = 0
    for label in negatives:
        left = len(members[label]) - sizes[0].validation - sizes[0].test
        total += (count := max(left, 0) * 9 // 10)
        place(label, sizes[0], count)
    shared = np.array_split(np.arange(thinned_count(total, ratio)), len(positives))  # as evenly as can be
    for label, some in zip(positives, shared, strict=True):
        place(label, sizes[1], len(some))
    return {name: np.sort(np.concatenate(pieces)) for name, pieces in parts.items()}


def long_tailed_split(
    members: Mapping[int, Indices], sizes: Partition, *, imbalance: float, seed: int
) -> dict[str, Indices]:
    """Indices of "train", "validation" and "test", class by class; training classes as `long_tail_counts` says."""
    largest = min(map(len, members.values())) - sizes.validation - sizes.test
    parts: dict[str, list[Indices]] = {"train": [], "validation": [], "test": []}
    counts = long_tail_counts(largest, imbalance, len(members))
    for (label, indices), count in zip(members.items(), counts, strict=True):
        cut = partition_class(indices, sizes, label=label, at_least=count)
        parts["train"].append(shuffled(cut["pool"], DRAW, seed, label)[:count])
        parts["validation"].append(cut["validation"])
        parts["test"].append(cut["test"])
    return {name: np.concatenate(pieces) for name, pieces in parts.items()}


def thinned_count(negatives: int, ratio: float) -> int:
    """⌊negatives / ratio⌋, at least one."""
    count = math.floor(negatives / ratio + 1e-9)
    if count < 1:
        raise ValueError(f"{negatives} training negatives at 1:{ratio:g} leave no positive: lower the ratio")
    return count


def thinned(train: Indices, labels: NDArray[np.int64], ratio: float, *, seed: int) -> Indices:
    """The training samples with one positive per `ratio` negatives, sorted."""
    negatives, positives = train[labels[train] == 0], train[labels[train] == 1]
    count = thinned_count(len(negatives), ratio)
    if count > len(positives):
        raise ValueError(
            f"1:{ratio:g} of {len(negatives)} training negatives is {count} positives, there are {len(positives)}:"
            f" the lowest ratio is {len(negatives) / max(len(positives), 1):.3g}"
        )
    return np.sort(np.append(negatives, shuffled(np.sort(positives), DRAW, seed)[:count]))


def long_tail_counts(largest: int, imbalance: float, classes: int) -> list[int]:
    """n_k = ⌊largest · imbalance^(−k / (K − 1))⌋ for k = 0 … K − 1.

    Reference: Cao et al., NeurIPS 2019, section 4.1 (long-tailed CIFAR).
    """
    if not imbalance >= 1 or not math.isfinite(imbalance):
        raise ValueError(f"imbalance must be at least 1 (largest class / smallest), got {imbalance!r}")
    counts = [math.floor(largest * imbalance ** (-k / (classes - 1)) + 1e-9) for k in range(classes)]
    if counts[-1] < 1:
        raise ValueError(f"imbalance {imbalance:g} of {largest} samples leaves the rarest class empty: lower it")
    return counts


def flip_labels(labels: NDArray[np.int64], eta: float, *, seed: int) -> NDArray[np.int64]:
    """Training labels with noise η: round(η · #positives) positives and equally many negatives change sides."""
    if not 0 <= eta <= 1:
        raise ValueError(f"eta must lie in [0, 1], got {eta!r}: it is the share of labels that are flipped")
    sides = np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)
    count = min(math.floor(eta * len(sides[1]) + 0.5), len(sides[0]))
    noisy = labels.copy()
    for k, side in enumerate(sides):
        noisy[shuffled(side, NOISE, seed, k)[:count]] = 1 - k
    return noisy


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
    if "train" not in shares or not all(share > 0 and math.isfinite(share) for share in shares.values()):
        raise ValueError(f"shares must be numbers above 0 and include 'train', got {dict(shares)}")
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
    fills_a_part = totals > np.sort(apportion(len(labels), list(shares.values())))[-2:][0]  # the second largest
    for label, size in sorted(zip(kinds, sizes, strict=True), key=lambda pair: (pair[1], pair[0])):
        counts = np.bincount(codes[labels == label], minlength=len(part_of))
        wanted = apportion(int(size), list(shares.values()))
        todo = shuffled(np.flatnonzero((part_of < 0) & (counts > 0)), PARTITION, *words, int(label))
        several, huge = counts[todo] > 1, fills_a_part[todo] | (counts[todo] > np.sort(wanted)[-2:][0])
        first = todo[several if largest_first else huge]
        by_chance = todo[several & ~huge & (not largest_first)]
        part_of[first] = _to_the_emptiest(counts[first], _lacking(wanted, counts, part_of))
        part_of[by_chance] = _spread(counts[by_chance], _lacking(wanted, counts, part_of), *words, int(label))
        single = todo[part_of[todo] < 0]
        part_of[single] = _fill(len(single), _lacking(wanted, counts, part_of))
    return {name: np.flatnonzero(part_of[codes] == k) for k, name in enumerate(shares)}


def deal_folds(labels: NDArray[np.int64], units: NDArray[np.int64], count: int, *, seed: int) -> NDArray[np.int64]:
    """The fold of each sample, from 0: classes are shared out evenly, units stay together, the seed decides."""
    parts = _cut(labels, units, {str(k): 1.0 for k in range(count)}, False, seed, count)
    folds = np.empty(len(labels), dtype=np.int64)
    for k in range(count):
        folds[parts[str(k)]] = k
    for kind, name in ((1, "positives"), (0, "negatives")):
        if len(np.unique(folds[labels == kind])) < count:
            raise ValueError(
                f"one of {count} folds would get no {name}, since groups stay together: use fewer --folds"
            )
    return folds


def _lacking(wanted: NDArray[np.int64], counts: NDArray[np.int64], part_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each part still needs of a class; part_of: of each group, −1 if it is not dealt yet."""
    dealt = part_of >= 0
    given = np.bincount(part_of[dealt], weights=counts[dealt], minlength=len(wanted))
    return wanted - given.astype(np.int64)


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


def own_parts(
    labels: NDArray[np.int64],
    classes: NDArray[np.int64],
    units: NDArray[np.int64] | None,
    shares: Mapping[str, float],
    *,
    seed: int,
    member: int,
    hint: str,
) -> dict[str, NDArray[np.int64]]:
    """Parts stratified by `classes`, each with both labels and about the share it should have.

    The test part is cut first, by the labels alone. So it depends on its share and the seed only: a search and a
    fit that set the same share aside leave the same samples out, whatever other parts they need. units: None if
    every sample is one.
    """
    units = np.arange(len(labels)) if units is None else units
    rest, parts = np.arange(len(labels)), {}
    inner = {name: share for name, share in shares.items() if name != "test"}
    if "test" in shares:
        outer = {"train": sum(inner.values()), "test": shares["test"]}
        cut = stratified_parts(labels, units, outer, seed=seed)
        rest, parts = cut["train"], {"test": cut["test"]}
    if len(inner) == 1:
        parts |= dict.fromkeys(inner, rest)
    else:
        cut = stratified_parts(classes[rest], units[rest], inner, seed=seed, member=member)
        parts |= {name: rest[rows] for name, rows in cut.items()}
    for name, share in shares.items():
        wanted, found = share / sum(shares.values()), len(parts[name]) / len(labels)
        if len(labels) >= 100 and abs(found - wanted) > 0.1:
            raise ValueError(
                f"the {name} part would get {found:.0%} of the samples instead of {wanted:.0%},"
                f" since groups and copies stay together: {hint}"
            )
    check_parts(labels, parts, hint)
    return {name: parts[name] for name in shares}
