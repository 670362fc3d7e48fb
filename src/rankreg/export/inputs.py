"""What a model's file does to its inputs by itself, and what is left to whoever runs it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.bundle.inputs import Categorical, ImageInputs, Numeric, TableInputs
from rankreg.datasets.preprocessing import FARTHEST, LARGEST, NO_SPREAD
from rankreg.export.graph import Graph
from rankreg.export.resizing import add_resizing

IMAGES, NUMBERS, TEXTS = "images", "numbers", "texts"

DECODED = "Left to you: decode the file, turn it upright by its EXIF note, convert it to RGB"
PILLOW = "Pillow's bilinear filter (reducing_gap=3.0; for JPEG draft mode at twice the longer side)"
IMAGE_WORDS = (
    "{images}: uint8 (N, {height}, {width}, 3), RGB, 0 to 255. {DECODED}, resize it to {width} x {height} whatever"
    " its proportions, with {PILLOW}: another resizing moves the scores. Normalisation is inside."
)
RESIZED_WORDS = (
    "{images}: uint8 (N, H, W, 3), RGB, 0 to 255, of any size, all of one. {DECODED}. Resizing to {width} x"
    " {height} and normalisation are inside; for rankreg's very scores resize yourself, with {PILLOW}."
)
NUMBER_WORDS = (
    "{numbers}: float64 (N, {count}), the columns listed under '{numbers}' in that order; NaN where missing, 1 for"
    " true, 0 for false. A row gets the score NaN and an alarm if a number is infinite, beyond float32 or more than"
    " {far:,.0f} standard deviations from the training mean, or missing in a column that had no gaps in training."
)
TEXT_WORDS = (
    "{texts}: strings (N, {count}), the columns listed under '{texts}' in that order, spelled as in the table,"
    " whole numbers without a decimal point; {missing!r} where missing."
)
TABLE_WORDS = "Left to you: read the table. Medians, scaling and categories are inside."


def add_inputs(graph: Graph, inputs: ImageInputs | TableInputs, *, resize: bool = False) -> tuple[str, str | None]:
    """Inputs and preprocessing; returns what the network takes, and which rows have a problem, if any can have.

    resize: let images be of any size.
    """
    if isinstance(inputs, ImageInputs):
        if not resize:
            return graph.input(IMAGES, np.uint8, (inputs.height, inputs.width, 3)), None
        images = graph.input(IMAGES, np.uint8, ("height", "width", 3))
        return add_resizing(graph, images, inputs.height, inputs.width), None
    columns: list[str] = []
    problems: list[str] = []
    if inputs.numeric:
        values = graph.input(NUMBERS, np.float64, (len(inputs.numeric),))
        found, cells = _numbers(graph, inputs.numeric, values)
        columns, problems = [*columns, found], [*problems, cells]
    if inputs.categorical:
        texts = graph.input(TEXTS, np.object_, (len(inputs.categorical),))
        for place, column in enumerate(inputs.categorical):
            columns += [_one_hot(graph, column, graph.add("Gather", texts, graph.array(np.array(place)), axis=1))]
        full = [place for place, column in enumerate(inputs.categorical) if not column.may_miss]
        if full:
            problems += [_gaps(graph, graph.add("Gather", texts, graph.array(np.array(full)), axis=1), inputs)]
    matrix = columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)
    return matrix, _any_in_row(graph, problems)


def _any_in_row(graph: Graph, cells: list[str]) -> str | None:
    """Whether a row has a cell that is true in any of these arrays."""
    rows = [
        graph.add("ReduceMax", graph.cast(array, np.int32), graph.array(np.array([1])), keepdims=0)
        for array in cells
    ]
    return graph.cast(graph.add("Max", *rows), np.bool_) if rows else None


def _gaps(graph: Graph, texts: str, inputs: TableInputs) -> str:
    return graph.add(
        "LabelEncoder",
        texts,
        domain="ai.onnx.ml",
        keys_strings=[missing_text(inputs)],
        values_int64s=[1],
        default_int64=0,
    )


def _numbers(graph: Graph, columns: list[Numeric], values: str) -> tuple[str, str]:
    """The numbers as `TablePreprocessor.transform` has them, and the cells that `problems` names there.

    (x − mean) / scale is in float64, as a float32 mean could swallow the value.
    """
    missing = graph.add("IsNaN", values)
    medians, means, scales = (
        graph.array(np.array([getattr(column, name) for column in columns], np.float64))
        for name in ("median", "mean", "scale")
    )
    filled = graph.add("Where", missing, medians, values)
    deviations = graph.add("Div", graph.add("Sub", filled, means), scales)
    problems = graph.add(
        "Or",
        graph.add("And", missing, graph.array(np.array([not column.may_miss for column in columns]))),
        graph.add("Or", _beyond(graph, filled, LARGEST), _beyond(graph, deviations, FARTHEST)),
    )
    bounds = graph.array(np.array(-FARTHEST)), graph.array(np.array(FARTHEST))
    scaled = graph.cast(graph.add("Clip", deviations, *bounds), np.float32)
    if not any(column.may_miss for column in columns):
        return scaled, problems
    both = graph.add("Concat", scaled, graph.cast(missing, np.float32), axis=1)
    order = []
    for place, column in enumerate(columns):
        order += [place, len(columns) + place] if column.may_miss else [place]
    return graph.add("Gather", both, graph.array(np.array(order)), axis=1), problems


def _beyond(graph: Graph, values: str, bound: float) -> str:
    return graph.add("Greater", graph.add("Abs", values), graph.array(np.array(bound)))


def _one_hot(graph: Graph, column: Categorical, texts: str) -> str:
    """One column per known value and one for everything else."""
    other = len(column.values)
    if not other:
        ones = graph.add("Shape", texts)
        one = graph.onnx.numpy_helper.from_array(np.ones(1, np.float32))
        return graph.add("Unsqueeze", graph.add("ConstantOfShape", ones, value=one), graph.array(np.array([1])))
    codes = graph.add(
        "LabelEncoder",
        texts,
        domain="ai.onnx.ml",
        keys_strings=column.values,
        values_int64s=list(range(other)),
        default_int64=other,
    )
    return graph.add(
        "OneHot", codes, graph.array(np.array(other + 1)), graph.array(np.array([0, 1], np.float32)), axis=1
    )


def missing_text(inputs: TableInputs) -> str:
    """What stands for a missing text: no column knows it as a value."""
    known = {value for column in inputs.categorical for value in column.values}
    text = ""
    while text in known:
        text += "?"
    return text


def description(inputs: ImageInputs | TableInputs, *, resize: bool = False) -> dict[str, Any]:
    """How to make the inputs, for machines and in words."""
    if isinstance(inputs, ImageInputs):
        sides: dict[str, Any] = {"height": inputs.height, "width": inputs.width}
        words = (RESIZED_WORDS if resize else IMAGE_WORDS).format(
            images=IMAGES, DECODED=DECODED, PILLOW=PILLOW, **sides
        )
        return {IMAGES: sides, "resized": resize, "words": words}
    found: dict[str, Any] = {}
    sentences = []
    if inputs.numeric:
        found[NUMBERS] = [column.name for column in inputs.numeric]
        sentences.append(NUMBER_WORDS.format(numbers=NUMBERS, count=len(inputs.numeric), far=FARTHEST))
    if inputs.categorical:
        gap = missing_text(inputs)
        found |= {TEXTS: [column.name for column in inputs.categorical], "missing_text": gap}
        sentences.append(TEXT_WORDS.format(texts=TEXTS, count=len(inputs.categorical), missing=gap))
    return found | {"header": inputs.header, "words": " ".join([*sentences, TABLE_WORDS])}


def probes(inputs: ImageInputs | TableInputs, count: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Made-up samples of the kind the model takes: noise images; rows near the training data, with gaps, unknown
    texts and absurd numbers."""
    if isinstance(inputs, ImageInputs):
        return {IMAGES: rng.integers(0, 256, (count, inputs.height, inputs.width, 3), dtype=np.uint8)}
    found: dict[str, NDArray[Any]] = {}
    if inputs.numeric:
        scales = [1.0 if column.scale == NO_SPREAD else column.scale for column in inputs.numeric]
        means = [column.mean for column in inputs.numeric]
        columns = [mean + scale * rng.normal(size=count) for mean, scale in zip(means, scales, strict=True)]
        chance = rng.random((count, len(columns)))
        odd = rng.choice([np.inf, -np.inf, 1e300, -1e22], size=chance.shape)
        found[NUMBERS] = np.where(chance < 0.1, np.nan, np.where(chance > 0.99, odd, np.stack(columns, axis=1)))
    if inputs.categorical:
        gap = missing_text(inputs)
        texts = [rng.choice([*column.values, gap], size=count) for column in inputs.categorical]
        found[TEXTS] = np.stack(texts, axis=1).astype(object)
    return found
