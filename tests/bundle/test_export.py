"""A model as an ONNX file: the same scores as ours on real samples, everything inside, whole or not there."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

from rankreg.bundle import Bundle, Threshold, export_onnx, predict
from rankreg.bundle.onnx_graph import Graph, add_lines, add_network, add_trees
from rankreg.bundle.storage import save_bundle
from rankreg.bundle.trees import Tree, Trees
from rankreg.datasets.images import read_image
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.fit import Source, fit
from rankreg.models import MLPShape, ResNetShape, build_model
from tests.bundle.ensembles import TREES, image_ensemble, table, table_ensemble
from tests.bundle.test_storage import TABLE, contents
from tests.own_data import shared_data

CONSUMER = Path(__file__).parents[2] / "examples/onnx_consumer.py"


def fitted(file: Path, target: str, out: Path, *names: str) -> Bundle:
    """A bundle as `rankreg fit` makes it."""
    done = fit(Source(file, target=target, keep_copies_together=False), out, learners=names, progress=False)
    assert done is not None
    return done.bundle


def predicted(bundle: Bundle, data: Path, tmp_path: Path) -> "pd.DataFrame":
    """What `rankreg predict` says."""
    predict(bundle, data, tmp_path / "scores.csv")
    return pd.read_csv(tmp_path / "scores.csv")


def consumed(model: Path, *files: Path) -> NDArray[Any]:
    """What the consumer example says, in a process where torch and rankreg cannot be imported."""
    program = (
        "import sys, runpy; sys.modules['torch'] = sys.modules['rankreg'] = None;"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, CONSUMER, model, *files], capture_output=True, text=True, check=True
    )
    return np.array([line.split(",") for line in said.stdout.split()], dtype=np.float64)


def same_scores(found: NDArray[Any], ours: "pd.DataFrame") -> None:
    """To 1e-4, and the same alarms but where the threshold lies within rounding."""
    assert len(found) == len(ours)
    np.testing.assert_allclose(found[:, 0], ours["score"], rtol=0, atol=1e-4)
    assert np.mean(found[:, 1] == ours["alarm"]) > 0.99


@pytest.mark.slow
def test_digits_score_as_they_do_with_us(tmp_path: Path) -> None:
    pixels, digits = load_digits(return_X_y=True)
    table = pd.DataFrame(pixels, columns=[f"pixel {k}" for k in range(64)]).assign(eight=(digits == 8).astype(int))
    table.to_csv(tmp_path / "digits.csv", index=False)
    bundle = fitted(tmp_path / "digits.csv", "eight", tmp_path / "model", "logistic", "boosting")
    made = export_onnx(bundle, tmp_path / "model.onnx")
    assert made.difference < 1e-4
    same_scores(consumed(made.out, tmp_path / "digits.csv"), predicted(bundle, tmp_path / "digits.csv", tmp_path))


@pytest.mark.slow
def test_a_real_table_with_texts_and_gaps_scores_as_it_does_with_us(tmp_path: Path) -> None:
    """Patients of ISIC 2020: sex and body site are texts, age is a number, all of them missing here and there."""
    with lzma.open(shared_data() / "tabular/isic2020_train.csv.xz") as file:
        rows = pd.read_csv(file)
    kept = pd.concat([rows[rows["target"] == 1].head(300), rows[rows["target"] == 0].head(1500)])
    gaps = rows[rows[["sex", "age_approx", "anatom_site_general_challenge"]].isna().any(axis=1)].head(60)
    columns = ["sex", "age_approx", "anatom_site_general_challenge", "target"]
    pd.concat([kept, gaps])[columns].to_csv(tmp_path / "isic.csv", index=False)
    bundle = fitted(tmp_path / "isic.csv", "target", tmp_path / "model", "forest", "mlp")
    assert len(bundle.card.preprocessing["categorical"]) == 2
    made = export_onnx(bundle, tmp_path / "model.onnx")
    same_scores(consumed(made.out, tmp_path / "isic.csv"), predicted(bundle, tmp_path / "isic.csv", tmp_path))


@pytest.mark.slow
def test_real_photographs_score_as_they_do_with_us(tmp_path: Path) -> None:
    """CIFAR-10 cars and trucks at their size as PNG, HAM10000 lesions squeezed from 64 × 48 as JPEG."""
    with np.load(shared_data() / "cifar10/index.npz", allow_pickle=False) as index:
        labels = index["test_batch.labels"][:600]
    with Image.open(shared_data() / "cifar10/test_batch.1.webp") as grid:
        pixels = np.asarray(grid).reshape(100, 32, 100, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3)
    for label, kind in ((1, "car"), (9, "truck")):
        (tmp_path / "cifar" / kind).mkdir(parents=True)
        for k in np.flatnonzero(labels == label):
            Image.fromarray(pixels[k]).save(tmp_path / f"cifar/{kind}/{k}.png")
    with np.load(shared_data() / "ham10000/ham10000_64x48.npz", allow_pickle=False) as file:
        jpeg, offsets, kinds = file["jpeg"], file["offsets"], file["dx"]
    for kind in ("mel", "nv"):
        (tmp_path / "ham" / kind).mkdir(parents=True)
        for k in np.flatnonzero(kinds == kind)[:60]:
            (tmp_path / f"ham/{kind}/{k}.jpg").write_bytes(jpeg[offsets[k] : offsets[k + 1]].tobytes())
    for name, size in (("cifar", 32), ("ham", 24)):
        home = tmp_path / name
        images = np.stack([read_image(file, (size, size)) for file in sorted(home.rglob("*.*"))[:60]])
        bundle = image_ensemble(tmp_path / f"{name} model", size, size, images)
        made = export_onnx(bundle, tmp_path / f"{name}.onnx")
        ours = predicted(bundle, home, tmp_path)
        same_scores(consumed(made.out, *(home / image for image in ours["id"])), ours)


def bundle_of(folder: Path, shape: Any, preprocessing: dict[str, Any], **changes: Any) -> Bundle:
    """An untrained network whose batch statistics are not those of a new one."""
    network = build_model(shape)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.weight)
            nn.init.normal_(layer.running_mean)  # type: ignore[arg-type]
            nn.init.uniform_(layer.running_var, 0.5, 2.0)  # type: ignore[arg-type]
    return save_bundle(folder, network, **contents(model=shape, preprocessing=preprocessing, **changes))


@pytest.mark.parametrize("head", ["score", "pair", "cosine"])
@pytest.mark.parametrize(("name", "stem"), [("resnet10", "cifar"), ("resnet18", "imagenet")])
def test_every_image_network_agrees_with_torch(tmp_path: Path, name: Any, stem: Any, head: Any) -> None:
    shape = ResNetShape(name=name, stem=stem, pixels=stem, head=head, width=0.0625, classes=2)
    bundle = bundle_of(tmp_path / "bundle", shape, {"kind": "image", "height": 24, "width": 17})
    session = onnxruntime.InferenceSession(export_onnx(bundle, tmp_path / "m.onnx").out)
    for count in (1, 5):  # the batch axis is free
        images = np.random.default_rng(count).integers(0, 256, (count, 24, 17, 3), dtype=np.uint8)
        assert isinstance(bundle.model, nn.Module)
        with torch.inference_mode():
            ours = bundle.model(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
        np.testing.assert_allclose(session.run(["score"], {"images": images})[0], ours, rtol=0, atol=1e-4)


AWKWARD = TABLE | {
    "numeric": [
        {"name": "age", "median": 50.0, "mean": 51.5, "scale": 10.0, "may_miss": True},
        {"name": "seconds since 1970", "median": 1.7e9, "mean": 1.7e9, "scale": 2.0, "may_miss": False},
    ],
    "categorical": [{"name": "site", "values": ["", "arm", "Bein"]}, {"name": "free text", "values": []}],
}


@pytest.mark.parametrize("head", ["score", "pair", "cosine"])
def test_awkward_tables_agree_with_torch(tmp_path: Path, head: Any) -> None:
    """Large numbers need float64; "" may be a value, so that missing texts need another name; a column may know no
    value at all."""
    shape = MLPShape(classes=2, features=8, head=head, hidden=(16,), dropout=0.5)
    bundle = bundle_of(tmp_path / "bundle", shape, AWKWARD)
    made = export_onnx(bundle, tmp_path / "m.onnx")
    assert made.inputs["missing_text"] == "?"
    feeds = {
        "numbers": np.array([[np.nan, 1.7e9 + 1], [40.0, 1.7e9 + 2], [60.0, 1.7e9 - 3]]),
        "texts": np.array([["", "x"], ["?", "y"], ["Bein", ""]], dtype=object),
    }
    matrix = [  # by hand: age, age is missing, seconds, "", arm, Bein, other, free text is other
        [-0.15, 1, 0.5, 1, 0, 0, 0, 1],
        [-1.15, 0, 1.0, 0, 0, 0, 1, 1],
        [0.85, 0, -1.5, 0, 0, 1, 0, 1],
    ]
    assert isinstance(bundle.model, nn.Module)
    with torch.inference_mode():
        ours = bundle.model(torch.tensor(matrix)).numpy()
    found = onnxruntime.InferenceSession(made.out).run(["score"], feeds)[0]
    np.testing.assert_allclose(found, ours, rtol=0, atol=1e-5)


def test_the_consumer_reads_truth_values_gaps_and_a_spreadsheets_first_bytes_as_we_do(tmp_path: Path) -> None:
    numeric = [
        {"name": name, "median": 0.5, "mean": 0.25, "scale": 0.5, "may_miss": may_miss}
        for name, may_miss in (("smokes", False), ("dose", True))
    ]
    shape = MLPShape(classes=2, features=3, head="score")
    bundle = bundle_of(tmp_path / "bundle", shape, TABLE | {"numeric": numeric, "categorical": []})
    rows = "smokes,dose\nTrue,1.5\nFalse,NA\nTrue,\nFalse,null\n"
    (tmp_path / "rows.csv").write_text(rows, encoding="utf-8-sig")
    made = export_onnx(bundle, tmp_path / "m.onnx")
    same_scores(consumed(made.out, tmp_path / "rows.csv"), predicted(bundle, tmp_path / "rows.csv", tmp_path))


def test_a_table_of_numbers_only_or_of_texts_only_has_one_input(tmp_path: Path) -> None:
    numbers = bundle_of(tmp_path / "n", MLPShape(classes=2, features=1, head="score"), TABLE | {"categorical": []})
    texts = bundle_of(tmp_path / "t", MLPShape(classes=2, features=2, head="score"), TABLE | {"numeric": []})
    for bundle, names in ((numbers, ["numbers"]), (texts, ["texts"])):
        made = export_onnx(bundle, tmp_path / f"{names[0]}.onnx")
        assert [value.name for value in onnxruntime.InferenceSession(made.out).get_inputs()] == names


@pytest.fixture
def table_bundle(tmp_path: Path) -> Bundle:
    certificate = {"threshold": 0.25, "tpr": 0.9, "fpr": {"estimate": 0.1, "high": float("inf")}}
    point = Threshold(
        value=0.25, tpr=0.9, confidence=0.95, certified=True, calibration_positives=40, certificate=certificate
    )
    return bundle_of(tmp_path / "bundle", contents()["model"], TABLE, threshold=point)


def test_the_file_is_valid_and_says_all_that_is_known(table_bundle: Bundle, tmp_path: Path) -> None:
    model = onnx.load(export_onnx(table_bundle, tmp_path / "m.onnx").out)
    onnx.checker.check_model(model, full_check=True)
    known = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert known["classes"] == ["healthy", "sick"]
    assert known["threshold"] == 0.25
    assert known["certified"] is True
    assert known["certificate"] == {"threshold": 0.25, "tpr": 0.9, "fpr": {"estimate": 0.1, "high": None}}
    assert known["target"]["calibration_positives"] == 40
    assert known["preprocessing"] == TABLE
    assert known["inputs"]["numbers"] == ["age"]
    assert known["inputs"]["texts"] == ["site"]
    assert "Left to you" in known["inputs"]["words"]
    assert known["inputs"]["words"] in model.doc_string
    assert all(value.type.tensor_type.shape.dim[0].dim_param == "batch" for value in model.graph.input)


def test_an_alarm_is_a_score_at_the_threshold_or_one_that_is_no_number(
    table_bundle: Bundle, tmp_path: Path
) -> None:
    """Infinity is bad input, and must not pass for an all-clear."""
    session = onnxruntime.InferenceSession(export_onnx(table_bundle, tmp_path / "m.onnx").out)
    ages = np.append(np.random.default_rng(0).normal(50, 30, 200), np.inf)[:, None]
    scores, alarms = session.run(None, {"numbers": ages, "texts": np.full((201, 1), "arm", dtype=object)})
    assert np.isnan(scores[-1])
    assert alarms[-1]
    assert np.array_equal(alarms[:-1], scores[:-1] >= np.float32(0.25))
    assert 0 < alarms[:-1].mean() < 1


def test_a_file_that_is_there_is_kept_unless_forced(table_bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    out.write_text("mine")
    with pytest.raises(ValueError, match="there already: choose another name, or replace it with --force"):
        export_onnx(table_bundle, out)
    assert out.read_text() == "mine"
    export_onnx(table_bundle, out, force=True)
    onnx.checker.check_model(onnx.load(out))


def test_nothing_is_written_when_scores_disagree_or_the_disk_is_full(
    table_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(graph: Any, network: Any, value: str) -> str:
        half = graph.array(np.array(0.5, np.float32))
        return str(graph.add("Add", add_network(graph, network, value), half))

    folder = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr("rankreg.bundle.onnx_file.add_network", wrong)
        with pytest.raises(ValueError, match=r"differ from the bundle's by up to 0\.5"):
            export_onnx(table_bundle, folder / "m.onnx")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        export_onnx(table_bundle, folder / "m.onnx")
    assert list(folder.iterdir()) == []


def test_a_layer_that_has_no_onnx_form_is_named(table_bundle: Bundle, tmp_path: Path) -> None:
    strange = Bundle(nn.Sequential(nn.Linear(3, 1), nn.GELU()), table_bundle.card)
    with pytest.raises(ValueError, match="layer GELU"):
        export_onnx(strange, tmp_path / "m.onnx")


def test_the_example_for_tables_is_ten_lines() -> None:
    body = CONSUMER.read_text().split('with a header line."""\n')[1].split("\n\n\n")[0]
    assert len(body.splitlines()) == 10


