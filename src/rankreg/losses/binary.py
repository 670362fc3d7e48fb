"""The eight base losses of the paper: one score and one loss per sample, from raw scores, nothing reduced.

Labels are 1 (critical) or 0. Every loss is a softplus of a shifted, scaled score, so that losses and gradients
stay finite for scores of any size that training can produce.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from rankreg._checks import at_least_float32, check_binary, check_not_negative, check_positive


def binary_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """ℓ = −log p for positives, −log(1 − p) for negatives, with p = sigmoid(s)."""
    return _margin_loss(scores, labels, positive_margin=0.0, negative_margin=0.0)


def symmetric_margin(scores: Tensor, labels: Tensor, *, margin: float = 0.5) -> Tensor:
    """Cross-entropy in which positives see s − m and negatives s + m.

    Reference: Liu et al., ICML 2016, as used by Li et al., MICCAI 2019.
    """
    return _margin_loss(scores, labels, positive_margin=margin, negative_margin=margin)


def asymmetric_margin(scores: Tensor, labels: Tensor, *, margin: float = 0.5) -> Tensor:
    """Cross-entropy in which positives see s − m and negatives see s.

    Reference: Li et al., "Overfitting of neural nets under class imbalance", MICCAI 2019.
    """
    return _margin_loss(scores, labels, positive_margin=margin, negative_margin=0.0)


def symmetric_focal(scores: Tensor, labels: Tensor, *, gamma: float = 0.5) -> Tensor:
    """ℓ = (1 − p_y)^γ · cross-entropy, with p_y the probability of the true class.

    Reference: Lin et al., "Focal loss for dense object detection", ICCV 2017, Eq. 4.
    """
    check_not_negative(gamma, "gamma", "0 gives plain cross-entropy")
    bce = binary_cross_entropy(scores, labels)
    scores = at_least_float32(scores)
    wrongness = logsigmoid(torch.where(labels == 1, -scores, scores))  # log(1 − p_y)
    return (gamma * wrongness).exp() * bce


def asymmetric_focal(scores: Tensor, labels: Tensor, *, gamma: float = 1.0) -> Tensor:
    """ℓ = −log p for positives, −p^γ · log(1 − p) for negatives.

    Reference: Li et al., "Overfitting of neural nets under class imbalance", MICCAI 2019.
    """
    check_not_negative(gamma, "gamma", "0 gives plain cross-entropy")
    bce = binary_cross_entropy(scores, labels)
    return torch.where(labels == 1, bce, (gamma * logsigmoid(at_least_float32(scores))).exp() * bce)


def weighted_bce(scores: Tensor, labels: Tensor, *, counts: tuple[int, int], share: float = 1.0) -> Tensor:
    """Cross-entropy, with the positives' part times w = share · n₀ / n₁.

    counts: (n₀, n₁), the training set's negatives and positives; share = 1 balances the classes.
    """
    check_positive(share, "share", "1 gives both classes the same total weight")
    negatives, positives = check_counts(counts)
    bce = binary_cross_entropy(scores, labels)
    return torch.where(labels == 1, share * negatives / positives * bce, bce)


def class_balanced_bce(scores: Tensor, labels: Tensor, *, counts: tuple[int, int], beta: float = 0.99) -> Tensor:
    """Cross-entropy times w_y = (1 − β) / (1 − β^{n_y}), the inverse effective number of samples.

    counts: (n₀, n₁), the training set's negatives and positives. Weights are not normalised.

    Reference: Cui et al., "Class-balanced loss based on effective number of samples", CVPR 2019, Eq. 2.
    """
    if not 0 <= beta < 1:
        raise ValueError(f"beta must lie in [0, 1), got {beta!r}: 0 weighs nothing, values near 1 weigh by 1/n")
    negative_weight, positive_weight = ((1 - beta) / (1 - beta**n) for n in check_counts(counts))
    bce = binary_cross_entropy(scores, labels)
    return torch.where(labels == 1, positive_weight * bce, negative_weight * bce)


def ldam(
    scores: Tensor, labels: Tensor, *, counts: tuple[int, int], max_margin: float = 0.5, scale: float = 30.0
) -> Tensor:
    """Cross-entropy of scale · (s ∓ m_y), with margins m_y ∝ n_y^(−1/4), the larger one max_margin.

        ℓ = softplus(−scale · (s − m₁)) for positives, softplus(scale · (s + m₀)) for negatives

    s: the positive class's cosine less the negative one's, in [−2, 2]: the network's last layer is to be
    normalised. The two-logit softmax form of the reference is this softplus. counts: (n₀, n₁).

    Reference: Cao et al., "Learning imbalanced datasets with label-distribution-aware margin loss", NeurIPS 2019,
    Eq. 13.
    """
    check_positive(max_margin, "max_margin", "it is the rarer class's margin")
    check_positive(scale, "scale", "it sharpens the softmax over cosines")
    roots = [n**-0.25 for n in check_counts(counts)]
    negative_margin, positive_margin = (max_margin * root / max(roots) for root in roots)
    return _margin_loss(
        scores, labels, positive_margin=positive_margin, negative_margin=negative_margin, scale=scale
    )


def check_counts(counts: tuple[int, int]) -> tuple[int, int]:
    """The training set's numbers of negatives and positives, both at least one."""
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
