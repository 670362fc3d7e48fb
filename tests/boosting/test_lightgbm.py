"""The objective and the metric inside LightGBM itself."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score

from rankreg.boosting import lightgbm_fpr_at_tpr, lightgbm_objective, rank_gradient
from rankreg.metrics import auc, fpr_at_tpr

lgb = pytest.importorskip("lightgbm")
QUIET: dict[str, Any] = {"verbose": -1, "num_threads": 1, "deterministic": True, "num_leaves": 7}


def rare(seed: int = 0, n: int = 1200) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """One positive in twenty, not separable."""
    inputs, labels = make_classification(n, 8, weights=[0.95], flip_y=0.02, class_sep=0.7, random_state=seed)
    return inputs, labels


def test_without_the_term_the_trees_are_those_of_lightgbms_own_log_loss() -> None:
    inputs, labels = rare()
    own = lgb.train({**QUIET, "objective": "binary"}, lgb.Dataset(inputs, labels), 30)
    ours = lgb.train({**QUIET, "objective": lightgbm_objective(weight=0)}, lgb.Dataset(inputs, labels), 30)
    base = np.log(labels.mean() / (1 - labels.mean()))
    np.testing.assert_allclose(ours.predict(inputs) + base, own.predict(inputs, raw_score=True), atol=1e-3)


def test_the_classifier_and_plain_training_give_the_same_raw_scores_every_time() -> None:
    inputs, labels = rare()
    native = lgb.train({**QUIET, "objective": lightgbm_objective()}, lgb.Dataset(inputs, labels), 20)
    model = lgb.LGBMClassifier(objective=lightgbm_objective(), n_estimators=20, **QUIET)
    for _ in range(2):
        raw = model.fit(inputs, labels).predict(inputs, raw_score=True)
        np.testing.assert_array_equal(raw, native.predict(inputs))


def test_sample_weights_reach_the_objective_both_ways() -> None:
    inputs, labels = rare()
    weights = np.random.default_rng(0).uniform(0.5, 3, len(labels))
    data = lgb.Dataset(inputs, labels, weight=weights)
    native = lgb.train({**QUIET, "objective": lightgbm_objective()}, data, 20).predict(inputs)
    model = lgb.LGBMClassifier(objective=lightgbm_objective(), n_estimators=20, **QUIET)
    weighted = model.fit(inputs, labels, sample_weight=weights).predict(inputs, raw_score=True)
    unweighted = model.fit(inputs, labels).predict(inputs, raw_score=True)
    np.testing.assert_allclose(weighted, native, atol=1e-5)
    assert np.abs(weighted - unweighted).max() > 0.01


def test_the_term_lowers_what_it_penalises() -> None:
    """The positives' mean squared rank on the training rows, after a few small trees."""
    inputs, labels = rare()
    found = []
    for weight in (0.0, 3.0):
        settings = {**QUIET, "objective": lightgbm_objective(weight=weight)}
        scores = lgb.train(settings, lgb.Dataset(inputs, labels), 10).predict(inputs)
        ranks = 1 + (scores[None] > scores[:, None]).sum(1)
        found.append(np.mean((ranks[labels == 1] / len(labels)) ** 2))
    assert found[1] < found[0]


def test_training_stops_at_the_round_of_the_lowest_fpr() -> None:
    inputs, labels = rare()
    (train, valid), (train_labels, valid_labels) = np.split(inputs, [600]), np.split(labels, [600])
    data = lgb.Dataset(train, train_labels)
    settings = {**QUIET, "objective": lightgbm_objective(), "metric": "None"}
    history: dict[str, Any] = {}
    booster = lgb.train(
        settings,
        data,
        60,
        valid_sets=[data.create_valid(valid, valid_labels)],
        feval=lightgbm_fpr_at_tpr(0.9),
        callbacks=[lgb.early_stopping(15, verbose=False), lgb.record_evaluation(history)],
    )
    curve = history["valid_0"]["fpr@90"]
    assert booster.best_iteration == 1 + int(np.argmin(curve))
    assert len(curve) == min(60, booster.best_iteration + 15)
    last = booster.predict(valid, num_iteration=booster.best_iteration)
    assert fpr_at_tpr(valid_labels, last, 0.9) == min(curve)


