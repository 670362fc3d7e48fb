"""Bundles that hold ensembles: the very scores that were saved, or a refusal in words; and scales of members."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.torch import load_file, save_file

from rankreg.bundle import load_bundle
from rankreg.bundle.card import digest
from rankreg.bundle.ensemble import Ensemble, NegativeRanks, TableViews
from rankreg.datasets.preprocessing import TablePreprocessor
from tests.bundle.ensembles import TREES, image_ensemble, table, table_ensemble, table_learners
from tests.bundle.test_storage import cut, resealed
from tests.bundle.test_trees import changed, first

TREE_FILE = "trees-boosting-0.txt"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with every kind of member."""
    folder = tmp_path_factory.mktemp("ensemble") / "bundle"
    table_ensemble(folder)
    return folder


@pytest.fixture
def saved(whole: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    (tmp_path / "bundle").mkdir()
    for file in whole.iterdir():
        (tmp_path / "bundle" / file.name).write_bytes(file.read_bytes())
    return tmp_path / "bundle"


@pytest.mark.parametrize("only", ["logistic", "logistic-normal", *TREES, "mlp", None])
def test_a_loaded_ensemble_gives_the_very_scores_of_the_saved_one(tmp_path: Path, only: str | None) -> None:
    ensemble, _, preparation = table_learners(only)
    table_ensemble(tmp_path / "bundle", only)
    rows = preparation.transform(table(300, seed=3)[0])
    before = ensemble.score(TableViews(rows, preparation))
    assert np.array_equal(load_bundle(tmp_path / "bundle").score(rows), before)
    assert before.dtype == np.float32
    assert len(np.unique(before)) > 10


def test_networks_on_images_come_back_too(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
    saved = image_ensemble(tmp_path / "bundle", 16, 16, images)
    assert np.array_equal(load_bundle(tmp_path / "bundle").score(images), saved.score(images))
    assert [card.kind for card in saved.card.learners] == ["network", "network"]


def test_the_score_is_the_weighted_mean_of_the_levels(whole: Path) -> None:
    bundle = load_bundle(whole)
    assert isinstance(bundle.model, Ensemble)
    frame, _ = table(50, seed=4)
    preparation = TablePreprocessor.from_dict(bundle.card.preprocessing)
    rows = preparation.transform(frame)
    views = {"normal": rows, "standardised": preparation.standardised(rows)}
    total, weights = np.zeros(50), 0.0
    for learner in bundle.model.learners:
        levels = [
            scale(member.score(views[learner.view]))
            for member, scale in zip(learner.members, learner.scales, strict=True)
        ]
        total += sum(weight * level for weight, level in zip(learner.weights, levels, strict=True))
        weights += sum(learner.weights)
    np.testing.assert_allclose(bundle.score(rows), total / weights, rtol=1e-6)


def test_the_card_knows_the_weight_of_every_member(whole: Path) -> None:
    bundle = load_bundle(whole)
    shares = {card.name: card.weights for card in bundle.card.learners}
    ones = dict.fromkeys(TREES, (1.0, 1.0))
    assert shares == {"logistic": (0.5, 0.5), "logistic-normal": (0.5, 0.5), **ones, "mlp": (2.0, 2.0)}


def flip(name: str, place: int) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[place] ^= 1
        (folder / name).write_bytes(bytes(content))

    return apply


@pytest.mark.parametrize("name", ["model.safetensors", TREE_FILE])
def test_a_file_that_was_cut_flipped_swapped_or_lost_is_refused(saved: Path, name: str) -> None:
    original = (saved / name).read_bytes()
    other = saved / "trees-forest-1.txt"
    for damage in (
        cut(name),
        flip(name, 3),
        flip(name, -9),
        lambda _: (saved / name).write_bytes(other.read_bytes()),
    ):
        damage(saved)
        with pytest.raises(ValueError, match="truncated or was changed; get the bundle again"):
            load_bundle(saved)
        (saved / name).write_bytes(original)
    load_bundle(saved)
    (saved / name).unlink()
    with pytest.raises(ValueError, match=r"not whole.*copy all of its files"):
        load_bundle(saved)
    (saved / name).mkdir()
    with pytest.raises(ValueError, match=r"not whole.*copy all of its files"):
        load_bundle(saved)


def test_a_card_that_was_cut_or_edited_is_refused(saved: Path) -> None:
    card = json.loads((saved / "bundle.json").read_text())
    card["learners"][0]["weights"][0] = 99.0
    (saved / "bundle.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match="was changed after it was written"):
        load_bundle(saved)
    cut("bundle.json")(saved)
    with pytest.raises(ValueError, match="truncated or not JSON"):
        load_bundle(saved)


def sealed(folder: Path) -> None:
    """Hashes and seal made anew, as a stranger could."""
    card = json.loads((folder / "bundle.json").read_text())
    card["weights"]["sha256"] = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    card["trees"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in card["trees"]}
    card["sha256"] = digest(card)
    (folder / "bundle.json").write_text(json.dumps(card))


DOUBLES = torch.float64


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("logistic.0.weights", torch.zeros(3, dtype=DOUBLES), "3 weights do not fit"),
        ("logistic.0.weights", torch.zeros(2, 4, dtype=DOUBLES), "vector of finite numbers"),
        ("logistic.0.weights", torch.zeros(9), "double precision"),
        ("logistic.0.weights", torch.full((9,), torch.nan, dtype=DOUBLES), "finite"),
        ("logistic.1.bias", torch.zeros(0, dtype=DOUBLES), "do not fit"),
        ("logistic.1.bias", None, "member 1 of logistic is not whole"),
        ("forest.0.scale.knots", torch.tensor([1.0, 0.0], dtype=DOUBLES), "finite and rise"),
        ("forest.0.scale.knots", torch.zeros(0, dtype=DOUBLES), "finite and rise"),
        ("forest.0.scale.levels", torch.tensor([1.0, 1.0], dtype=DOUBLES), "finite and rise"),
        ("forest.0.scale.slopes", torch.tensor([0.0, 1.0], dtype=DOUBLES), "must rise beyond"),
        ("forest.0.scale.slopes", torch.tensor([1.0], dtype=DOUBLES), "two slopes"),
        ("forest.0.scale.slopes", None, "not whole"),
        ("forest.0.scale.knots", torch.arange(1001, dtype=DOUBLES), "vector of finite numbers"),
        ("mlp.0.network.head.weight", torch.zeros(1, 9), "size mismatch"),
        ("mlp.0.network.head.weight", torch.zeros(1, 8, dtype=torch.float16), "float16 instead of"),
        ("mlp.0.network.head.weight", torch.full((1, 8), torch.inf), "not finite"),
        ("mlp.0.network.head.weight", None, "not whole"),
        ("mlp.0.network.surprise", torch.zeros(1), "not whole"),
        ("forest.0.weights", torch.zeros(9, dtype=DOUBLES), "'weights' that is not known"),
        ("forest.7.weights", torch.zeros(9, dtype=DOUBLES), "belongs to no member"),
        ("surprise", torch.zeros(10), "belongs to no member"),
        ("surprise", torch.zeros(10_000_000), "bytes, more than"),
    ],
)
def test_arrays_that_were_changed_and_sealed_again_are_refused(
    saved: Path, name: str, value: torch.Tensor | None, message: str
) -> None:
    arrays = load_file(saved / "model.safetensors")
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value
    save_file(arrays, saved / "model.safetensors")
    sealed(saved)
    with pytest.raises(ValueError, match=message) as raised:
        load_bundle(saved)
    assert "get the bundle again" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_trees_that_were_changed_and_sealed_again_are_refused(saved: Path) -> None:
    text = (saved / TREE_FILE).read_text()
    for edited, message in (
        (text.replace("num_cat=0", "num_cat=2", 1), "categorical"),
        (changed("left_child", first("0"))(text), "do not form a tree"),
        (changed("max_feature_idx", first("0"))(text), "feature"),
        (changed("max_feature_idx", first("99"))(text), "take 100 features, there are"),
        (text.encode("utf-16").decode("latin-1"), "damaged|not a model"),
        ("MZ\x00\x01", "not a model"),
    ):
        (saved / TREE_FILE).write_bytes(edited.encode("latin-1"))
        sealed(saved)
        with pytest.raises(ValueError, match=message) as raised:
            load_bundle(saved)
        assert "get the bundle again" in str(raised.value)


KNOTS = {"name": "steps", "knots": [0.0, 1.0], "scores": [-1.0, 1.0], "may_miss": False}
LINEAR = {
    "name": "a",
    "kind": "linear",
    "view": "normal",
    "members": 1,
    "weights": [1.0],
    "model": None,
    "settings": {},
}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("preprocessing.numeric", [KNOTS | {"knots": [1.0, 1.0]}], "must rise"),
        ("preprocessing.numeric", [KNOTS | {"scores": [1.0, 0.0]}], "must rise"),
        ("preprocessing.numeric", [KNOTS | {"scores": [1.0]}], "must be as many"),
        ("preprocessing.numeric", [KNOTS | {"knots": []}], "at least 1 item"),
        ("preprocessing.numeric", [KNOTS | {"knots": [0.0, float("inf")]}], "finite"),
        ("preprocessing.numeric", [KNOTS | {"knots": ["0", "1"]}], "valid number"),
        ("preprocessing.numeric", [KNOTS | {"surprise": 1}], "surprise"),
        ("learners", [], "version 2 has learners"),
        ("learners", [LINEAR, LINEAR], "'a' is there twice"),
        ("learners", [LINEAR] * 51, "at most 50"),
        ("learners", [LINEAR | {"members": 10**9}], "less than or equal to 100"),
        ("learners", [LINEAR | {"weights": [0.0]}], "greater than 0"),
        ("learners", [LINEAR | {"weights": [float("nan")]}], "less than 1000000"),
        ("learners", [LINEAR | {"weights": [1.0, 1.0]}], "1 members have 2 weights"),
        ("learners", [LINEAR | {"name": "../../x"}], "should match pattern"),
        ("learners", [LINEAR | {"kind": "pickle"}], "'linear', 'trees' or 'network'"),
        ("learners", [LINEAR | {"kind": "network"}], "networks have a model"),
        ("learners", [LINEAR | {"view": "images"}], "only networks take images"),
        ("learners", [LINEAR | {"settings": {"a": "x" * 20_000}}], "settings are too long"),
        ("learners", [LINEAR], "does not list the files of its trees"),
        ("trees", {"../../etc/passwd": "0" * 64}, "does not list the files of its trees"),
        ("trees", {TREE_FILE: "x"}, "should match pattern"),
        ("version", 1, "version 1 has a model"),
    ],
)
def test_a_card_that_was_edited_and_sealed_again_is_refused(
    saved: Path, place: str, value: Any, message: str
) -> None:
    resealed(saved, place, value)
    with pytest.raises(ValueError, match=message) as raised:
        load_bundle(saved)
    assert len(str(raised.value).replace(str(saved), "")) < 500


