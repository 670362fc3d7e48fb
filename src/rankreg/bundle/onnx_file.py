"""A bundle as one ONNX file: built, checked, compared with the model, and only then written."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import nn

from rankreg.backbones import TimmShape
from rankreg.bundle.card import BundleCard, ImageInputs, TableInputs, read_inputs
from rankreg.bundle.ensemble import Ensemble, FittedLearner, Linear, NegativeRanks, Network
from rankreg.bundle.evaluation import ANSWERS
from rankreg.bundle.onnx_graph import Graph, add_features, add_lines, add_network, add_trees, onnx_package
from rankreg.bundle.onnx_inputs import (
    IMAGES,
    NUMBERS,
    TEXTS,
    add_inputs,
    add_standardised,
    description,
    missing_text,
    probes,
)
from rankreg.bundle.storage import Bundle
from rankreg.bundle.trees import Trees
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.notation import json_value
from rankreg.safe_files import write_whole

FORMAT = 1
CLOSE = 1e-4  # scores of both may differ by so much, or by that share of them
MOST_BYTES = 2**31 - 1  # more does not fit into one ONNX file


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
    """Write the bundle's preprocessing, network or ensemble, and threshold as one ONNX model.

    Its outputs are `score` (N,), the float32 scores of `rankreg predict`, and `alarm` (N,), whether they
    reach the threshold. A row with a problem has the score NaN and raises an alarm, as there. A bundle with
    three answers also has `answer` (N,), int64: 0 dismiss, 1 review, 2 alarm. `alarm` is then true for 1 and 2.

    Its inputs are `images` (uint8, already resized), or `numbers` and `texts`, a table's columns. The
    metadata say how to make them, and hold classes, threshold and certificate, each as JSON.

    Args:
        bundle: the model, from `load_bundle`.
        out: the file to write, whose name ends in .onnx.
        force: replace a file that is there already.

    Returns:
        The file, its inputs, and how far its scores are from the bundle's.

    Raises:
        ValueError: if onnx or onnxruntime is missing, the file is there already, the model is too
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
    weights = (value for network in _networks(bundle.model) for value in network.state_dict().values())
    _check_size(sum(value.numel() * value.element_size() for value in weights))
    inputs = read_inputs(bundle.card.preprocessing)
    model = build(bundle, inputs)
    _check_size(model.ByteSize())
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


def _networks(model: nn.Module | Ensemble) -> list[nn.Module]:
    if isinstance(model, nn.Module):
        return [model]
    members = (member for learner in model.learners for member in learner.members)
    return [member.network for member in members if isinstance(member, Network)]


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"{size / 1e9:.1f} GB of weights do not fit into one ONNX file, which holds 2.1 GB")


def build(bundle: Bundle, inputs: ImageInputs | TableInputs) -> Any:
    """The model, unchecked."""
    card, graph = bundle.card, Graph()
    prepared, problems = add_inputs(graph, inputs)
    if isinstance(bundle.model, Ensemble):
        raw = _ensemble(graph, bundle.model, inputs, prepared)
    else:
        raw = add_network(graph, bundle.model, prepared)
    bad = graph.add("IsInf", raw)
    bad = bad if problems is None else graph.add("Or", bad, problems)
    scores = graph.add("Where", bad, np.float32(np.nan), raw)  # NaN is not below the threshold: it raises an alarm
    reached = [graph.add("Not", graph.add("Less", scores, np.float32(level))) for level in card.threshold.levels]
    outputs: dict[str, tuple[str, Any]] = {"score": (scores, np.float32), "alarm": (reached[0], np.bool_)}
    said = f"alarm where score >= {card.threshold.value!r}"
    if card.threshold.alarm_from is not None:
        numbers = [graph.cast(level, np.int64) for level in reached]
        outputs["answer"] = graph.add("Add", *numbers), np.int64
        said = (
            f"answer 2 (alarm) where score >= {card.threshold.alarm_from!r}, 1 (review) where score >="
            f" {card.threshold.value!r}, else 0 (dismiss); alarm where it is not 0"
        )
    left_to_do = description(inputs)
    return graph.model(
        outputs,
        name="rankreg",
        doc=f"{card.name}: {said}. {left_to_do['words']}",
        metadata=metadata(card, left_to_do),
    )


