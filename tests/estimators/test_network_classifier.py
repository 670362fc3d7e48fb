# ruff: noqa: N806 - scikit-learn's name for the data is X
"""The method as a scikit-learn classifier: its checks, its tools, its errors."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from rankreg.estimators import RankRegClassifier, make_fpr_at_tpr_scorer
from rankreg.estimators.network_fit import train_config
from rankreg.fit import settings
from rankreg.models import MLPShape, Pixels, ResNetShape
from rankreg.train import ALMMethod, LossSettings
from tests.estimators.rare_data import QUICK, cancer, eights


@pytest.mark.parametrize("method", ["rankreg", "buffer", "alm", "none", ALMMethod(mu=1e-3)])
@pytest.mark.parametrize("loss", ["bce", LossSettings(name="a-fl", settings={"gamma": 2.0})])
def test_every_method_and_loss_learns(method: Any, loss: Any) -> None:
    X, y = cancer()
    train, test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model = RankRegClassifier(method=method, loss=loss, **QUICK).fit(train, y_train)
    assert roc_auc_score(y_test, model.decision_function(test)) > 0.95
    assert model.config_.loss == (loss if isinstance(loss, LossSettings) else LossSettings(name=loss))
    assert model.n_iter_ == len(model.history_) == 8


def test_rows_are_standardised_inside_so_that_units_do_not_matter() -> None:
    X, y = cancer()
    factors = 10.0 ** np.linspace(-6, 6, X.shape[1])
    one, other = RankRegClassifier(**QUICK).fit(X, y), RankRegClassifier(**QUICK).fit(X * factors, y)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X * factors), atol=1e-3)


def test_a_random_state_is_a_network_and_leaves_torch_alone() -> None:
    X, y = cancer()
    before = torch.get_rng_state()
    first = RankRegClassifier(**QUICK).fit(X, y).decision_function(X)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(7)
    np.testing.assert_array_equal(RankRegClassifier(**QUICK).fit(X, y).decision_function(X), first)
    assert not np.allclose(
        clone(RankRegClassifier(**QUICK)).set_params(random_state=1).fit(X, y).decision_function(X), first
    )


def test_scores_probabilities_and_predictions_agree() -> None:
    X, y = cancer()
    model = RankRegClassifier(**QUICK).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), (scores >= 0).astype(int))
    np.testing.assert_allclose(
        model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-scores.astype(np.float64))), rtol=1e-5
    )
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)


def test_words_name_their_critical_class_and_either_may_be_it() -> None:
    """The same network whichever word comes first; scikit-learn's scores stay those of `classes_[1]`."""
    X, y = cancer()
    number = RankRegClassifier(**QUICK).fit(X, y)
    for critical, other in (("fraud", "legal"), ("zebra", "horse")):
        words = np.where(y == 1, critical, other)
        model = RankRegClassifier(pos_label=critical, **QUICK).fit(X, words)
        assert model.classes_.tolist() == sorted([critical, other])
        np.testing.assert_array_equal(model.criticality(X), number.criticality(X))
        np.testing.assert_array_equal(model.predict(X) == critical, number.predict(X) == 1)
        assert roc_auc_score(words == model.classes_[1], model.decision_function(X)) > 0.95
        assert make_fpr_at_tpr_scorer(0.9, pos_label=critical)(model, X, words) == make_fpr_at_tpr_scorer(0.9)(
            number, X, y
        )
    with pytest.warns(UserWarning, match="pos_label is not specified"):
        RankRegClassifier(**QUICK).fit(X, words)
    with pytest.raises(ValueError, match="pass pos_label, the class whose misses are expensive"):
        RankRegClassifier(tpr=0.8, **QUICK).fit(X, words)
    with pytest.raises(ValueError, match="pos_label='lion' is not a valid label"):
        RankRegClassifier(pos_label="lion", **QUICK).fit(X, words)


def test_pandas_columns_are_remembered_and_asked_for() -> None:
    X, y = cancer()
    table = pd.DataFrame(X, columns=[f"feature {k}" for k in range(X.shape[1])])
    model = RankRegClassifier(**QUICK).fit(table, pd.Series(y))
    assert model.feature_names_in_.tolist() == list(table.columns)
    np.testing.assert_array_equal(
        model.decision_function(table), RankRegClassifier(**QUICK).fit(X, y).decision_function(X)
    )
    with pytest.raises(ValueError, match="The feature names should match"):
        model.predict(table.rename(columns={"feature 3": "other"}))


