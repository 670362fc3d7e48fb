"""The base losses of the paper: pure functions of raw scores, one loss per sample, nothing reduced.

A binary loss takes raw scores (N,) and labels (N,), 1 (critical) or 0, and returns one loss per sample, (N,).
`counts` are (n₀, n₁), the numbers of negatives and positives in the training set. Every loss is a softplus of a
shifted, scaled score, so that losses and gradients stay finite for scores of any size that training can produce.
`make_loss` gives a loss by its name in `LOSSES`.
"""

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from rankreg._checks import at_least_float32, check_binary, check_multiclass, check_not_negative, check_positive
from rankreg.names import look_up
from rankreg.published import LOSS_SETTINGS

__all__ = ["LOSSES", "PUBLISHED", "make_loss"]

PerSampleLoss = Callable[[Tensor, Tensor], Tensor]
PUBLISHED = LOSS_SETTINGS  # data set → base loss → settings


def binary_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """ℓ = −log p for positives, −log(1 − p) for negatives, with p = sigmoid(s)."""
    return _margin_loss(scores, labels, positive_margin=0.0, negative_margin=0.0)


def symmetric_margin(scores: Tensor, labels: Tensor, *, margin: float = 0.5) -> Tensor:
    """Cross-entropy in which positives see s − m and negatives see s + m; m: margin, in score units.

    Reference: Liu et al., ICML 2016, as used by Li et al., MICCAI 2019.
    """
    return _margin_loss(scores, labels, positive_margin=margin, negative_margin=margin)


def asymmetric_margin(scores: Tensor, labels: Tensor, *, margin: float = 0.5) -> Tensor:
    """Cross-entropy in which positives see s − m and negatives see s; m: margin, in score units.

    Reference: Li et al., "Overfitting of neural nets under class imbalance", MICCAI 2019.
    """
    return _margin_loss(scores, labels, positive_margin=margin, negative_margin=0.0)


def symmetric_focal(scores: Tensor, labels: Tensor, *, gamma: float = 0.5) -> Tensor:
    """Focal loss: ℓ = (1 − p_y)^γ · cross-entropy, with p_y the probability of the true class.

    gamma: γ, how much less easy samples count.

    Reference: Lin et al., "Focal loss for dense object detection", ICCV 2017, Eq. 4.
    """
    check_not_negative(gamma, "gamma", "0 gives plain cross-entropy")
    bce = binary_cross_entropy(scores, labels)
    scores = at_least_float32(scores)
    wrongness = logsigmoid(torch.where(labels == 1, -scores, scores))  # log(1 − p_y)
    return (gamma * wrongness).exp() * bce


def asymmetric_focal(scores: Tensor, labels: Tensor, *, gamma: float = 1.0) -> Tensor:
    """Focal loss of the negatives only: ℓ = −log p for positives, −p^γ · log(1 − p) for negatives.

    gamma: γ, how much less easy negatives count.

    Reference: Li et al., "Overfitting of neural nets under class imbalance", MICCAI 2019.
    """
    check_not_negative(gamma, "gamma", "0 gives plain cross-entropy")
    bce = binary_cross_entropy(scores, labels)
    return torch.where(labels == 1, bce, (gamma * logsigmoid(at_least_float32(scores))).exp() * bce)


def weighted_bce(scores: Tensor, labels: Tensor, *, counts: tuple[int, int], share: float = 1.0) -> Tensor:
    """Cross-entropy, with the positives' part times w = share · n₀ / n₁; share = 1 balances the classes."""
    check_positive(share, "share", "1 gives both classes the same total weight")
    negatives, positives = _check_counts(counts)
    bce = binary_cross_entropy(scores, labels)
    return torch.where(labels == 1, share * negatives / positives * bce, bce)


def class_balanced_bce(scores: Tensor, labels: Tensor, *, counts: tuple[int, int], beta: float = 0.99) -> Tensor:
    """Cross-entropy times w_y = (1 − β) / (1 − β^{n_y}), the inverse effective number of samples.

    beta: β in [0, 1). 0 weighs nothing, values near 1 weigh by 1/n. The weights are not normalized.

    Reference: Cui et al., "Class-balanced loss based on effective number of samples", CVPR 2019, Eq. 2.
    """
    if not 0 <= beta < 1:
        raise ValueError(f"beta must lie in [0, 1), got {beta!r}: 0 weighs nothing, values near 1 weigh by 1/n")
    negative_weight, positive_weight = ((1 - beta) / (1 - beta**n) for n in _check_counts(counts))
    bce = binary_cross_entropy(scores, labels)
    return torch.where(labels == 1, positive_weight * bce, negative_weight * bce)


