# ruff: noqa: N803, N806 - scikit-learn's name for the data is X
"""The classifier as an average of cross-fitted learners: the model of `rankreg fit`."""

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankreg.bundle import export_onnx, load_bundle, predict
from rankreg.bundle.card import digest
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.estimators import RankRegClassifier, make_fpr_at_tpr_scorer
from rankreg.estimators.average_fit import model_of
from rankreg.fit import LEARNERS, Source, fit
from rankreg.models import MLPShape
from rankreg.operating import NotEnoughPositives, cross_fitted_threshold
from tests.estimators.rare_data import QUICK, eights

Array = NDArray[Any]
FAST: dict[str, Any] = {"learner": ["logistic", "boosting"], "random_state": 3}
LINEAR: dict[str, Any] = {"learner": "logistic", "random_state": 3}


def table(rows: int = 500, gaps: bool = True, copies: int = 20) -> tuple[pd.DataFrame, Array]:
    """Four columns, one with gaps; every sixth row is positive; the last rows are copies of the first."""
    rng = np.random.default_rng(0)
    y = (np.arange(rows) % 6 == 0).astype(int)
    X = np.round(rng.normal(size=(rows, 4)) + np.array([1.5, 1.0, 0.5, 0.0]) * y[:, None], 4)
    if gaps:
        X[rng.random(rows) < 0.1, 1] = np.nan
    if copies:
        X[-copies:], y[-copies:] = X[:copies], y[:copies]
    return pd.DataFrame(X, columns=["age", "dose", "size", "noise"]), y


def fitted_by_the_command(X: pd.DataFrame, y: Array, home: Path, **settings: Any) -> Any:
    frame = X.assign(sick=y)
    frame.to_csv(home / "data.csv", index=False)
    group = settings.pop("group", None)
    if group is not None:
        frame.assign(patient=group).to_csv(home / "data.csv", index=False)
    source = Source(home / "data.csv", target="sick", group=None if group is None else "patient")
    return fit(source, home / "out", seed=3, progress=False, **settings)


@pytest.mark.parametrize(
    ("learners", "asked", "kind", "grouped"),
    [
        (["logistic", "boosting"], {"tpr": 0.9}, "cross-fitted", False),
        (["logistic-normal"], {"tpr": 0.98}, "expected", False),
        (["logistic", "logistic-normal"], {"tpr": 0.8, "confidence": 0.9}, "certified", False),
        (["logistic"], {"tpr": 0.9, "confidence": 0.9}, "cross-fitted", True),
    ],
)
def test_it_is_the_model_of_rankreg_fit_on_the_same_table_and_seed(
    learners: list[str], asked: dict[str, Any], kind: str, grouped: bool, tmp_path: Path
) -> None:
    X, y = table()
    groups = np.char.add("p", (np.arange(len(y)) % 250).astype(str)) if grouped else None
    if groups is not None:
        y = (np.arange(len(y)) % 250 % 6 == 0).astype(int)
    theirs = fitted_by_the_command(X, y, tmp_path, learners=learners, group=groups, **asked)
    ours = RankRegClassifier(learner=learners, random_state=3, **asked).fit(X, y, groups=groups)
    assert theirs.threshold.kind == ours.promise_.kind == kind
    prepared = TablePreprocessor.from_dict(theirs.bundle.card.preprocessing).transform(X)
    np.testing.assert_array_equal(theirs.bundle.score(prepared), ours.criticality(X))
    assert ours.threshold_ == theirs.threshold.value
    assert (ours.certificate_ is None) == (theirs.threshold.certificate is None)
    for one, other in zip(theirs.race, ours.learners_.values(), strict=True):
        assert replace(one, seconds=0.0) == replace(other, seconds=0.0)
    for name in ("out-of-fold", "calibration"):
        if (tmp_path / "out" / f"{name}-scores.csv").exists():
            scores = pd.read_csv(tmp_path / "out" / f"{name}-scores.csv")
            np.testing.assert_allclose(ours.out_of_fold_[scores["id"] - 1], scores["score"], rtol=1e-6)
    assert np.isfinite(ours.out_of_fold_).all()


