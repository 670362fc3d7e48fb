"""The paper's numbers of one set of scores with 95 % intervals over test samples, in percent."""

import numpy as np
from numpy.typing import NDArray

from rankreg.bench.grids import Data
from rankreg.bench.measures import names_of
from rankreg.metrics import empirical_thresholds, error_at_tpr
from rankreg.operating import (
    Interval,
    auc_interval,
    compare,
    fpr_at_tpr_interval,
    lower_bound,
    paired,
    upper_bound,
)
from rankreg.scores import Scores

CONFIDENCE = 0.95
RISK = (1 - CONFIDENCE) / 2  # on either side
DRAWS, SEED = 1000, 0


def intervals_of(data: Data, scores: Scores) -> dict[str, Interval]:
    """FPR: exact; AUC: docs/decisions/0027; error at a TPR: bootstrap; accuracy: Clopper–Pearson."""
    values = scores.values.astype(np.float64)
    if data.several_classes:
        found = [*_errors(scores.labels, values, data), _accuracy(scores.labels, values)]
    else:
        fprs = [fpr_at_tpr_interval(scores.labels, values, tpr=tpr, confidence=CONFIDENCE) for tpr in data.tprs]
        found = [*fprs, auc_interval(scores.labels, values, confidence=CONFIDENCE)]
    return {name: _percent(interval) for name, interval in zip(names_of(data), found, strict=True)}


def difference_intervals(data: Data, first: Scores, second: Scores) -> dict[str, Interval]:
    """FPR at each TPR and AUC of the first less those of the second, paired by sample; two classes only."""
    labels, a, b = paired(first, second)
    found = [compare(labels, a, b, tpr=tpr, confidence=CONFIDENCE, draws=DRAWS, seed=SEED) for tpr in data.tprs]
    differences = [*(one.fpr for one in found), found[0].auc]
    return {
        name: _percent(Interval(one.difference, one.low, one.high, CONFIDENCE))
        for name, one in zip(names_of(data), differences, strict=True)
    }


def _percent(interval: Interval) -> Interval:
    low, high = 100 * interval.low, 100 * interval.high
    return Interval(round(100 * interval.estimate, 3), low, high, interval.confidence)


def _accuracy(labels: NDArray[np.int64], logits: NDArray[np.float64]) -> Interval:
    right, total = int((logits.argmax(axis=1) == labels).sum()), len(labels)
    low, high = (bound(right, total, 1 - RISK) for bound in (lower_bound, upper_bound))
    return Interval(right / total, low, high, CONFIDENCE)


def _errors(labels: NDArray[np.int64], logits: NDArray[np.float64], data: Data) -> list[Interval]:
    """The others' mean error at each TPR, its interval by resampling every class.

    The critical class decides the threshold; given that, the errors of another class are a binomial count.
    """
    others = np.delete(logits, data.critical, axis=1)
    odds = logits[:, data.critical] - np.logaddexp.reduce(others, axis=1)
    best = others.argmax(axis=1)
    best += best >= data.critical  # back to the original class index
    random = np.random.default_rng(SEED)
    critical = odds[labels == data.critical]
    targets = np.asarray(data.tprs, dtype=np.float64)
    drawn = [empirical_thresholds(random.choice(critical, len(critical)), targets) for _ in range(DRAWS)]
    thresholds = np.array(drawn, dtype=np.float64)
    errors = np.zeros_like(thresholds)
    classes = [label for label in np.unique(labels) if label != data.critical]
    for label in classes:
        own = labels == label
        right = np.sort(odds[own & (best == label)])
        kept = np.searchsorted(right, thresholds, side="left")  # right and below the threshold
        errors += random.binomial(own.sum(), 1 - kept / own.sum()) / own.sum() / len(classes)
    estimates = error_at_tpr(labels, logits, data.tprs, critical=data.critical)
    low, high = np.quantile(errors, [RISK, 1 - RISK], axis=0)
    return [Interval(float(value), float(low[k]), float(high[k]), CONFIDENCE) for k, value in enumerate(estimates)]
