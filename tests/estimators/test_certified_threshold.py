# ruff: noqa: N806 - scikit-learn's name for the data is X
"""A certified threshold around any scikit-learn classifier, and a scorer for its searches."""

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankreg.estimators import CertifiedThresholdClassifier, make_fpr_at_tpr_scorer
from rankreg.operating import NotEnoughPositives, positives_needed
from rankreg.operating.guarantees import certified_rank

Array = NDArray[Any]

# The data of scikit-learn's checks hold ten positives or so: a low target can be certified from them.
CHECKED = CertifiedThresholdClassifier(LogisticRegression(), tpr=0.5, confidence=0.5)
NOT_AS_CHECKED = {
    "check_classifiers_classes": "of two words the alphabet does not know the critical one: pos_label is required",
    "check_classifiers_train": "predicts at the certified threshold, so not where decision_function crosses 0",
}


@parametrize_with_checks([CHECKED], expected_failed_checks=lambda _: NOT_AS_CHECKED)  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's checks provoke warnings of scikit-learn's own parts
        check(estimator)


def noisy(rows: int = 3000, seed: int = 0, share: float = 0.2) -> tuple[Array, Array]:
    """Two overlapping clouds."""
    return make_classification(  # type: ignore[no-any-return]
        rows, 6, n_informative=3, weights=[1 - share], class_sep=0.8, flip_y=0.02, random_state=seed
    )


def test_the_threshold_is_the_order_statistic_of_the_held_out_positives() -> None:
    X, y = noisy()
    model = CertifiedThresholdClassifier(LogisticRegression(), tpr=0.9, random_state=3).fit(X, y)
    point = model.certificate_
    assert point.positives == -(-np.count_nonzero(y) // 4)
    assert point.negatives == -(-np.count_nonzero(y == 0) // 4)
    scores = model.decision_function(X[y == 1])
    own = scores[scores > model.threshold_].min()  # the score of a positive, lowered by a few roundings
    assert model.threshold_ == point.threshold == pytest.approx(own, rel=1e-9, abs=1e-12)
    assert point.rank == certified_rank(point.positives, 0.9, 0.95)
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) >= model.threshold_).astype(int))


@pytest.mark.slow
@pytest.mark.parametrize("inner", [LogisticRegression(), GaussianNB()], ids=["scores", "probabilities"])
def test_the_promised_recall_is_kept_as_often_as_promised(inner: Any) -> None:
    """300 repetitions: the true recall (on 4,000 new positives) may fall short in 10 % of them. A binomial with
    that chance stays at or below 45 in 99.7 % of all cases; the empirical quantile falls short about every second
    time."""
    rng = np.random.default_rng(5)
    fresh = rng.normal(1.0, 1.0, (4_000, 2))
    short = plain_short = 0
    for repetition in range(300):
        y = np.arange(200) % 2
        X = rng.normal(y[:, None], 1.0, (200, 2))
        model = CertifiedThresholdClassifier(
            inner, tpr=0.8, confidence=0.9, calibration_size=0.5, random_state=repetition
        ).fit(X, y)
        short += np.mean(model.predict(fresh) == 1) < 0.8
        values = (
            model.decision_function(fresh)
            if hasattr(inner, "decision_function")
            else model.predict_proba(fresh)[:, 1]
        )
        plain_short += np.mean(values >= model.certificate_.uncertified.threshold) < 0.8
    assert short <= 45
    assert plain_short > 90


