"""ONNX's tree ensembles: members made of trees, and lines between knots, whose search is a tree too."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.bundle.onnx_graph import Graph
from rankreg.bundle.tree_tables import rounded_down
from rankreg.bundle.trees import Tree, Trees

Floats = NDArray[np.float64]

LARGEST_SUM = 1e37  # of leaf values: float32 ends a little above
EXACT = 2**23  # whole numbers up to here are float32 numbers, and so are their sums


class _Nodes:
    """The attributes of a TreeEnsembleRegressor, node by node."""

    def __init__(self) -> None:
        self.trees: list[NDArray[np.int64]] = []
        self.places: list[NDArray[np.int64]] = []
        self.features: list[NDArray[np.int64]] = []
        self.values: list[Floats] = []
        self.smaller: list[NDArray[np.int64]] = []
        self.larger: list[NDArray[np.int64]] = []
        self.is_leaf: list[NDArray[np.bool_]] = []
        self.targets: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]] = []

    def add(self, tree: Tree, leaves: Sequence[tuple[int, Floats]]) -> None:
        """A tree; leaves: a target and what each leaf adds to it."""
        if not len(tree.features):  # a leaf alone is no tree to every runtime
            two, none = np.zeros(1, np.int64), np.array([-1])
            tree = Tree(two, np.zeros(1), none, none - 1, np.repeat(tree.leaves, 2))
            leaves = [(target, np.repeat(values, 2)) for target, values in leaves]
        splits, count = len(tree.features), len(tree.leaves)
        number = len(self.trees)

        def child(side: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.concatenate([np.where(side >= 0, side, splits - 1 - side), np.zeros(count, np.int64)])

        self.trees.append(np.full(splits + count, number))
        self.places.append(np.arange(splits + count))
        self.features.append(np.concatenate([tree.features, np.zeros(count, np.int64)]))
        self.values.append(np.concatenate([tree.thresholds, np.zeros(count)]))
        self.smaller.append(child(tree.left))
        self.larger.append(child(tree.right))
        self.is_leaf.append(np.arange(splits + count) >= splits)
        for target, values in leaves:
            self.targets.append((np.full(count, number), splits + np.arange(count), np.full(count, target), values))

    def write(self, graph: Graph, rows: str, mode: str, targets: int, dtype: Any) -> str:
        """The node; its output is float32 (N, targets)."""
        weights = [np.concatenate(parts) for parts in zip(*self.targets, strict=True)]
        numbers: dict[str, Any] = {"nodes_values": np.concatenate(self.values), "target_weights": weights[3]}
        if dtype == np.float64:
            numbers = {
                f"{name}_as_tensor": graph.onnx.numpy_helper.from_array(values) for name, values in numbers.items()
            }
        else:
            numbers = {name: values.astype(dtype).tolist() for name, values in numbers.items()}
        return graph.add(
            "TreeEnsembleRegressor",
            rows,
            domain="ai.onnx.ml",
            n_targets=targets,
            nodes_treeids=np.concatenate(self.trees).tolist(),
            nodes_nodeids=np.concatenate(self.places).tolist(),
            nodes_featureids=np.concatenate(self.features).tolist(),
            nodes_modes=["LEAF" if leaf else mode for leaf in np.concatenate(self.is_leaf)],
            nodes_truenodeids=np.concatenate(self.smaller).tolist(),
            nodes_falsenodeids=np.concatenate(self.larger).tolist(),
            target_treeids=weights[0].tolist(),
            target_nodeids=weights[1].tolist(),
            target_ids=weights[2].tolist(),
            aggregate_function="SUM",
            post_transform="NONE",
            **numbers,
        )


def add_trees(graph: Graph, rows: str, members: Sequence[Trees]) -> str:
    """Raw scores of every member, float64 (N, members), from float32 rows.

    A row is float32, so `row ≤ threshold` is the same as `row ≤ the largest float32 up to the threshold`. Runtimes
    add up in float32. So a leaf's value is cut into a multiple of a step, whose sums are exact, and a rest, whose
    rounding is that much smaller.
    """
    nodes = _Nodes()
    for k, member in enumerate(members):
        largest = sum(float(np.abs(tree.leaves).max()) for tree in member.trees)
        if largest > LARGEST_SUM:
            raise ValueError(f"the leaves of trees add up to {largest:.2g}, beyond what ONNX can add up")
        step = 2.0 ** np.ceil(np.log2(max(largest, 1e-30) / EXACT))
        for tree in member.trees:
            coarse = np.round(tree.leaves / step) * step
            single = Tree(
                tree.features, rounded_down(tree.thresholds).astype(np.float64), tree.left, tree.right, tree.leaves
            )
            nodes.add(single, [(2 * k, coarse), (2 * k + 1, tree.leaves - coarse)])
    sums = graph.cast(nodes.write(graph, rows, "BRANCH_LEQ", 2 * len(members), np.float32), np.float64)
    counts = np.array([len(member.trees) if member.averaged else 1.0 for member in members])
    joined = np.repeat(np.eye(len(members)), 2, axis=0) / counts
    return graph.add("MatMul", sums, graph.array(joined))


def add_lines(graph: Graph, values: str, knots: Sequence[Floats], levels: Sequence[Floats]) -> str:
    """`numpy.interp` of every column: float64 (N, C) to float64 (N, C).

    A tree per column finds the last knot that is not above the value. From there on the arithmetic is numpy's.
    """
    nodes = _Nodes()
    for column, own in enumerate(knots):
        nodes.add(_search(own, column), [(column, np.arange(len(own), dtype=np.float64))])
    ends = [graph.array(np.array([own[place] for own in knots])) for place in (0, -1)]
    inside = graph.add("Min", graph.add("Max", values, ends[0]), ends[1])
    found = graph.cast(nodes.write(graph, inside, "BRANCH_LT", len(knots), np.float64), np.int64)
    starts = np.cumsum([0, *(len(own) for own in knots)])[:-1]
    place = graph.add("Add", found, graph.array(starts.astype(np.int64)))
    with np.errstate(over="ignore"):
        slopes = [np.append(np.diff(level) / np.diff(own), 0.0) for own, level in zip(knots, levels, strict=True)]
    knot, level, slope = (
        graph.add("Gather", graph.array(np.concatenate(parts)), place) for parts in (knots, levels, slopes)
    )
    return graph.add("Add", graph.add("Mul", slope, graph.add("Sub", inside, knot)), level)


def _search(knots: Floats, column: int) -> Tree:
    """A balanced tree: leaf k where knots[k] ≤ x < knots[k + 1]; here a row goes left where x < threshold."""
    thresholds: list[float] = []
    left: list[int] = []
    right: list[int] = []

    def grow(first: int, last: int) -> int:
        """The number of a node that tells the leaves first … last apart."""
        if first == last:
            return -1 - first
        middle, place = (first + last + 1) // 2, len(thresholds)
        thresholds.append(float(knots[middle]))
        left.append(0)
        right.append(0)
        left[place], right[place] = grow(first, middle - 1), grow(middle, last)
        return place

    grow(0, len(knots) - 1)
    return Tree(
        np.full(len(thresholds), column, np.int64),
        np.array(thresholds),
        np.array(left, np.int64),
        np.array(right, np.int64),
        np.arange(len(knots), dtype=np.float64),
    )
