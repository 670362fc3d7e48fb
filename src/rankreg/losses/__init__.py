"""Base losses: pure functions, a literal table of them, and the settings the paper's experiments use."""

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch import Tensor

from rankreg._names import look_up
from rankreg.losses.binary import (
    asymmetric_focal,
    asymmetric_margin,
    binary_cross_entropy,
    check_counts,
    class_balanced_bce,
    ldam,
    symmetric_focal,
    symmetric_margin,
    weighted_bce,
)
from rankreg.losses.multiclass import cross_entropy
from rankreg.published import LOSS_SETTINGS

PerSampleLoss = Callable[[Tensor, Tensor], Tensor]

LOSSES: dict[str, Callable[..., Tensor]] = {
    "bce": binary_cross_entropy,
    "s-ml": symmetric_margin,
    "s-fl": symmetric_focal,
    "a-ml": asymmetric_margin,
    "a-fl": asymmetric_focal,
    "cb-bce": class_balanced_bce,
    "w-bce": weighted_bce,
    "ldam": ldam,
}

PUBLISHED = LOSS_SETTINGS  # data set → base loss → settings


def make_loss(
    name: str, *, counts: tuple[int, int] | None = None, dataset: str | None = None, **settings: float
) -> PerSampleLoss:
    """The base loss of that name with its settings filled in: `loss(scores, labels)`, one value per sample.

    counts: the training set's (negatives, positives), needed by "cb-bce", "w-bce" and "ldam". dataset: a key of
    `PUBLISHED`, for the settings the paper's experiments use; `settings` such as gamma=2.0 go before them.
    """
    function = look_up(LOSSES, name, "loss")
    published = look_up(PUBLISHED, dataset, "dataset")[name] if dataset is not None else {}
    arguments: dict[str, Any] = published | settings
    check_settings(name, arguments)
    if "counts" in _keywords(function):
        if counts is None:
            raise ValueError(f"{name!r} needs counts=(negatives, positives) of the training set")
        arguments["counts"] = check_counts(counts)
    return partial(function, **arguments)


def check_settings(name: str, settings: Iterable[str]) -> None:
    """Settings that the base loss of that name has; the counts of the training set are none."""
    accepted = [keyword for keyword in _keywords(look_up(LOSSES, name, "loss")) if keyword != "counts"]
    unknown = sorted(set(settings) - set(accepted))
    if unknown:
        takes = ", ".join(accepted) or "none"
        raise ValueError(f"{name!r} has no setting {unknown[0]!r}: it takes {takes}")


def _keywords(function: Callable[..., Tensor]) -> list[str]:
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]


__all__ = [
    "LOSSES",
    "PUBLISHED",
    "PerSampleLoss",
    "asymmetric_focal",
    "asymmetric_margin",
    "binary_cross_entropy",
    "class_balanced_bce",
    "cross_entropy",
    "ldam",
    "make_loss",
    "symmetric_focal",
    "symmetric_margin",
    "weighted_bce",
]