@pytest.mark.slow
def test_the_default_is_the_default_of_rankreg_fit(tmp_path: Path) -> None:
    X, y = table(400, gaps=False, copies=0)
    theirs = fitted_by_the_command(X, y, tmp_path)
    ours = RankRegClassifier(tpr=0.95, random_state=3).fit(X, y)
    prepared = TablePreprocessor.from_dict(theirs.bundle.card.preprocessing).transform(X)
    np.testing.assert_array_equal(theirs.bundle.score(prepared), ours.criticality(X))
    assert ours.learners_.keys() == {*LEARNERS, "average"}
    assert ours.threshold_ == theirs.threshold.value
    assert len(ours.ensemble_.learners) >= 3
    assert sum(one.weight for name, one in ours.learners_.items() if name != "average") == pytest.approx(1)


@pytest.mark.parametrize(
    ("given", "is_network"),
    [
        ({}, False),
        ({"tpr": 0.9, "calibration": 0.3, "random_state": 1, "training": {}}, False),
        ({"epochs": 2}, True),
        ({"batch_size": 32}, True),
        ({"method": "rankreg"}, True),
        ({"method__weight": 0.3}, True),
        ({"loss": "bce"}, True),
        ({"sampling": "shuffled"}, True),
        ({"learning_rate": 0.01}, True),
        ({"training__patience": 2}, True),
        ({"network": MLPShape(hidden=(4,))}, True),
        ({"learner": "network"}, True),
        ({"learner": "forest"}, False),
    ],
)
def test_a_parameter_of_the_network_asks_for_the_network(given: dict[str, Any], is_network: bool) -> None:
    model = RankRegClassifier(**given)
    assert model_of(model, np.zeros((3, 2))) == ("network" if is_network else "average")
    assert model.__sklearn_tags__().input_tags.allow_nan != is_network
    assert model_of(RankRegClassifier(), np.zeros((3, 8, 8, 3))) == "network"