def test_cross_validation_takes_the_objective() -> None:
    inputs, labels = rare()
    model = lgb.LGBMClassifier(objective=lightgbm_objective(), n_estimators=15, **QUIET)

    def area(fitted: Any, test: Any, truth: Any) -> float:
        return auc(truth, fitted.predict(test, raw_score=True))

    assert np.all(cross_val_score(model, inputs, labels, scoring=area, cv=3) > 0.6)


def test_string_labels_are_ordered_as_lightgbm_orders_them() -> None:
    inputs, labels = rare()
    names = np.array(["healthy", "ill"])[labels]
    model = lgb.LGBMClassifier(objective=lightgbm_objective(), n_estimators=10, **QUIET)
    by_name = model.fit(inputs, names).predict(inputs, raw_score=True)
    np.testing.assert_array_equal(by_name, model.fit(inputs, labels).predict(inputs, raw_score=True))


def test_an_init_score_takes_the_place_of_the_base_rate() -> None:
    inputs, labels = rare()
    base = np.log(labels.mean() / (1 - labels.mean()))
    data = lgb.Dataset(inputs, labels, init_score=np.full(len(labels), base))
    started = lgb.train({**QUIET, "objective": lightgbm_objective(base_rate=False)}, data, 10)
    plain = lgb.train({**QUIET, "objective": lightgbm_objective()}, lgb.Dataset(inputs, labels), 10)
    np.testing.assert_allclose(started.predict(inputs), plain.predict(inputs), atol=1e-4)


def test_a_data_set_without_labels_is_refused() -> None:
    inputs, _ = rare()
    with pytest.raises(ValueError, match=r"[Ll]abel"):
        lgb.train({**QUIET, "objective": lightgbm_objective()}, lgb.Dataset(inputs), 2)


def test_three_classes_are_refused() -> None:
    inputs, _ = rare()
    model = lgb.LGBMClassifier(objective=lightgbm_objective(), n_estimators=2, **QUIET)
    with pytest.raises(ValueError, match="for two classes, got scores of 3"):
        model.fit(inputs, np.arange(len(inputs)) % 3)


def test_labels_other_than_0_and_1_are_refused() -> None:
    inputs, labels = rare()
    with pytest.raises(ValueError, match="labels must be 0 or 1"):
        lgb.train({**QUIET, "objective": lightgbm_objective()}, lgb.Dataset(inputs, 2 * labels - 1), 2)


def test_distributed_training_is_refused() -> None:
    inputs, labels = rare()
    data = lgb.Dataset(inputs, labels, params={"num_machines": 2, "verbose": -1}).construct()
    with pytest.raises(ValueError, match="distributed training is not supported"):
        lightgbm_objective()(np.zeros(len(labels)), data)


def test_bagging_and_goss_work_with_the_term() -> None:
    inputs, labels = rare()
    for extra in ({"bagging_fraction": 0.5, "bagging_freq": 1}, {"data_sample_strategy": "goss"}):
        settings = {**QUIET, **extra, "objective": lightgbm_objective()}
        scores = lgb.train(settings, lgb.Dataset(inputs, labels), 30).predict(inputs)
        assert fpr_at_tpr(labels, scores, 0.9) < 0.5


def test_a_first_tree_follows_gradient_and_hessian() -> None:
    """One leaf-wise tree by hand: each leaf's value is −rate · ΣG / ΣH of the rows in it."""
    inputs, labels = rare()
    settings = {**QUIET, "objective": lightgbm_objective(weight=5.0), "learning_rate": 0.3, "min_data_in_leaf": 5}
    data = lgb.Dataset(inputs, labels)
    booster = lgb.train(settings, data, 2)
    after_one = booster.predict(inputs, num_iteration=1)
    gradient, hessian = lightgbm_objective(weight=5.0)(labels, after_one)
    leaves = booster.predict(inputs, pred_leaf=True)[:, 1]
    step = booster.predict(inputs) - after_one
    assert np.abs(rank_gradient(after_one, np.flatnonzero(labels))).max() > 0
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        expected = -0.3 * gradient[rows].sum(dtype=float) / hessian[rows].sum(dtype=float)
        np.testing.assert_allclose(step[rows], expected, atol=1e-4)
