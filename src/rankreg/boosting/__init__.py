"""The ranking term for gradient boosting: objectives and metrics for LightGBM and XGBoost. No torch.

Ranks are over the whole training set, so no buffer is needed. The libraries are extras: `rankreg[lightgbm]`,
`rankreg[xgboost]`. Distributed training is not supported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankreg.boosting.fpr_metric import lightgbm_fpr_at_tpr, xgboost_fpr_at_tpr
from rankreg.boosting.objectives import RankObjective, lightgbm_objective, rank_gradient, xgboost_objective

if TYPE_CHECKING:
    from rankreg.boosting.classifiers import RankRegLGBMClassifier, RankRegXGBClassifier

__all__ = [
    "RankObjective",
    "RankRegLGBMClassifier",
    "RankRegXGBClassifier",
    "lightgbm_fpr_at_tpr",
    "lightgbm_objective",
    "rank_gradient",
    "xgboost_fpr_at_tpr",
    "xgboost_objective",
]


def __getattr__(name: str) -> Any:
    if name in ("RankRegLGBMClassifier", "RankRegXGBClassifier"):  # scikit-learn takes a second to import
        return getattr(import_module("rankreg.boosting.classifiers"), name)
    raise AttributeError(f"module 'rankreg.boosting' has no attribute {name!r}")