def _ensemble(graph: Graph, ensemble: Ensemble, inputs: ImageInputs | TableInputs, prepared: str) -> str:
    """Every member's raw score, its level on the member's scale, and the weighted mean of all levels."""
    views = {"normal": prepared, "images": prepared}
    if isinstance(inputs, TableInputs) and any(one.view == "standardised" for one in ensemble.learners):
        views["standardised"] = add_standardised(graph, inputs, prepared)
    if ensemble.backbone is not None:
        shape = ensemble.backbone.shape
        if isinstance(shape, TimmShape):
            raise ValueError(
                f"the network {shape.name} of timm cannot be written as ONNX: score with `rankreg predict`,"
                " or fit with --backbone efficientnet-lite0"
            )
        views["features"] = add_features(graph, ensemble.backbone.network, shape.side, shape.flips, prepared)
    raw = [_members(graph, learner, views[learner.view]) for learner in ensemble.learners]
    scales = [scale for learner in ensemble.learners for scale in learner.scales]
    total = sum(sum(learner.weights) for learner in ensemble.learners)
    shares = [weight / total for learner in ensemble.learners for weight in learner.weights]
    levels = _levels(graph, scales, graph.joined(raw))
    return graph.cast(graph.add("MatMul", levels, shares), np.float32)


def _members(graph: Graph, learner: FittedLearner, rows: str) -> str:
    """The raw scores of a learner's members, float64 (N, members)."""
    linear = [member for member in learner.members if isinstance(member, Linear)]
    if linear:
        doubles = graph.cast(rows, np.float64)
        sums = graph.add("MatMul", doubles, np.stack([member.weights for member in linear], axis=1))
        return graph.add("Add", sums, [member.bias for member in linear])
    trees = [member for member in learner.members if isinstance(member, Trees)]
    if trees:
        return add_trees(graph, rows, trees)
    columns = [
        graph.add("Unsqueeze", add_network(graph, member.network, rows), [1])
        for member in learner.members
        if isinstance(member, Network)
    ]
    return graph.cast(graph.joined(columns), np.float64)


def _levels(graph: Graph, scales: list[NegativeRanks], scores: str) -> str:
    """Each column on its scale, as `NegativeRanks` has it."""

    def beyond(distance: str, side: int) -> str:
        slopes = [scale.slopes[side] for scale in scales]
        return graph.add("Log", graph.add("Add", 1.0, graph.add("Mul", slopes, graph.add("Max", distance, 0.0))))

    first, last = ([scale.knots[place] for scale in scales] for place in (0, -1))
    lines = add_lines(graph, scores, [scale.knots for scale in scales], [scale.levels for scale in scales])
    above = graph.add("Add", lines, beyond(graph.add("Sub", scores, last), 1))
    return graph.add("Sub", above, beyond(graph.add("Sub", first, scores), 0))


def metadata(card: BundleCard, inputs: dict[str, Any]) -> dict[str, str]:
    """What else is known about the model, each value as JSON."""
    threshold = card.threshold.model_dump(mode="json")
    total = sum(sum(learner.weights) for learner in card.learners)
    learners = [
        {"name": one.name, "kind": one.kind, "members": one.members, "weight": sum(one.weights) / total}
        for one in card.learners
    ]
    content = {
        "rankreg_format": FORMAT,
        "name": card.name,
        "classes": list(card.classes),
        "threshold": threshold.pop("value"),
        "alarm_from": threshold.pop("alarm_from"),
        "answers": list(ANSWERS) if card.threshold.alarm_from is not None else None,
        "certified": threshold.pop("certified"),
        "certificate": threshold.pop("certificate"),
        "promised": threshold.pop("promised"),
        "target": threshold,
        "inputs": inputs,
        "learners": learners,
        "preprocessing": card.preprocessing,
        "metrics": card.metrics,
        "versions": card.versions,
        "weights_sha256": card.weights.sha256,
    }
    return {key: json.dumps(json_value(value), ensure_ascii=False) for key, value in content.items()}


def compare(
    bundle: Bundle, inputs: ImageInputs | TableInputs, content: bytes, samples: dict[str, NDArray[Any]]
) -> float:
    """The largest difference between the file's scores and the bundle's; an error if they are not the same."""
    session = onnx_package("onnxruntime").InferenceSession(content, providers=["CPUExecutionProvider"])
    (found,) = session.run(["score"], samples)
    good = np.ones(len(found), dtype=bool)
    if isinstance(inputs, ImageInputs):
        prepared: NDArray[Any] = samples[IMAGES]
    else:
        preparation, frame = TablePreprocessor.from_dict(bundle.card.preprocessing), _frame(inputs, samples)
        good = np.asarray([not problem for problem in preparation.problems(frame)])
        prepared = preparation.transform(frame[good])
    values = bundle.score(prepared) if len(prepared) else np.empty(0, np.float32)
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
