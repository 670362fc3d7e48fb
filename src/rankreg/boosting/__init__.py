"""The ranking term for gradient boosting: objectives, metrics and classifiers for LightGBM and XGBoost.

The libraries are extras: `rankreg[lightgbm]`, `rankreg[xgboost]`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankreg.boosting.classifiers import RankRegLGBMClassifier, RankRegXGBClassifier
    from rankreg.boosting.objectives import (
        lightgbm_fpr_at_tpr,
        lightgbm_objective,
        xgboost_fpr_at_tpr,
        xgboost_objective,
    )

_HOME = {
    "RankObjective": "objectives",
    "RankRegLGBMClassifier": "classifiers",
    "RankRegXGBClassifier": "classifiers",
    "lightgbm_fpr_at_tpr": "objectives",
    "lightgbm_objective": "objectives",
    "rank_gradient": "objectives",
    "xgboost_fpr_at_tpr": "objectives",
    "xgboost_objective": "objectives",
}

__all__ = [
    "RankRegLGBMClassifier",
    "RankRegXGBClassifier",
    "lightgbm_fpr_at_tpr",
    "lightgbm_objective",
    "xgboost_fpr_at_tpr",
    "xgboost_objective",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:  # on first use: scikit-learn and torch take seconds to import
        return getattr(import_module(f"rankreg.boosting.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rankreg.boosting' has no attribute {name!r}")
