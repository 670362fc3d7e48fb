"""FPR at a TPR as an evaluation metric of LightGBM and XGBoost, for early stopping."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankreg.boosting.objectives import Round, read_round
from rankreg.metrics import fpr_at_tpr


@dataclass(frozen=True)
class LightGBMFprAtTpr:
    """The metric as LightGBM wants it: name, value, whether higher is better."""

    tpr: float

    def __post_init__(self) -> None:
        if not (isinstance(self.tpr, (int, float)) and 0 < self.tpr <= 1):
            raise ValueError(f"tpr must lie in (0, 1], got {self.tpr!r}: write 0.95 for 95 %")

    @property
    def __name__(self) -> str:
        return f"fpr@{100 * self.tpr:g}"  # XGBoost's wrappers and printed rounds name it so

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        return self.__name__, _rate(read_round(first, second, sample_weight), self.tpr), False


@dataclass(frozen=True)
class XGBoostFprAtTpr(LightGBMFprAtTpr):
    """The metric as XGBoost wants it: name and value, or to its scikit-learn wrappers the value alone."""

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        named = super().__call__(first, second, sample_weight)[:2]
        return named if hasattr(second, "get_label") else named[1]


def lightgbm_fpr_at_tpr(tpr: float = 0.95) -> LightGBMFprAtTpr:
    """The FPR at a TPR for LightGBM: `feval=` of `lgb.train`, `eval_metric=` of `LGBMClassifier.fit`.

    It is `rankreg.metrics.fpr_at_tpr`, and lower is better. Rows with weights count by them. Scores
    are only compared, so raw scores and probabilities give the same number. To stop early by it
    alone, pass `metric="None"` too. Otherwise LightGBM watches its own metric as well.

    Args:
        tpr: the share of positives that must raise an alarm. Default 0.95.

    Returns:
        The metric, a function that LightGBM calls in every round.

    Raises:
        ValueError: tpr is not in (0, 1].

    Example:
        >>> from rankreg.boosting import lightgbm_fpr_at_tpr
        >>> metric = lightgbm_fpr_at_tpr(0.9)
        >>> metric([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.9])  # labels, scores
        ('fpr@90', 0.5, False)
    """
    return LightGBMFprAtTpr(tpr)


def xgboost_fpr_at_tpr(tpr: float = 0.95) -> XGBoostFprAtTpr:
    """The FPR at a TPR for XGBoost: `custom_metric=` of `xgb.train`, `eval_metric=` of `XGBClassifier`.

    It is `rankreg.metrics.fpr_at_tpr`, and lower is better. Rows with weights count by them. To stop
    early by it alone, pass `disable_default_eval_metric=True` to `xgb.train` too.

    Args:
        tpr: the share of positives that must raise an alarm. Default 0.95.

    Returns:
        The metric, a function that XGBoost calls in every round.

    Raises:
        ValueError: tpr is not in (0, 1].

    Example:
        >>> from rankreg.boosting import xgboost_fpr_at_tpr
        >>> xgboost_fpr_at_tpr(0.9)([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.9])  # labels, scores
        0.5
    """
    return XGBoostFprAtTpr(tpr)


def _rate(given: Round, tpr: float) -> float:
    scores, positives, weights = given
    positive = np.zeros(len(scores), dtype=bool)
    positive[positives] = True
    if weights is None:
        return fpr_at_tpr(positive, scores, tpr)
    falling = positives[np.argsort(-scores[positives])]
    reached = np.cumsum(weights[falling])
    needed = tpr * reached[-1] * (1 - 1e-12)  # a sum of weights may end a rounding below its share
    threshold = scores[falling[np.searchsorted(reached, needed)]]
    return float(weights[~positive & (scores >= threshold)].sum() / weights[~positive].sum())
