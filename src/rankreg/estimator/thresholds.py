"""Where to alarm: at 0, where the recall is certified, or where cross-validation would."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from rankreg._names import look_up
from rankreg.bundle.card import lowered
from rankreg.estimator.fitting import Labels, counted, fit_network
from rankreg.metrics import threshold_at_tpr
from rankreg.operating import OperatingPoint, certify
from rankreg.operating._records import check_confidence, check_target
from rankreg.thresholding.parts import Places, Units, check_enough, check_share, hold_out

CHOICES = {"certified": "certified", "cross-validated": "cross-validated"}


@dataclass(frozen=True)
class Chosen:
    """A threshold of the scores, its certificate if it has one, and the samples that it was certified on."""

    threshold: float
    point: OperatingPoint | None = None
    calibration: dict[str, int] | None = None


USUAL = Chosen(0.0)


def check_threshold(estimator: Any) -> str | None:
    """How the threshold is to be chosen, None for the usual one; wrong requests are said before training."""
    chosen = look_up(CHOICES, estimator.threshold, "threshold")
    if estimator.target_tpr is None:
        return None
    check_target(estimator.target_tpr)
    check_confidence(estimator.confidence)
    return chosen


def hold_out_for(
    estimator: Any, labels: Labels, units: Units, random: np.random.RandomState
) -> tuple[Places, Places]:
    """The rows to fit on and those that certify: none of them unless a certificate is asked for."""
    if check_threshold(estimator) != "certified":
        return np.arange(len(labels)), np.arange(0)
    share = check_share(estimator.calibration_size, "calibration_size")
    kept, held = hold_out(labels == 1, share, random, units)
    check_enough(labels == 1, held, units, **_promise(estimator), size=f"calibration_size={share:g}")
    return kept, held


def certified(estimator: Any, scores: NDArray[np.float32], labels: Labels, units: Units) -> Chosen:
    """The certified threshold of scores that training has not seen."""
    point = certify(labels, scores, **_promise(estimator), units=units)
    return Chosen(lowered(point.threshold), point, counted(labels))


def _promise(estimator: Any) -> dict[str, Any]:
    return {"tpr": estimator.target_tpr, "confidence": estimator.confidence, "per": estimator.per}


def cross_validated(
    estimator: Any,
    data: NDArray[Any],
    labels: Labels,
    weights: NDArray[np.float64] | None,
    units: Units,
    random: np.random.RandomState,
) -> Chosen:
    """The threshold at which that share of the positives alarms, each scored by a network that has not seen it.

    The scores are of other networks than the one that will be used, so nothing is certified.
    """
    apart = np.arange(len(labels)) if units is None else units
    fewest = min(len(np.unique(apart[labels == kind])) for kind in (0, 1))
    if not isinstance(estimator.folds, int | np.integer) or not 2 <= estimator.folds <= fewest:
        raise ValueError(
            f"folds must be a whole number of at least 2 and at most {fewest}, the independent samples of the"
            f" smaller class, got {estimator.folds!r}"
        )
    scores = np.empty(len(labels), dtype=np.float32)
    kind = StratifiedKFold if units is None else StratifiedGroupKFold
    folds = kind(int(estimator.folds), shuffle=True, random_state=random.randint(2**31 - 1))
    for kept, held in folds.split(data, labels, units):
        found = fit_network(estimator, data, labels, kept, weights=weights, units=units, random=random)
        scores[held] = found.scores(data[held])
    return Chosen(lowered(threshold_at_tpr(labels, scores, estimator.target_tpr)))
