"""Many trees at once: the leaf of every tree by a few table look-ups and bitwise ands instead of walking.

A tree's leaves are numbered from left to right, one bit each. A split that sends a row to the right rules
out the leaves on its left. So every split is a mask, and the leaf of a row is the lowest bit that is left
after the masks of all splits that sent it to the right. A feature's splits are sorted by their thresholds:
for every interval between two of them the masks of all trees are joined beforehand and stand in one line
of a table. A row takes one line per feature (QuickScorer; Lucchese et al., SIGIR 2015).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rankreg.bundle.trees import Tree, Trees

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Masks = NDArray[Any]

TILE = 256  # trees that are asked together: the places of their leaves fit into 16 bits
AT_ONCE = 100_000  # rows times trees that are asked together: larger arrays leave the cache
JOINED = 256  # lines of a table for several features
MOST_TABLES = 100  # with more of them walking is faster
MOST_BYTES, BYTES_OF_A_LEAF = 400_000_000, 100
FEWEST_ROWS = 1000  # worth a thread
# By the number of leaves: the type of a mask, and the hash that tells where its lowest bit is. Multiplying a
# de Bruijn number by a power of two brings different bits to the top for every power.
HASHES: dict[int, tuple[type[np.unsignedinteger[Any]], int, int]] = {
    16: (np.uint16, 0x09AF, 12),
    32: (np.uint32, 0x077CB531, 27),
    64: (np.uint64, 0x03F79D71B4CB0A89, 58),
}


@dataclass(frozen=True, eq=False)
class Tile:
    """Trees of one member.

    Args:
        member: its number.
        tables: masks, one table per group of features, (lines, trees).
        leaves: the values of all leaves, where the hash finds them, (trees · leaves,).
        starts: where each tree's leaves start, (trees,).
    """

    member: int
    tables: list[Masks]
    leaves: Floats
    starts: Masks


@dataclass(frozen=True, eq=False)
class TreeTables:
    """The trees of several members as tables.

    Args:
        groups: of each table the features that choose its line, each with its cuts.
        tiles: the tables.
        divisors: what the sum of each member's trees is divided by, (members,).
        leaves: how many leaves a tree may have: a key of `HASHES`.
    """

    groups: list[list[tuple[int, NDArray[np.float32]]]]
    tiles: list[Tile]
    divisors: Floats
    leaves: int

    @classmethod
    def of(cls, members: "Sequence[Trees]") -> "TreeTables | None":
        """The tables, or None where they would be too large or slower than walking."""
        trees = [tree for member in members for tree in member.trees]
        most = max(len(tree.leaves) for tree in trees)
        leaves = next((size for size in HASHES if size >= most), None)
        if leaves is None or len(trees) * most * BYTES_OF_A_LEAF > MOST_BYTES:
            return None
        grown = _Grown.of(trees)
        mask, factor, shift = HASHES[leaves]
        every = [grown.cuts(feature) for feature in range(members[0].features)]
        used = sorted((cut for cut in every if len(cut[1])), key=lambda cut: len(cut[1]))
        groups: list[list[tuple[int, NDArray[np.float32]]]] = []
        lines: list[int] = []
        for feature, cuts in used:
            if lines and lines[-1] * (len(cuts) + 1) <= JOINED:
                groups[-1].append((feature, cuts))
                lines[-1] *= len(cuts) + 1
            else:
                groups.append([(feature, cuts)])
                lines.append(len(cuts) + 1)
        if len(groups) > MOST_TABLES or sum(lines) * len(grown.values) * mask().itemsize > MOST_BYTES:
            return None
        keep = ~grown.ruled_out.astype(mask)
        tables = [_table(grown, keep, group) for group in groups]
        bits = np.left_shift(np.uint64(1), grown.places.astype(np.uint64)).astype(mask)
        places = ((bits * mask(factor)) >> mask(shift)).astype(np.int64)
        values = np.zeros((len(grown.values), leaves))
        tree, leaf = np.nonzero(grown.is_leaf)
        values[tree, places[tree, leaf]] = grown.values[tree, leaf]
        tiles: list[Tile] = []
        start = 0
        for number, member in enumerate(members):
            end = start + len(member.trees)
            for first in range(start, end, TILE):
                own = slice(first, min(first + TILE, end))
                count = own.stop - own.start
                parts = [np.ascontiguousarray(table[:, own]) for table in tables]
                tiles.append(Tile(number, parts, values[own].ravel(), (leaves * np.arange(count)).astype(mask)))
            start = end
        divisors = np.array([len(member.trees) if member.averaged else 1.0 for member in members])
        return cls(groups, tiles, divisors, leaves)

    def score(self, rows: NDArray[Any]) -> Floats:
        """Raw scores (N, members) of float32 rows, on as many threads as torch uses."""
        found = np.zeros((len(rows), len(self.divisors)))
        threads = min(torch.get_num_threads(), len(rows) // FEWEST_ROWS)
        if not len(rows):
            return found
        if threads <= 1:
            self._add(rows, found)
            return found / self.divisors
        edges = np.linspace(0, len(rows), threads + 1).astype(np.int64)
        with ThreadPoolExecutor(threads) as pool:
            parts = [slice(*pair) for pair in pairwise(edges)]
            list(pool.map(lambda part: self._add(rows[part], found[part]), parts))
        return found / self.divisors

    def _add(self, rows: NDArray[Any], found: Floats) -> None:
        """Add the trees' values to `found`."""
        mask, factor, shift = HASHES[self.leaves]
        lines = [_lines(rows, group) for group in self.groups]
        for tile in self.tiles:
            shape = min(AT_ONCE // len(tile.starts), len(rows)), len(tile.starts)
            places, values = np.empty(shape, np.intp), np.empty(shape)
            masks, others = np.full(shape, -1 % 2**64, np.uint64).astype(mask), np.empty(shape, mask)
            for start in range(0, len(rows), shape[0]):
                part = slice(start, min(start + shape[0], len(rows)))
                count = part.stop - start
                left, other, place, value = masks[:count], others[:count], places[:count], values[:count]
                for k, (table, line) in enumerate(zip(tile.tables, lines, strict=True)):
                    np.take(table, line[part], axis=0, out=other if k else left, mode="clip")
                    if k:
                        np.bitwise_and(left, other, out=left)
                np.negative(left, out=other)
                np.bitwise_and(left, other, out=left)  # the lowest bit
                np.multiply(left, mask(factor), out=left)
                np.right_shift(left, mask(shift), out=left)
                np.add(left, tile.starts, out=left)
                place[...] = left
                np.take(tile.leaves, place, out=value, mode="clip")
                found[part, tile.member] += value.sum(axis=1)
                if not tile.tables:  # trees without splits
                    left[...] = np.iinfo(mask).max


def _lines(rows: NDArray[Any], group: list[tuple[int, NDArray[np.float32]]]) -> Ints:
    """The line of a table for each row: how many cuts of each feature are below it."""
    found: Any = 0
    for feature, cuts in group:
        column = np.ascontiguousarray(rows[:, feature], dtype=np.float32)
        found = found * (len(cuts) + 1) + np.searchsorted(cuts, column, "left")
    return np.asarray(found, dtype=np.int64)


def _table(grown: "_Grown", keep: Masks, group: list[tuple[int, NDArray[np.float32]]]) -> Masks:
    """What is left of every tree's leaves in each line."""
    whole: Masks | None = None
    for feature, cuts in group:
        tree, split = np.nonzero(grown.features == feature)
        own = np.full((len(cuts) + 1, len(grown.values)), np.iinfo(keep.dtype).max, keep.dtype)
        line = 1 + np.searchsorted(cuts, grown.thresholds[tree, split])
        np.bitwise_and.at(own, (line, tree), keep[tree, split])
        own = np.bitwise_and.accumulate(own, axis=0)
        whole = own if whole is None else (whole[:, None] & own[None]).reshape(-1, own.shape[1])
    assert whole is not None  # a group has a feature
    return whole


@dataclass(frozen=True, eq=False)
class _Grown:
    """Trees side by side, filled up to the same number of splits.

    Args:
        features: of each split, −1 where there is none, (T, S).
        thresholds: the largest float32 number that goes left, (T, S).
        ruled_out: the leaves on the left of each split, as bits, (T, S).
        values: of the leaves, (T, S + 1).
        places: the number of each leaf from left to right, (T, S + 1).
        is_leaf: where there is a leaf, (T, S + 1).
    """

    features: Ints
    thresholds: NDArray[np.float32]
    ruled_out: NDArray[np.uint64]
    values: Floats
    places: Ints
    is_leaf: NDArray[np.bool_]

    @classmethod
    def of(cls, trees: "Sequence[Tree]") -> "_Grown":
        splits = max(len(tree.features) for tree in trees)
        count, rows = len(trees), np.arange(len(trees))
        features, left, right = np.full((count, splits), -1), *np.zeros((2, count, splits), np.int64)
        thresholds, values = np.zeros((count, splits), np.float32), np.zeros((count, splits + 1))
        is_leaf = np.zeros((count, splits + 1), bool)
        for k, tree in enumerate(trees):
            own = len(tree.features)
            features[k, :own], left[k, :own], right[k, :own] = tree.features, tree.left, tree.right
            thresholds[k, :own] = rounded_down(tree.thresholds)
            values[k, : own + 1], is_leaf[k, : own + 1] = tree.leaves, True
        sizes = np.zeros((count, splits), np.int64)  # leaves below each split; children come after their parents
        below = np.zeros((2, count, splits), np.int64)
        for split in range(splits - 1, -1, -1):
            for side, child in enumerate((left[:, split], right[:, split])):
                below[side, :, split] = np.where(child < 0, 1, sizes[rows, np.maximum(child, 0)])
            sizes[:, split] = np.where(features[:, split] >= 0, below[:, :, split].sum(axis=0), 0)
        starts, places = np.zeros((count, splits), np.int64), np.zeros((count, splits + 1), np.int64)
        for split in range(splits):
            for child, start in (
                (left[:, split], starts[:, split]),
                (right[:, split], starts[:, split] + below[0, :, split]),
            ):
                for goal, number, chosen in ((starts, child, child >= 0), (places, -1 - child, child < 0)):
                    chosen = chosen & (features[:, split] >= 0)
                    goal[rows[chosen], number[chosen]] = start[chosen]
        one = np.uint64(1)  # a split has at most 63 leaves on its left
        ruled_out = ((one << below[0].astype(np.uint64)) - one) << starts.astype(np.uint64)
        return cls(features, thresholds, ruled_out, values, places, is_leaf)

    def cuts(self, feature: int) -> tuple[int, NDArray[np.float32]]:
        """The feature and its thresholds, rising."""
        return feature, np.unique(self.thresholds[self.features == feature])


def rounded_down(thresholds: Floats) -> NDArray[np.float32]:
    """The largest float32 numbers that are not above: a float32 number is ≤ either or neither."""
    with np.errstate(over="ignore", under="ignore"):
        single = thresholds.astype(np.float32)
        lower = np.nextafter(single, np.float32(-np.inf))
    return np.where(single > thresholds, lower, single).astype(np.float32)
