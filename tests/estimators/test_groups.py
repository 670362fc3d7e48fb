# ruff: noqa: N803, N806 - scikit-learn's name for the data is X
"""Both scikit-learn classifiers with groups: on one side of a cut, and units of the certificate."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

from rankreg.bundle import load_bundle
from rankreg.bundle.card import digest
from rankreg.estimators import CertifiedThresholdClassifier, RankRegClassifier
from rankreg.estimators.certified_threshold import hold_out
from rankreg.estimators.network_fit import fit_network
from rankreg.operating import NotEnoughPositives, certify
from tests.estimators.rare_data import QUICK

Array = NDArray[Any]


def patients(number: int = 120, rows: int = 5, seed: int = 0) -> tuple[Array, Array, Array]:
    """Every third patient is sick; its rows are alike."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(number), rows)
    y = (groups % 3 == 0).astype(int)
    X = rng.normal(size=(number, 4))[groups] + 0.3 * rng.normal(size=(len(y), 4)) + 1.5 * y[:, None]
    order = rng.permutation(len(y))
    return X[order], y[order], np.char.add("patient ", groups[order].astype(str))


@given(
    sizes=st.lists(st.integers(1, 6), min_size=4, max_size=40),
    share=st.floats(0.05, 0.9),
    seed=st.integers(0, 2**31),
)
def test_no_unit_is_on_both_sides_and_units_are_drawn_by_their_number(
    sizes: list[int], share: float, seed: int
) -> None:
    units = np.repeat(np.arange(len(sizes)), sizes)
    positive = units % 2 == 0
    classes = [np.bincount(units[positive == kind]) for kind in (False, True)]
    huge = {place for counts in classes for place in np.flatnonzero(counts > counts.sum() / 2)}
    kept, held = hold_out(positive, share, np.random.RandomState(seed), units)
    np.testing.assert_array_equal(np.sort(np.append(kept, held)), np.arange(len(units)))
    assert not np.isin(units[kept], units[held]).any()
    for kind in (False, True):
        members = {*units[positive == kind].tolist()}
        found = {*units[held][positive[held] == kind].tolist()}
        wanted = int(np.ceil(share * len(members) - 1e-9))
        assert len(found) == min(wanted, len(members) - max(1, len(members & huge)))


