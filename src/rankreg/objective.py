"""Base loss plus term, reduced once."""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from rankreg.losses import PerSampleLoss
from rankreg.names import look_up


class Term(Protocol):
    """What `RankReg` and `ALM` are: a named, weighted scalar of the scores."""

    name: str

    def __call__(self, scores: Tensor, labels: Tensor, ids: Tensor | None = None) -> Tensor: ...


class Terms(NamedTuple):
    """The parts of an objective and their sum.

    Attributes:
        parts: scalars by name: "base", and the term by its own name.
        total: their sum, a scalar. Call `total.backward()`.
    """

    parts: dict[str, Tensor]
    total: Tensor


def _this_process(values: Tensor) -> Tensor:
    return values


class Objective(nn.Module):
    """Base loss plus term, each reduced once: `objective(scores, labels).total.backward()`.

        loss = mean of base(scores, labels) + term(scores, labels, ids)

    Args:
        base: one loss per sample, e.g. `make_loss("a-fl")`. Its mean is taken here and nowhere else.
        term: `RankReg`, `ALM` or None. Its weight is its own.
        base_over: "union" takes the mean over batch and buffer, which rebalances the classes (the
            paper's CIFAR experiments). "batch" takes it over the batch alone (its Melanoma
            experiments), and then `forward` needs `buffered`.
        gather: turns one process's values into those of all processes, differentiably. Default: one
            process.

    Raises:
        ValueError: base_over is unknown.

    Example:
        >>> import torch
        >>> from rankreg import Objective, RankReg, make_loss
        >>> objective = Objective(make_loss("bce"), RankReg())
        >>> terms = objective(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 0]))
        >>> {name: round(part.item(), 3) for name, part in terms.parts.items()}
        {'base': 1.044, 'rankreg': 0.044}
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
        """The base loss, the term and their sum.

        Args:
            scores: shape (N,), or logits (N, K).
            labels: shape (N,).
            ids: the index of each sample in the training set, for `ALM`.
            buffered: how many samples at the end come from the buffer.
            weights: one factor per sample for its base loss. The mean still divides by the number of
                samples, and the term ranks all samples alike.

        Returns:
            `Terms`: the parts by name, and their sum.

        Raises:
            ValueError: the base loss does not give one value per sample, or a shape is wrong.
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
