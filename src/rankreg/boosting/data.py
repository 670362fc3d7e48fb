"""The one door for what LightGBM and XGBoost hand over: labels, raw scores and weights, checked in every round."""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankreg.boosting.ranks import Rows, Vector


class Batch(NamedTuple):
    """Raw scores of all rows, the rows of the positives, and weights if there are any."""

    scores: Vector
    positives: Rows
    weights: Vector | None


def taken(first: Any, second: Any, sample_weight: Any = None) -> Batch:
    """(scores, Dataset or DMatrix) as the libraries call, or (labels, scores) as their scikit-learn wrappers do."""
    if hasattr(second, "get_label"):
        _check_alone(second)
        return checked(second.get_label(), first, second.get_weight())
    return checked(first, second, sample_weight)


def checked(labels: Any, scores: Any, weights: Any = None) -> Batch:
    """One finite score, one label of 0 or 1 and perhaps one weight per row; both classes are there."""
    if labels is None or np.size(labels) == 0:
        raise ValueError("the data set has no labels: pass label=, 1 for the critical class and 0 for the others")
    labels, scores = np.asarray(labels), np.asarray(scores)
    if scores.ndim == 2 and scores.shape[1] > 1:
        raise ValueError(
            f"the ranking term is for two classes, got scores of {scores.shape[1]}: make the critical class 1 and"
            " all others 0"
        )
    scores = scores.reshape(-1)
    if labels.shape != scores.shape:
        raise ValueError(f"expected one label per row, got shapes {labels.shape} and {scores.shape}")
    positive = labels == 1
    positives = np.flatnonzero(positive)
    if len(positives) + np.count_nonzero(labels == 0) != len(labels):
        raise ValueError(f"labels must be 0 or 1 (1 = critical), got {_distinct(labels)}: map them first")
    if not 0 < len(positives) < len(labels):
        missing = "1" if len(positives) == 0 else "0"
        raise ValueError(f"no label is {missing}: with {len(labels)} rows of one class there is nothing to rank")
    if np.isnan(scores.min()):
        raise ValueError("scores contain NaN: training has diverged, or an init score is not finite")
    return Batch(scores, positives, _checked_weights(weights, positive))


def _checked_weights(weights: Any, positive: NDArray[np.bool_]) -> Vector | None:
    if weights is None or np.size(weights) == 0:
        return None
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != positive.shape or not (np.isfinite(values).all() and values.min() >= 0):
        raise ValueError("weights must be finite numbers of at least 0, one per row")
    if not 0 < values[positive].sum() < values.sum():
        raise ValueError("the weights of a class sum to 0: both classes must count")
    return values


def _check_alone(data: Any) -> None:
    """One process sees all rows: otherwise ranks would be among its own rows only, in silence."""
    if hasattr(data, "params"):  # LightGBM
        settings = data.params or {}
        listed = [str(settings.get(name, "")).split(",") for name in ("machines", "workers", "nodes")]
        machines = max(int(settings.get("num_machines", 1)), *map(len, listed))
    else:
        machines = import_module("xgboost.collective").get_world_size()
    if machines > 1:
        raise ValueError(
            f"distributed training is not supported: ranks are over all rows, and each of {machines} machines sees"
            " its own only; train in one process"
        )


def _distinct(labels: NDArray[np.generic]) -> str:
    """The first few distinct values, for a message."""
    values = np.unique(labels)
    return ", ".join(map(str, values[:5])) + (", …" if len(values) > 5 else "")
