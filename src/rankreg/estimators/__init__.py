"""scikit-learn classifiers and scorers for a high true positive rate.

Names load on first use: only `RankRegClassifier` imports torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankreg.estimators.certified_threshold import CertifiedThresholdClassifier, make_fpr_at_tpr_scorer
    from rankreg.estimators.network_classifier import RankRegClassifier

_HOME = {
    "CertifiedThresholdClassifier": "certified_threshold",
    "RankRegClassifier": "network_classifier",
    "make_fpr_at_tpr_scorer": "certified_threshold",
}

__all__ = ["CertifiedThresholdClassifier", "RankRegClassifier", "make_fpr_at_tpr_scorer"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"rankreg.estimators.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rankreg.estimators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
