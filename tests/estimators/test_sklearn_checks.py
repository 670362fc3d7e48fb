"""scikit-learn's own checks of the classifier."""

import os
import subprocess
import sys
import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankreg.estimators import RankRegClassifier

NOT_AS_CHECKED = {
    "check_sample_weight_equivalence_on_dense_data": "batches and parts are drawn by row, so a weight of 3 is not"
    " three rows: as with any stochastic gradient, only the expected gradient is the same"
}


NOT_FOR_THE_AVERAGE = {
    "check_sample_weights_not_overwritten": "refuses weights that differ, other than 0: learners do not weigh rows",
    "check_sample_weights_shape": "two distinct positives, each four times: cross-fitting needs three",
}
NOT_WHERE_A_RECALL_IS_PROMISED = {
    "check_classifiers_classes": "a promise about a class must name it: pos_label is required for strings",
    "check_classifiers_train": "predicts at the certified threshold, not where decision_function crosses 0",
}
QUICK = RankRegClassifier(epochs=6, network__hidden=(16,), learning_rate=0.02)
AVERAGE = RankRegClassifier(learner="logistic")
CERTIFIED = RankRegClassifier(epochs=2, network__hidden=(8,), tpr=0.5, confidence=0.5)


def not_as_checked(model: Any) -> dict[str, str]:
    found = NOT_AS_CHECKED | (NOT_WHERE_A_RECALL_IS_PROMISED if model.tpr is not None else {})
    return found | (NOT_FOR_THE_AVERAGE if model.network is None else {})


@parametrize_with_checks([QUICK, CERTIFIED, AVERAGE], expected_failed_checks=not_as_checked)  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # among them ours: strings without pos_label
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks([RankRegClassifier()], expected_failed_checks=not_as_checked)  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks_pass_with_the_defaults(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.slow
def test_the_check_that_scikit_learn_skips_without_array_api_passes_too() -> None:
    program = """
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_array_api_input
from rankreg.estimators import RankRegClassifier
from rankreg.estimators import CertifiedThresholdClassifier
wrapped = CertifiedThresholdClassifier(LogisticRegression(), tpr=0.5, confidence=0.5)
for model in (RankRegClassifier(epochs=3), wrapped):
    check_array_api_input(type(model).__name__, model, "numpy")
"""
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=600)
