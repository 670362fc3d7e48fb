"""ONNX nodes: a graph under construction; networks layer by layer, trees, and lines between knots.

Written out rather than traced: torch's exporters come and go, and warn; these few layers stay. What is
written is compared with the network itself before the file is kept.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from rankreg.bundle.trees import Tree, Trees
from rankreg.metrics import float32_below
from rankreg.models import (
    LITE_POOLED,
    MLP,
    BackboneNetwork,
    Block,
    CosineHead,
    InvertedBlock,
    PairHead,
    Pixels,
    ResNet,
    ScoreHead,
    Standardise,
)

Floats = NDArray[np.float64]

OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 8  # of the same release as those, so that runtimes since early 2023 take the file
BATCH = "batch"  # the axis that counts samples
TINY = 1e-12  # what torch's `normalize` divides by at least
LARGEST_SUM = 1e37  # of leaf values: float32 ends a little above
EXACT = 2**23  # whole numbers up to here are float32 numbers, and so are their sums


def onnx_package(name: Literal["onnx", "onnxruntime"] = "onnx") -> Any:
    """One of the two packages, which are not there by default."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError("exporting needs onnx and onnxruntime: pip install 'rankreg[onnx]'") from error


class Graph:
    """Nodes in the order they are computed in; a value is known by its name."""

    def __init__(self) -> None:
        self.onnx = onnx_package()
        self.nodes: list[Any] = []
        self.arrays: list[Any] = []
        self.inputs: list[Any] = []

    def input(self, name: str, dtype: Any, shape: tuple[int | str, ...]) -> str:
        """An input of any number of samples of that shape; a size that is free has a name."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, [BATCH, *shape]))
        return name

    def array(self, values: Any) -> str:
        """A constant: a number, a list, an array or a tensor."""
        name = f"array_{len(self.arrays)}"
        values = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
        self.arrays.append(self.onnx.numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def add(self, op: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """A node with one output, whose name is returned; inputs: names of values, or constants."""
        names = [value if isinstance(value, str) else self.array(value) for value in inputs]
        name = f"{op.lower()}_{len(self.nodes)}"
        node = self.onnx.helper.make_node(op, names, [name], name=name, domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def joined(self, values: Sequence[str]) -> str:
        """Columns of all values side by side."""
        return values[0] if len(values) == 1 else self.add("Concat", *values, axis=1)

    def cast(self, value: str, dtype: Any) -> str:
        """The value as another type."""
        return self.add("Cast", value, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def model(self, outputs: dict[str, tuple[str, Any]], *, name: str, doc: str, metadata: dict[str, str]) -> Any:
        """The whole model; outputs: their value and dtype, by name, one number per sample."""
        helper = self.onnx.helper
        infos = []
        for output, (value, dtype) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [output], name=output))
            infos.append(
                helper.make_tensor_value_info(output, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [BATCH])
            )
        graph = helper.make_graph(self.nodes, name, self.inputs, infos, self.arrays)
        used = {"", *(node.domain for node in self.nodes)}
        opsets = [helper.make_opsetid(domain, OPSETS[domain]) for domain in sorted(used)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="rankreg")
        model.doc_string = doc
        helper.set_model_props(model, metadata)
        return model


def add_network(graph: Graph, network: nn.Module, value: str) -> str:
    """The layer, or the network of layers, applied to a value."""
    for kind, write in LAYERS.items():
        if type(network) is kind:
            return write(graph, network, value)
    known = ", ".join(kind.__name__ for kind in LAYERS)
    raise ValueError(f"no ONNX form is known for the layer {type(network).__name__}, only for {known}")


def _sequence(graph: Graph, layers: Any, value: str) -> str:
    for layer in layers:
        value = add_network(graph, layer, value)
    return value


def _linear(graph: Graph, weight: Tensor, bias: Tensor, value: str) -> str:
    return graph.add("Gemm", value, weight, bias, transB=1)


def _convolution(graph: Graph, layer: Any, value: str) -> str:
    rows, columns = layer.padding
    return graph.add(
        "Conv",
        value,
        layer.weight,
        kernel_shape=list(layer.kernel_size),
        strides=list(layer.stride),
        pads=[rows, columns, rows, columns],
        group=layer.groups,
    )


def _zero_pad(graph: Graph, layer: Any, value: str) -> str:
    left, right, top, bottom = layer.padding
    return graph.add("Pad", value, [0, 0, top, left, 0, 0, bottom, right])


def _batch_norm(graph: Graph, layer: Any, value: str) -> str:
    parts = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    return graph.add("BatchNormalization", value, *parts, epsilon=layer.eps)


def _layer_norm(graph: Graph, layer: Any, value: str) -> str:
    return graph.add("LayerNormalization", value, layer.weight, layer.bias, axis=-1, epsilon=layer.eps)


def _max_pool(graph: Graph, layer: Any, value: str) -> str:
    side, stride, pad = layer.kernel_size, layer.stride, layer.padding
    return graph.add("MaxPool", value, kernel_shape=[side] * 2, strides=[stride] * 2, pads=[pad] * 4)


def _pixels(graph: Graph, layer: Any, value: str) -> str:
    """Images arrive as (N, H, W, 3), as image libraries have them."""
    floats = graph.cast(graph.add("Transpose", value, perm=[0, 3, 1, 2]), np.float32)
    return _standardise(graph, layer, floats)


def _block(graph: Graph, block: Any, value: str) -> str:
    inner = _sequence(graph, (block.conv1, block.norm1, nn.ReLU(), block.conv2, block.norm2), value)
    if block.stride != 1:
        value = graph.add("Slice", value, [0, 0], [np.iinfo(np.int64).max] * 2, [2, 3], [block.stride] * 2)
    return graph.add("Relu", graph.add("Add", inner, add_network(graph, block.shortcut, value)))


def _resnet(graph: Graph, network: Any, value: str) -> str:
    maps = _sequence(graph, (network.pixels, network.stem, network.stages), value)
    return add_network(graph, network.head, graph.add("ReduceMean", maps, [2, 3], keepdims=0))


def _inverted_block(graph: Graph, block: Any, value: str) -> str:
    inner = add_network(graph, block.layers, value)
    return graph.add("Add", inner, value) if block.shortcut else inner


def _standardise(graph: Graph, layer: Any, value: str) -> str:
    centred = graph.add("Sub", value, layer.mean)
    return graph.add("Div", centred, layer.deviation)


def _resize(graph: Graph, side: int, value: str) -> str:
    """Square maps, bilinear, smoothed first where they shrink. Only the last two axes change."""
    return graph.add(
        "Resize",
        value,
        "",
        "",
        [side, side],
        mode="linear",
        coordinate_transformation_mode="half_pixel",
        antialias=1,
        exclude_outside=1,  # as torch has it at the edges
        axes=[2, 3],
    )


def _backbone_network(graph: Graph, network: Any, value: str) -> str:
    features = add_features(graph, network.backbone, network.side, network.flips, value)
    return _sequence(graph, (network.scale, network.head), features)


def add_features(graph: Graph, backbone: Any, side: int, flips: bool, value: str) -> str:
    """Once for the image and, with flips, once for its mirror image: columns are the third axis of an image."""
    mirrored = [graph.add("Slice", value, [-1], [np.iinfo(np.int64).min], [2], [-1])] if flips else []
    features = [_pooled(graph, backbone, side, images) for images in (value, *mirrored)]
    return features[0] if len(features) == 1 else graph.add("Mean", *features)


def _pooled(graph: Graph, backbone: Any, side: int, value: str) -> str:
    maps = _resize(graph, side, add_network(graph, backbone.pixels, value))
    means = []
    for place, stage in enumerate(backbone.stages):
        maps = add_network(graph, stage, maps)
        if place in LITE_POOLED:
            means.append(graph.add("ReduceMean", maps, [2, 3], keepdims=0))
    return graph.add("Concat", *means, axis=1)


def _one_column(graph: Graph, value: str) -> str:
    return graph.add("Squeeze", value, [1])


def _score_head(graph: Graph, head: Any, value: str) -> str:
    return _one_column(graph, _linear(graph, head.weight, head.bias, value))


def _pair_head(graph: Graph, head: Any, value: str) -> str:
    """The difference of two linear maps is a linear map."""
    return _one_column(
        graph, _linear(graph, head.weight[1:] - head.weight[:1], head.bias[1:] - head.bias[:1], value)
    )


def _cosine_head(graph: Graph, head: Any, value: str) -> str:
    lengths = graph.add("ReduceL2", value, [1], keepdims=1)
    unit = graph.add("Div", value, graph.add("Max", lengths, np.float32(TINY)))
    weight = normalize(head.weight)
    return _one_column(graph, graph.add("MatMul", unit, (weight[1:] - weight[:1]).T))


LAYERS: dict[type[nn.Module], Callable[[Graph, Any, str], str]] = {
    MLP: lambda graph, network, value: _sequence(graph, (network.layers, network.head), value),
    ResNet: _resnet,
    BackboneNetwork: _backbone_network,
    Block: _block,
    InvertedBlock: _inverted_block,
    Standardise: _standardise,
    Pixels: _pixels,
    ScoreHead: _score_head,
    PairHead: _pair_head,
    CosineHead: _cosine_head,
    nn.Sequential: _sequence,
    nn.Linear: lambda graph, layer, value: _linear(graph, layer.weight, layer.bias, value),
    nn.Conv2d: _convolution,
    nn.BatchNorm2d: _batch_norm,
    nn.LayerNorm: _layer_norm,
    nn.MaxPool2d: _max_pool,
    nn.ZeroPad2d: _zero_pad,
    nn.ReLU6: lambda graph, layer, value: graph.add("Clip", value, np.float32(0), np.float32(6)),
    nn.ReLU: lambda graph, layer, value: graph.add("Relu", value),
    nn.Dropout: lambda graph, layer, value: value,  # at rest when scoring
    nn.Identity: lambda graph, layer, value: value,
}


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
                tree.features, float32_below(tree.thresholds).astype(np.float64), tree.left, tree.right, tree.leaves
            )
            nodes.add(single, [(2 * k, coarse), (2 * k + 1, tree.leaves - coarse)])
    sums = graph.cast(nodes.write(graph, rows, "BRANCH_LEQ", 2 * len(members), np.float32), np.float64)
    counts = np.array([len(member.trees) if member.averaged else 1.0 for member in members])
    joined = np.repeat(np.eye(len(members)), 2, axis=0) / counts
    return graph.add("MatMul", sums, joined)


def add_lines(graph: Graph, values: str, knots: Sequence[Floats], levels: Sequence[Floats]) -> str:
    """`numpy.interp` of every column: float64 (N, C) to float64 (N, C).

    A tree per column finds the last knot that is not above the value. From there on the arithmetic is numpy's.
    """
    nodes = _Nodes()
    for column, own in enumerate(knots):
        nodes.add(_search(own, column), [(column, np.arange(len(own), dtype=np.float64))])
    first, last = ([own[place] for own in knots] for place in (0, -1))
    inside = graph.add("Min", graph.add("Max", values, first), last)
    found = graph.cast(nodes.write(graph, inside, "BRANCH_LT", len(knots), np.float64), np.int64)
    starts = np.cumsum([0, *(len(own) for own in knots)])[:-1]
    place = graph.add("Add", found, starts.astype(np.int64))
    with np.errstate(over="ignore"):
        slopes = [np.append(np.diff(level) / np.diff(own), 0.0) for own, level in zip(knots, levels, strict=True)]
    knot, level, slope = (graph.add("Gather", np.concatenate(parts), place) for parts in (knots, levels, slopes))
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
