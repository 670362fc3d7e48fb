# ruff: noqa: N803 - scikit-learn's name for the data is X
"""scikit-learn's thresholds beside certified and cross-fitted ones: how often is a recall reached, at what FPR?

    python -m benchmarks.threshold_peer run       # adds the draws that records/operating/thresholds.csv lacks
    python -m benchmarks.threshold_peer table     # docs/coming-from/tuned-threshold.md shows it

Every draw has fresh rows: ten features, N(0, 1) for negatives, two of them shifted for positives. Every threshold
is for logistic regression on these rows. Its score is linear, so the true recall and FPR follow exactly from the
normal distribution.
"""

import argparse
import csv
import subprocess
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
)

from rankreg import CertifiedThresholdClassifier
from rankreg.operating import cross_fitted_threshold

PLACE = Path(__file__).parents[1] / "records/operating/thresholds.csv"
FIELDS = ["positives", "draw", "method", "recall", "fpr", "commit"]
TPR, CONFIDENCE, SIZES, NEGATIVES, FEATURES, DRAWS = 0.9, 0.95, (60, 120, 400), 2000, 10, 500
SHIFT = np.array([2.0, 1.5] + [0.0] * (FEATURES - 2))  # its length, 2.5, says how far the classes are apart
Rows = NDArray[np.float64]
Labels = NDArray[np.int64]
Rates = tuple[float, float]


def rates(model: Any, threshold: float) -> Rates:
    """True recall and FPR where w · x + b ≥ threshold raises an alarm."""
    weights, bias = model.coef_[0], float(model.intercept_[0])
    length = float(np.linalg.norm(weights))
    return tuple(float(ndtr((weights @ mean + bias - threshold) / length)) for mean in (SHIFT, 0 * SHIFT))  # type: ignore[return-value]


def specificity_if_recall(y_true: Labels, y_pred: Labels) -> float:
    """The specificity where the recall reaches the target, else 0: what to maximise for a recall floor."""
    caught = np.count_nonzero(y_pred[y_true == 1]) / np.count_nonzero(y_true)
    return float(1 - np.mean(y_pred[y_true == 0])) if caught >= TPR else 0.0


def balanced_accuracy(y_true: Labels, y_pred: Labels) -> float:
    """scikit-learn's "balanced_accuracy" of 0/1 labels, in a tenth of its time."""
    return float(np.mean(y_pred[y_true == 1]) + 1 - np.mean(y_pred[y_true == 0])) / 2


def _default(X: Rows, y: Labels, seed: int) -> Rates:
    model = FixedThresholdClassifier(LogisticRegression(), response_method="decision_function").fit(X, y)
    return rates(model.estimator_, 0.0)


def _tuned(score: Callable[[Labels, Labels], float]) -> Callable[[Rows, Labels, int], Rates]:
    def found(X: Rows, y: Labels, seed: int) -> Rates:
        model = TunedThresholdClassifierCV(
            LogisticRegression(), scoring=make_scorer(score), response_method="decision_function", random_state=seed
        ).fit(X, y)
        return rates(model.estimator_, model.best_threshold_)

    return found


def _quantile(X: Rows, y: Labels, seed: int) -> Rates:
    """The usual threshold: the highest at which the out-of-fold recall is the target."""
    scores = cross_val_predict(LogisticRegression(), X, y, method="decision_function")
    threshold = np.quantile(scores[y == 1], 1 - TPR, method="inverted_cdf")
    model = FixedThresholdClassifier(
        LogisticRegression(), threshold=threshold, response_method="decision_function"
    ).fit(X, y)
    return rates(model.estimator_, threshold)


def _certified(X: Rows, y: Labels, seed: int) -> Rates:
    model = CertifiedThresholdClassifier(
        LogisticRegression(), tpr=TPR, confidence=CONFIDENCE, calibration_size=0.5, random_state=seed
    ).fit(X, y)
    return rates(model.estimator_, model.threshold_)


def _cross_fitted(X: Rows, y: Labels, seed: int) -> Rates:
    """The average of five fold models, at the threshold from their out-of-fold scores."""
    scores, members = np.empty(len(y)), []
    for train, held in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        members.append(LogisticRegression().fit(X[train], y[train]))
        scores[held] = members[-1].decision_function(X[held])
    average = clone(members[0])
    average.coef_ = np.mean([one.coef_ for one in members], axis=0)
    average.intercept_ = np.mean([one.intercept_ for one in members], axis=0)
    return rates(average, cross_fitted_threshold(y, scores, tpr=TPR, confidence=CONFIDENCE).value)


METHODS: dict[str, Callable[[Rows, Labels, int], Rates]] = {
    "FixedThresholdClassifier, probability 0.5": _default,
    "FixedThresholdClassifier, out-of-fold quantile": _quantile,
    "TunedThresholdClassifierCV, balanced accuracy (its default)": _tuned(balanced_accuracy),
    "TunedThresholdClassifierCV, specificity if recall ≥ 90 %": _tuned(specificity_if_recall),
    "cross-fitted threshold": _cross_fitted,
    "CertifiedThresholdClassifier, half held out": _certified,
}


def one_draw(positives: int, draw: int, methods: Iterable[str] = METHODS) -> list[dict[str, object]]:
    """True recall and FPR of every method on the same rows."""
    random = np.random.default_rng([20, positives, draw])
    labels = np.repeat([1, 0], [positives, NEGATIVES])
    rows = random.normal(size=(len(labels), FEATURES)) + labels[:, None] * SHIFT
    found: list[dict[str, object]] = []
    for method in methods:
        recall, fpr = METHODS[method](rows, labels, draw)
        found.append(
            {"positives": positives, "draw": draw, "method": method}
            | {"recall": round(recall, 5), "fpr": round(fpr, 5)}
        )
    return found


def table(place: Path = PLACE) -> str:
    """A row per number of positives and method."""
    lines = [
        f"| positives | threshold | draws | mean recall | recall below {100 * TPR:.0f} % in | mean FPR |",
        "|---|---|---|---|---|---|",
    ]
    for (positives, method), own in pd.read_csv(place).groupby(["positives", "method"], sort=False):
        short = int((own["recall"] < TPR).sum())
        bounds = binomtest(short, len(own)).proportion_ci(method="exact")
        said = f"{100 * short / len(own):.0f} % ({100 * bounds.low:.0f} to {100 * bounds.high:.0f})"
        lines.append(
            f"| {positives} | {method} | {len(own)} | {100 * own['recall'].mean():.1f} % | {said} |"
            f" {100 * own['fpr'].mean():.1f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    """Simulate what is missing, or print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threshold_peer", description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    asked = parser.parse_args()
    if asked.command == "table":
        print(table())
        return
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    known = set()
    if PLACE.exists():
        known = set(pd.read_csv(PLACE)[["positives", "draw"]].itertuples(index=False, name=None))
    with PLACE.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not known:
            writer.writeheader()
        for positives in SIZES:
            for draw in range(DRAWS):
                if (positives, draw) not in known:
                    writer.writerows(row | {"commit": commit} for row in one_draw(positives, draw))
                    file.flush()


if __name__ == "__main__":
    main()