def feeds_of(frame: pd.DataFrame) -> dict[str, NDArray[Any]]:
    """The inputs of a model of `tests.bundle.ensembles.table`."""
    return {
        "numbers": frame[["steps", "tail", "gaps", "seconds", "same"]].to_numpy(np.float64),
        "texts": frame[["site"]].to_numpy(object),
    }


@pytest.mark.parametrize("only", ["logistic", "logistic-normal", *TREES, "mlp", None])
def test_every_learner_and_all_of_them_together_score_as_they_do_with_us(tmp_path: Path, only: str | None) -> None:
    bundle = table_ensemble(tmp_path / "bundle", only)
    made = export_onnx(bundle, tmp_path / "m.onnx")
    frame, _ = table(2000, seed=1)
    frame.loc[:9, "tail"] *= 1e3  # beyond the training values
    found = onnxruntime.InferenceSession(made.out).run(["score"], feeds_of(frame))[0]
    ours = bundle.score(TablePreprocessor.from_dict(bundle.card.preprocessing).transform(frame))
    np.testing.assert_allclose(found, ours, rtol=0, atol=2e-5 if only in (None, "mlp") else 1e-6)
    assert np.ptp(ours) > 0.5


def test_rows_with_a_problem_have_no_score_and_raise_an_alarm_as_in_predict(tmp_path: Path) -> None:
    bundle = table_ensemble(tmp_path / "bundle")
    frame, _ = table(40, seed=2)
    faults: list[tuple[str, float]] = [
        ("steps", np.nan),  # never missing in training
        ("steps", np.inf),
        ("tail", -np.inf),
        ("gaps", 1e6),  # far beyond the range of training
        ("tail", 1e39),  # beyond float32
        ("same", 1e39),
    ]
    for row, (column, value) in enumerate(faults):
        frame.loc[row, column] = value
    frame.loc[6, "gaps"] = np.nan  # was missing in training too
    frame.loc[7, "same"] = -1e30  # a constant column has no range
    frame.to_csv(tmp_path / "rows.csv", index=False)
    ours = predicted(bundle, tmp_path / "rows.csv", tmp_path)
    session = onnxruntime.InferenceSession(export_onnx(bundle, tmp_path / "m.onnx").out)
    scores, alarms = session.run(None, feeds_of(frame))
    assert np.flatnonzero(np.isnan(scores)).tolist() == list(range(len(faults)))
    assert ours["score"].isna().tolist() == np.isnan(scores).tolist()
    assert alarms[: len(faults)].all()
    np.testing.assert_allclose(scores, ours["score"], rtol=0, atol=1e-4)