def test_rows_are_judged_by_members_that_have_not_seen_them() -> None:
    """Noise cannot be learned, only learned by heart."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(400, 8)), np.arange(400) % 4 == 0
    model = RankRegClassifier(learner="boosting", random_state=0).fit(X, y)
    assert roc_auc_score(y, model.criticality(X)) > 0.95
    assert roc_auc_score(y, model.out_of_fold_) == pytest.approx(0.5, abs=0.1)
    assert model.predict_proba(X)[:, 1].max() < 0.7  # fitted out of fold, so it knows that it knows little
    assert model.learners_["boosting"].fpr.estimate > 0.8


def test_probabilities_are_calibrated_and_in_the_order_of_the_scores() -> None:
    rng = np.random.default_rng(0)

    def draw(n: int) -> tuple[Array, Array, Array]:
        y = rng.random(n) < 0.1
        X = rng.normal(size=(n, 2)) + 1.5 * y[:, None]
        return X, y, 1.5 * X.sum(axis=1) - 1.5**2 + np.log(0.1 / 0.9)  # the true log-odds

    X, y, _ = draw(20_000)
    model = RankRegClassifier(**LINEAR).fit(X, y)
    new, labels, odds = draw(20_000)
    found = model.predict_proba(new)[:, 1]
    true = 1 / (1 + np.exp(-odds))
    assert found.mean() == pytest.approx(0.1, abs=0.01)
    assert log_loss(labels, found) < log_loss(labels, true) + 0.005
    for low, high in ((0, 0.1), (0.1, 0.5), (0.5, 1)):
        some = (found >= low) & (found < high)
        assert found[some].mean() == pytest.approx(true[some].mean(), abs=0.04)
    order = np.argsort(model.criticality(new), kind="stable")
    assert (np.diff(model.decision_function(new)[order]) >= 0).all()
    np.testing.assert_array_equal(model.predict(new), found >= 0.5)


def test_words_may_name_either_class_as_critical() -> None:
    X, y = table(300, copies=0)
    number = RankRegClassifier(tpr=0.9, **LINEAR).fit(X, y)
    for critical, other in (("fraud", "legal"), ("zebra", "horse")):
        words = np.where(y == 1, critical, other)
        model = RankRegClassifier(tpr=0.9, pos_label=critical, **LINEAR).fit(X, words)
        assert model.classes_.tolist() == sorted([critical, other])
        np.testing.assert_array_equal(model.criticality(X), number.criticality(X))
        np.testing.assert_array_equal(model.predict(X) == critical, number.predict(X) == 1)
        assert roc_auc_score(words == model.classes_[1], model.decision_function(X)) > 0.85
        assert model.predict_proba(X)[words == critical, model._place].mean() > 0.4
    with pytest.raises(ValueError, match="pass pos_label"):
        RankRegClassifier(tpr=0.9, **LINEAR).fit(X, words)


def test_the_threshold_comes_from_all_positives_or_from_those_held_out() -> None:
    X, y = table(900, copies=0)
    crossed = RankRegClassifier(tpr=0.9, threshold="cross-fitted", **LINEAR).fit(X, y)
    assert crossed.promise_ == cross_fitted_threshold(y, crossed.out_of_fold_, tpr=0.9)
    assert crossed.certificate_ is None
    held = RankRegClassifier(tpr=0.9, threshold="certified", calibration=0.3, **LINEAR).fit(X, y)
    assert held.promise_.kind == "certified"
    assert held.certificate_ is not None
    assert held.certificate_.positives == round(0.3 * y.sum())
    assert RankRegClassifier(tpr=0.9, **LINEAR).fit(X, y).promise_.kind == "certified"  # a fifth is enough
    assert RankRegClassifier(tpr=0.95, **LINEAR).fit(X, y).promise_.kind == "cross-fitted"
    folds = RankRegClassifier(tpr=0.9, calibration=4, **LINEAR).fit(X, y)
    assert folds.promise_.kind == "cross-fitted"
    assert {len(one.members) for one in folds.ensemble_.learners} == {2 * 4}  # few positives are dealt twice
    with pytest.raises(NotEnoughPositives, match=r"calibration=0\.2; or use threshold='cross-fitted'"):
        RankRegClassifier(tpr=0.98, threshold="certified", **LINEAR).fit(X, y)


def test_groups_and_copies_stay_together() -> None:
    """A column that names the patient is learned by heart, and helps with the patient's other rows only."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(100), 4)
    y = (patient % 4 == 0).astype(int)
    X = np.column_stack([rng.normal(size=100)[patient] + 1e-3 * rng.normal(size=400) for _ in range(3)])
    blind = RankRegClassifier(learner="forest", tpr=0.8, random_state=0).fit(X, y)
    aware = RankRegClassifier(learner="forest", tpr=0.8, random_state=0).fit(X, y, groups=patient)
    assert roc_auc_score(y, blind.out_of_fold_) > 0.95
    assert roc_auc_score(y, aware.out_of_fold_) < 0.7
    assert (blind.promise_.units, aware.promise_.units) == (None, 25)
    copied = RankRegClassifier(learner="forest", tpr=0.8, random_state=0).fit(X[::4][patient], y)
    assert copied.promise_.units == 25
    assert roc_auc_score(y, copied.out_of_fold_) < 0.7


