"""Base loss plus term, reduced once."""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from rankreg._names import look_up
from rankreg.losses import PerSampleLoss


class Term(Protocol):
    """What `RankReg` and `ALM` are: a named, weighted scalar of the scores."""

    name: str

    def __call__(self, scores: Tensor, labels: Tensor, ids: Tensor | None = None) -> Tensor: ...


class Terms(NamedTuple):
    """The parts of an objective by name, and their sum."""

    parts: dict[str, Tensor]
    total: Tensor


def _this_process(values: Tensor) -> Tensor:
    return values


class Objective(nn.Module):
    """base + term: `terms = objective(scores, labels)`, then `terms.total.backward()`.

    base: one loss per sample, e.g. `make_loss("a-fl")`; its mean is taken here and nowhere else. term: `RankReg`,
    `ALM` or None; its weight is its own. base_over: "union" takes the mean over batch and buffer, which
    rebalances the classes (the paper's CIFAR experiments), "batch" over the batch alone (its Melanoma experiments);
    then say how many samples at the end are `buffered`. gather: turns one process's values into those of all
    processes, differentiably; the one place where several processes would meet.
    """

    def __init__(
        self,
        base: PerSampleLoss,
        term: Term | None = None,
        *,
        base_over: Literal["union", "batch"] = "union",
        gather: Callable[[Tensor], Tensor] = _this_process,
    ) -> None:
        super().__init__()
        self.base_is_over_union = look_up({"union": True, "batch": False}, base_over, "base_over")
        self.base, self.term, self.gather = base, term, gather

    def forward(
        self,
        scores: Tensor,
        labels: Tensor,
        ids: Tensor | None = None,
        *,
        buffered: int = 0,
        weights: Tensor | None = None,
    ) -> Terms:
        """Scores (N,) or logits (N, K), labels (N,), the last `buffered` samples from the buffer.

        weights: one factor per sample of its base loss; the mean still divides by the number of samples. The term
        ranks all samples alike.
        """
        if not 0 <= buffered <= len(labels):
            raise ValueError(f"buffered must lie in 0 … {len(labels)}, the number of samples, got {buffered}")
        in_base = torch.ones_like(labels, dtype=torch.bool)
        if not self.base_is_over_union:
            in_base[len(labels) - buffered :] = False

        scores, labels, in_base = self.gather(scores), self.gather(labels), self.gather(in_base)
        ids = ids if ids is None else self.gather(ids)
        losses = self.base(scores, labels)
        if losses.shape != labels.shape:
            raise ValueError(
                f"base must return one loss per sample, shape {tuple(labels.shape)}, got {tuple(losses.shape)}:"
                ' build it with make_loss, or pass reduction="none"'
            )
        if weights is not None:
            losses = losses * _checked(self.gather(weights), labels)
        parts = {"base": torch.where(in_base, losses, 0).sum() / in_base.sum().clamp(min=1)}
        if self.term is not None:
            parts[self.term.name] = self.term(scores, labels, ids)
        return Terms(parts, torch.stack(list(parts.values())).sum())


def _checked(weights: Tensor, labels: Tensor) -> Tensor:
    if weights.shape != labels.shape:  # (N, 1) would broadcast to (N, N) without a word
        raise ValueError(f"expected one weight per sample, shape {tuple(labels.shape)}, got {tuple(weights.shape)}")
    return weights
