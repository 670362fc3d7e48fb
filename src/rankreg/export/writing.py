"""From a bundle to an ONNX file: built, checked, compared with the network, and only then written."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankreg.bundle import Bundle, BundleCard
from rankreg.bundle.card import finite
from rankreg.bundle.inputs import ImageInputs, TableInputs, read_inputs
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.datasets.splits import Samples
from rankreg.export.graph import Graph, onnx_package
from rankreg.export.inputs import IMAGES, NUMBERS, TEXTS, add_inputs, description, missing_text, probes
from rankreg.export.networks import add_network
from rankreg.safe_files import write_whole
from rankreg.train import score

FORMAT = 1
CLOSE = 1e-4  # scores of both may differ by so much, or by that share of them
LARGEST = 2**31 - 1  # bytes: more does not fit into one ONNX file


@dataclass(frozen=True)
class Exported:
    """The file, what its inputs are, how many made-up samples it was compared on, and the largest difference."""

    out: Path
    inputs: dict[str, Any]
    samples: int
    difference: float


def export_onnx(bundle: Bundle, out: Path | str, *, resize: bool = False, force: bool = False) -> Exported:
    """Write the bundle's preprocessing, network and threshold as an ONNX model.

    Its outputs are `score` (N,), the float32 scores of `rankreg predict`, and `alarm` (N,), whether they reach the
    threshold; a row with a problem has the score NaN and raises an alarm, as there.

    Its inputs are `images`, or `numbers` and `texts`; the
    metadata say how to make them, and hold classes, threshold and certificate, each as JSON. resize: take images of
    any size. A file that is there already is replaced only with `force`.
    """
    target = check_target(Path(out), force=force)
    size = sum(value.numel() * value.element_size() for value in bundle.model.state_dict().values())
    if size > LARGEST:
        raise ValueError(f"{size / 1e9:.1f} GB of weights do not fit into one ONNX file, which holds 2.1 GB")
    inputs = read_inputs(bundle.card.preprocessing)
    if resize and not isinstance(inputs, ImageInputs):
        raise ValueError("resize is for images, this bundle takes a table: leave it out")
    model = build(bundle, inputs, resize=resize)
    onnx_package().checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    samples = probes(inputs, 4 if isinstance(inputs, ImageInputs) else 256, np.random.default_rng(0))
    difference = compare(bundle, inputs, content, samples)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, content)
    return Exported(target, description(inputs, resize=resize), len(next(iter(samples.values()))), difference)


def check_target(out: Path, *, force: bool) -> Path:
    """A file that may be written, said before anything is computed."""
    if out.suffix != ".onnx":
        raise ValueError(f"{out} is no name for an ONNX file: let it end in .onnx")
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give the name of a file to write")
    if out.exists() and not force:
        raise ValueError(f"{out} is there already: choose another name, or replace it with --force (force=True)")
    return out


def build(bundle: Bundle, inputs: ImageInputs | TableInputs, *, resize: bool = False) -> Any:
    """The model, unchecked."""
    card, graph = bundle.card, Graph()
    prepared, problems = add_inputs(graph, inputs, resize=resize)
    scores = _finite_or_nan(graph, add_network(graph, bundle.model, prepared), problems)
    low = graph.add("Less", scores, graph.array(np.array(card.threshold.value, np.float32)))
    left_to_do = description(inputs, resize=resize)
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
    return {key: json.dumps(finite(value), ensure_ascii=False) for key, value in content.items()}


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
    rows = np.arange(len(prepared))
    values = score(bundle.model, Samples(prepared, rows, np.zeros_like(rows), rows), precision="float32").values
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
