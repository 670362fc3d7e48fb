"""A bundle is whole or refused, and reading one runs nothing."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, roc_auc_score

from rankreg.bundle import Bundle, Threshold, evaluate_scores, files, load_bundle, save_bundle
from rankreg.bundle.card import digest
from rankreg.models import MLPShape, ResNetShape, build_model


def contents(**changes: Any) -> dict[str, Any]:
    """The fields of a card."""
    return {
        "name": "toy",
        "model": MLPShape(classes=2, features=3, head="score"),
        "preprocessing": {"kind": "table", "numeric": [], "categorical": []},
        "classes": ("healthy", "sick"),
        "threshold": Threshold(value=0.5, tpr=0.9, confidence=0.95, certified=False, calibration_positives=4),
        "training": {"epochs": 1},
        "parts": {"train": {"samples": 10, "positives": 3}},
        "metrics": {"auc": 0.5},
        "versions": {"rankreg": "0"},
    } | changes


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A bundle on disk."""
    torch.manual_seed(0)
    save_bundle(tmp_path / "bundle", build_model(contents()["model"]), **contents())
    return tmp_path / "bundle"


def test_a_loaded_network_gives_the_very_scores_of_the_saved_one(tmp_path: Path) -> None:
    shape = ResNetShape(width=0.0625, classes=2, head="score")
    images = torch.randint(0, 256, (4, 3, 16, 16), dtype=torch.uint8)
    network = build_model(shape)
    network(images)  # moves the running statistics away from their start
    preprocessing = {"kind": "image", "height": 16, "width": 16}
    save_bundle(tmp_path / "b", network, **contents(model=shape, preprocessing=preprocessing))
    loaded = load_bundle(tmp_path / "b")
    assert torch.equal(loaded.model(images), network.eval()(images))
    assert loaded.card.threshold.value == 0.5
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["bundle.json", "model.safetensors"]


def test_loading_does_not_touch_the_random_state(saved: Path) -> None:
    before = torch.get_rng_state()
    load_bundle(saved)
    assert torch.equal(before, torch.get_rng_state())


def test_the_folder_around_a_bundle_will_do(saved: Path) -> None:
    assert load_bundle(saved.parent).card == load_bundle(saved).card


def flip_a_byte(path: Path) -> None:
    content = bytearray((path / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (path / "model.safetensors").write_bytes(bytes(content))


def cut(name: str) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        content = (path / name).read_bytes()
        (path / name).write_bytes(content[: len(content) // 2])

    return apply


def edit(key: str, value: Any, resign: bool = False) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        card = json.loads((path / "bundle.json").read_text())
        card[key] = value
        if resign:
            card["sha256"] = digest(card)
        (path / "bundle.json").write_text(json.dumps(card))

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip_a_byte, "truncated or was changed"),
        (cut("model.safetensors"), "truncated or was changed"),
        (cut("bundle.json"), "truncated or not JSON"),
        (lambda path: (path / "model.safetensors").unlink(), "not whole"),
        (lambda path: (path / "bundle.json").unlink(), "not a bundle"),
        (lambda path: (path / "bundle.json").write_text("[]"), "does not describe"),
        (edit("classes", ["sick", "healthy"]), "was changed after it was written"),
        (edit("version", 2), "format version 2"),
        (edit("surprise", 1, resign=True), "surprise"),
        (edit("preprocessing", {"kind": "pickle"}, resign=True), "'table' or 'image'"),
        (edit("preprocessing", {"kind": "image", "height": 16, "width": 10**9}, resign=True), "whole number"),
        (edit("model", {"name": "mlp", "classes": 2, "features": 9}, resign=True), "do not fit"),
        (edit("model", {"name": "mlp", "classes": 2, "features": 10**12}, resign=True), "do not fit"),
        (edit("weights", {"file": "../../other", "sha256": "0" * 64}, resign=True), "damaged: weights.file"),
    ],
)
def test_a_damaged_or_edited_bundle_is_refused_in_words(
    saved: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(saved)
    with pytest.raises(ValueError, match=message):
        load_bundle(saved)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no bundle at"):
        load_bundle(tmp_path / "nowhere")


def fill_disk_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Writing the file of that name fails as on a full disk."""
    write = files._write

    def failing(path: Path, content: bytes) -> None:
        if path.name == name:
            path.write_bytes(content[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(files, "_write", failing)


@pytest.mark.parametrize("name", ["model.safetensors", "bundle.json"])
def test_a_full_disk_leaves_the_older_bundle_as_it_was(
    saved: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    fill_disk_on(monkeypatch, name)
    with pytest.raises(OSError, match="untouched: make room"):
        save_bundle(saved, build_model(contents()["model"]), **contents(name="newer"))
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == ["bundle"]


def test_a_rename_that_fails_brings_the_older_bundle_back(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if path.name.endswith(".unfinished"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="untouched"):
        save_bundle(saved, build_model(contents()["model"]), **contents(name="newer"))
    assert load_bundle(saved).card.name == "toy"


def test_a_newer_bundle_takes_the_place_of_an_older_one(saved: Path) -> None:
    newer: Bundle = save_bundle(saved, build_model(contents()["model"]), **contents(name="newer"))
    assert load_bundle(saved).card == newer.card
    assert [path.name for path in saved.parent.iterdir()] == ["bundle"]


def test_a_folder_that_is_no_bundle_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="not a bundle"):
        save_bundle(tmp_path / "precious", build_model(contents()["model"]), **contents())
    assert (tmp_path / "precious/thesis.txt").read_text() == "mine"


def test_an_evaluation_agrees_with_scikit_learn_and_scipy() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(500) < 0.2).astype(np.int64)
    scores = rng.normal(size=500) + labels
    found = evaluate_scores(labels, scores, threshold=0.3)
    (true_negatives, false), (missed, caught) = confusion_matrix(labels, scores >= 0.3)
    for interval, successes, trials in (
        (found.recall, caught, caught + missed),
        (found.fpr, false, false + true_negatives),
        (found.alarms, caught + false, 500),
        (found.precision, caught, caught + false),
    ):
        exact = binomtest(int(successes), int(trials)).proportion_ci(0.95, method="exact")
        assert interval is not None
        assert (interval.estimate, interval.low, interval.high) == pytest.approx(
            (successes / trials, exact.low, exact.high)
        )
    assert found.auc.estimate == pytest.approx(roc_auc_score(labels, scores))


def test_without_alarms_there_is_no_precision() -> None:
    assert evaluate_scores([0, 1, 0, 1], [0.0, 1.0, 2.0, 3.0], threshold=9.0).precision is None