def test_too_few_positives_are_refused_before_anything_is_fitted() -> None:
    class Untouchable(LogisticRegression):  # type: ignore[misc]
        def fit(self, *_: Any, **__: Any) -> None:
            raise AssertionError("was fitted")

    X, y = noisy(1000, share=0.06)
    total, held = np.count_nonzero(y), -(-np.count_nonzero(y) // 4)
    needed = positives_needed(0.95, 0.95)
    assert needed == 59
    with pytest.raises(NotEnoughPositives, match=rf"{held} positives held out of {total} are too few") as refused:
        CertifiedThresholdClassifier(Untouchable()).fit(X, y)
    assert refused.value.needed == needed
    assert f"about {-(-needed * total // held)} in all with calibration_size=0.25" in str(refused.value)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("frozen", [True, False], ids=["FrozenEstimator", "prefit"])
def test_a_fitted_classifier_is_left_as_it_is_and_all_rows_certify(frozen: bool) -> None:
    X, y = noisy()
    inner = LogisticRegression().fit(X[:1000], y[:1000])
    before = inner.coef_.copy()
    wrapped = FrozenEstimator(inner) if frozen else inner
    model = CertifiedThresholdClassifier(wrapped, tpr=0.9, prefit=not frozen).fit(X[1000:2000], y[1000:2000])
    np.testing.assert_array_equal(inner.coef_, before)
    assert model.certificate_.positives == np.count_nonzero(y[1000:2000])
    np.testing.assert_array_equal(model.decision_function(X), inner.decision_function(X))
    with pytest.raises(NotFittedError):
        CertifiedThresholdClassifier(LogisticRegression(), prefit=True).fit(X, y)
    with pytest.raises(ValueError, match=r"does not know: \[2\]"):
        CertifiedThresholdClassifier(wrapped, prefit=not frozen).fit(X, y + 1)


def test_a_fitted_classifier_that_is_not_frozen_is_fitted_anew_and_a_warning_names_the_way_to_keep_it() -> None:
    X, y = noisy()
    inner = LogisticRegression().fit(X[:100], y[:100])
    before = inner.coef_.copy()
    with pytest.warns(UserWarning, match="FrozenEstimator"):
        model = CertifiedThresholdClassifier(inner, tpr=0.9, random_state=0).fit(X[1000:], y[1000:])
    np.testing.assert_array_equal(inner.coef_, before)
    assert not np.allclose(model.estimator_.coef_, before)
    assert model.certificate_.positives == -(-np.count_nonzero(y[1000:]) // 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CertifiedThresholdClassifier(LogisticRegression(), tpr=0.9, random_state=0).fit(X, y)
        CertifiedThresholdClassifier(FrozenEstimator(inner), tpr=0.9).fit(X[1000:], y[1000:])


def test_the_first_word_of_the_alphabet_can_be_the_critical_class() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    words = np.where(y == 0, "malignant", "benign")
    flipped = np.where(y == 0, "a malignant", "benign")
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    last = CertifiedThresholdClassifier(inner, tpr=0.9, pos_label="malignant", random_state=0).fit(X, words)
    first = CertifiedThresholdClassifier(inner, tpr=0.9, pos_label="a malignant", random_state=0).fit(X, flipped)
    np.testing.assert_array_equal(last.predict(X) == "malignant", first.predict(X) == "a malignant")
    assert first.certificate_.positives == last.certificate_.positives == 53
    assert np.mean(first.predict(X)[y == 0] == "a malignant") >= 0.9
    with pytest.raises(ValueError, match="pos_label is not specified"):
        CertifiedThresholdClassifier(inner, tpr=0.9).fit(X, words)
    with pytest.raises(ValueError, match="pos_label='cancer' is not a valid label"):
        CertifiedThresholdClassifier(inner, tpr=0.9, pos_label="cancer").fit(X, words)


def test_tied_scores_of_trees_stay_above_the_threshold_in_whatever_order_they_are_summed() -> None:
    X, y = noisy(600)
    forest = RandomForestClassifier(20, max_depth=2, random_state=0)
    model = CertifiedThresholdClassifier(forest, tpr=0.9, random_state=0).fit(np.round(X), y)
    scores = model.predict_proba(np.round(X))[:, 1]
    tied = scores[scores >= model.threshold_].min()
    assert model.threshold_ == pytest.approx(tied)
    assert model.threshold_ <= np.nextafter(np.nextafter(tied, 0), 0)


def test_weights_go_to_the_classifier_and_rows_of_weight_zero_certify_nothing() -> None:
    X, y = noisy()
    weights = np.where(X[:, 0] > 0, 3.0, 1.0)
    weights[:500] = 0
    whole = CertifiedThresholdClassifier(LogisticRegression(), tpr=0.9, random_state=0)
    one = clone(whole).fit(X, y, sample_weight=weights)
    other = clone(whole).fit(X[500:], y[500:], sample_weight=weights[500:])
    plain = clone(whole).fit(X[500:], y[500:])
    assert one.certificate_ == other.certificate_
    np.testing.assert_array_equal(one.estimator_.coef_, other.estimator_.coef_)
    assert not np.allclose(one.estimator_.coef_, plain.estimator_.coef_)
    with config_context(enable_metadata_routing=True):
        asked = LogisticRegression().set_fit_request(sample_weight=True)
        routed = CertifiedThresholdClassifier(asked, tpr=0.9, random_state=0).fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(routed.estimator_.coef_, one.estimator_.coef_)


def test_wrong_input_is_said_as_scikit_learn_says_it() -> None:
    X, y = noisy(200)
    wrap = CertifiedThresholdClassifier
    with pytest.raises(NotFittedError):
        wrap(LogisticRegression()).predict(X)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        wrap(LogisticRegression()).fit(X, np.arange(200) % 3)
    with pytest.raises(ValueError, match="1 class"):
        wrap(LogisticRegression()).fit(X, np.ones(200))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        wrap(LogisticRegression()).fit(X[:50], y)
    with pytest.raises(ValueError, match="calibration_size must be a share"):
        wrap(LogisticRegression(), calibration_size=20).fit(X, y)
    with pytest.raises(ValueError, match="tpr must lie strictly between 0 and 1"):
        wrap(LogisticRegression(), tpr=98).fit(X, y)
    with pytest.raises(ValueError, match="did you mean 'predict_proba'"):
        wrap(LogisticRegression(), response_method="proba").fit(X, y)
    with pytest.raises(AttributeError, match="SVC has none of the following attributes: predict_proba"):
        wrap(SVC(), response_method="predict_proba", tpr=0.5).fit(X, y)


@pytest.mark.parametrize("inner", [LogisticRegression(), GaussianNB()], ids=["scores", "probabilities"])
def test_the_scorer_is_minus_the_fpr_that_scikit_learns_roc_curve_shows(inner: Any) -> None:
    X, y = noisy(1500)
    model = inner.fit(X[:500], y[:500])
    values = model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)[:, 1]
    fpr, tpr, _ = roc_curve(y, values, drop_intermediate=False)
    for target in (0.8, 0.98):
        expected = -fpr[np.flatnonzero(tpr >= target)[0]]
        assert make_fpr_at_tpr_scorer(target)(model, X, y) == pytest.approx(expected)
    fpr, tpr, _ = roc_curve(y == 0, -values, drop_intermediate=False)
    other = make_fpr_at_tpr_scorer(0.9, pos_label=0)(model, X, y)
    assert other == pytest.approx(-fpr[np.flatnonzero(tpr >= 0.9)[0]])


def test_a_search_with_the_scorer_prefers_fewer_false_alarms() -> None:
    X, y = noisy(800)
    words = np.where(y == 1, "alarm", "quiet")
    scorer = make_fpr_at_tpr_scorer(0.9, pos_label="alarm")
    search = GridSearchCV(LogisticRegression(), {"C": [1e-6, 1.0]}, scoring=scorer, cv=3).fit(X, words)
    each = [cross_val_score(LogisticRegression(C=c), X, words, scoring=scorer, cv=3).mean() for c in (1e-6, 1.0)]
    assert search.best_params_ == {"C": [1e-6, 1.0][int(np.argmax(each))]}
    assert search.best_score_ == pytest.approx(max(each))
    assert -1 <= search.best_score_ <= 0
    with pytest.raises(ValueError, match="pos_label is not specified"):
        make_fpr_at_tpr_scorer(0.9)(search.best_estimator_, X, words)
    with pytest.raises(ValueError, match="tpr must lie in"):
        make_fpr_at_tpr_scorer(98)


def test_the_wrapper_can_be_searched_through() -> None:
    X, y = noisy(1200)
    search = GridSearchCV(
        CertifiedThresholdClassifier(LogisticRegression(), tpr=0.8, random_state=0),
        {"estimator__C": [0.01, 1.0]},
        scoring=make_fpr_at_tpr_scorer(0.9),
        cv=3,
    ).fit(X, y)
    assert search.best_estimator_.certificate_.tpr == 0.8


def test_only_the_network_s_classifier_imports_torch() -> None:
    program = (
        "import sys; from rankreg.estimators import CertifiedThresholdClassifier, make_fpr_at_tpr_scorer;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
