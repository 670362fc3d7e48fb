"""Trees as data: LightGBM's text format, parsed, checked and written anew; and many trees scored at once.

LightGBM trusts its files. So a file of any origin is read here first, and LightGBM gets only text that
was written from checked numbers.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankreg.metrics import float32_below

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Masks = NDArray[Any]

MOST_TREES, MOST_LEAVES, MOST_FEATURES = 100_000, 100_000, 10_000_000
ARRAYS: dict[str, type] = {  # of a tree: one value per split, but for the leaves
    "split_feature": int,
    "threshold": float,
    "decision_type": int,
    "left_child": int,
    "right_child": int,
    "leaf_value": float,
}
NO_MISSING = (0, 2)  # decision types of numeric splits that know no missing values

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
class Tree:
    """One tree: a row goes left where feature ≤ threshold. Children ≥ 0 are splits, −1 − k is leaf k.

    Args:
        features: the feature of each split, (S,).
        thresholds: what it is compared with, (S,).
        left: the left child of each split, (S,).
        right: the right child of each split, (S,).
        leaves: the value of each leaf, (S + 1,).
    """

    features: Ints
    thresholds: Floats
    left: Ints
    right: Ints
    leaves: Floats

    def check(self, features: int) -> None:
        """Refuse a tree that is none, e.g. with a child that has two parents."""
        splits = len(self.features)
        if not (len(self.thresholds) == len(self.left) == len(self.right) == splits == len(self.leaves) - 1):
            raise ValueError("a tree has arrays of different lengths")
        if not (np.isfinite(self.thresholds).all() and np.isfinite(self.leaves).all()):
            raise ValueError("a tree holds a number that is not finite")
        if splits and not (self.features.min() >= 0 and self.features.max() < features):
            raise ValueError(f"a tree asks for a feature beyond the {features} there are")
        children = np.sort(np.concatenate([self.left, self.right]))
        expected = np.concatenate([np.arange(-splits - 1, 0), np.arange(1, splits)]) if splits else children
        parents = np.arange(splits)
        is_split = [(side >= 0) & (side <= parents) for side in (self.left, self.right)]
        if not np.array_equal(children, expected) or any(np.any(side) for side in is_split):
            raise ValueError("the splits and leaves of a tree do not form a tree")


@dataclass(frozen=True, eq=False)
class Trees:
    """The sum, or the mean, of trees over rows of `features` numbers.

    Args:
        features: how many numbers a row has.
        averaged: whether the trees are averaged, as in a random forest, rather than summed.
        trees: the trees.
    """

    features: int
    averaged: bool
    trees: tuple[Tree, ...]

    def __post_init__(self) -> None:
        if not self.trees or len(self.trees) > MOST_TREES:
            raise ValueError(f"a model has 1 to {MOST_TREES:,} trees, this one has {len(self.trees):,}")
        for tree in self.trees:
            tree.check(self.features)

    @classmethod
    def parse(cls, text: str) -> "Trees":
        """Read LightGBM's text format.

        Raises:
            ValueError: if the text is damaged, or uses what our trees never do (categories, missing values).
        """
        head, *blocks = text.split("\nTree=")
        settings = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)
        if not head.startswith("tree\n") or "max_feature_idx" not in settings:
            raise ValueError("it is not a model in LightGBM's text format")
        if len(blocks) > MOST_TREES:
            raise ValueError(f"it has more than {MOST_TREES:,} trees")
        if "\nend of trees" not in text:
            raise ValueError("it is cut: the end of the trees is missing")
        features = int(settings["max_feature_idx"]) + 1
        if not 1 <= features <= MOST_FEATURES:
            raise ValueError(f"it takes {features:,} features")
        averaged = "average_output" in head.splitlines()
        return cls(features, averaged, tuple(_parse_tree(block) for block in blocks))

    def text(self) -> str:
        """The model in LightGBM's text format, written from nothing but the checked numbers."""
        names = " ".join(f"x{k}" for k in range(self.features))
        ranges = " ".join("[-1e+300:1e+300]" for _ in range(self.features))
        blocks = [f"Tree={k}\n{_tree_text(tree)}\n\n\n" for k, tree in enumerate(self.trees)]
        head = [
            "tree",
            "version=v4",
            "num_class=1",
            "num_tree_per_iteration=1",
            "label_index=0",
            f"max_feature_idx={self.features - 1}",
            "objective=custom",
            *(["average_output"] if self.averaged else []),
            f"feature_names={names}",
            f"feature_infos={ranges}",
            f"tree_sizes={' '.join(str(len(block)) for block in blocks)}",
        ]
        return "\n".join(head) + "\n\n" + "".join(blocks) + "end of trees\n"

    @cached_property
    def booster(self) -> Any:
        """The same trees in LightGBM."""
        import lightgbm

        return lightgbm.Booster(model_str=self.text())

    def walk(self, rows: NDArray[Any]) -> Floats:
        """Raw scores (N,) by LightGBM, which walks through one tree after the other."""
        found: Floats = self.booster.predict(rows, raw_score=True, num_threads=torch.get_num_threads())
        return found / len(self.trees) if self.averaged else found  # LightGBM adds raw scores of forests up

    def score(self, rows: NDArray[Any]) -> Floats:
        """Raw scores (N,) of float32 rows."""
        return score_trees([self], TreeTables.of([self]), rows)[:, 0]


