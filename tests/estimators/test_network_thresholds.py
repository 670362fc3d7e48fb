# ruff: noqa: N806 - scikit-learn's name for the data is X
"""The classifier at a promised recall."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

import rankreg.estimators.network_fit as fitting
from rankreg.estimators import CertifiedThresholdClassifier, RankRegClassifier
from rankreg.metrics import threshold_at_tpr
from rankreg.operating import NotEnoughPositives, certify
from rankreg.operating.guarantees import certified_rank
from tests.estimators.rare_data import QUICK, cancer
from tests.own_data import shared_data


def test_the_certificate_is_the_desks_own_on_rows_that_training_has_not_seen() -> None:
    X, y = cancer()
    model = RankRegClassifier(tpr=0.8, confidence=0.9, **QUICK).fit(X, y)
    point = model.certificate_
    assert point is not None
    assert point.positives == -(-int(y.sum()) // 4) == 18
    assert point.rank == certified_rank(18, 0.8, 0.9)
    assert model._fit.parts["calibration"]["positives"] == point.positives
    assert sum(part["positives"] for part in model._fit.parts.values()) == y.sum()
    scores = model.criticality(X[y == 1])
    own = scores[scores > model.threshold_].min()  # the score of a positive, lowered a little
    assert model.threshold_ == point.threshold == pytest.approx(own, rel=2e-5, abs=2e-5)
    np.testing.assert_array_equal(model.predict(X), (model.criticality(X) >= model.threshold_).astype(int))


@pytest.mark.slow
def test_the_promise_is_kept_even_by_a_network_that_has_memorised_noise() -> None:
    """Nothing can be learned, so a threshold from rows that were trained on would miss nearly all new positives.
    Of 25 fits 10 % may fall short of 80 % recall; more than 8 do with a chance below 0.1 %."""
    rng = np.random.default_rng(1)
    fresh = rng.normal(size=(4000, 20))
    short, by_training = 0, []
    for seed in range(25):
        X, y = rng.normal(size=(160, 20)), np.arange(160) % 2
        settings: dict[str, Any] = {
            "network__dropout": 0.0,
            "epochs": 25,
            "learning_rate": 0.02,
            "method": "none",
            "random_state": seed,
        }
        model = RankRegClassifier(tpr=0.8, confidence=0.9, calibration=0.4, **settings).fit(X, y)
        short += np.mean(model.predict(fresh)) < 0.8
        naive = threshold_at_tpr(y, model.criticality(X), 0.8)
        by_training.append(float(np.mean(model.criticality(fresh) >= naive)))
    assert short <= 8
    assert np.mean(by_training) < 0.75  # what the same threshold from training rows would have come to


def test_too_few_positives_are_refused_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cancer()
    monkeypatch.setattr(fitting, "run_training", None)
    with pytest.raises(NotEnoughPositives, match="18 positives held out of 71 are too few") as refused:
        RankRegClassifier(tpr=0.98, **QUICK).fit(X, y)
    assert refused.value.needed == 149
    assert "about 588 in all with calibration=0.25" in str(refused.value)


def test_a_cross_validated_threshold_has_no_certificate_and_the_recall_of_its_folds() -> None:
    X, y = cancer()
    model = RankRegClassifier(tpr=0.9, calibration=3, **QUICK).fit(X, y)
    plain = RankRegClassifier(**QUICK).fit(X, y)
    assert model.certificate_ is None
    assert model.threshold_ != 0
    np.testing.assert_array_equal(model.criticality(X), plain.criticality(X))  # all rows train the network
    np.testing.assert_array_equal(model.predict(X), (model.criticality(X) >= model.threshold_).astype(int))


def test_a_cross_validated_threshold_comes_from_networks_that_have_not_seen_the_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scores are replaced by the place of the row, so that the threshold can be foretold."""
    X, y = cancer()
    X = np.column_stack([np.arange(len(y)), X])
    seen: list[set[int]] = []

    def by_place(self: fitting.Fit, data: NDArray[np.float64]) -> NDArray[np.float32]:
        seen.append({int(place) for place in data[:, 0]})
        return data[:, 0].astype(np.float32)

    monkeypatch.setattr(fitting.Fit, "scores", by_place)
    settings = QUICK | {"epochs": 1}
    model = RankRegClassifier(tpr=0.9, calibration=4, **settings).fit(X, y)
    assert set.union(*seen) == set(range(len(y)))
    assert sum(map(len, seen)) == len(y)
    assert model.threshold_ == pytest.approx(threshold_at_tpr(y, X[:, 0], 0.9), rel=2e-5)


def test_the_wrapper_certifies_the_classifier_like_the_classifier_itself() -> None:
    X, y = cancer()
    train, rest, y_train, y_rest = train_test_split(X, y, test_size=0.4, stratify=y, random_state=1)
    inner = RankRegClassifier(**QUICK).fit(train, y_train)
    wrapped = CertifiedThresholdClassifier(FrozenEstimator(inner), tpr=0.8).fit(rest, y_rest)
    alone = certify(y_rest, inner.decision_function(rest), tpr=0.8)
    assert wrapped.certificate_ == replace(alone, threshold=wrapped.threshold_)
    assert wrapped.threshold_ == pytest.approx(alone.threshold, rel=1e-4)
    unfitted = CertifiedThresholdClassifier(RankRegClassifier(**QUICK), tpr=0.8, random_state=0).fit(X, y)
    assert unfitted.certificate_.positives == 18


@pytest.mark.slow
def test_on_mammography_at_least_the_promised_share_is_caught() -> None:
    table = pd.read_csv(shared_data() / "tabular/mammography.csv.xz", header=None)
    X, y = table.iloc[:, :-1].to_numpy(), (table.iloc[:, -1] == "'1'").to_numpy()
    assert y.sum() == 260
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    model = RankRegClassifier(tpr=0.85, calibration=0.4, epochs=10, random_state=0).fit(train, y_train)
    promised = model.certificate_
    assert promised is not None
    alarms, positives, negatives = model.predict(test), y_test.sum(), (~y_test).sum()
    assert alarms[y_test].sum() >= 0.85 * positives - 3 * np.sqrt(0.85 * 0.15 * positives)
    assert alarms[~y_test].mean() <= promised.fpr_at_most + 3 * np.sqrt(0.25 / negatives)
