"""The ranking term for gradient boosting: objectives, metrics and classifiers for LightGBM and XGBoost.

The libraries are extras: `rankreg[lightgbm]`, `rankreg[xgboost]`.
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
