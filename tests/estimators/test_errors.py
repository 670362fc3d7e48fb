# ruff: noqa: N806 - scikit-learn's name for the data is X
"""What the classifier says to wrong data and wrong parameters."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn

from rankreg.estimators import RankRegClassifier
from tests.estimators.rare_data import QUICK, cancer


def test_wrong_input_is_said_as_scikit_learn_says_it() -> None:
    X, y = cancer()
    model = RankRegClassifier(**QUICK)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(
        ValueError, match=r"Only binary classification is supported. The type of the target is multiclass"
    ):
        model.fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="1 class"):
        model.fit(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(np.where(X > 100, np.nan, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="The least populated class in y has only 1 member"):
        model.fit(X[:100], np.arange(100) == 0)
    fitted = clone(model).fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features, but RankRegClassifier is expecting 30 features"):
        fitted.predict(X[:, :4])
    with pytest.raises(ValueError, match=r"too large to be scored: X\[1, 0\]"):
        fitted.predict(np.vstack([X[0], X[0] * 1e250]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "rankregg"}, "did you mean 'rankreg'"),
        ({"loss": "focal"}, "unknown loss 'focal'"),
        ({"epochs": 0}, "epochs: Input should be greater than 0"),
        ({"network": {"hidden": (0,)}}, "hidden"),
        ({"method__capacity": -1}, "capacity"),
        ({"method__reach": -1.0}, "reach"),
        ({"training": {"validation_size": 10}}, "validation_size must be a share"),
        ({"tpr": 98}, "tpr must lie strictly between 0 and 1"),
        ({"tpr": 0.5, "confidence": 95}, "confidence must lie strictly between 0 and 1"),
        ({"training__optimiser": "sgd"}, "did you mean 'optimizer'"),
        ({"sampling": "fair"}, "sampling"),
        ({"tpr": 0.5, "calibration": "guessed"}, "calibration must be a share"),
        ({"tpr": 0.5, "calibration": 1}, "number of folds: it must be at least 2"),
        ({"network": 3}, "network must be None, an MLPShape"),
        ({"network": nn.Linear(30, 1)}, "every fit starts with a new one, got Linear"),
        ({"network": lambda shape: shape}, "must make an nn.Module"),
        ({"network": lambda shape: nn.Linear(shape[0], 1)}, r"squeeze\(1\)"),
        ({"learning_rate": 1e30, "training": {"optimizer": "sgd"}}, "diverged: try a learning_rate below 1e\\+30"),
    ],
)
def test_wrong_parameters_are_said_when_it_is_fitted(wrong: dict[str, Any], message: str) -> None:
    X, y = cancer()
    with pytest.raises(ValueError, match=message):
        RankRegClassifier(**(QUICK | wrong)).fit(X, y)
