"""A bundle is whole or refused, and reading one runs nothing."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, roc_auc_score

from rankreg import safe_files
from rankreg.bundle import Bundle, Threshold, load_bundle, storage
from rankreg.bundle.card import digest
from rankreg.bundle.evaluation import evaluate_scores
from rankreg.bundle.storage import save_bundle
from rankreg.models import MLPShape, ResNetShape, build_model
from rankreg.safe_files import write_whole

TABLE: dict[str, Any] = {
    "kind": "table",
    "numeric": [{"name": "age", "median": 50.0, "mean": 51.5, "scale": 10.0, "may_miss": False}],
    "categorical": [{"name": "site", "values": ["arm"]}],
    "unused": [],
    "target": "state",
    "positive": "sick",
    "id_column": None,
    "header": True,
}


def contents(**changes: Any) -> dict[str, Any]:
    """The fields of a card."""
    return {
        "name": "toy",
        "model": MLPShape(classes=2, features=3, head="score"),
        "preprocessing": TABLE,
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
    assert isinstance(loaded.model, torch.nn.Module)
    assert torch.equal(loaded.model(images), network.eval()(images))
    assert loaded.card.threshold.value == 0.5
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [
        "README.md",
        "bundle.json",
        "model.safetensors",
    ]


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
        (edit("version", 3), "format version 3"),
        (edit("surprise", 1, resign=True), "surprise"),
        (edit("preprocessing", {"kind": "pickle"}, resign=True), "'table' or 'image'"),
        (edit("preprocessing", {"kind": "image", "height": 16, "width": 10**9}, resign=True), "4096"),
        (edit("weights", {"file": "../../other", "sha256": "0" * 64}, resign=True), "damaged: weights.file"),
    ],
)
def test_a_damaged_or_edited_bundle_is_refused_in_words(
    saved: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(saved)
    with pytest.raises(ValueError, match=message) as refused:
        load_bundle(saved)
    assert str(refused.value).count(str(saved)) == 1  # which bundle, once


REMOVED = object()
AGE, SITE = TABLE["numeric"][0], TABLE["categorical"][0]


def resealed(folder: Path, place: str, value: Any) -> None:
    """Change or remove one value of the card, and seal it again as a stranger could."""
    card = json.loads((folder / "bundle.json").read_text())
    *outer, last = place.split(".")
    inner = card
    for key in outer:
        inner = inner[key]
    if value is REMOVED:
        del inner[last]
    else:
        inner[last] = value
    card["sha256"] = digest(card)
    (folder / "bundle.json").write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("preprocessing.target", REMOVED, "target: Field required"),
        ("preprocessing.target", ["state"], "target: .*valid string"),
        ("preprocessing.target", "age", "the columns must differ, 'age' is there twice"),
        ("preprocessing.positive", REMOVED, "positive: Field required"),
        ("preprocessing.positive", "healthy", "not the positive class 'sick'"),
        ("preprocessing.id_column", REMOVED, "id_column: Field required"),
        ("preprocessing.id_column", {"a": 1}, "id_column: .*valid string"),
        ("preprocessing.header", "x", "header: .*valid boolean"),
        ("preprocessing.header", 1, "header: .*valid boolean"),
        ("preprocessing.unused", [1], "unused.0: .*valid string"),
        ("preprocessing.surprise", 1, "surprise: Extra inputs"),
        ("preprocessing.kind", ["table"], "'table' or 'image'"),
        ("preprocessing.kind", "image", "preprocessing: image.height: Field required"),
        ("preprocessing.numeric", REMOVED, "numeric: Field required"),
        ("preprocessing.numeric", [], "makes 2 features, the network takes 3"),
        ("preprocessing.numeric", [AGE, AGE], "'age' is there twice"),
        ("preprocessing.numeric", [AGE | {"name": 3}], "numeric.0.moments.name: .*valid string"),
        ("preprocessing.numeric", [AGE | {"scale": 0}], "numeric.0.moments.scale: .*greater than 0"),
        ("preprocessing.numeric", [AGE | {"mean": float("nan")}], "numeric.0.moments.mean: .*finite"),
        ("preprocessing.numeric", [AGE | {"mean": 10**400}], "a whole number in it has 1,329 bits"),
        ("preprocessing.numeric", [AGE | {"mean": "1"}], "numeric.0.moments.mean: .*valid number"),
        ("preprocessing.categorical", [SITE | {"values": ["arm", "arm"]}], "the values of 'site' must differ"),
        ("preprocessing.categorical", [SITE | {"values": [1]}], "values.0: .*valid string"),
        ("preprocessing", {"kind": "image", "height": 16, "width": 16}, "'mlp' does not take .* 'image'"),
        ("model.features", 10**5, "makes 3 features, the network takes 100000"),
        ("model.hidden", [1] * 200_000, "at most 64 layers"),
        ("model.hidden", [65536, 65536], "more than 500,000,000 weights"),
        ("model.hidden", [8, 8], "do not fit the network"),
        ("model", {"name": "resnet10", "classes": 2, "width": 1e300}, "width must be at most 6"),
    ],
)
def test_a_card_that_was_edited_and_sealed_again_is_refused_in_a_line(
    saved: Path, place: str, value: Any, message: str
) -> None:
    resealed(saved, place, value)
    with pytest.raises(ValueError, match=message) as raised:
        load_bundle(saved)
    assert len(str(raised.value).replace(str(saved), "")) < 500
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("depth", [500, 900, 200_000])
def test_a_card_nested_without_end_is_refused(saved: Path, depth: int) -> None:
    (saved / "bundle.json").write_text('{"format": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(ValueError, match=r"nested too deeply|does not describe"):
        load_bundle(saved)


def test_weights_that_are_a_folder_are_named(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    (saved / "model.safetensors").mkdir()
    with pytest.raises(ValueError, match=r"model\.safetensors is not a file: the bundle is not whole"):
        load_bundle(saved)


def test_weights_of_another_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is torch\.float64 instead of torch\.float32"):
        save_bundle(tmp_path / "bundle", build_model(contents()["model"]).double(), **contents())


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no bundle at"):
        load_bundle(tmp_path / "nowhere")


def fill_disk_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Writing the file of that name fails as on a full disk."""

    def failing(path: Path, content: bytes) -> None:
        if path.name == name:
            path.write_bytes(content[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(path, content)

    for home in (storage, safe_files):
        monkeypatch.setattr(home, "write_whole", failing)


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


def test_what_a_kill_left_is_removed_by_the_next_save_but_nothing_that_is_new(saved: Path) -> None:
    left, new = (saved.parent / f".bundle-{name}.unfinished" for name in ("abc", "new"))
    for folder in (left, new):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
    os.utime(left, (0, 0))
    (saved.parent / ".bundle.before").mkdir()
    (saved.parent / ".bundlebin-x.unfinished").mkdir()  # of another bundle
    os.utime(saved.parent / ".bundlebin-x.unfinished", (0, 0))
    save_bundle(saved, build_model(contents()["model"]), **contents(name="newer"))
    assert {path.name for path in saved.parent.iterdir()} == {"bundle", ".bundlebin-x.unfinished", new.name}
    assert load_bundle(saved).card.name == "newer"


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
