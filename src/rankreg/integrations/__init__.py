"""rankreg inside other training frameworks: a Lightning callback and a torchmetrics metric, loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankreg.integrations.lightning import RankRegCallback
    from rankreg.integrations.torchmetrics import FPRAtTPR

_HOME = {"FPRAtTPR": "torchmetrics", "RankRegCallback": "lightning"}

__all__ = ["FPRAtTPR", "RankRegCallback"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"rankreg.integrations.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rankreg.integrations' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
