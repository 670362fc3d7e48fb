"""FPR at a TPR as an evaluation metric of LightGBM and XGBoost: for early stopping on what counts."""

from typing import Any

import numpy as np

from rankreg.boosting.objectives import Batch, taken
from rankreg.metrics import fpr_at_tpr


class FprAtTpr:
    """The share of negatives that raise an alarm once the share `tpr` of positives does; lower is better.

    As in `rankreg.metrics.fpr_at_tpr`; samples with weights count by them. Scores are compared only: raw ones,
    probabilities or any other increasing function of them give the same number.
    """

    def __init__(self, tpr: float) -> None:
        if not (isinstance(tpr, (int, float)) and 0 < tpr <= 1):
            raise ValueError(f"tpr must lie in (0, 1], got {tpr!r}: write 0.95 for 95 %")
        self.tpr = tpr
        self.__name__ = f"fpr@{100 * tpr:g}"  # XGBoost's wrappers and printed rounds name it so

    def rate(self, first: Any, second: Any, sample_weight: Any) -> float:
        """The FPR, for (scores, data set) or (labels, scores)."""
        return _rate(taken(first, second, sample_weight), self.tpr)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tpr!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.tpr))


class LightGBMFprAtTpr(FprAtTpr):
    """As LightGBM wants it: name, value, whether higher is better."""

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> tuple[str, float, bool]:
        return self.__name__, self.rate(first, second, sample_weight), False


class XGBoostFprAtTpr(FprAtTpr):
    """As XGBoost wants it: name and value, or to its scikit-learn wrappers the value alone."""

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        value = self.rate(first, second, sample_weight)
        return (self.__name__, value) if hasattr(second, "get_label") else value


def lightgbm_fpr_at_tpr(tpr: float = 0.95) -> LightGBMFprAtTpr:
    """The FPR at a TPR for LightGBM: `feval=` of `lgb.train`, `eval_metric=` of `LGBMClassifier.fit`.

    Early stopping by it alone needs metric="None", lest LightGBM watch its own metric too.
    """
    return LightGBMFprAtTpr(tpr)


def xgboost_fpr_at_tpr(tpr: float = 0.95) -> XGBoostFprAtTpr:
    """The FPR at a TPR for XGBoost: `custom_metric=` of `xgb.train`, `eval_metric=` of `XGBClassifier`.

    Early stopping by it alone needs disable_default_eval_metric=True in `xgb.train`.
    """
    return XGBoostFprAtTpr(tpr)


def _rate(batch: Batch, tpr: float) -> float:
    scores, positives, weights = batch
    positive = np.zeros(len(scores), dtype=bool)
    positive[positives] = True
    if weights is None:
        return fpr_at_tpr(positive, scores, tpr)
    falling = positives[np.argsort(-scores[positives])]
    reached = np.cumsum(weights[falling])
    needed = tpr * reached[-1] * (1 - 1e-12)  # a sum of weights may end a rounding below its share
    threshold = scores[falling[np.searchsorted(reached, needed)]]
    return float(weights[~positive & (scores >= threshold)].sum() / weights[~positive].sum())
