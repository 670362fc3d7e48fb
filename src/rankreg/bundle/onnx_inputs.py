"""The inputs of an ONNX model: the preprocessing inside, what is left to the caller, made-up samples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankreg.bundle.card import ImageInputs, TableInputs
from rankreg.bundle.onnx_graph import Graph, add_lines
from rankreg.datasets.columns import LARGEST
from rankreg.datasets.preprocessing import (
    DEVIATIONS,
    FARTHEST,
    NO_SPREAD,
    RANGES,
    CategoricalColumn,
    NumericColumn,
    QuantileColumn,
)

IMAGES, NUMBERS, TEXTS = "images", "numbers", "texts"

MEASURES = {NumericColumn: DEVIATIONS, QuantileColumn: RANGES}
PILLOW = "image.resize(({width}, {height}), Image.Resampling.BILINEAR, reducing_gap=3.0)"
IMAGE_WORDS = (
    "{images}: uint8 (N, {height}, {width}, 3), RGB, 0 to 255. Left to you: decode the file (JPEG in Pillow's draft"
    " mode at twice the longer side), turn it upright by its EXIF note, convert it to RGB, and resize it to"
    " {width} x {height}, whatever its proportions, with Pillow: {pillow}. Another resizing moves the scores."
    " Normalisation is inside."
)
NUMBER_WORDS = (
    "{numbers}: float64 (N, {count}), the columns listed under '{numbers}' in that order; NaN where missing, 1 for"
    " true, 0 for false. A row gets the score NaN and an alarm if a number is infinite, beyond float32 or more than"
    " {far:,.0f} {measure}, or missing in a column that had no gaps in training."
)
TEXT_WORDS = (
    "{texts}: strings (N, {count}), the columns listed under '{texts}' in that order, spelled as in the table,"
    " whole numbers without a decimal point; {missing!r} where missing."
)
TABLE_WORDS = "Left to you: read the table. Medians, scaling and categories are inside."
PLAN_WORDS = (
    "These columns are made of the table's by the rules under 'columns' in the metadata 'preprocessing': dates in"
    " parts, numbers without marks of thousands, words for missing values as gaps. Applying them is left to you."
)


def add_inputs(graph: Graph, inputs: ImageInputs | TableInputs) -> tuple[str, str | None]:
    """Inputs and preprocessing; returns what the members take, and which rows have a problem, if any can have."""
    if isinstance(inputs, ImageInputs):
        return graph.input(IMAGES, np.uint8, (inputs.height, inputs.width, 3)), None
    columns: list[str] = []
    problems: list[str] = []
    if inputs.numeric:
        values = graph.input(NUMBERS, np.float64, (len(inputs.numeric),))
        found, cells = _numbers(graph, inputs.numeric, values)
        columns, problems = [*columns, found], [*problems, *cells]
    if inputs.categorical:
        texts = graph.input(TEXTS, np.object_, (len(inputs.categorical),))
        for place, column in enumerate(inputs.categorical):
            columns += [_one_hot(graph, column, graph.add("Gather", texts, place, axis=1))]
        full = [place for place, column in enumerate(inputs.categorical) if not column.may_miss]
        if full:
            problems += [_gaps(graph, graph.add("Gather", texts, full, axis=1), inputs)]
    rows = [graph.add("ReduceMax", graph.cast(cells, np.int32), [1], keepdims=0) for cells in problems]
    any_in_row = graph.cast(graph.add("Max", *rows), np.bool_) if rows else None
    return graph.joined(columns), any_in_row


def add_standardised(graph: Graph, inputs: TableInputs, matrix: str) -> str:
    """The matrix with standardised numbers in place of normal scores: `TablePreprocessor.standardised`."""
    ends = np.cumsum([1 + column.may_miss for column in inputs.numeric])
    quantiles = [
        (int(end) - 1 - column.may_miss, column)
        for end, column in zip(ends, inputs.numeric, strict=True)
        if isinstance(column, QuantileColumn)
    ]
    if not quantiles:
        return matrix
    places = [place for place, _ in quantiles]
    scores = graph.cast(graph.add("Gather", matrix, places, axis=1), np.float64)
    lines = add_lines(
        graph, scores, [np.array(own.scores) for _, own in quantiles], [own.standard for _, own in quantiles]
    )
    both = graph.add("Concat", matrix, graph.cast(lines, np.float32), axis=1)
    order = np.arange(inputs.features)
    order[places] = inputs.features + np.arange(len(places))
    return graph.add("Gather", both, order, axis=1)


def _gaps(graph: Graph, texts: str, inputs: TableInputs) -> str:
    return graph.add(
        "LabelEncoder",
        texts,
        domain="ai.onnx.ml",
        keys_strings=[missing_text(inputs)],
        values_int64s=[1],
        default_int64=0,
    )


def _numbers(graph: Graph, columns: list[NumericColumn | QuantileColumn], values: str) -> tuple[str, list[str]]:
    """The numbers as `TablePreprocessor.transform` has them, and the cells that `problems` names there.

    All in float64, as a float32 mean or knot could swallow the value.
    """
    missing = graph.add("IsNaN", values)
    never = [not column.may_miss for column in columns]
    problems = [graph.add("And", missing, never), _beyond(graph, values, LARGEST)]
    parts: list[str] = []
    order: list[int] = []
    for kind, prepare in ((NumericColumn, _deviations), (QuantileColumn, _normal_scores)):
        places = [place for place, column in enumerate(columns) if isinstance(column, kind)]
        if places:
            own = graph.add("Gather", values, places, axis=1)
            gaps = graph.add("Gather", missing, places, axis=1)
            made, far = prepare(graph, [columns[place] for place in places], own, gaps)
            parts, problems, order = [*parts, graph.cast(made, np.float32)], [*problems, far], [*order, *places]
    if any(column.may_miss for column in columns):
        parts.append(graph.cast(missing, np.float32))
    both = graph.joined(parts)
    wanted: list[int] = []
    for place, column in enumerate(columns):
        wanted += [order.index(place), len(columns) + place] if column.may_miss else [order.index(place)]
    if wanted == list(range(len(columns))):
        return both, problems
    return graph.add("Gather", both, wanted, axis=1), problems


def _deviations(graph: Graph, columns: list[Any], values: str, missing: str) -> tuple[str, str]:
    """(x − mean) / scale, and where it is too large."""
    medians, means, scales = (
        np.array([getattr(column, name) for column in columns], np.float64) for name in ("median", "mean", "scale")
    )
    filled = graph.add("Where", missing, medians, values)
    found = graph.add("Div", graph.add("Sub", filled, means), scales)
    return graph.add("Clip", found, -FARTHEST, FARTHEST), _beyond(graph, found, FARTHEST)


def _normal_scores(graph: Graph, columns: list[Any], values: str, missing: str) -> tuple[str, str]:
    """Normal scores between knots, and where a number lies beyond the column's reach."""
    low, high = ([column.reach[side] for column in columns] for side in (0, 1))
    far = graph.add("Or", graph.add("Less", values, low), graph.add("Greater", values, high))
    filled = graph.add("Where", missing, [column.knots[0] for column in columns], values)
    knots = [np.array(column.knots) for column in columns]
    lines = add_lines(graph, filled, knots, [np.array(column.scores) for column in columns])
    return graph.add("Where", missing, 0.0, lines), far