SCORES = hnp.arrays(
    np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6, allow_nan=False) | st.sampled_from([0.0, 1.0])
)


@given(SCORES, SCORES)
def test_a_scale_rises_and_is_finite_everywhere(negatives: Any, new: Any) -> None:
    scale = NegativeRanks.of(negatives)
    ordered = np.sort(np.concatenate([new, [-1e30, 1e30], negatives]))
    levels = scale(ordered)
    assert np.isfinite(levels).all()
    assert (np.diff(levels) >= -1e-12).all()
    assert scale(np.array([1e30])) > scale(np.array([negatives.max()]))
    assert scale(np.array([-1e30])) < scale(np.array([negatives.min()]))


@given(st.integers(50, 3000), st.integers(0, 10**6))
def test_the_level_of_a_high_negative_is_the_logarithm_of_its_rank(count: int, seed: int) -> None:
    negatives = np.random.default_rng(seed).normal(size=count)
    scale = NegativeRanks.of(negatives)
    ordered = np.sort(negatives)[::-1]
    for m in (1, 2, 5, count // 10, count // 2):
        level = float(scale(ordered[m - 1 : m])[0])
        assert abs(level + np.log(m / count)) < (0.75 if m < 3 else 0.25)


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_a_scale_does_not_depend_on_the_unit_of_the_scores(seed: int, unit: float) -> None:
    scores = np.random.default_rng(seed).normal(size=400)
    new = np.linspace(-6, 6, 50)
    np.testing.assert_allclose(
        NegativeRanks.of(unit * scores)(unit * new), NegativeRanks.of(scores)(new), atol=1e-9
    )


def test_scores_that_differ_by_rounding_only_share_a_level() -> None:
    """Pure leaves of a forest: equal but for the last bits."""
    rng = np.random.default_rng(0)
    noisy = -4.0 + 1e-13 * rng.normal(size=900)
    negatives = np.concatenate([noisy, rng.normal(size=100)])
    levels = NegativeRanks.of(negatives)(noisy)
    assert np.ptp(levels) < 1e-6
    assert levels.mean() == pytest.approx(-np.log(0.55), abs=0.01)


def test_equal_negatives_make_one_level() -> None:
    scale = NegativeRanks.of(np.full(30, 2.5))
    assert len(scale.knots) == 1
    assert scale(np.array([2.0, 2.5, 3.0])).tolist() == sorted(scale(np.array([2.0, 2.5, 3.0])))