def ldam(
    scores: Tensor, labels: Tensor, *, counts: tuple[int, int], max_margin: float = 0.5, scale: float = 30.0
) -> Tensor:
    """Cross-entropy with margins m_y ∝ n_y^(−1/4): the rarer class has the larger margin, max_margin.

        ℓ = softplus(−scale · (s − m₁)) for positives, softplus(scale · (s + m₀)) for negatives

    s: the positive class's cosine less the negative one's, in [−2, 2]: the network's last layer must be
    normalized. The two-logit softmax form of the reference is this softplus.

    Reference: Cao et al., "Learning imbalanced datasets with label-distribution-aware margin loss",
    NeurIPS 2019, Eq. 13.
    """
    check_positive(max_margin, "max_margin", "it is the rarer class's margin")
    check_positive(scale, "scale", "it sharpens the softmax over cosines")
    roots = [n**-0.25 for n in _check_counts(counts)]
    negative_margin, positive_margin = (max_margin * root / max(roots) for root in roots)
    return _margin_loss(
        scores, labels, positive_margin=positive_margin, negative_margin=negative_margin, scale=scale
    )


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of many classes.

    ℓ = −log softmax(z)_y
    """
    check_multiclass(logits, labels)
    return nn.functional.cross_entropy(at_least_float32(logits), labels.long(), reduction="none")


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


def make_loss(
    name: str, *, counts: tuple[int, int] | None = None, dataset: str | None = None, **settings: float
) -> PerSampleLoss:
    """A base loss by name, with its settings filled in.

    Args:
        name: a key of `LOSSES`, e.g. "bce" or "a-fl".
        counts: the numbers of negatives and positives in the training set. "cb-bce", "w-bce" and
            "ldam" need them.
        dataset: a key of `PUBLISHED`, for the settings of the paper's experiments. Default: the
            settings of the function.
        **settings: settings of the loss, e.g. gamma=2.0. They override those of `dataset`.

    Returns:
        A function `loss(scores, labels)` that gives one value per sample.

    Raises:
        ValueError: a name or a setting is unknown, or counts are missing.

    Example:
        >>> import torch
        >>> from rankreg import make_loss
        >>> loss = make_loss("a-fl", gamma=2.0)
        >>> loss(torch.tensor([0.0, 2.0]), torch.tensor([0, 1]))
        tensor([0.1733, 0.1269])
    """
    function = look_up(LOSSES, name, "loss")
    published = look_up(PUBLISHED, dataset, "dataset")[name] if dataset is not None else {}
    arguments: dict[str, Any] = published | settings
    check_settings(name, arguments)
    if "counts" in _keywords(function):
        if counts is None:
            raise ValueError(f"{name!r} needs counts=(negatives, positives) of the training set")
        arguments["counts"] = _check_counts(counts)
    return partial(function, **arguments)


def check_settings(name: str, settings: Iterable[str]) -> None:
    """Raise a ValueError unless the base loss of that name has all these settings."""
    accepted = [keyword for keyword in _keywords(look_up(LOSSES, name, "loss")) if keyword != "counts"]
    unknown = sorted(set(settings) - set(accepted))
    if unknown:
        takes = ", ".join(accepted) or "none"
        raise ValueError(f"{name!r} has no setting {unknown[0]!r}: it takes {takes}")


def _keywords(function: Callable[..., Tensor]) -> list[str]:
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _check_counts(counts: tuple[int, int]) -> tuple[int, int]:
    if len(counts) != 2:
        raise ValueError(f"counts must be (negatives, positives), two numbers, got {counts}")
    negatives, positives = counts
    if negatives < 1 or positives < 1:
        raise ValueError(f"counts must be (negatives, positives) of the training set, both ≥ 1, got {counts}")
    return negatives, positives


def _margin_loss(
    scores: Tensor, labels: Tensor, *, positive_margin: float, negative_margin: float, scale: float = 1.0
) -> Tensor:
    check_binary(scores, labels)
    check_not_negative(positive_margin, "margin", "0 gives plain cross-entropy")
    scores = at_least_float32(scores)
    wrongness = torch.where(labels == 1, positive_margin - scores, scores + negative_margin)
    return softplus(scale * wrongness)