@pytest.mark.parametrize(
    ("asked", "learners"),
    [
        ({}, ("logistic", "mlp")),
        ({"tpr": 0.95}, ("logistic-normal", "boosting")),
        ({"tpr": 0.8, "calibration": 0.3}, ("logistic",)),
    ],
)
def test_a_saved_average_is_read_by_the_classifier_the_command_and_onnx(
    asked: Any, learners: Any, tmp_path: Path
) -> None:
    X, y = table(400, copies=0)
    X["empty"] = np.nan  # a column in which nothing is known is not used
    words = np.where(y == 1, "bad", "good")
    model = RankRegClassifier(learner=learners, pos_label="bad", random_state=0)
    model.set_params(**asked).fit(X, words)
    loaded = RankRegClassifier.load(model.save(tmp_path / "bundle"))
    for method in ("criticality", "decision_function", "predict_proba", "predict"):
        np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
    assert loaded.classes_.tolist() == ["bad", "good"]
    assert loaded.threshold_ == model.threshold_
    assert loaded.promise_ == replace(model.promise_, because=None)
    assert loaded.certificate_ == model.certificate_
    assert loaded.learners_ == model.learners_
    assert not hasattr(loaded, "out_of_fold_")
    assert loaded.get_params() == model.get_params() | {"learner": list(model.learner)}
    np.testing.assert_array_equal(clone(loaded).fit(X, words).criticality(X), model.criticality(X))
    with pytest.raises(ValueError, match="The feature names should match"):
        loaded.predict(X.rename(columns={"age": "years"}))
    X.to_csv(tmp_path / "new.csv", index=False)
    bundle = load_bundle(tmp_path / "bundle")
    predict(bundle, tmp_path / "new.csv", tmp_path / "scores.csv")
    found = pd.read_csv(tmp_path / "scores.csv")
    np.testing.assert_allclose(found["score"], model.criticality(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["alarm"] == 1, model.predict(X) == "bad")
    assert bundle.card.version == 2
    if asked:
        assert export_onnx(bundle, tmp_path / "model.onnx").difference < 1e-4


def test_arrays_without_names_are_saved_as_x0_x1(tmp_path: Path) -> None:
    X, y = table(200, copies=0)
    model = RankRegClassifier(**LINEAR).fit(X.to_numpy(), y)
    loaded = RankRegClassifier.load(model.save(tmp_path / "bundle"))
    np.testing.assert_array_equal(loaded.criticality(X.to_numpy()), model.criticality(X.to_numpy()))
    assert loaded.n_features_in_ == 4
    assert not hasattr(loaded, "feature_names_in_")
    named = RankRegClassifier(**LINEAR).fit(X, y)
    np.testing.assert_array_equal(named.criticality(X), model.criticality(X.to_numpy()))


def test_it_is_cloned_copied_pickled_piped_and_searched() -> None:
    X, y = table(300, copies=0)
    model = RankRegClassifier(**FAST).fit(X[:200], y[:200])
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model).fit(X[:200], y[:200])):
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    pipeline = make_pipeline(StandardScaler(), RankRegClassifier(random_state=0))
    grid = [
        {"rankregclassifier__learner": ["logistic", ("logistic", "logistic-normal")]},
        {"rankregclassifier__epochs": [1], "rankregclassifier__network__hidden": [(4,)]},
    ]
    filled = X.fillna(0)
    search = GridSearchCV(pipeline, grid, scoring=make_fpr_at_tpr_scorer(0.9), cv=2).fit(filled, y)
    assert "logistic" in search.best_params_["rankregclassifier__learner"]
    assert cross_val_predict(RankRegClassifier(**LINEAR), X, y, cv=2, method="predict_proba").shape == (300, 2)


def test_a_second_fit_forgets_the_first() -> None:
    X, y = table(200, gaps=False, copies=0)
    model = RankRegClassifier(**LINEAR).fit(X, y)
    model.set_params(learner=None, **(QUICK | {"epochs": 1})).fit(X, y)
    assert not hasattr(model, "ensemble_")
    assert model.n_iter_ == 1
    model.set_params(network=None, epochs=None, learning_rate=None, learner="logistic").fit(X, y)
    assert not hasattr(model, "network_")
    with pytest.raises(ValueError, match="unknown learner"):
        model.set_params(learner="oracle").fit(X, y)
    assert model.criticality(X).shape == (200,)  # a fit that failed leaves the last one