def _beyond(graph: Graph, values: str, bound: float) -> str:
    return graph.add("Greater", graph.add("Abs", values), bound)


def _one_hot(graph: Graph, column: CategoricalColumn, texts: str) -> str:
    """One column per known value and one for everything else."""
    other = len(column.values)
    if not other:
        ones = graph.add("Shape", texts)
        one = graph.onnx.numpy_helper.from_array(np.ones(1, np.float32))
        return graph.add("Unsqueeze", graph.add("ConstantOfShape", ones, value=one), [1])
    codes = graph.add(
        "LabelEncoder",
        texts,
        domain="ai.onnx.ml",
        keys_strings=list(column.values),
        values_int64s=list(range(other)),
        default_int64=other,
    )
    return graph.add("OneHot", codes, other + 1, np.array([0, 1], np.float32), axis=1)


def missing_text(inputs: TableInputs) -> str:
    """What stands for a missing text: no column knows it as a value."""
    known = {value for column in inputs.categorical for value in column.values}
    text = ""
    while text in known:
        text += "?"
    return text


def description(inputs: ImageInputs | TableInputs) -> dict[str, Any]:
    """How to make the inputs, for machines and in words."""
    if isinstance(inputs, ImageInputs):
        sides: dict[str, Any] = {"height": inputs.height, "width": inputs.width}
        call = PILLOW.format(**sides)
        return {IMAGES: sides, "resize": call, "words": IMAGE_WORDS.format(images=IMAGES, pillow=call, **sides)}
    found: dict[str, Any] = {}
    sentences = []
    if inputs.numeric:
        found[NUMBERS] = [column.name for column in inputs.numeric]
        kinds = {type(column): None for column in inputs.numeric}
        measure = " or ".join(MEASURES[kind] for kind in kinds)
        count = len(inputs.numeric)
        sentences.append(NUMBER_WORDS.format(numbers=NUMBERS, count=count, far=FARTHEST, measure=measure))
    if inputs.categorical:
        gap = missing_text(inputs)
        found |= {TEXTS: [column.name for column in inputs.categorical], "missing_text": gap}
        sentences.append(TEXT_WORDS.format(texts=TEXTS, count=len(inputs.categorical), missing=gap))
    sentences += [TABLE_WORDS, *([PLAN_WORDS] if inputs.columns is not None else [])]
    return found | {"header": inputs.header, "words": " ".join(sentences)}


def probes(inputs: ImageInputs | TableInputs, count: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Made-up samples of the kind the model takes: noise images; rows near the training data, with gaps, unknown
    texts and absurd numbers."""
    if isinstance(inputs, ImageInputs):
        return {IMAGES: rng.integers(0, 256, (count, inputs.height, inputs.width, 3), dtype=np.uint8)}
    found: dict[str, NDArray[Any]] = {}
    if inputs.numeric:
        columns = [_near(column, count, rng) for column in inputs.numeric]
        chance = rng.random((count, len(columns)))
        odd = rng.choice([np.inf, -np.inf, 1e300, -1e22], size=chance.shape)
        found[NUMBERS] = np.where(chance < 0.1, np.nan, np.where(chance > 0.99, odd, np.stack(columns, axis=1)))
    if inputs.categorical:
        gap = missing_text(inputs)
        texts = [rng.choice([*column.values, gap], size=count) for column in inputs.categorical]
        found[TEXTS] = np.stack(texts, axis=1).astype(object)
    return found


def _near(column: NumericColumn | QuantileColumn, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Numbers like those of training, some of them beyond the range; of knots, some exactly there."""
    if isinstance(column, NumericColumn):
        return column.mean + (1.0 if column.scale == NO_SPREAD else column.scale) * rng.normal(size=count)
    knots = np.array(column.knots)
    last = len(knots) - 1
    place = np.clip(rng.uniform(-0.1 * last, 1.1 * last, count), 0, last)
    place = np.where(rng.random(count) < 0.25, np.round(place), place)
    beyond = (rng.random(count) < 0.1) * rng.normal(size=count) * (knots[-1] - knots[0] or 1.0)
    return np.asarray(np.interp(place, np.arange(len(knots)), knots) + beyond)
