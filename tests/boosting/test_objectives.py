"""The ranking term for gradient boosting, without the libraries: against torch, brute force and its derivation."""

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from sklearn.base import clone

from rankreg import rank_penalty
from rankreg.boosting import (
    RankObjective,
    RankRegLGBMClassifier,
    RankRegXGBClassifier,
    lightgbm_fpr_at_tpr,
    lightgbm_objective,
    rank_gradient,
    xgboost_fpr_at_tpr,
    xgboost_objective,
)
from rankreg.metrics import fpr_at_tpr
from rankreg.regularizer import PENALTIES

Floats = NDArray[np.float64]
REACHES = (
    0.1003,
    0.9701,
    5.007,
)  # of no rounded score the difference: where a score lands on another, rounding rules


@st.composite
def ranked(draw: Any, least: int = 1) -> tuple[Floats, NDArray[np.intp]]:
    """Scores with many ties and the rows of the positives."""
    pairs = draw(st.lists(st.tuples(st.integers(-12, 12), st.booleans()), min_size=least, max_size=40))
    return np.array([score / 8 for score, _ in pairs]), np.flatnonzero([positive for _, positive in pairs])


def labels_of(rows: NDArray[np.intp], count: int) -> Floats:
    """1 at these rows, else 0."""
    labels = np.zeros(count)
    labels[rows] = 1
    return labels


@given(ranked(), st.sampled_from(sorted(PENALTIES)), st.sampled_from(REACHES))
def test_the_gradient_is_that_of_the_torch_penalty(
    data: tuple[Floats, NDArray[np.intp]], penalty: Any, reach: float
) -> None:
    scores, positives = data
    point = torch.tensor(scores, requires_grad=True)
    labels = torch.tensor(labels_of(positives, len(scores)))
    rank_penalty(point, labels, penalty=penalty, reach=reach, among="all").backward()
    assert point.grad is not None
    ours = rank_gradient(scores, positives, penalty=penalty, reach=reach)
    np.testing.assert_allclose(ours, point.grad.numpy(), atol=1e-12)


@given(ranked(least=2), st.integers(0, 2**32 - 1), st.sampled_from(REACHES))
def test_weights_enter_as_the_formula_says(data: tuple[Floats, NDArray[np.intp]], seed: int, reach: float) -> None:
    scores, positives = data
    if len(positives) in (0, len(scores)):
        return
    weights = np.random.default_rng(seed).integers(1, 9, len(scores)) / 4
    share, positive = weights / weights.sum(), labels_of(positives, len(scores))

    def ranks(values: Floats) -> Floats:
        return np.asarray(1 / len(scores) + (share * (values[None] > values[:, None])).sum(1))

    pushed = positive * 2 * ranks(scores) / (weights @ positive)
    gamma = reach / pushed.max()
    expected = weights * (ranks(scores + gamma * pushed) - ranks(scores)) / gamma
    np.testing.assert_allclose(rank_gradient(scores, positives, reach=reach, weights=weights), expected, atol=1e-12)
    np.testing.assert_allclose(
        rank_gradient(scores, positives, reach=reach, weights=1000 * weights), expected, atol=1e-12
    )


@given(ranked(least=2), st.integers(0, 2**32 - 1))
def test_a_weight_of_three_is_three_copies(data: tuple[Floats, NDArray[np.intp]], seed: int) -> None:
    """Exactly so for the plain rank, whose slope does not feel where the first rank begins."""
    scores, positives = data
    copies = np.random.default_rng(seed).integers(1, 4, len(scores))
    rows = np.repeat(np.arange(len(scores)), copies)
    repeated = np.flatnonzero(labels_of(positives, len(scores))[rows])
    of_copies = rank_gradient(scores[rows], repeated, penalty="rank", reach=0.9701)
    weighted = rank_gradient(scores, positives, penalty="rank", reach=0.9701, weights=copies.astype(float))
    np.testing.assert_allclose(weighted, np.bincount(rows, of_copies, len(scores)), atol=1e-12)


@given(ranked(), st.randoms(use_true_random=False))
def test_ties_do_not_depend_on_the_order_of_rows(data: tuple[Floats, NDArray[np.intp]], random: Any) -> None:
    scores, positives = data
    order = np.array(random.sample(range(len(scores)), len(scores)), dtype=np.intp)
    moved = np.flatnonzero(labels_of(positives, len(scores))[order])
    np.testing.assert_array_equal(rank_gradient(scores[order], moved), rank_gradient(scores, positives)[order])