def test_without_units_the_cut_is_as_ever() -> None:
    positive = np.random.default_rng(0).random(200) < 0.3
    held = hold_out(positive, 0.25, np.random.RandomState(5))[1]
    random = np.random.RandomState(5)
    members = [np.flatnonzero(~positive), np.flatnonzero(positive)]
    expected = [random.permutation(each)[: -(-len(each) // 4)] for each in members]
    np.testing.assert_array_equal(held, np.sort(np.concatenate(expected)))
    np.testing.assert_array_equal(hold_out(positive, 0.25, np.random.RandomState(5), np.arange(200))[1], held)
    with pytest.raises(ValueError, match="only 1 independent unit:"):
        hold_out(positive, 0.25, np.random.RandomState(5), np.where(positive, -1, np.arange(200)))


@pytest.mark.parametrize("frozen", [True, False])
def test_any_classifier_is_certified_over_groups(frozen: bool) -> None:
    X, y, groups = patients()
    inner: Any = LogisticRegression()
    if frozen:
        inner = FrozenEstimator(inner.fit(*patients(seed=1)[:2]))
    model = CertifiedThresholdClassifier(inner, tpr=0.7, calibration_size=0.5, random_state=0)
    point = model.fit(X, y, groups=groups).certificate_
    assert (point.units, point.positives) == ((40, 200) if frozen else (20, 100))
    if frozen:
        alone = certify(y, inner.decision_function(X), tpr=0.7, units=groups)
        assert point == replace(alone, threshold=model.threshold_)
        assert model.threshold_ == pytest.approx(alone.threshold)
    units = CertifiedThresholdClassifier(inner, tpr=0.7, per="unit", calibration_size=0.5, random_state=0)
    caught = units.fit(X, y, groups).predict(X) == 1
    assert units.certificate_.per == "unit"
    assert units.threshold_ > model.threshold_
    sick = np.unique(groups[y == 1])
    assert len(np.unique(groups[caught & (y == 1)])) >= 0.7 * len(sick)
    with pytest.raises(ValueError, match="pass them to fit"):
        units.fit(X, y)


def test_too_few_groups_are_refused_though_their_rows_would_do() -> None:
    X, y, groups = patients()
    plain = CertifiedThresholdClassifier(LogisticRegression(), tpr=0.95, calibration_size=0.5, random_state=0)
    assert plain.fit(X, y).certificate_.units is None
    with pytest.raises(NotEnoughPositives) as refused:
        plain.fit(X, y, groups=groups)
    assert (refused.value.units, refused.value.positives, refused.value.needed) == (20, 100, 59)
    network = RankRegClassifier(tpr=0.95, calibration=0.5, **QUICK)
    with pytest.raises(NotEnoughPositives):
        network.fit(X, y, groups=groups)


class Remembering(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that remembers what its fit was given."""

    def fit(self, X: Array, y: Array, groups: Array | None = None) -> "Remembering":
        self.classes_, self.groups_, self.rows_ = np.unique(y), groups, len(y)
        return self

    def decision_function(self, X: Array) -> Array:
        return X[:, 0]


def test_groups_reach_a_classifier_that_takes_them_and_no_other() -> None:
    X, y, groups = patients()
    model = CertifiedThresholdClassifier(Remembering(), tpr=0.7, calibration_size=0.5, random_state=0)
    inner = model.fit(X, y, groups).estimator_
    assert len(inner.groups_) == inner.rows_
    assert len(np.unique(inner.groups_)) == 60
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=GroupKFold(2))
    searched = CertifiedThresholdClassifier(search, tpr=0.7, calibration_size=0.5, random_state=0)
    assert searched.fit(X, y, groups=groups).certificate_.units == 20
    with config_context(enable_metadata_routing=True):
        assert searched.fit(X, y, groups=groups).certificate_.units == 20
        asked = model.set_params(estimator=LogisticRegression()).set_fit_request(groups=True)
        scored = cross_validate(asked, X, y, cv=GroupKFold(2), params={"groups": groups}, return_estimator=True)
        assert {one.certificate_.units for one in scored["estimator"]} <= {9, 10, 11}


def test_rows_of_weight_zero_take_their_groups_with_them() -> None:
    X, y, groups = patients()
    weights = np.where(np.isin(groups, np.unique(groups)[:30]), 0.0, 1.0)
    kept = weights > 0
    model = CertifiedThresholdClassifier(LogisticRegression(), tpr=0.7, calibration_size=0.5, random_state=0)
    some = model.fit(X, y, groups=groups, sample_weight=weights).certificate_
    assert some == model.fit(X[kept], y[kept], groups=groups[kept], sample_weight=weights[kept]).certificate_
    settings: dict[str, Any] = {"tpr": 0.7, "calibration": 0.5, **QUICK}
    one, other = (
        RankRegClassifier(**settings).fit(*given).certificate_
        for given in ((X, y, weights, groups), (X[kept], y[kept], None, groups[kept]))
    )
    assert one == other


@pytest.mark.parametrize("per", ["row", "unit"])
def test_the_networks_classifier_is_certified_over_groups_and_remembers_it(per: Any, tmp_path: Path) -> None:
    X, y, groups = patients()
    model = RankRegClassifier(tpr=0.7, calibration=0.5, per=per, **QUICK).fit(X, y, groups=groups)
    point = model.certificate_
    assert point is not None
    assert (point.units, point.positives, point.per) == (20, 100, per)
    assert [part["samples"] % 5 for part in model._fit.parts.values()] == [
        0,
        0,
        0,
    ]  # whole patients choose the epoch
    threshold = load_bundle(model.save(tmp_path / "model")).card.threshold
    assert (threshold.units, threshold.per) == (20, per)
    again = RankRegClassifier.load(tmp_path / "model")
    assert again.certificate_ == point
    assert again.get_params()["per"] == per


def test_a_classifier_saved_before_there_were_units_is_still_read(tmp_path: Path) -> None:
    X, y, _ = patients()
    model = RankRegClassifier(tpr=0.7, **QUICK).fit(X, y)
    card = model.save(tmp_path / "model") / "bundle.json"
    content = json.loads(card.read_text())
    for place, keys in (
        (content["threshold"], ("units", "per", "units_needed")),
        (content["threshold"]["certificate"], ("units", "per")),
        (content["training"]["estimator"], ("per", "keep_copies_together")),
    ):
        for key in keys:
            del place[key]
    card.write_text(json.dumps(content | {"sha256": digest(content)}))
    again = RankRegClassifier.load(tmp_path / "model")
    assert again.certificate_ == model.certificate_
    assert (again.per, again.keep_copies_together) == ("row", True)


def test_equal_rows_are_one_unit_of_the_networks_classifier() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3 == 0
    X = rng.normal(size=(120, 4)) + y[:, None]
    X[X < -1] = 0.0
    copied, labels = np.tile(X, (5, 1)), np.tile(y, 5)
    copied[:120][copied[:120] == 0] = -0.0  # equal to 0.0
    settings: dict[str, Any] = {"tpr": 0.7, "calibration": 0.5, **QUICK}
    point = RankRegClassifier(**settings).fit(copied, labels).certificate_
    assert point is not None
    assert (point.units, point.positives) == (20, 100)
    apart = RankRegClassifier(keep_copies_together=False, **settings).fit(copied, labels).certificate_
    assert apart is not None
    assert (apart.units, apart.positives) == (None, 100)
    single = RankRegClassifier(**settings).fit(X, y).certificate_
    assert single is not None
    assert single.units is None


def test_folds_keep_groups_together_too(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, groups = patients(60)
    seen: list[set[str]] = []

    def watched(estimator: Any, data: Any, labels: Any, kept: Any, **more: Any) -> Any:
        seen.append(set(groups[kept]))
        return fit_network(estimator, data, labels, kept, **more)

    monkeypatch.setattr("rankreg.estimators.network_fit.fit_network", watched)
    RankRegClassifier(tpr=0.8, calibration=3, **QUICK).fit(X, y, groups=groups)
    assert len(seen) == 3
    assert sum(60 - len(kept) for kept in seen) == 60  # each patient is held out once, as a whole


def test_groups_of_another_length_or_with_gaps_are_refused() -> None:
    X, y, groups = patients()
    for model in (CertifiedThresholdClassifier(LogisticRegression(), tpr=0.7), RankRegClassifier(**QUICK)):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.fit(X, y, groups=groups[:-1])
        with pytest.raises(ValueError, match="no unit"):
            model.fit(X, y, groups=np.where(np.arange(len(y)) == 3, np.nan, 1.0))