def test_it_is_searched_piped_calibrated_and_pickled() -> None:
    X, y = cancer()
    pipeline = make_pipeline(StandardScaler(), RankRegClassifier(**QUICK))
    grid = {"rankregclassifier__method__reach": [0.3, 1.0], "rankregclassifier__epochs": np.array([2, 4])}
    search = GridSearchCV(pipeline, grid, scoring=make_fpr_at_tpr_scorer(0.9), cv=2).fit(X, y)
    assert search.best_params_.keys() == grid.keys()
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.decision_function(X), search.decision_function(X))
    calibrated = CalibratedClassifierCV(RankRegClassifier(**QUICK), method="sigmoid", cv=2).fit(X, y)
    plain = RankRegClassifier(**QUICK).fit(X, y)
    rate = y.mean()
    assert abs(calibrated.predict_proba(X)[:, 1].mean() - rate) < abs(plain.predict_proba(X)[:, 1].mean() - rate)


def test_weights_change_the_network_as_the_base_loss_says() -> None:
    """Negatives of weight 20 push scores down; equal weights change nothing; weight 0 is absence."""
    X, y = cancer()
    model = RankRegClassifier(**QUICK, method="none")
    plain = clone(model).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(clone(model).fit(X, y, np.full(len(y), 3.0)).decision_function(X), plain)
    pushed = clone(model).fit(X, y, sample_weight=np.where(y == 0, 20.0, 1.0)).decision_function(X)
    assert np.mean(pushed < plain) > 0.9
    absent = np.arange(len(y)) % 3 == 0
    fewer = clone(model).fit(X[~absent], y[~absent])
    ignored = clone(model).fit(X, y, sample_weight=np.where(absent, 0, 1))
    np.testing.assert_array_equal(fewer.decision_function(X), ignored.decision_function(X))
    with pytest.raises(ValueError, match="Negative values"):
        clone(model).fit(X, y, sample_weight=-np.ones(len(y)))


