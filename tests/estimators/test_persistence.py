# ruff: noqa: N806 - scikit-learn's name for the data is X
"""The classifier on disk: the bundle format, there and back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from rankreg.bundle import load_bundle, predict
from rankreg.bundle.card import digest
from rankreg.bundle.storage import save_bundle
from rankreg.estimators import RankRegClassifier
from rankreg.models import MLPShape, ResNetShape
from tests.estimators.rare_data import QUICK, cancer, eights


@pytest.mark.parametrize("target", [None, 0.8])
def test_what_is_loaded_predicts_as_what_was_saved_and_can_be_fitted_again(tmp_path: Path, target: Any) -> None:
    X, y = cancer()
    table = pd.DataFrame(X, columns=[f"feature {k}" for k in range(30)])
    words = np.where(y == 1, "bad", "good")
    model = RankRegClassifier(tpr=target, pos_label="bad", method="alm", **QUICK).fit(table, words)
    loaded = RankRegClassifier.load(model.save(tmp_path / "bundle"))
    np.testing.assert_array_equal(loaded.criticality(table), model.criticality(table))
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert loaded.classes_.tolist() == ["bad", "good"]
    assert loaded.pos_label_ == "bad"
    assert loaded.certificate_ == model.certificate_
    assert loaded.threshold_ == model.threshold_
    assert (loaded.n_iter_, loaded.best_epoch_) == (model.n_iter_, model.best_epoch_)
    with pytest.raises(ValueError, match="The feature names should match"):
        loaded.predict(table.rename(columns={"feature 3": "other"}))
    again = clone(loaded).fit(table, words)
    np.testing.assert_array_equal(again.criticality(table), model.criticality(table))


@pytest.mark.parametrize(
    "labels", [np.array([0, 1]), np.array([False, True]), np.array([-1.0, 1.0]), np.array(["a", "b"])]
)
def test_labels_keep_their_type(tmp_path: Path, labels: Any) -> None:
    X, y = cancer()
    settings = QUICK | {"epochs": 1}
    model = RankRegClassifier(pos_label=labels[1], **settings).fit(X, labels[y])
    loaded = RankRegClassifier.load(model.save(tmp_path / "bundle"))
    assert loaded.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_the_command_line_scores_a_saved_classifier(tmp_path: Path) -> None:
    X, y = cancer()
    model = RankRegClassifier(tpr=0.8, **QUICK).fit(X, y)
    model.save(tmp_path / "bundle")
    pd.DataFrame(X, columns=[f"x{k}" for k in range(30)]).to_csv(tmp_path / "new.csv", index=False)
    predict(load_bundle(tmp_path / "bundle"), tmp_path / "new.csv", tmp_path / "scores.csv")
    found = pd.read_csv(tmp_path / "scores.csv")
    np.testing.assert_allclose(found["score"], model.criticality(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["alarm"], model.predict(X))
    card = load_bundle(tmp_path / "bundle").card
    assert card.threshold.certified
    assert card.parts["calibration"]["positives"] == card.threshold.calibration_positives == 18


def test_images_come_back_too(tmp_path: Path) -> None:
    images, labels = eights(60, 12)
    model = RankRegClassifier(network=ResNetShape(width=0.05), epochs=1, random_state=0).fit(images, labels)
    loaded = RankRegClassifier.load(model.save(tmp_path / "bundle"))
    np.testing.assert_allclose(loaded.criticality(images), model.criticality(images), rtol=1e-5, atol=1e-6)


def test_the_usual_and_the_cross_validated_threshold_are_saved_as_uncertified(tmp_path: Path) -> None:
    X, y = cancer()
    settings = QUICK | {"epochs": 1}
    each: list[dict[str, Any]] = [{}, {"tpr": 0.9, "calibration": 2}]
    for asked in each:
        model = RankRegClassifier(**settings, **asked).fit(X, y)
        said = load_bundle(model.save(tmp_path / "bundle")).card.threshold
        assert not said.certified
        assert said.certificate is None
        assert said.value == model.threshold_
        assert RankRegClassifier.load(tmp_path / "bundle").certificate_ is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"place": 2}, "place"),
        ({"classes": [0]}, "classes"),
        ({"kind": "V"}, "kind"),
        ({"surprise": 1}, "surprise"),
        (None, "is a bundle of `rankreg fit`"),
    ],
)
def test_a_bundle_that_was_tampered_with_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    X, y = cancer()
    model = RankRegClassifier(**(QUICK | {"epochs": 1})).fit(X, y)
    path = model.save(tmp_path / "bundle") / "bundle.json"
    content = json.loads(path.read_text())
    if change is None:
        del content["training"]["estimator"]
    else:
        content["training"]["estimator"] |= change
    content["sha256"] = digest(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        RankRegClassifier.load(tmp_path / "bundle")


@pytest.mark.parametrize(
    ("classes", "kind"),
    [([0, 10**30], "i"), ([0, 2**63], "i"), ([-1, 1], "u"), (["a", "b"], "i"), ([0, 1], "U"), ([1, 1], "i")],
)
def test_labels_that_their_type_cannot_hold_are_refused(tmp_path: Path, classes: list[Any], kind: str) -> None:
    X, y = cancer()
    RankRegClassifier(**QUICK | {"epochs": 1}).fit(X, y).save(tmp_path / "bundle")
    card = json.loads((tmp_path / "bundle/bundle.json").read_text())
    card["training"]["estimator"] |= {"classes": classes, "kind": kind}
    card["sha256"] = digest(card)
    (tmp_path / "bundle/bundle.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match="is damaged: the classes are not two labels of the type"):
        RankRegClassifier.load(tmp_path / "bundle")


def test_a_table_with_columns_that_the_classifier_does_not_know_is_refused(tmp_path: Path) -> None:
    X, y = cancer()
    model = RankRegClassifier(**(QUICK | {"epochs": 1})).fit(X, y)
    card = load_bundle(model.save(tmp_path / "bundle")).card.model_dump(exclude={"weights", "format", "version"})
    card["preprocessing"]["numeric"][0]["may_miss"] = True
    card["preprocessing"]["numeric"].pop()
    assert isinstance(model.config_.model, MLPShape)
    save_bundle(tmp_path / "other", model.network_, **card)
    with pytest.raises(ValueError, match="columns that RankRegClassifier does not know"):
        RankRegClassifier.load(tmp_path / "other")
