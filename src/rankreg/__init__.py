"""Few false alarms at a high true positive rate, for rare and critical classes.

Names load on first use: `import rankreg` and `rankreg.metrics` stay free of torch.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankreg.names import keep_old_names

if TYPE_CHECKING:
    from rankreg import losses, metrics, operating
    from rankreg.alm import ALM
    from rankreg.buffer import PositiveBuffer
    from rankreg.estimators import CertifiedThresholdClassifier, RankRegClassifier, make_fpr_at_tpr_scorer
    from rankreg.losses import LOSSES, make_loss
    from rankreg.metrics import positive_score
    from rankreg.objective import Objective, Terms
    from rankreg.ranking import rank
    from rankreg.regularizer import RankReg, rank_penalty

__version__ = "0.2.0"

keep_old_names()

_HOME = {
    "ALM": "alm",
    "CertifiedThresholdClassifier": "estimators",
    "LOSSES": "losses",
    "Objective": "objective",
    "PositiveBuffer": "buffer",
    "RankReg": "regularizer",
    "RankRegClassifier": "estimators",
    "Terms": "objective",
    "make_fpr_at_tpr_scorer": "estimators",
    "make_loss": "losses",
    "positive_score": "metrics",
    "rank": "ranking",
    "rank_penalty": "regularizer",
}

_OLD = {"critical_score": "positive_score"}  # for one version, with a warning

__all__ = [
    "ALM",
    "LOSSES",
    "CertifiedThresholdClassifier",
    "Objective",
    "PositiveBuffer",
    "RankReg",
    "RankRegClassifier",
    "Terms",
    "losses",
    "make_fpr_at_tpr_scorer",
    "make_loss",
    "metrics",
    "operating",
    "positive_score",
    "rank",
    "rank_penalty",
]


def __getattr__(name: str) -> Any:
    if name in ("losses", "metrics", "operating"):
        return import_module(f"rankreg.{name}")
    if name in _OLD:
        warnings.warn(f"rankreg.{name} is now rankreg.{_OLD[name]}", FutureWarning, stacklevel=2)
        name = _OLD[name]
    if name in _HOME:
        return getattr(import_module(f"rankreg.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rankreg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
