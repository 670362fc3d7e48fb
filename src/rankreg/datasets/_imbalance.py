"""Which indices survive: fixed partitions, thinned draws, long tails and label noise. Pure functions of seeds.

Orders come from raw generator words, which numpy promises never to change: a split is the same on every version.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankreg._names import look_up

Indices = NDArray[np.int64]
NoiseName = Literal["balanced", "literal"]

PARTITION, DRAW, NOISE, GROUPS = 1, 2, 3, 4  # what randomness is for: one seed gives independent streams
PARTITION_SEED = 0  # docs/decisions/0010


@dataclass(frozen=True)
class Partition:
    """How many samples of one class go where, once for all splits; what is left is the training pool."""

    validation: int
    tuning: int = 0
    extended: int = 0
    test: int = 0  # for sources without a test set of their own

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
    negative_sizes: Partition,
    positive_sizes: Partition,
    ratio: float,
    seed: int,
) -> dict[str, tuple[Indices, Indices]]:
    """Indices of (negatives, positives) for "train", "validation", "test", "tuning" and "extended".

    Training negatives are 90 % of what validation (and test) leave of each negative class, positives are
    negatives / ratio, both drawn from the pools by `seed`; everything else is the same for all seeds and disjoint.
    """
    if not ratio > 0 or not math.isfinite(ratio):
        raise ValueError(f"ratio must be a number above 0 (negatives per positive), got {ratio!r}")
    parts: dict[str, tuple[list[Indices], list[Indices]]] = {
        name: ([], []) for name in ("train", "validation", "test", "tuning", "extended")
    }

    def place(label: int, sizes: Partition, count: int, side: int) -> None:
        cut = partition_class(members[label], sizes, label=label, at_least=count)
        parts["train"][side].append(shuffled(cut.pop("pool"), DRAW, seed, label)[:count])
        for name, indices in cut.items():
            parts[name][side].append(indices)

    total = 0
    for label in negatives:
        left = len(members[label]) - negative_sizes.validation - negative_sizes.test
        total += (count := max(left, 0) * 9 // 10)
        place(label, negative_sizes, count, 0)
    for label, count in zip(positives, evenly(thinned_count(total, ratio), len(positives)), strict=True):
        place(label, positive_sizes, count, 1)
    return {name: (np.concatenate(no), np.concatenate(yes)) for name, (no, yes) in parts.items()}


def thinned_count(negatives: int, ratio: float) -> int:
    """⌊negatives / ratio⌋, at least one."""
    count = math.floor(negatives / ratio + 1e-9)
    if count < 1:
        raise ValueError(f"{negatives} training negatives at 1:{ratio:g} leave no positive: lower the ratio")
    return count


def thin(positives: Indices, negatives: int, ratio: float, *, seed: int) -> Indices:
    """The positives that stay when there shall be one per `ratio` negatives."""
    count = thinned_count(negatives, ratio)
    if count > len(positives):
        raise ValueError(
            f"1:{ratio:g} of {negatives} training negatives is {count} positives, there are {len(positives)}:"
            f" the lowest ratio is {negatives / max(len(positives), 1):.3g}"
        )
    return shuffled(np.sort(positives), DRAW, seed)[:count]


def evenly(total: int, shares: int) -> list[int]:
    """A total as whole numbers that differ by at most one."""
    return [total // shares + (k < total % shares) for k in range(shares)]


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


def flip_labels(
    labels: NDArray[np.int64], eta: float, kind: NoiseName = "balanced", *, seed: int
) -> NDArray[np.int64]:
    """Training labels with noise η.

    "balanced": round(η · #positives) positives and equally many negatives change sides, so the ratio stays.
    "literal": every label is flipped with probability η.
    """
    if not 0 <= eta <= 1:
        raise ValueError(f"eta must lie in [0, 1], got {eta!r}: it is the share of labels that are flipped")
    flips = look_up(NOISES, kind, "noise")(labels, eta, seed)
    noisy = labels.copy()
    noisy[flips] = 1 - noisy[flips]
    return noisy


def _balanced_flips(labels: NDArray[np.int64], eta: float, seed: int) -> Indices:
    positives, negatives = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    count = min(math.floor(eta * len(positives) + 0.5), len(negatives))
    sides = (shuffled(side, NOISE, seed, k)[:count] for k, side in enumerate((negatives, positives)))
    return np.concatenate(list(sides))


def _literal_flips(labels: NDArray[np.int64], eta: float, seed: int) -> Indices:
    words = np.random.PCG64(np.random.SeedSequence([NOISE, seed])).random_raw(len(labels))
    return np.flatnonzero((words >> np.uint64(11)) * 2.0**-53 < eta)


NOISES = {"balanced": _balanced_flips, "literal": _literal_flips}
