"""Each learner against the library it stands on, trained directly on the same rows."""

from typing import Any

import lightgbm
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from rankreg.boosting.objectives import RankObjective
from rankreg.bundle.ensemble import Linear, TableViews
from rankreg.bundle.trees import Trees
from rankreg.fit import pipeline
from rankreg.fit.crossfit import cross_fit, folds_for
from rankreg.fit.learners import BOOSTING, FOREST, LEARNERS, RANKED, Folds, shape_of
from tests.fit.test_crossfit import labelled, views

SETTINGS: dict[str, tuple[int, dict[str, Any]]] = {
    "boosting": (40, BOOSTING),
    "forest": (50, FOREST | {"feature_fraction_bynode": 0.3}),
    "extra-trees": (50, FOREST | {"feature_fraction_bynode": 0.6, "extra_trees": True}),
    "boosting-rank": (40, BOOSTING),
}


def small() -> tuple[TableViews, NDArray[np.int64], Folds]:
    """The small table, dealt into three folds."""
    matrix, labels = labelled()
    return views(matrix), labels, folds_for(labels, None, 3, rounds=1)


@pytest.mark.parametrize(
    ("name", "view", "strength"), [("logistic", "standardised", 1), ("logistic-normal", "normal", 0.1)]
)
def test_logistic_regression_has_the_coefficients_of_scikit_learn(name: str, view: Any, strength: float) -> None:
    prepared, labels, folds = small()
    for place, member in enumerate(LEARNERS[name].fit(prepared, labels, folds)):
        kept = folds.kept(place)
        model = LogisticRegression(C=strength, class_weight="balanced", solver="lbfgs", tol=1e-10, max_iter=5000)
        model.fit(prepared[view][kept].astype(np.float64), labels[kept])
        assert isinstance(member, Linear)
        np.testing.assert_allclose(member.weights, model.coef_[0], rtol=1e-3, atol=1e-4)
        assert member.bias == pytest.approx(model.intercept_[0], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", SETTINGS)
def test_trees_are_those_of_lightgbm(name: str) -> None:
    prepared, labels, folds = small()
    rounds, own = SETTINGS[name]
    objective: Any = "binary"
    if name == "boosting-rank":
        objective = RankObjective(weight=1.0, reach=1.0, penalty="squared", base_rate=True)
    parameters = {
        "objective": objective,
        "use_missing": False,
        "seed": folds.seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    (member, *_) = (LEARNERS | RANKED)[name].fit(prepared, labels, folds)
    assert isinstance(member, Trees)
    whole = lightgbm.Dataset(prepared["normal"], labels, params={"use_missing": False, "verbosity": -1})
    booster = lightgbm.train(parameters | own, whole.subset(folds.kept(0).tolist()), rounds)
    rows = labelled(200, seed=4)[0]
    expected: NDArray[np.float64] = np.asarray(booster.predict(rows, raw_score=True))
    if "boosting" not in name:
        expected = expected / rounds
    assert len(member.trees) == booster.num_trees() == rounds
    np.testing.assert_allclose(member.score(rows), expected, rtol=1e-9, atol=1e-9)


def separable(rows: int = 400) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Positives lie in a ring's middle: no linear score tells them apart, a network's does."""
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(rows, 4)).astype(np.float32)
    labels = (np.hypot(matrix[:, 0], matrix[:, 1]) < 0.6).astype(np.int64)
    return matrix, labels


@pytest.mark.parametrize("name", ["mlp", pytest.param("mlp-rank", marks=pytest.mark.slow)])
def test_networks_trained_side_by_side_learn_and_repeat(name: str) -> None:
    matrix, labels = separable()
    folds = folds_for(labels, None, 3, rounds=1)
    found = [cross_fit((LEARNERS | RANKED)[name], name, views(matrix), labels, folds) for _ in range(2)]
    assert roc_auc_score(labels, found[0].mean_levels) > 0.95
    np.testing.assert_array_equal(found[0].levels, found[1].levels)  # the same seed
    scores = [member.score(matrix).tolist() for member in found[0].members]
    assert scores[0] != scores[1] != scores[2]
    shape = shape_of(found[0].fitted(np.ones(3)))
    assert shape is not None
    assert (shape.features, shape.hidden) == (4, (32,))


def test_another_seed_trains_other_networks() -> None:
    matrix, labels = labelled(120)
    one, other = (Folds(folds_for(labels, None, 2, rounds=1).of_row, 2, seed) for seed in (0, 1))
    scores = [LEARNERS["mlp"].fit(views(matrix), labels, folds)[0].score(matrix) for folds in (one, other)]
    assert np.abs(scores[0] - scores[1]).max() > 1e-3


@pytest.mark.slow
def test_the_ranking_term_moves_the_linear_scorer_from_where_the_log_loss_left_it() -> None:
    prepared, labels, folds = small()
    plain, ranked = (
        (LEARNERS | RANKED)[name].fit(prepared, labels, folds)[0] for name in ("logistic", "logistic-rank")
    )
    assert isinstance(plain, Linear)
    assert isinstance(ranked, Linear)
    assert np.abs(plain.weights - ranked.weights).max() > 1e-3
    new = labelled(400, seed=5)
    aucs = [roc_auc_score(new[1], member.score(views(new[0])["standardised"])) for member in (plain, ranked)]
    assert aucs[1] == pytest.approx(aucs[0], abs=0.02)  # an easy table: nothing is lost


def test_a_member_sees_every_positive_and_at_most_so_many_negatives() -> None:
    labels = np.repeat([1, 0], [30, 3000])
    folds = folds_for(labels, None, 3, rounds=1)
    for member in range(3):
        drawn = folds.thinned(member, labels, most=500)
        kept = folds.kept(member)
        assert set(drawn) <= set(kept)
        assert (labels[drawn] == 1).sum() == (labels[kept] == 1).sum() == 20
        assert len(drawn) == 520
        np.testing.assert_array_equal(drawn, folds.thinned(member, labels, most=500))
        np.testing.assert_array_equal(folds.thinned(member, labels), kept)


def test_few_rows_are_learned_by_one_thread_however_many_columns_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "cores", lambda: 8)
    assert [pipeline.threads_for(rows, rows * columns) for rows, columns in ((300, 10_000), (20_000, 10))] == [1, 1]
    assert pipeline.threads_for(20_000, 20_000 * 50) == 8
