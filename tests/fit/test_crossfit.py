"""Cross-fitting: no member has seen what it judges, and the average is what a hand would compute."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from numpy.typing import NDArray

from rankreg.bundle.ensemble import Linear, Member, NegativeRanks, Network, TableViews
from rankreg.bundle.trees import Trees
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.fit.crossfit import CrossFitted, OutOfFold, averaged, cross_fit, folds_for
from rankreg.fit.learners import LEARNERS, RANKED, Folds, Learner
from rankreg.metrics import fpr_at_tpr

ALL = {**LEARNERS, **RANKED}
ROWS = 300


def labelled(rows: int = ROWS, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Four columns, the first of which tells the classes apart, though not quite."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.2).astype(np.int64)
    matrix = rng.normal(size=(rows, 4)).astype(np.float32)
    matrix[:, 0] += 2 * labels
    return matrix, labels


def views(matrix: NDArray[np.float32]) -> TableViews:
    """The matrix as a prepared table; the same preparation for all matrices."""
    frame = pd.DataFrame(labelled()[0].astype(np.float64), columns=list("abcd"))
    return TableViews(matrix, TablePreprocessor.fit(frame))


@cache
def crossed(rounds: int = 2) -> tuple[TableViews, NDArray[np.int64], CrossFitted]:
    """Three quick learners on the small table."""
    matrix, labels = labelled()
    prepared, folds = views(matrix), folds_for(labels, None, 3, rounds=rounds)
    names = ("logistic", "logistic-normal", "forest")
    found = {name: cross_fit(LEARNERS[name], name, prepared, labels, folds) for name in names}
    return prepared, labels, averaged(found, labels, folds, best=2)


def content(member: Member) -> Any:
    """Everything a member has learned."""
    if isinstance(member, Linear):
        return member.weights.tolist(), member.bias
    if isinstance(member, Trees):
        return member.text()
    assert isinstance(member, Network)
    return {name: value.tolist() for name, value in member.network.state_dict().items()}


def _slow_last(names: Iterable[str]) -> list[Any]:
    """Learners that take hundreds of steps are marked."""
    return [pytest.param(one, marks=pytest.mark.slow) if "rank" in one or one == "mlp" else one for one in names]


@pytest.mark.parametrize("name", _slow_last(ALL))
def test_a_member_does_not_change_with_the_rows_it_judges(name: str) -> None:
    matrix, labels = labelled()
    folds = folds_for(labels, None, 3, rounds=1)
    held = folds.held(1)
    rng = np.random.default_rng(1)
    garbage, wrong = matrix.copy(), labels.copy()
    for column in range(matrix.shape[1]):  # the columns keep their values: bins of trees are made without labels
        garbage[held, column] = rng.permutation(matrix[held, column])
    wrong[held] = rng.permutation(labels[held])
    assert (wrong != labels).any()
    before = ALL[name].fit(views(matrix), labels, folds)
    after = ALL[name].fit(views(garbage), wrong, folds)
    assert content(after[1]) == content(before[1])
    assert content(after[0]) != content(before[0])  # who sees them learns something else


@pytest.mark.parametrize("name", _slow_last(["logistic", "logistic-normal", "mlp", "logistic-rank"]))
def test_absurd_features_of_the_judged_rows_change_nothing(name: str) -> None:
    matrix, labels = labelled()
    folds = folds_for(labels, None, 3, rounds=1)
    absurd = matrix.copy()
    absurd[folds.held(2)] = 5 - 3 * absurd[folds.held(2)] ** 2
    members = [ALL[name].fit(views(one), labels, folds) for one in (matrix, absurd)]
    assert content(members[0][2]) == content(members[1][2])


@effort(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=24, max_size=60),
    count=st.integers(2, 4),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_units_never_straddle_folds(sizes: list[int], count: int, seed: int, data: st.DataObject) -> None:
    units = np.repeat(np.arange(len(sizes)), sizes)
    kinds = np.arange(len(sizes)) % 3 == 0
    labels = kinds[units].astype(np.int64)
    order = np.asarray(data.draw(st.permutations(range(len(units)))))
    folds = folds_for(labels[order], units[order], count, seed)
    assert folds.of_row.shape == (2, len(units))  # few positives: dealt twice
    for of_row in folds.of_row:
        assert set(of_row) == set(range(count))
        assert pd.Series(of_row).groupby(units[order]).nunique().max() == 1
    for member in range(folds.members):
        kept, held = folds.kept(member), folds.held(member)
        assert sorted([*kept, *held]) == list(range(len(units)))
        assert not set(units[order][kept]) & set(units[order][held])
        assert set(labels[order][held]) == {0, 1}


def test_many_positives_are_dealt_once_and_few_twice() -> None:
    labels = np.repeat([1, 0], [200, 900])
    assert folds_for(labels, None).of_row.shape == (1, 1100)
    assert folds_for(labels[1:], None).of_row.shape == (2, 1099)
    first, second = folds_for(labels[1:], None).of_row
    assert (first != second).any()
    units = np.append(np.arange(200) // 2, 200 + np.arange(900))
    assert len(folds_for(labels, units).of_row) == 2  # 100 pairs are 100 positives


@pytest.mark.parametrize(
    ("positives", "folds", "message"),
    [
        (2, None, "only 2 independent positives"),
        (6, 7, "--folds must be at least 2 and at most 6"),
        (6, 1, "got 1"),
    ],
)
def test_impossible_folds_are_refused(positives: int, folds: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        folds_for(np.repeat([1, 0], [positives, 50]), None, folds)


@pytest.mark.parametrize("rounds", [1, 2])
def test_out_of_fold_scores_are_those_of_a_hand(rounds: int) -> None:
    prepared, labels, found = crossed(rounds)
    folds = found.folds
    by_hand = np.zeros((rounds, len(labels)))
    for name, one in found.learners.items():
        rows = prepared[one.view]
        for place, (member, scale) in enumerate(zip(one.members, one.scales, strict=True)):
            turn, fold = divmod(place, folds.count)
            levels = scale(member.score(rows))
            for row in range(len(labels)):
                if folds.of_row[turn, row] == fold:
                    by_hand[turn, row] += found.weights[name][place] * levels[row]
    np.testing.assert_allclose(found.scores, by_hand.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert found.scores.dtype == np.float32


def test_the_ensemble_is_the_mean_over_its_members() -> None:
    prepared, _, found = crossed()
    new = views(labelled(50, seed=9)[0])
    total, weights = np.zeros(50), 0.0
    for name, one in found.learners.items():
        for place, (member, scale) in enumerate(zip(one.members, one.scales, strict=True)):
            weight = found.weights[name][place]
            total += weight * scale(member.score(new[one.view]))
            weights += weight
    assert weights == pytest.approx(found.folds.members)
    np.testing.assert_allclose(found.ensemble.score(new), total / weights, rtol=1e-5, atol=1e-6)
    assert {learner.name for learner in found.ensemble.learners} == {
        name for name, own in found.weights.items() if own.any()
    }
    assert prepared["normal"] is prepared.matrix


def test_the_best_learners_of_the_other_folds_are_averaged_with_equal_weights() -> None:
    _, labels, found = crossed()
    for place in range(found.folds.members):
        rows = found.folds.kept(place)
        rates = {
            name: fpr_at_tpr(labels[rows], one.mean_levels[rows], 0.95) for name, one in found.learners.items()
        }
        used = {name for name, own in found.weights.items() if own[place]}
        assert {found.weights[name][place] for name in used} == {0.5}
        assert len(used) == 2
        assert max(rates[name] for name in used) <= min(rates[name] for name in rates if name not in used)


def test_all_learners_are_averaged_with_equal_weights_unless_the_best_are_asked_for() -> None:
    _, labels, found = crossed()
    for best in (None, 3, 4):
        again = averaged(found.learners, labels, found.folds, best=best)
        assert {(name, *set(own)) for name, own in again.weights.items()} == {
            (name, 1 / 3) for name in found.learners
        }
    levels = [one.mean_levels for one in found.learners.values()]
    np.testing.assert_allclose(again.scores, np.mean(levels, axis=0), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="--best must be at least 1"):
        averaged(found.learners, labels, found.folds, best=0)


def test_the_choice_of_learners_for_a_fold_does_not_depend_on_its_rows() -> None:
    _, labels, found = crossed()
    rng = np.random.default_rng(0)
    place, changed = 4, 0
    turn, fold = divmod(place, found.folds.count)
    held = found.folds.held(place)
    for _ in range(20):
        wrong = labels.copy()
        wrong[held] = rng.permutation(labels[held])
        noisy = {}
        for name, one in found.learners.items():
            levels = one.levels.copy()
            levels[:, held] = rng.normal(size=(len(levels), len(held)))
            noisy[name] = OutOfFold(one.name, one.view, one.members, one.scales, levels, one.seconds)
        again = averaged(noisy, wrong, found.folds, best=2)
        for name, weights in again.weights.items():
            assert weights[turn * found.folds.count + fold] == found.weights[name][place]
            changed += int((weights != found.weights[name]).any())
    assert changed  # other folds do look at these rows


def test_a_learner_with_too_few_members_is_refused() -> None:
    matrix, labels = labelled()
    folds = folds_for(labels, None, 3, rounds=2)
    half = Learner(
        "normal", lambda rows, own, dealt: LEARNERS["logistic-normal"].train(rows, own, one_round(dealt))
    )
    with pytest.raises(ValueError, match="3 members, the folds ask for 6"):
        cross_fit(half, "half", views(matrix), labels, folds)


def one_round(folds: Folds) -> Folds:
    """The first round alone."""
    return Folds(folds.of_row[:1], folds.count, folds.seed)


def test_a_score_that_is_not_finite_is_refused_by_name() -> None:
    matrix, labels = labelled()
    folds = folds_for(labels, None, 2, rounds=1)
    broken = [Linear(np.full(4, np.inf), 0.0)] * 2
    with pytest.raises(ValueError, match="'broken' gives scores that are not finite"), np.errstate(all="ignore"):
        cross_fit(LEARNERS["logistic"], "broken", views(matrix), labels, folds, members=broken)


@effort(max_examples=60)
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=300), st.integers(0, 2**16))
def test_a_level_is_the_log_share_of_negatives_above(values: list[int], seed: int) -> None:
    negatives = np.asarray(values, dtype=np.float64)
    scale = NegativeRanks.of(negatives)
    above = (negatives > scale.knots[:, None]).sum(axis=1)
    equal = (negatives == scale.knots[:, None]).sum(axis=1)
    expected = -np.log((above + equal / 2 + 0.5) / (len(negatives) + 1))
    np.testing.assert_allclose(scale(scale.knots), expected)
    asked = np.sort(np.random.default_rng(seed).uniform(-200, 200, 100))
    levels = scale(asked)
    assert np.isfinite(levels).all()
    assert (np.diff(levels) > 0).all() or len(np.unique(asked)) < 100
    far = scale(np.array([-1e30, 1e30]))
    assert np.isfinite(far).all()
    assert np.abs(far).max() < 100  # the logarithm of the distance: no member outweighs the others
