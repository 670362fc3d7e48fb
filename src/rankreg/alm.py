"""ALM, the baseline of the paper: an augmented Lagrangian that holds positives above negatives.

Reference: Sangalli et al., "Constrained optimization to train neural networks on critical and under-represented
classes", NeurIPS 2021.
"""

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from rankreg._checks import (
    at_least_float32,
    check_binary,
    check_ids,
    check_not_negative,
    check_positive,
    one_against_rest,
    values_are_readable,
)
from rankreg.names import renamed
from rankreg.published import ALM_SETTINGS

PUBLISHED = ALM_SETTINGS  # data set → base loss → (μ₀, δ)


class ALM(nn.Module):
    """The augmented Lagrangian term: add `alm(scores, labels, ids)` to any loss.

        q_i = Σ_{k∈N} relu(s_k − s_i + δ)    for each positive i

        ℓ = Σ_{i∈P} (μ/2 · q_i² + λ_i · q_i) / (|P| |N|)

    N and P are the batch's negatives and positives. λ_i is the multiplier of training sample i. It
    starts at 0. In training mode it grows by μ·q_i whenever sample i is seen. All state is in
    `state_dict()`, and stays in float64 whatever the module is cast to. Call `end_epoch` after each epoch.

    Args:
        samples: the size of the training set. Ids are 0 … samples − 1.
        mu: μ₀, the first value of μ. Default 1e-5.
        delta: δ, the margin between positives and negatives, in score units. Default 0.25.
        rho: ρ, the factor by which μ grows, see `end_epoch`. Default 2.
        positive: the index of the positive (critical) class. With it, the term takes logits (N, K)
            and class labels, and s is `positive_score`. Default: scores are binary.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> import torch
        >>> from rankreg import ALM
        >>> alm = ALM(samples=3, mu=1.0, delta=0.0)
        >>> scores, labels, ids = torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 0]), torch.arange(3)
        >>> alm(scores, labels, ids)  # q = 1: one negative is ahead by 1
        tensor(0.2500)
        >>> alm.multipliers
        tensor([0., 1., 0.], dtype=torch.float64)

    Reference: Sangalli et al., NeurIPS 2021.
    """

    name = "alm"
    mu: Tensor
    multipliers: Tensor
    epoch: Tensor
    last_auc: Tensor

    @renamed(critical="positive")
    def __init__(
        self,
        samples: int,
        *,
        mu: float = 1e-5,
        delta: float = 0.25,
        rho: float = 2.0,
        positive: int | None = None,
    ) -> None:
        super().__init__()
        if samples < 1:
            raise ValueError(f"samples must be the size of the training set, at least 1, got {samples}")
        check_positive(mu, "mu", "it is the penalty's first weight")
        check_not_negative(delta, "delta", "it is the margin between positives and negatives")
        if not (rho >= 1 and math.isfinite(rho)):
            raise ValueError(f"rho must be a finite number of at least 1, got {rho!r}: mu grows by it")
        self.delta, self.rho, self.positive = delta, rho, positive
        self.largest_mu = mu * rho ** (5 if mu < 1e-3 else 3)
        self.register_buffer("multipliers", torch.zeros(samples, dtype=torch.float64))
        self.register_buffer("mu", torch.tensor(mu, dtype=torch.float64))
        self.register_buffer("epoch", torch.tensor(0))
        self.register_buffer("last_auc", torch.tensor(math.nan, dtype=torch.float64))

    def forward(self, scores: Tensor, labels: Tensor, ids: Tensor | None = None) -> Tensor:
        """The term. In training mode the multipliers of the batch's positives grow.

        Args:
            scores: raw, shape (N,), or logits (N, K) if the term has a `positive` class.
            labels: 1 or 0, shape (N,), or class indices.
            ids: the index of each sample in the training set, shape (N,). Required.

        Returns:
            A scalar.

        Raises:
            ValueError: ids are missing or out of range, or shapes or labels are wrong.
        """
        scores, labels = one_against_rest(scores, labels, self.positive)
        check_binary(scores, labels)
        ids = self._checked(ids, labels)
        positive = labels == 1
        scores = at_least_float32(scores)
        violations = shortfalls(scores, positive, delta=self.delta)
        multipliers = self.multipliers[ids]
        pairs = (positive.sum() * (~positive).sum()).clamp(min=1)
        lagrangian = (self.mu / 2 * violations**2 + multipliers * violations).sum() / pairs
        if self.training:
            self.multipliers.index_add_(0, ids, self.mu * violations.detach())
        return lagrangian.to(scores.dtype)

    def end_epoch(self, validation_auc: float) -> None:
        """Let μ grow by the factor ρ, if it is time.

        It grows once after the third epoch. Later it grows whenever the AUC fell by more than 0.05
        since the epoch before. It never exceeds μ₀ρ⁵ (μ₀ρ³ if μ₀ is at least 1e-3).

        Args:
            validation_auc: the AUC on the validation part after this epoch, in [0, 1].
        """
        if not 0 <= validation_auc <= 1:
            raise ValueError(
                f"validation_auc must lie in [0, 1], got {validation_auc!r}: give a share, not a percentage"
            )
        self.epoch += 1
        fell = validation_auc < float(self.last_auc) - 0.05
        if self.epoch == 3 or (self.epoch > 3 and fell):
            self.mu.mul_(self.rho).clamp_(max=self.largest_mu)
        self.last_auc.fill_(validation_auc)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow `.to`, `.cuda` and `.cpu` to a device; in half precision μ would vanish, so the dtype stays."""
        for name, values in self._buffers.items():
            assert values is not None
            self._buffers[name] = values.to(fn(values).device)
        return self

    def _checked(self, ids: Tensor | None, labels: Tensor) -> Tensor:
        if ids is None:
            raise ValueError("ALM keeps one multiplier per training sample: pass ids, each sample's index")
        check_ids(ids, labels)
        if values_are_readable(ids) and bool(((ids < 0) | (ids >= len(self.multipliers))).any()):
            raise ValueError(f"ids must lie in 0 … {len(self.multipliers) - 1}, the training set's indices")
        return ids.long()

    def extra_repr(self) -> str:
        return f"{len(self.multipliers)}, mu={float(self.mu):g}, delta={self.delta}, rho={self.rho}"


def shortfalls(scores: Tensor, positive: Tensor, *, delta: float) -> Tensor:
    """q_i = Σ_{k∈N} relu(s_k − s_i + δ) for each positive i, zero elsewhere, in O(n log n).

    The sum runs over the negatives above s_i − δ: a prefix of the descending order, so two running sums give it.
    They are kept in float64, since q_i is the small difference of two large ones.
    """
    exact = scores.double()
    ordered, order = exact.sort(descending=True)
    negative = (~positive)[order]
    nothing = exact.new_zeros(1)
    sums = torch.cat([nothing, (ordered * negative).cumsum(0)])
    counts = torch.cat([nothing, negative.cumsum(0)])
    level = exact - delta
    above = torch.searchsorted(-ordered.detach(), -level.detach())  # how many scores lie above each level
    return torch.where(positive, (sums[above] - counts[above] * level).clamp(min=0), 0)