def test_thresholds_of_trees_separate_neighbouring_float32_numbers_as_lightgbm_does(tmp_path: Path) -> None:
    """A threshold is float64: between two float32 numbers, or exactly one of them."""
    here = np.float32(0.1)
    below, above = np.nextafter(here, np.float32(-1)), np.nextafter(here, np.float32(1))
    for threshold in (float(here), (float(here) + float(above)) / 2, (float(here) + float(below)) / 2):
        stump = Tree(
            np.zeros(1, np.int64), np.array([threshold]), np.array([-1]), np.array([-2]), np.array([1.0, 2.0])
        )
        graph = Graph()
        scores = add_trees(graph, graph.input("rows", np.float32, (1,)), [Trees(1, False, (stump,))])
        column = graph.add("Squeeze", scores, graph.array(np.array([1])))
        model = graph.model({"score": (column, np.float64)}, name="stump", doc="", metadata={})
        session = onnxruntime.InferenceSession(model.SerializeToString())
        rows = np.array([[below], [here], [above]], np.float32)
        expected = np.where(rows[:, 0].astype(np.float64) <= threshold, 1.0, 2.0)
        assert session.run(None, {"rows": rows})[0].tolist() == expected.tolist()


def test_lines_between_knots_are_those_of_numpy(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    knots = [np.sort(rng.normal(size=size)) for size in (1, 2, 3, 100)]
    levels = [np.sort(rng.normal(size=len(own))) for own in knots]
    values = np.stack([np.append(rng.normal(size=200) * 2, rng.choice(own, 50)) for own in knots], axis=1)
    graph = Graph()
    lines = add_lines(graph, graph.input("values", np.float64, (4,)), knots, levels)
    total = graph.add("MatMul", lines, graph.array(np.array([1.0, 10.0, 100.0, 1000.0])))
    model = graph.model({"score": (total, np.float64)}, name="lines", doc="", metadata={})
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"values": values})[0]
    ours = [np.interp(values[:, k], knots[k], levels[k]) * 10**k for k in range(4)]
    np.testing.assert_allclose(found, np.sum(ours, axis=0), rtol=0, atol=1e-11)


