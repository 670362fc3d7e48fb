# ruff: noqa: N803, N806 - scikit-learn's name for the data is X
"""RankReg with scikit-learn's own tools: search for few false alarms, then certify the recall.

Run it with `python examples/sklearn_search.py`. Two classifiers look for the digit 8. Each is searched by its false
alarm rate at 95 % recall, alarms at a threshold certified for 90 % recall, and is measured on unseen digits.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankreg.estimators import CertifiedThresholdClassifier, RankRegClassifier, make_fpr_at_tpr_scorer

TPR = 0.9


class Found(NamedTuple):
    """What a search chose, what was certified, and what came of it on new digits; shares."""

    params: dict[str, Any]
    fpr_at_most: float
    recall: float
    fpr: float


def candidates(epochs: int) -> dict[str, tuple[Any, dict[str, list[Any]]]]:
    """Classifiers and what to try of each."""
    network = RankRegClassifier(epochs=epochs, random_state=0)
    return {
        "logistic regression": (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            {"logisticregression__C": [0.01, 0.1, 1.0]},
        ),
        "RankRegClassifier": (network, {"method": ["none", "buffer", "rankreg"]}),
    }


def find(model: Any, grid: dict[str, list[Any]], X: NDArray[Any], y: NDArray[Any], *, folds: int) -> Found:
    """Search on 35 % of the digits, certify on 35 %, measure on 30 %."""
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    fitting, calibration, y_fitting, y_calibration = train_test_split(
        train, y_train, test_size=0.5, stratify=y_train, random_state=0
    )
    search = GridSearchCV(model, grid, scoring=make_fpr_at_tpr_scorer(0.95), cv=folds).fit(fitting, y_fitting)
    certified = CertifiedThresholdClassifier(search.best_estimator_, tpr=TPR, prefit=True)
    alarms = certified.fit(calibration, y_calibration).predict(test)
    return Found(
        search.best_params_,
        certified.certificate_.fpr_at_most,
        recall=float(np.mean(alarms[y_test == 1])),
        fpr=float(np.mean(alarms[y_test == 0])),
    )


def main(epochs: int = 20, folds: int = 3) -> dict[str, Found]:
    """Search, certify and measure every candidate; print and return what was found."""
    X, digits = load_digits(return_X_y=True)
    results = {}
    for name, (model, grid) in candidates(epochs).items():
        found = results[name] = find(model, grid, X, (digits == 8).astype(int), folds=folds)
        chosen = ", ".join(f"{key.split('__')[-1]}={value}" for key, value in found.params.items())
        print(
            f"{name} ({chosen}): at least {TPR:.0%} recall and at most {found.fpr_at_most:.1%} false alarms, each"
        )
        print(f"  with 95 % confidence; on new digits {found.recall:.1%} recall, {found.fpr:.1%} false alarms")
    return results


if __name__ == "__main__":
    main()
