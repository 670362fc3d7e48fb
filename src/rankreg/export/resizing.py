"""Pillow's bilinear resizing as ONNX nodes, rounded as Pillow rounds.

ONNX has a node of its own for this, but on photographs onnxruntime's differs from Pillow's in one pixel of forty,
by up to 8 grey levels.
"""

import numpy as np

from rankreg.export.graph import Graph

UNIT = 2.0**22  # Pillow's weights are whole multiples of 1 / UNIT


def add_resizing(graph: Graph, images: str, height: int, width: int) -> str:
    """uint8 images (N, H, W, 3), of one size, as whole numbers (N, height, width, 3).

    Equal to Pillow's to the last grey level where it resizes columns first: before version 13 always, since then
    unless height shrinks more than width. Otherwise, and where `reducing_gap` acts, levels differ by about one.
    """
    shape = graph.add("Shape", images)
    planes = graph.cast(graph.add("Transpose", images, perm=[0, 3, 1, 2]), np.float64)
    columns, rows = (
        _weights(graph, graph.add("Gather", shape, graph.array(np.array([axis]))), size)
        for axis, size in ((2, width), (1, height))
    )
    planes = _rounded(graph, graph.add("MatMul", planes, graph.add("Transpose", columns, perm=[1, 0])))
    return graph.add("Transpose", _rounded(graph, graph.add("MatMul", rows, planes)), perm=[0, 2, 3, 1])


def _weights(graph: Graph, length: str, size: int) -> str:
    """How much of each of `length` pixels goes into each of `size`, (size, length), in units of 1 / UNIT.

        w_ij ∝ max(0, 1 − |j + ½ − c_i| / f),    c_i = (i + ½) · length / size,    f = max(1, length / size)

    Each row sums up to 1 before it is rounded.
    """

    def number(value: float) -> str:
        return graph.array(np.array(value, np.float64))

    scale = graph.add("Div", graph.cast(length, np.float64), number(size))
    centres = graph.add("Mul", graph.array(np.arange(size, dtype=np.float64)[:, None] + 0.5), scale)
    last = graph.add("Squeeze", graph.cast(length, np.float64), graph.array(np.array([0])))
    places = graph.add("Add", graph.add("Range", number(0), last, number(1)), number(0.5))
    away = graph.add("Abs", graph.add("Sub", places, centres))
    tent = graph.add("Sub", number(1), graph.add("Div", away, graph.add("Max", scale, number(1))))
    tent = graph.add("Max", tent, number(0))
    total = graph.add("ReduceSum", tent, graph.array(np.array([1])), keepdims=1)
    share = graph.add("Mul", graph.add("Div", tent, total), number(UNIT))
    return graph.add("Floor", graph.add("Add", share, number(0.5)))


def _rounded(graph: Graph, sums: str) -> str:
    """Sums in units of 1 / UNIT as grey levels: Pillow rounds after each direction."""
    levels = graph.add("Div", sums, graph.array(np.array(UNIT)))
    return graph.add("Floor", graph.add("Add", levels, graph.array(np.array(0.5))))
