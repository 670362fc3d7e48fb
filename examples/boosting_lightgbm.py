"""LightGBM with the ranking term: the objective alone, and the classifier with early stopping on the FPR.

Run it with `python examples/boosting_lightgbm.py` after `pip install 'rankreg[lightgbm]'`. The data are made up:
one positive in twenty, some labels wrong.
"""

from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from rankreg.boosting import RankRegLGBMClassifier, lightgbm_objective
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.operating import certify


def main(rows: int = 6000) -> dict[str, float]:
    """Train three ways, print FPR at 90 % TPR and AUC, return the FPRs."""
    inputs, labels = make_classification(rows, 12, weights=[0.95], flip_y=0.01, class_sep=0.8, random_state=0)
    train, test, y_train, y_test = train_test_split(inputs, labels, test_size=0.5, stratify=labels, random_state=0)
    settings: dict[str, Any] = {"n_estimators": 60, "num_leaves": 15, "n_jobs": 1, "verbose": -1}

    plain = LGBMClassifier(**settings).fit(train, y_train)
    ranked = LGBMClassifier(objective=lightgbm_objective(), **settings).fit(train, y_train)
    stopped = RankRegLGBMClassifier(LGBMClassifier(**settings), early_stopping_rounds=20, tpr=0.9)
    stopped.fit(train, y_train)

    scores = {
        "log-loss": np.asarray(plain.predict(test, raw_score=True)),
        "log-loss + ranking term": np.asarray(ranked.predict(test, raw_score=True)),
        "the same, stopped early": stopped.decision_function(test),
    }
    fprs = {name: 100 * fpr_at_tpr(y_test, values, 0.9) for name, values in scores.items()}
    for name, values in scores.items():
        print(f"{name:24} FPR@90 {fprs[name]:5.1f}   AUC {100 * auc(y_test, values):5.1f}")

    point = certify(y_test, scores["the same, stopped early"], tpr=0.8, confidence=0.95)
    print(f"a threshold with a recall of 80 % or more, certified at 95 %: {point.threshold:.2f}")
    return fprs


if __name__ == "__main__":
    main()