@given(ranked(), st.sampled_from(REACHES))
def test_single_precision_gives_the_same_gradient_of_the_same_scores(
    data: tuple[Floats, NDArray[np.intp]], reach: float
) -> None:
    scores, positives = np.append(data[0], [-0.0, 0.0, -1e30, 1e30]), data[1]
    single = rank_gradient(scores.astype(np.float32), positives, reach=reach)
    exact = rank_gradient(scores.astype(np.float32).astype(np.float64), positives, reach=reach)
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, exact.astype(np.float32))


def test_where_all_scores_are_equal_every_negative_is_pushed_down_alike() -> None:
    """The first round: all ranks are 1, and negatives would lose one rank to each of the three positives."""
    gradient = rank_gradient(np.zeros(10), np.array([1, 4, 7]), reach=0.5)
    np.testing.assert_array_equal(gradient[[1, 4, 7]], 0)
    gamma = 0.5 / (2 * 0.1 / 3)
    np.testing.assert_allclose(np.delete(gradient, [1, 4, 7]), 3 / 10 / gamma)


def test_without_ties_what_positives_gain_others_lose() -> None:
    rng = np.random.default_rng(0)
    gradient = rank_gradient(rng.normal(size=5000), np.arange(100), reach=0.7)
    assert abs(gradient.sum()) < 1e-12 < np.abs(gradient).sum()


