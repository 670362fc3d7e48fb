"""Images by the features of a pretrained network: scikit-learn beside the learner, models of timm, refusals."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from rankreg.backbones import TimmShape
from rankreg.bundle import load_bundle, predict
from rankreg.bundle.ensemble import Ensemble
from rankreg.bundle.onnx_file import export_onnx
from rankreg.fit import Source, fit, settings
from rankreg.fit.crossfit import folds_for
from rankreg.fit.learners import frozen
from tests.own_data import write_images


class Stages(nn.Module):
    """What timm's create_model returns with features_only=True, after its documentation."""

    pretrained_cfg: ClassVar[Any] = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    feature_info = SimpleNamespace(channels=lambda: [4])

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)

    def forward(self, images: Tensor) -> list[Tensor]:
        return [torch.relu(self.layer(images))]


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: pretrained weights are drawn from one seed, others are all 0."""

    def create_model(name: str, *, pretrained: bool, features_only: bool) -> nn.Module:
        assert features_only
        if name != "tiny.in1k":
            raise RuntimeError(f"Unknown model ({name})")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = Stages()
        if not pretrained:
            nn.init.zeros_(model.layer.weight)
        return model

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))


def test_the_learner_on_features_is_scikit_learns_regression_on_standardised_columns() -> None:
    random = np.random.default_rng(0)
    labels = (np.arange(120) % 6 == 0).astype(np.int64)
    rows = (random.normal(3, 2, (120, 40)) + labels[:, None]).astype(np.float32)
    folds = folds_for(labels, None, 3, rounds=1)
    for one, member in enumerate(frozen(strength=1e-3).train(rows, labels, folds)):
        kept = folds.kept(one)
        theirs = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, class_weight="balanced", max_iter=1000))
        theirs.fit(rows[kept].astype(np.float64), labels[kept])
        held = rows[folds.held(one)]
        np.testing.assert_allclose(member.score(held), theirs.decision_function(held), rtol=0, atol=1e-5)


def test_a_model_of_timm_is_kept_in_the_bundle_with_its_weights(timm: None, tmp_path: Path) -> None:
    source = Source(write_images(tmp_path / "images"), positive="bad", size=16)
    fitted = fit(
        source,
        tmp_path / "out",
        tpr=0.8,
        folds=2,
        test=0.2,
        learners=["frozen"],
        backbone="tiny.in1k",
        progress=False,
    )
    assert fitted is not None
    bundle = load_bundle(tmp_path / "out")
    assert isinstance(bundle.card.backbone, TimmShape)
    assert isinstance(bundle.model, Ensemble)
    assert [learner.name for learner in bundle.model.learners] == ["frozen"]
    predict(bundle, tmp_path / "images", tmp_path / "scores.csv")
    found = pd.read_csv(tmp_path / "scores.csv").set_index("id").score
    before = pd.read_csv(tmp_path / "out/test-scores.csv").set_index("id").score
    np.testing.assert_allclose(found[before.index], before, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="cannot be written as ONNX"):
        export_onnx(bundle, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_bundle_with_a_model_of_timm_says_that_it_needs_timm(
    timm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(write_images(tmp_path / "images"), positive="bad", size=16)
    fit(source, tmp_path / "out", tpr=0.8, folds=2, backbone="tiny.in1k", learners=["frozen"], progress=False)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match="pip install timm") as refused:
        load_bundle(tmp_path / "out")
    assert "get the bundle again" not in str(refused.value)  # it is whole: another copy would not help


def test_an_unknown_backbone_is_refused_before_anything_is_written(timm: None, tmp_path: Path) -> None:
    source = Source(write_images(tmp_path / "images"), positive="bad", size=16)
    for name, message in (("tiny.in2k", "timm has no backbone"), ("../tiny", "not the name of a network")):
        with pytest.raises(ValueError, match=message):
            fit(source, tmp_path / "out", tpr=0.8, backbone=name, progress=False)
    assert not (tmp_path / "out/bundle").exists()


def test_a_network_sees_about_three_hundred_batches_of_images_and_keeps_its_last_epoch(tmp_path: Path) -> None:
    for samples, epochs in ((50, 30), (1000, 20), (6268, 4), (10_000, 2), (10**6, 1)):
        config = settings("image", 0.95, samples=samples)
        assert (config.epochs, config.selection, config.augmentation) == (epochs, "last", "dermoscopy")
    assert settings("image", 0.95, samples=6268, epochs=7).epochs == 7
    (tmp_path / "own.toml").write_text("batch_size = 32\n")
    assert settings("image", 0.95, samples=1000, file=tmp_path / "own.toml").epochs == 10


def test_half_of_a_batch_of_images_are_positives_in_short_training_without_a_method(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"

    def treated(text: str = "", method: str | None = None, epochs: int | None = None) -> tuple[str, str]:
        file.write_text(text)
        config = settings("image", 0.95, samples=1000, file=file, method=method, epochs=epochs)
        return config.method.name, config.sampling

    assert treated() == treated("epochs = 3") == treated('loss = "w-bce"') == ("none", "balanced")
    assert treated(epochs=63) == ("none", "balanced")  # 984 steps
    assert treated(epochs=64) == treated(epochs=100) == treated("epochs = 70") == ("none", "shuffled")
    assert treated(method="none") == treated('method = "none"') == ("none", "shuffled")
    assert treated('sampling = "shuffled"') == ("none", "shuffled")
    assert treated('sampling = "balanced"', epochs=100) == ("none", "balanced")
    assert treated(method="rankreg") == ("rankreg", "shuffled")


@pytest.mark.slow
def test_features_and_a_network_are_averaged_where_a_backbone_is_there(timm: None, tmp_path: Path) -> None:
    source = Source(write_images(tmp_path / "images"), positive="bad", size=16)
    config = settings("image", 0.8, size=16, samples=64, epochs=1)
    fit(source, tmp_path / "out", tpr=0.8, folds=2, test=0.2, backbone="tiny.in1k", config=config, progress=False)
    bundle = load_bundle(tmp_path / "out")
    assert isinstance(bundle.model, Ensemble)
    assert [learner.name for learner in bundle.model.learners] == ["frozen", "network"]
    predict(bundle, tmp_path / "images", tmp_path / "scores.csv")
    found = pd.read_csv(tmp_path / "scores.csv").set_index("id").score
    before = pd.read_csv(tmp_path / "out/test-scores.csv").set_index("id").score
    np.testing.assert_allclose(found[before.index], before, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_two_unlike_networks_are_averaged_without_a_backbone(tmp_path: Path) -> None:
    source = Source(write_images(tmp_path / "images"), positive="bad", size=16)
    config = settings("image", 0.8, size=16, samples=64, epochs=1)
    asked: dict[str, Any] = {"tpr": 0.8, "folds": 2, "backbone": "none", "progress": False}
    fit(source, tmp_path / "short", config=config, **asked)
    card = load_bundle(tmp_path / "short").card
    assert {one.name: one.settings["sampling"] for one in card.learners} == {
        "network": "balanced",
        "network-plain": "shuffled",
    }
    fit(source, tmp_path / "long", config=config.model_copy(update={"sampling": "shuffled"}), **asked)
    assert [one.name for one in load_bundle(tmp_path / "long").card.learners] == ["network"]
    fit(source, tmp_path / "plain", config=config, learners=["network-plain"], **asked)
    assert [one.name for one in load_bundle(tmp_path / "plain").card.learners] == ["network-plain"]


def test_two_networks_that_would_be_the_same_are_refused(tmp_path: Path) -> None:
    source = Source(write_images(tmp_path / "images"), positive="bad", size=16)
    config = settings("image", 0.8, size=16, samples=64, method="none")
    with pytest.raises(ValueError, match="would be the same"):
        fit(source, tmp_path / "out", tpr=0.8, config=config, learners=["network", "network-plain"], progress=False)
    assert not (tmp_path / "out/run").exists()
