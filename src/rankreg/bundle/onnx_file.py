"""A bundle as one ONNX file: built, checked, compared with the network, and only then written."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.bundle.card import BundleCard, ImageInputs, TableInputs, read_inputs
from rankreg.bundle.onnx_graph import Graph, add_network, onnx_package
from rankreg.bundle.storage import Bundle
from rankreg.datasets.preprocessing import (
    FARTHEST,
    LARGEST,
    NO_SPREAD,
    CategoricalColumn,
    NumericColumn,
    TablePreprocessor,
)
from rankreg.notation import json_value
from rankreg.safe_files import write_whole
from rankreg.train import score

FORMAT = 1
CLOSE = 1e-4  # scores of both may differ by so much, or by that share of them
MOST_BYTES = 2**31 - 1  # more does not fit into one ONNX file
IMAGES, NUMBERS, TEXTS = "images", "numbers", "texts"

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
    " {far:,.0f} standard deviations from the training mean, or missing in a column that had no gaps in training."
)
TEXT_WORDS = (
    "{texts}: strings (N, {count}), the columns listed under '{texts}' in that order, spelled as in the table,"
    " whole numbers without a decimal point; {missing!r} where missing."
)
TABLE_WORDS = "Left to you: read the table. Medians, scaling and categories are inside."


@dataclass(frozen=True)
class Exported:
    """The result of `export_onnx`.

    Attributes:
        out: the file.
        inputs: how to make its inputs, as in the file's metadata.
        samples: how many made-up samples the file was compared with the bundle on.
        difference: the largest difference between their scores.
    """

    out: Path
    inputs: dict[str, Any]
    samples: int
    difference: float


def export_onnx(bundle: Bundle, out: Path | str, *, force: bool = False) -> Exported:
    """Write the bundle's preprocessing, network and threshold as an ONNX model.

    Its outputs are `score` (N,), the float32 scores of `rankreg predict`, and `alarm` (N,), whether they
    reach the threshold. A row with a problem has the score NaN and raises an alarm, as there.

    Its inputs are `images` (uint8, already resized), or `numbers` and `texts`, a table's columns. The
    metadata say how to make them, and hold classes, threshold and certificate, each as JSON.

    Args:
        bundle: the model, from `load_bundle`.
        out: the file to write, whose name ends in .onnx.
        force: replace a file that is there already.

    Returns:
        The file, its inputs, and how far its scores are from the bundle's.

    Raises:
        ValueError: if onnx or onnxruntime is missing, the file is there already, the network is too
            large or has a layer without ONNX form, or the scores are not the bundle's.

    >>> from rankreg.bundle import load_bundle
    >>> from rankreg.estimators import RankRegClassifier
    >>> sick = np.arange(100) % 5 == 0
    >>> sizes = pd.DataFrame({"size": sick + np.arange(100) % 7 / 10})
    >>> _ = RankRegClassifier(epochs=1, random_state=0).fit(sizes, sick).save("model")
    >>> export_onnx(load_bundle("model"), "model.onnx").inputs["numbers"]
    ['size']
    """
    target = check_onnx_path(Path(out), force=force)
    size = sum(value.numel() * value.element_size() for value in bundle.model.state_dict().values())
    if size > MOST_BYTES:
        raise ValueError(f"{size / 1e9:.1f} GB of weights do not fit into one ONNX file, which holds 2.1 GB")
    inputs = read_inputs(bundle.card.preprocessing)
    model = build(bundle, inputs)
    onnx_package().checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    samples = probes(inputs, 4 if isinstance(inputs, ImageInputs) else 256, np.random.default_rng(0))
    difference = compare(bundle, inputs, content, samples)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, content)
    return Exported(target, description(inputs), len(next(iter(samples.values()))), difference)


def check_onnx_path(out: Path, *, force: bool) -> Path:
    """A file that may be written, said before anything is computed."""
    if out.suffix != ".onnx":
        raise ValueError(f"{out} is no name for an ONNX file: let it end in .onnx")
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give the name of a file to write")
    if out.exists() and not force:
        raise ValueError(f"{out} is there already: choose another name, or replace it with --force (force=True)")
    return out


def build(bundle: Bundle, inputs: ImageInputs | TableInputs) -> Any:
    """The model, unchecked."""
    card, graph = bundle.card, Graph()
    prepared, problems = add_inputs(graph, inputs)
    scores = _finite_or_nan(graph, add_network(graph, bundle.model, prepared), problems)
    low = graph.add("Less", scores, graph.array(np.array(card.threshold.value, np.float32)))
    left_to_do = description(inputs)
    return graph.model(
        {"score": (scores, np.float32), "alarm": (graph.add("Not", low), np.bool_)},
        name="rankreg",
        doc=f"{card.name}: alarm where score >= {card.threshold.value!r}. {left_to_do['words']}",
        metadata=metadata(card, left_to_do),
    )


def _finite_or_nan(graph: Graph, scores: str, problems: str | None) -> str:
    """NaN for rows with a problem and for infinite scores: NaN is not below the threshold, and raises an alarm."""
    bad = graph.add("IsInf", scores)
    if problems is not None:
        bad = graph.add("Or", bad, problems)
    return graph.add("Where", bad, graph.array(np.array(np.nan, np.float32)), scores)


def metadata(card: BundleCard, inputs: dict[str, Any]) -> dict[str, str]:
    """What else is known about the model, each value as JSON."""
    threshold = card.threshold.model_dump(mode="json")
    content = {
        "rankreg_format": FORMAT,
        "name": card.name,
        "classes": list(card.classes),
        "threshold": threshold.pop("value"),
        "certified": threshold.pop("certified"),
        "certificate": threshold.pop("certificate"),
        "target": threshold,
        "inputs": inputs,
        "preprocessing": card.preprocessing,
        "metrics": card.metrics,
        "versions": card.versions,
        "weights_sha256": card.weights.sha256,
    }
    return {key: json.dumps(json_value(value), ensure_ascii=False) for key, value in content.items()}


def compare(
    bundle: Bundle, inputs: ImageInputs | TableInputs, content: bytes, samples: dict[str, NDArray[Any]]
) -> float:
    """The largest difference between the file's scores and the network's; an error if they are not the same."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ValueError("exporting needs onnx and onnxruntime: pip install 'rankreg[onnx]'") from error
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (found,) = session.run(["score"], samples)
    good = np.ones(len(found), dtype=bool)
    if isinstance(inputs, ImageInputs):
        prepared: NDArray[Any] = samples[IMAGES]
    else:
        preparation, frame = TablePreprocessor.from_dict(bundle.card.preprocessing), _frame(inputs, samples)
        good = np.asarray([not problem for problem in preparation.problems(frame)])
        prepared = preparation.transform(frame[good])
    values = score(bundle.model, prepared, precision="float32")
    ours = np.full(len(found), np.nan, dtype=np.float32)
    ours[good] = np.where(np.isfinite(values), values, np.nan)
    difference = float(np.nanmax(np.abs(found - ours), initial=0.0))
    if not np.allclose(found, ours, rtol=CLOSE, atol=CLOSE, equal_nan=True):
        raise ValueError(
            f"the ONNX model's scores differ from the bundle's by up to {difference:.2g}:"
            " nothing was written; please report this with the versions of onnx and onnxruntime"
        )
    return difference


def _frame(inputs: TableInputs, samples: dict[str, NDArray[Any]]) -> pd.DataFrame:
    """The made-up samples as the table they might have come from."""
    gap = missing_text(inputs)
    numbers = {column.name: samples[NUMBERS][:, k] for k, column in enumerate(inputs.numeric)}
    texts = {
        column.name: [None if text == gap else text for text in samples[TEXTS][:, k]]
        for k, column in enumerate(inputs.categorical)
    }
    return pd.DataFrame({**numbers, **texts})


def add_inputs(graph: Graph, inputs: ImageInputs | TableInputs) -> tuple[str, str | None]:
    """Inputs and preprocessing; returns what the network takes, and which rows have a problem, if any can have."""
    if isinstance(inputs, ImageInputs):
        return graph.input(IMAGES, np.uint8, (inputs.height, inputs.width, 3)), None
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


def _numbers(graph: Graph, columns: list[NumericColumn], values: str) -> tuple[str, str]:
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


def _one_hot(graph: Graph, column: CategoricalColumn, texts: str) -> str:
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
        keys_strings=list(column.values),
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