class Small(nn.Module):
    """A network of one's own, for rows or images."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        first = [Pixels(), nn.Conv2d(3, 8, 3), nn.Flatten()] if len(shape) == 3 else []
        self.layers = nn.Sequential(*first, nn.LazyLinear(16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
        self.layers(torch.zeros(1, *shape))

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.layers(inputs)
        return scores


def test_a_network_of_ones_own_learns_rows_and_images(tmp_path: Any) -> None:
    X, y = cancer()
    settings = QUICK | {
        "network": Small,
        "epochs": 12,
        "batch_size": 64,
        "training": {"optimizer": "adamw", "augmentation": "none"},
    }
    for inputs, labels in ((X, y), eights()):
        model = RankRegClassifier(**settings).fit(inputs, labels)
        assert roc_auc_score(labels, model.decision_function(inputs)) > 0.95
        assert isinstance(model.network_, Small)
        np.testing.assert_array_equal(
            clone(model).fit(inputs, labels).criticality(inputs), model.criticality(inputs)
        )
        with pytest.raises(ValueError, match="cannot be described in a bundle"):
            model.save(tmp_path / "bundle")


@pytest.mark.slow
def test_images_are_arrays_of_uint8() -> None:
    images, labels = eights()
    settings: dict[str, Any] = {"network": ResNetShape(width=0.1), "epochs": 6, "batch_size": 32, "random_state": 0}
    model = RankRegClassifier(training={"augmentation": "none"}, **settings)
    fitted = clone(model).fit(images, labels)
    assert roc_auc_score(labels, fitted.decision_function(images)) > 0.85
    found = cross_val_predict(clone(model).set_params(epochs=1), images, labels, cv=2, method="decision_function")
    assert found.shape == labels.shape
    with pytest.raises(ValueError, match="Expected uint8 images"):
        clone(model).fit(images / 255, labels)
    with pytest.raises(ValueError, match="images of 8 x 9 pixels, but the classifier is expecting 8 x 8"):
        fitted.predict(np.pad(images, ((0, 0), (0, 0), (0, 1), (0, 0))))
    with pytest.raises(ValueError, match="Expected uint8 images"):
        fitted.predict(np.zeros((3, 64)))


def test_the_epoch_is_the_best_on_the_validation_share_and_patience_ends_the_wait() -> None:
    X, y = cancer()
    model = RankRegClassifier(**(QUICK | {"epochs": 60, "training": {"patience": 3}})).fit(X, y)
    areas = [record["validation"]["auc"] for record in model.history_]
    assert areas[model.best_epoch_] == max(areas)
    assert model.n_iter_ == model.best_epoch_ + 4 < 60


def test_the_defaults_are_those_of_rankreg_fit() -> None:
    for kind, side in (("table", None), ("image", 32), ("image", 64)):
        ours = train_config(RankRegClassifier(), size=None if side is None else (side, side), seed=0)
        assert ours == settings(kind, 0.95, size=side, seed=0, loss="bce", precision="float32")


def test_a_described_network_is_taken_as_described() -> None:
    X, y = cancer()
    model = RankRegClassifier(**(QUICK | {"network": MLPShape(hidden=(5,))})).fit(X, y)
    assert {value.shape[0] for name, value in model.network_.state_dict().items() if "layers" in name} == {5}
    assert cross_val_score(model, X, y, cv=2, scoring="roc_auc").mean() > 0.9


def test_settings_are_set_by_nested_names_in_the_constructor_in_set_params_and_by_clone() -> None:
    model = RankRegClassifier(method__weight=0.3, loss="a-fl", loss__gamma=2.0).set_params(
        method__capacity=64, training__patience=5, network__hidden=(8,), sampling="balanced"
    )
    assert model.get_params()["method__weight"] == 0.3
    for one in (model, clone(model), pickle.loads(pickle.dumps(model)), RankRegClassifier(**model.get_params())):
        config = train_config(one, size=None, seed=0)
        assert (config.method.weight, config.method.buffer.capacity) == (0.3, 64)  # type: ignore[union-attr]
        assert config.loss == LossSettings(name="a-fl", settings={"gamma": 2.0})
        assert (config.patience, config.sampling) == (5, "balanced")
        assert config.model == MLPShape(hidden=(8,), dropout=0.1)
    before = model.get_params()
    clone(model).set_params(method__weight=1.0, training__patience=1)
    assert model.get_params() == before
    changed = RankRegClassifier(method=ALMMethod(mu=1e-3)).set_params(method__rho=3.0)
    assert train_config(changed, size=None, seed=0).method == ALMMethod(mu=1e-3, rho=3.0)
    assert train_config(model.set_params(method="none"), size=None, seed=0).method.name == "none"
    with pytest.raises(ValueError, match="Invalid parameter 'epoch'"):
        RankRegClassifier(epoch=3)
    with pytest.raises(ValueError, match="network must be a name, a dict"):
        RankRegClassifier(network=Small, network__hidden=(8,))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"target_tpr": 0.9}, {"tpr": 0.9}),
        ({"weight": 0.3, "reach": 2.0, "penalty": "hinge"}, {"method__weight": 0.3, "method__reach": 2.0}),
        ({"buffer_size": 8, "buffer_policy": "fifo"}, {"method__capacity": 8, "method__policy": "fifo"}),
        ({"optimiser": "sgd", "patience": 3}, {"training__optimizer": "sgd", "training__patience": 3}),
        ({"hidden": (8,), "dropout": 0.5}, {"network__hidden": (8,), "network__dropout": 0.5}),
        ({"calibration_size": 0.4}, {"calibration": 0.4}),
        ({"threshold": "cross-validated", "folds": 3}, {"calibration": 3}),
        ({"threshold": "cross-validated"}, {"calibration": 5}),
        ({"folds": 3}, {"calibration": None}),
    ],
)
def test_old_parameters_work_and_warn_with_the_new_name(old: dict[str, Any], new: dict[str, Any]) -> None:
    for make in (RankRegClassifier, RankRegClassifier().set_params):
        with pytest.warns(FutureWarning) as said:
            params = make(**old).get_params()
        assert new.items() <= params.items()
        assert len(said) == len(old)
        assert {str(one.message).rsplit(maxsplit=1)[-1].partition("__")[0] for one in said} == {
            name.partition("__")[0] for name in new
        }


def test_balanced_sampling_shows_both_classes_equally_often() -> None:
    X, y = cancer()
    few = X[:, :3]
    shares = [
        RankRegClassifier(sampling=sampling, method="none", **QUICK).fit(few, y).predict_proba(few)[:, 1].mean()
        for sampling in ("shuffled", "balanced")
    ]
    assert shares[0] == pytest.approx(y.mean(), abs=0.1)
    assert shares[1] > shares[0] + 0.05
