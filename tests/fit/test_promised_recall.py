# ruff: noqa: N803, N806 - scikit-learn's name for the data is X
"""A promised recall holds where rows are copies of each other or belong to groups, shown by simulation."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

import rankreg.estimators.network_classifier as classifier
from rankreg.estimators import CertifiedThresholdClassifier, RankRegClassifier
from rankreg.operating import certify, choose_threshold
from rankreg.operating.units import UnitSizes

DRAWS = 1000
NEGATIVES = 60
Array = NDArray[Any]


class Setting(NamedTuple):
    """So many units whose sizes are drawn once; scores of one unit are normal with that correlation."""

    units: int
    sizes: int | None  # None: geometric, of mean 4
    correlation: float
    tpr: float

    def unit_of_rows(self) -> Array:
        """The unit of each positive."""
        sizes: Any = np.random.default_rng(9).geometric(0.25, self.units) if self.sizes is None else self.sizes
        return np.repeat(np.arange(self.units), sizes)


SETTINGS = {
    "copied 5 times": Setting(100, 5, 1.0, 0.95),
    "copied 10 times": Setting(200, 10, 1.0, 0.98),
    "10 per patient, correlation 0.5": Setting(100, 10, 0.5, 0.95),
    "10 per patient, correlation 0.9": Setting(100, 10, 0.9, 0.95),
    "unequal groups": Setting(150, None, 0.9, 0.9),
}


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds depend on the sizes only, which are the same in all draws: compute each once."""
    for name in ("tail", "largest_count", "largest_share"):
        compute, known = getattr(UnitSizes, name), dict[Any, Any]()

        def look_up(self: UnitSizes, *given: Any, compute: Any = compute, known: Any = known) -> Any:
            key = (self.sizes.tobytes(), self.counts.tobytes(), *map(float, given))
            if key not in known:
                known[key] = compute(self, *given)
            return known[key]

        monkeypatch.setattr(UnitSizes, name, look_up)


def draws(setting: Setting, seed: int) -> Any:
    """Scores (positives first), labels and units; each positive is standard normal, so the true recall is known."""
    rng, units = np.random.default_rng(seed), setting.unit_of_rows()
    labels = np.repeat([1, 0], [len(units), NEGATIVES])
    everyone = np.append(units, setting.units + np.arange(NEGATIVES))
    rho = setting.correlation
    for _ in range(DRAWS):
        own = rng.normal(size=len(units))
        positives = np.sqrt(rho) * rng.normal(size=setting.units)[units] + np.sqrt(1 - rho) * own
        yield np.append(positives, rng.normal(-2, 1, NEGATIVES)), labels, everyone


def short(threshold: float, tpr: float) -> bool:
    """Whether the recall of new positives at this threshold is below the TPR."""
    return bool(norm.sf(threshold) < tpr)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.usefixtures("remembered")
def test_the_threshold_of_a_fit_falls_short_no_more_often_than_promised(name: str) -> None:
    setting = SETTINGS[name]
    missed = over_rows = 0
    for values, labels, units in draws(setting, 1):
        found = choose_threshold(labels, values, tpr=setting.tpr, confidence=0.95, units=units)
        assert found.certified
        assert (found.units, found.positives) == (setting.units, labels.sum())
        missed += short(found.value, setting.tpr)
        over_rows += short(certify(labels, values, tpr=setting.tpr).threshold, setting.tpr)
    assert missed <= 0.05 * DRAWS
    assert over_rows > 0.1 * DRAWS  # what counting rows did


def scorer_is_the_first_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a network: nothing to train."""
    stub = SimpleNamespace(
        **dict.fromkeys(("network", "config", "inputs")),
        history=[],
        parts={},
        best_epoch=0,
        scores=lambda data: data[:, 0].astype(np.float32),
    )
    monkeypatch.setattr(classifier, "fit_network", lambda *_, **__: stub)


class FirstColumn(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with nothing to learn."""

    def fit(self, X: Array, y: Array) -> Self:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Array) -> Array:
        return X[:, 0]


Fit = Callable[[Setting, int, Array, Array, Array], Any]
FROZEN = FrozenEstimator(FirstColumn().fit(np.zeros((2, 1)), np.arange(2)))
CLASSIFIERS: dict[str, Fit] = {
    "frozen": lambda one, _, X, y, units: CertifiedThresholdClassifier(FROZEN, tpr=one.tpr).fit(X, y, units),
    "held out": lambda one, seed, X, y, units: CertifiedThresholdClassifier(
        FirstColumn(), tpr=one.tpr, calibration_size=0.7, random_state=seed
    ).fit(X, y, groups=units),
    "RankRegClassifier": lambda one, seed, X, y, units: RankRegClassifier(
        learner="network", tpr=one.tpr, calibration=0.7, random_state=seed
    ).fit(X, y, groups=units),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("name", ["copied 5 times", "10 per patient, correlation 0.9"])
@pytest.mark.usefixtures("remembered")
def test_the_classifiers_fall_short_no_more_often_than_promised(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer_is_the_first_column(monkeypatch)
    setting, missed, over_rows = SETTINGS[name], 0, 0
    for seed, (values, labels, units) in enumerate(draws(setting, 2)):
        X = values[:, None]
        found = CLASSIFIERS[kind](setting, seed, X, labels, units)
        assert found.certificate_.units == (setting.units if kind == "frozen" else 0.7 * setting.units)
        missed += short(found.threshold_, setting.tpr)
        over_rows += short(certify(labels, values, tpr=setting.tpr).threshold, setting.tpr)
    assert missed <= 0.05 * DRAWS
    assert over_rows > 0.1 * DRAWS


@pytest.mark.slow
@pytest.mark.usefixtures("remembered")
def test_copies_that_nobody_named_are_found_by_the_network_s_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer_is_the_first_column(monkeypatch)
    setting, missed, blind = SETTINGS["copied 5 times"], 0, 0
    for seed, (values, labels, _) in enumerate(draws(setting, 3)):
        X = values[:, None]
        settings: dict[str, Any] = {
            "learner": "network",
            "tpr": 0.95,
            "calibration": 0.7,
            "random_state": seed,
        }
        found = RankRegClassifier(**settings).fit(X, labels)
        assert found.certificate_ is not None
        assert found.certificate_.units == 0.7 * setting.units
        missed += short(found.threshold_, 0.95)
        blind += short(RankRegClassifier(keep_copies_together=False, **settings).fit(X, labels).threshold_, 0.95)
    assert missed <= 0.05 * DRAWS
    assert blind > 0.1 * DRAWS
