"""The base loss of the multi-class experiments."""

from torch import Tensor
from torch.nn import functional

from rankreg._checks import at_least_float32, check_multiclass


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """ℓ = −log softmax(z)_y per sample, for logits z (N, K) and class indices y (N,)."""
    check_multiclass(logits, labels)
    return functional.cross_entropy(at_least_float32(logits), labels.long(), reduction="none")
