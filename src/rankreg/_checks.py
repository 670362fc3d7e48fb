"""The one door for tensors: shapes and dtypes always, values where looking at them costs nothing.

Values are checked on the CPU only, since reading one from a GPU would make the host wait, and not while
`torch.compile` traces, since a branch on a value would break the graph.
"""

import math
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from rankreg.metrics import column_hint, positive_score


def values_are_readable(tensor: Tensor) -> bool:
    """Whether the values may be looked at without a synchronisation or a graph break."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def at_least_float32(scores: Tensor) -> Tensor:
    """Half precision makes ties, so it is left before anything is ranked, lost or compared."""
    return scores if scores.dtype == torch.float64 else scores.float()


def check_tensor(values: object, name: str) -> None:
    """A torch tensor."""
    if not isinstance(values, Tensor):
        raise ValueError(f"{name} must be a torch tensor, got {type(values).__name__}: use torch.as_tensor")


def check_scores(scores: Tensor) -> None:
    """Scores are floating point and hold no NaN."""
    check_tensor(scores, "scores")
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floating point, got {scores.dtype}: pass raw scores, e.g. model(x)")
    if values_are_readable(scores) and scores.numel() and bool(scores.detach().amax().isnan()):
        raise ValueError("scores contain NaN: training has diverged or an input was not finite")


def check_binary(scores: Tensor, labels: Tensor) -> None:
    """One score and one label in {0, 1} per sample."""
    check_tensor(scores, "scores")
    check_tensor(labels, "labels")
    if scores.ndim != 1 or labels.shape != scores.shape:
        shapes = tuple(scores.shape), tuple(labels.shape)
        hint = column_hint(shapes[0], "scores", "squeeze(1)") or column_hint(shapes[1], "labels", "squeeze(1)")
        raise ValueError(f"expected scores and labels of one shape (N,), got {shapes[0]} and {shapes[1]}{hint}")
    check_scores(scores)
    if values_are_readable(labels) and not bool(((labels == 0) | (labels == 1)).all()):
        raise ValueError(f"labels must be 0 or 1 (1 = critical), got {distinct(labels)}: map them first")


def check_multiclass(logits: Tensor, labels: Tensor) -> None:
    """One row of logits per sample and one class index below their number."""
    check_tensor(logits, "logits")
    check_tensor(labels, "labels")
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"expected logits (N, K) and labels (N,), got {tuple(logits.shape)} and {tuple(labels.shape)}"
        )
    check_scores(logits)
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"labels must be class indices of an integer dtype, got {labels.dtype}: use .long()")
    if values_are_readable(labels) and not bool(((labels >= 0) & (labels < logits.shape[1])).all()):
        raise ValueError(f"labels must lie in 0 … {logits.shape[1] - 1}, got {distinct(labels)}")


def one_against_rest(logits: Tensor, labels: Tensor, positive: int | None) -> tuple[Tensor, Tensor]:
    """Scores and labels of one class, from logits (N, K) and class labels; None: they are binary already."""
    if positive is None:
        return logits, labels
    check_multiclass(logits, labels)
    return positive_score(logits, positive), labels == positive


def check_ids(ids: Tensor, labels: Tensor) -> None:
    """One integer per sample."""
    if ids.shape != labels.shape or ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise ValueError(
            f"expected integer ids of shape {tuple(labels.shape)}, one per sample,"
            f" got {ids.dtype} of shape {tuple(ids.shape)}"
        )


def check_positive(value: float, name: str, why: str) -> None:
    """A finite number above zero."""
    if not (isinstance(value, (int, float)) and value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}: {why}")


def check_not_negative(value: float, name: str, why: str) -> None:
    """A finite number, zero or more."""
    if not (isinstance(value, (int, float)) and value >= 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}: {why}")


def distinct(labels: Tensor | NDArray[Any]) -> str:
    """The first few distinct values, for a message."""
    values = sorted(set(labels.flatten().tolist()))
    return ", ".join(map(str, values[:5])) + (", …" if len(values) > 5 else "")
