"""Gradient-boosted trees as data: LightGBM's text format, parsed, checked and written anew.

LightGBM trusts its files. So a file of any origin is read here first, and LightGBM gets only text that
was written from checked numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankreg.bundle.tree_tables import TreeTables

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

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


def score_trees(members: Sequence[Trees], tables: TreeTables | None, rows: NDArray[Any]) -> Floats:
    """Raw scores (N, members); tables: of these members, if they fit into some."""
    if tables is not None:
        return tables.score(rows)
    return np.stack([member.walk(rows) for member in members], axis=1)


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