def problem(n: int = 400, share: float = 0.1, seed: int = 0) -> tuple[Floats, Floats]:
    """Labels and scores that overlap."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(n) < share * n).astype(float)
    return labels, rng.normal(size=n) + labels


@pytest.mark.parametrize("base_rate", [True, False])
def test_without_the_term_the_gradient_is_that_of_the_log_loss(base_rate: bool) -> None:
    labels, scores = problem(40)
    weights = np.linspace(0.5, 2, 40)
    rate = weights @ labels / weights.sum()
    offset = np.log(rate / (1 - rate)) if base_rate else 0.0

    def loss(values: Floats) -> float:
        return float(weights @ np.logaddexp(0, (1 - 2 * labels) * (values + offset)))

    gradient, hessian = lightgbm_objective(weight=0, base_rate=base_rate)(labels, scores, weights)
    np.testing.assert_allclose(gradient, approx_fprime(scores, loss, 1e-6), atol=1e-4)
    slopes = np.array([(loss(scores + e) - 2 * loss(scores) + loss(scores - e)) / 1e-6 for e in 1e-3 * np.eye(40)])
    np.testing.assert_allclose(hessian, slopes, atol=1e-4)


def test_the_term_is_added_once_per_positive_and_in_proportion_to_its_weight() -> None:
    labels, scores = problem()
    alone, both, twice = (lightgbm_objective(weight=w, reach=0.8)(labels, scores)[0] for w in (0, 1, 2))
    positives = np.flatnonzero(labels)
    term = len(positives) * rank_gradient(scores, positives, reach=0.8)
    np.testing.assert_allclose(both - alone, term, atol=1e-6)
    np.testing.assert_allclose(twice - alone, 2 * term, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 4.0]), st.sampled_from([0.1, 10.0, 1000.0]))
def test_the_term_alone_moves_no_leaf_further_than_its_reach(seed: int, reach: float, weight: float) -> None:
    labels, scores = problem(seed=seed % 1000)
    base, with_term = (RankObjective(weight=w, reach=reach, penalty="squared", base_rate=True) for w in (0, weight))
    gradient, hessian = (a - b for a, b in zip(with_term(labels, scores), base(labels, scores), strict=True))
    leaf = np.random.default_rng(seed).random(len(labels)) < 0.1
    assert abs(gradient[leaf].sum(dtype=float)) <= reach * hessian[leaf].sum(dtype=float) * (1 + 1e-3) + 1e-3


def test_scores_of_any_size_leave_a_finite_gradient_and_a_hessian_above_zero() -> None:
    labels = np.array([0.0, 1, 0, 1, 0])
    gradient, hessian = lightgbm_objective()(labels, np.array([-900.0, -900, 900, 900, 0]))
    assert np.isfinite(gradient).all()
    assert (hessian > 0).all()


@pytest.mark.parametrize("made", [lightgbm_objective(reach=2), xgboost_objective(), lightgbm_fpr_at_tpr(0.9)])
def test_objectives_and_metrics_survive_pickle_copy_and_clone(made: Any) -> None:
    labels, scores = problem()
    again = [pickle.loads(pickle.dumps(made)), copy.deepcopy(made), clone(made, safe=False)]
    for other in again:
        assert other == made
        assert repr(other) == repr(made)
        for a, b in zip(other(labels, scores), made(labels, scores), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("labels", "scores", "weights", "words"),
    [
        (None, np.zeros(3), None, "no labels"),
        (np.array([]), np.zeros(3), None, "no labels"),
        (np.array([0, 1, 2]), np.zeros(3), None, r"0 or 1 \(1 = critical\), got 0, 1, 2"),
        (np.array([-1, 1, 1]), np.zeros(3), None, "got -1, 1"),
        (np.array([0, 1, 1]), np.zeros((3, 3)), None, "for two classes, got scores of 3"),
        (np.array([0, 0, 0]), np.zeros(3), None, "no label is 1"),
        (np.array([1, 1, 1]), np.zeros(3), None, "no label is 0"),
        (np.array([0, 1]), np.zeros(3), None, "one label per row"),
        (np.array([0, 1]), np.array([np.nan, 0]), None, "NaN"),
        (np.array([0, 1]), np.zeros(2), np.array([1, -1]), "weights must be"),
        (np.array([0, 1]), np.zeros(2), np.array([1, 0]), "a class sum to 0"),
    ],
)
def test_what_cannot_be_ranked_is_refused_in_words(labels: Any, scores: Floats, weights: Any, words: str) -> None:
    for asked in (lightgbm_objective(), xgboost_objective(), lightgbm_fpr_at_tpr(), xgboost_fpr_at_tpr()):
        with pytest.raises(ValueError, match=words):
            asked(labels, scores, weights)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weight": -1}, "weight must be"),
        ({"weight": float("nan")}, "weight must be"),
        ({"reach": 0}, "reach must be"),
        ({"reach": "wide"}, "reach must be"),
        ({"penalty": "sqared"}, "did you mean 'squared'"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], words: str) -> None:
    for make in (lightgbm_objective, xgboost_objective):
        with pytest.raises(ValueError, match=words):
            make(**settings)


def test_a_tpr_out_of_range_is_refused() -> None:
    for make in (lightgbm_fpr_at_tpr, xgboost_fpr_at_tpr):
        with pytest.raises(ValueError, match=r"write 0\.95 for 95 %"):
            make(95)


@given(ranked(least=2), st.sampled_from([0.5, 0.9, 0.98, 1.0]), st.integers(0, 2**32 - 1))
def test_the_metric_is_the_fpr_and_weights_are_copies(
    data: tuple[Floats, NDArray[np.intp]], tpr: float, seed: int
) -> None:
    scores, positives = data
    if len(positives) in (0, len(scores)):
        return
    labels = labels_of(positives, len(scores))
    assert xgboost_fpr_at_tpr(tpr)(labels, scores) == fpr_at_tpr(labels, scores, tpr)
    copies = np.random.default_rng(seed).integers(1, 4, len(scores))
    name, value, higher_is_better = lightgbm_fpr_at_tpr(tpr)(labels, scores, copies)
    assert (name, higher_is_better) == (f"fpr@{100 * tpr:g}", False)
    assert value == pytest.approx(fpr_at_tpr(np.repeat(labels, copies), np.repeat(scores, copies), tpr))


@pytest.mark.parametrize(
    ("made", "library"), [(RankRegLGBMClassifier, "lightgbm"), (RankRegXGBClassifier, "xgboost")]
)
def test_a_missing_library_is_named_with_the_line_that_installs_it(
    made: Any, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'rankreg\[{library}\]'"):
        made().fit(np.arange(20.0)[:, None], np.arange(20) % 2)


def test_objectives_and_metrics_do_not_import_the_libraries() -> None:
    code = (
        "import sys, rankreg.boosting;"
        " print([m for m in ('sklearn', 'lightgbm', 'xgboost', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
