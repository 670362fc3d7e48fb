"""The objective and the metric inside XGBoost itself."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score

from rankreg.boosting import xgboost_fpr_at_tpr, xgboost_objective
from rankreg.metrics import fpr_at_tpr

xgb = pytest.importorskip("xgboost")
SMALL: dict[str, Any] = {"max_depth": 3, "nthread": 1, "seed": 0}


def rare(seed: int = 0, n: int = 1200) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """One positive in twenty, not separable."""
    inputs, labels = make_classification(n, 8, weights=[0.95], flip_y=0.02, class_sep=0.7, random_state=seed)
    return inputs, labels


def test_without_the_term_the_trees_are_those_of_xgboosts_own_log_loss() -> None:
    inputs, labels = rare()
    data = xgb.DMatrix(inputs, labels)
    settings = {**SMALL, "objective": "binary:logistic", "base_score": labels.mean()}
    own = xgb.train(settings, data, 30)
    ours = xgb.train(settings, data, 30, obj=xgboost_objective(weight=0))
    np.testing.assert_allclose(
        ours.predict(data, output_margin=True), own.predict(data, output_margin=True), atol=1e-3
    )


def test_the_classifier_and_plain_training_give_the_same_margins() -> None:
    inputs, labels = rare()
    data = xgb.DMatrix(inputs, labels)
    base = {"base_score": float(labels.mean())}
    native = xgb.train({**SMALL, **base, "objective": "binary:logistic"}, data, 20, obj=xgboost_objective())
    model = xgb.XGBClassifier(
        objective=xgboost_objective(), n_estimators=20, max_depth=3, n_jobs=1, random_state=0, **base
    ).fit(inputs, labels)
    margins = model.predict(inputs, output_margin=True)
    np.testing.assert_array_equal(margins, native.predict(data, output_margin=True))
    np.testing.assert_allclose(model.predict_proba(inputs)[:, 1], 1 / (1 + np.exp(-margins)), atol=1e-6)


def test_sample_weights_reach_the_objective_both_ways() -> None:
    inputs, labels = rare()
    weights = np.random.default_rng(0).uniform(0.5, 3, len(labels))
    data = xgb.DMatrix(inputs, labels, weight=weights)
    settings = {**SMALL, "objective": "binary:logistic", "base_score": 0.5}
    native = xgb.train(settings, data, 20, obj=xgboost_objective()).predict(data, output_margin=True)
    model = xgb.XGBClassifier(objective=xgboost_objective(), n_estimators=20, max_depth=3, n_jobs=1, base_score=0.5)
    weighted = model.fit(inputs, labels, sample_weight=weights).predict(inputs, output_margin=True)
    unweighted = model.fit(inputs, labels).predict(inputs, output_margin=True)
    np.testing.assert_allclose(weighted, native, atol=1e-5)
    assert np.abs(weighted - unweighted).max() > 0.01


def test_training_stops_at_the_round_of_the_lowest_fpr() -> None:
    inputs, labels = rare()
    train, valid = xgb.DMatrix(inputs[:600], labels[:600]), xgb.DMatrix(inputs[600:], labels[600:])
    history: dict[str, Any] = {}
    booster = xgb.train(
        {**SMALL, "objective": "binary:logistic", "disable_default_eval_metric": True},
        train,
        60,
        obj=xgboost_objective(),
        custom_metric=xgboost_fpr_at_tpr(0.9),
        evals=[(valid, "valid")],
        early_stopping_rounds=15,
        evals_result=history,
        verbose_eval=False,
    )
    curve = history["valid"]["fpr@90"]
    assert booster.best_iteration == int(np.argmin(curve))
    assert len(curve) == min(60, booster.best_iteration + 16)


def test_the_classifier_stops_early_on_the_metric_too() -> None:
    inputs, labels = rare()
    model = xgb.XGBClassifier(
        objective=xgboost_objective(),
        eval_metric=xgboost_fpr_at_tpr(0.9),
        early_stopping_rounds=10,
        n_estimators=60,
        max_depth=3,
        n_jobs=1,
    ).fit(inputs[:600], labels[:600], eval_set=[(inputs[600:], labels[600:])], verbose=False)
    curve = model.evals_result()["validation_0"]["fpr@90"]
    assert model.best_iteration == int(np.argmin(curve))
    margins = model.predict(inputs[600:], output_margin=True)
    assert fpr_at_tpr(labels[600:], margins, 0.9) == pytest.approx(min(curve), abs=1e-6)


def test_cross_validation_takes_the_objective() -> None:
    inputs, labels = rare()
    model = xgb.XGBClassifier(objective=xgboost_objective(), n_estimators=15, max_depth=3, n_jobs=1)
    assert np.all(cross_val_score(model, inputs, labels, scoring="roc_auc", cv=3) > 0.6)


def test_a_data_set_without_labels_is_refused() -> None:
    inputs, _ = rare()
    with pytest.raises(ValueError, match="no labels"):
        xgb.train({**SMALL, "base_score": 0.5}, xgb.DMatrix(inputs), 2, obj=xgboost_objective())


def test_three_classes_are_refused() -> None:
    inputs, _ = rare()
    model = xgb.XGBClassifier(objective=xgboost_objective(), n_estimators=2, n_jobs=1)
    with pytest.raises(ValueError, match="for two classes, got scores of 3"):
        model.fit(inputs, np.arange(len(inputs)) % 3)


def test_distributed_training_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, labels = rare()
    monkeypatch.setattr("xgboost.collective.get_world_size", lambda: 2)
    with pytest.raises(ValueError, match="each of 2 machines"):
        xgboost_objective()(np.zeros(len(labels)), xgb.DMatrix(inputs, labels))