def _parse_tree(block: str) -> Tree:
    lines = block.split("\nend of trees")[0].splitlines()[1:]
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    leaves = int(settings.get("num_leaves", 0))
    if not 1 <= leaves <= MOST_LEAVES:
        raise ValueError(f"a tree has {leaves:,} leaves")
    if settings.get("num_cat", "0") != "0" or settings.get("is_linear", "0") != "0":
        raise ValueError("a tree has categorical splits or linear leaves, which rankreg does not use")
    found: dict[str, list[Any]] = {}
    for name, kind in ARRAYS.items():
        words = settings.get(name, "")
        count = words.count(" ") + 1 if words else 0  # before it is taken apart, which costs memory
        if count != (leaves if name == "leaf_value" else leaves - 1):
            raise ValueError(f"a tree of {leaves} leaves has {count} values of {name}")
        found[name] = [kind(word) for word in words.split(" ")] if words else []
        if kind is int and any(abs(value) > MOST_FEATURES for value in found[name]):
            raise ValueError(f"a tree has a value of {name} that is too large")
    if any(kind not in NO_MISSING for kind in found["decision_type"]):
        raise ValueError("a tree treats missing values, which rankreg fills in before")
    return Tree(
        features=np.asarray(found["split_feature"], dtype=np.int64),
        thresholds=np.asarray(found["threshold"], dtype=np.float64),
        left=np.asarray(found["left_child"], dtype=np.int64),
        right=np.asarray(found["right_child"], dtype=np.int64),
        leaves=np.asarray(found["leaf_value"], dtype=np.float64),
    )


def _tree_text(tree: Tree) -> str:
    splits = len(tree.features)
    lines = [f"num_leaves={splits + 1}", "num_cat=0"]
    if splits:
        zeros = " ".join("0" for _ in range(splits))
        lines += [
            f"split_feature={_joined(tree.features)}",
            f"split_gain={zeros}",
            f"threshold={_joined(tree.thresholds)}",
            f"decision_type={' '.join('2' for _ in range(splits))}",
            f"left_child={_joined(tree.left)}",
            f"right_child={_joined(tree.right)}",
        ]
    lines += [f"leaf_value={_joined(tree.leaves)}"]
    if splits:
        lines += [f"internal_value={zeros}", f"internal_count={zeros}"]
    return "\n".join([*lines, "is_linear=0", "shrinkage=1"])


def _joined(values: NDArray[Any]) -> str:
    return " ".join(map(repr, values.tolist()))


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
    """The trees of several members as tables: the leaf of every tree by look-ups and bitwise ands, not by walking.

    A tree's leaves are numbered from left to right, one bit each. A split that sends a row to the right rules
    out the leaves on its left. So every split is a mask, and the leaf of a row is the lowest bit that is left
    after the masks of all splits that sent it to the right. A feature's splits are sorted by their thresholds:
    for every interval between two of them the masks of all trees are joined beforehand and stand in one line
    of a table. A row takes one line per feature (QuickScorer; Lucchese et al., SIGIR 2015).

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
    def of(cls, members: Sequence[Trees]) -> "TreeTables | None":
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


def score_trees(members: Sequence[Trees], tables: TreeTables | None, rows: NDArray[Any]) -> Floats:
    """Raw scores (N, members); tables: of these members, if they fit into some."""
    if tables is not None:
        return tables.score(rows)
    return np.stack([member.walk(rows) for member in members], axis=1)


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
    def of(cls, trees: Sequence[Tree]) -> "_Grown":
        splits = max(len(tree.features) for tree in trees)
        count, rows = len(trees), np.arange(len(trees))
        features, left, right = np.full((count, splits), -1), *np.zeros((2, count, splits), np.int64)
        thresholds, values = np.zeros((count, splits), np.float32), np.zeros((count, splits + 1))
        is_leaf = np.zeros((count, splits + 1), bool)
        for k, tree in enumerate(trees):
            own = len(tree.features)
            features[k, :own], left[k, :own], right[k, :own] = tree.features, tree.left, tree.right
            thresholds[k, :own] = float32_below(tree.thresholds)
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