def test_rows_of_weight_0_are_absent_and_other_weights_are_refused() -> None:
    X, y = table(300, copies=0)
    absent = np.arange(300) % 5 == 0
    fewer = RankRegClassifier(**LINEAR).fit(X[~absent], y[~absent])
    ignored = RankRegClassifier(**LINEAR).fit(X, y, sample_weight=np.where(absent, 0, 2.0))
    np.testing.assert_array_equal(fewer.criticality(X), ignored.criticality(X))
    np.testing.assert_array_equal(np.isnan(ignored.out_of_fold_), absent)
    with pytest.raises(ValueError, match="only learner='network' weighs rows"):
        RankRegClassifier(**LINEAR).fit(X, y, sample_weight=1 + y)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learner": "forrest"}, "did you mean 'forest'"),
        ({"learner": ["logistic", "network"]}, "unknown learner 'network'"),
        ({"learner": []}, "learner must be None, 'average'"),
        ({"learner": 3}, "learner must be None, 'average'"),
        ({"epochs": 3}, "epochs is a parameter of the network"),
        ({"method__weight": 3}, "method is a parameter of the network"),
        ({"threshold": "certain"}, "did you mean 'certified'"),
        ({"tpr": 0.9, "calibration": 1.5}, "calibration must be a share"),
        ({"tpr": 0.9, "calibration": 3, "threshold": "certified"}, "is a number of folds"),
        ({"tpr": 0.9, "calibration": 1}, "number of folds: it must be at least 2"),
        ({"tpr": 95}, "tpr must lie strictly between 0 and 1"),
        ({"confidence": 95}, "confidence must lie strictly between 0 and 1"),
        ({"learner": "network", "tpr": 0.9, "threshold": "cross-fitted"}, "is not for the network"),
        ({"learner": "network", "tpr": 0.9, "threshold": "certified", "calibration": 3}, "is not for the network"),
    ],
)
def test_wrong_parameters_are_said(wrong: dict[str, Any], message: str) -> None:
    X, y = table(120, gaps=False, copies=0)
    with pytest.raises(ValueError, match=message):
        RankRegClassifier(**(LINEAR | wrong)).fit(X, y)


def test_wrong_data_are_said_and_name_the_cell() -> None:
    X, y = table(300, copies=0)
    model = RankRegClassifier(**LINEAR).fit(X, y)
    gap, far = X.copy(), X.copy()
    gap.loc[7, "size"], far.loc[5, "age"] = np.nan, 1e9
    for rows, message in ((gap, r"X\[7, 2\], column 'size'"), (far, r"X\[5, 0\] = 1e\+09")):
        for method in (model.predict, model.decision_function, model.predict_proba, model.criticality):
            with pytest.raises(ValueError, match=message):
                method(rows)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(X.assign(age=np.inf))
    with pytest.raises(ValueError, match="could not convert string to float"):
        RankRegClassifier(**LINEAR).fit(X.assign(place="arm"), y)
    with pytest.raises(ValueError, match=r"unique column names|ambiguous"):  # scikit-learn's words, new and old
        RankRegClassifier(**LINEAR).fit(pd.concat([X, X[["age"]]], axis=1), y)
    with pytest.raises(ValueError, match="no column to learn from"):
        RankRegClassifier(**LINEAR).fit(np.full((300, 2), np.nan), y)
    with pytest.raises(ValueError, match="takes rows of numbers, X holds images"):
        RankRegClassifier(**LINEAR).fit(*eights(20, 5))
    with pytest.raises(ValueError, match=r"only 2 independent positives.*keep_copies_together=False"):
        RankRegClassifier(**LINEAR).fit(np.arange(80).reshape(-1, 1) // 20, np.arange(80) < 40)


def test_an_edited_average_is_refused(tmp_path: Path) -> None:
    X, y = table(200, copies=0)
    path = RankRegClassifier(tpr=0.9, **LINEAR).fit(X, y).save(tmp_path / "bundle") / "bundle.json"
    content = json.loads(path.read_text())
    for change, message in (
        ({"high": -1.0}, "high"),
        ({"features": ["age"]}, "features are not those of its table"),
        ({"surprise": 1}, "surprise"),
        ({"threshold": "certain"}, "threshold"),
    ):
        training = content["training"] | {"estimator": content["training"]["estimator"] | change}
        changed = content | {"training": training}
        path.write_text(json.dumps(changed | {"sha256": digest(changed)}))
        with pytest.raises(ValueError, match=message):
            RankRegClassifier.load(tmp_path / "bundle")