def test_an_ensemble_of_networks_on_images_scores_as_it_does_with_us(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 12, 3), dtype=np.uint8)
    bundle = image_ensemble(tmp_path / "bundle", 16, 12, images)
    session = onnxruntime.InferenceSession(export_onnx(bundle, tmp_path / "m.onnx").out)
    found = session.run(["score"], {"images": images})[0]
    np.testing.assert_allclose(found, bundle.score(images), rtol=0, atol=1e-4)


def test_the_file_of_an_ensemble_names_its_learners_and_their_shares(tmp_path: Path) -> None:
    bundle = table_ensemble(tmp_path / "bundle")
    model = onnx.load(export_onnx(bundle, tmp_path / "m.onnx").out)
    onnx.checker.check_model(model, full_check=True)
    known = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    shares = {one["name"]: one["weight"] for one in known["learners"]}
    assert shares["mlp"] == pytest.approx(2 / 6)
    assert shares["logistic"] == pytest.approx(0.5 / 6)
    assert sum(shares.values()) == pytest.approx(1)
    assert {one["members"] for one in known["learners"]} == {2}


def test_rules_for_columns_are_left_to_the_caller_who_is_told_what_they_make(tmp_path: Path) -> None:
    bundle = table_ensemble(tmp_path / "plain")
    said = bundle.card.preprocessing | {"columns": {"readings": []}}
    planned = table_ensemble(tmp_path / "planned", preprocessing=said)
    words = export_onnx(bundle, tmp_path / "plain.onnx").inputs["words"]
    made = export_onnx(planned, tmp_path / "planned.onnx").inputs
    assert made["numbers"] == ["steps", "tail", "gaps", "seconds", "same"]
    assert made["words"].startswith(words)
    assert "'columns'" in made["words"]
