"""Ranks with ties, and a gradient through them.

Reference: Mohammadi, Zhao, Zhai, Tung, "Ranking Regularization for Critical Rare Classes", CVPR 2023, Eq. 2 and
section 3.4, after Vlastelica et al., ICLR 2020 (black-box solvers) and Rolínek et al., CVPR 2020 (ranking).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rankreg._checks import at_least_float32, check_positive, check_scores


def rank(scores: Tensor, *, gamma: float, normalize: bool = False) -> Tensor:
    """Ranks along the last axis, 1 for the highest score, with the black-box gradient.

        rk(a)_i = 1 + |{j : a_j > a_i}|

        ∂L/∂a = −(rk(a) − rk(a_γ)) / γ,    a_γ = a + γ · ∂L/∂rk

    a: scores; γ: gamma, how far the incoming gradient moves the scores when asking how the ranks would change.
    With `normalize` ranks are divided by n, so rk lies in (0, 1], in both formulas (docs/decisions/0001). Ties
    share the better rank. Half precision is ranked in float32. The gradient is not linear in ∂L/∂rk: scaling the
    loss acts on γ. `RankReg` does not have this flaw.

    Reference: Mohammadi et al., CVPR 2023, Eq. 2 and section 3.4.
    """
    if scores.ndim == 0:
        raise ValueError("scores need at least one axis to rank along, got a single number")
    check_scores(scores)
    check_positive(gamma, "gamma", "it is the width of the interpolation")
    ranks: Tensor = _BlackBoxRank.apply(at_least_float32(scores), gamma, normalize)  # type: ignore[no-untyped-call]
    return ranks


def run_starts(ordered: Tensor, *, normalize: bool) -> Tensor:
    """The ranks of scores that are in descending order along the last axis.

    Such a rank is the position at which its run of equal scores begins: the running maximum of the positions where
    a new value starts.
    """
    ranks, _ = _runs(ordered)
    return ranks.div_(ordered.shape[-1]) if normalize else ranks


def ranks_among_others(ordered: Tensor, positive: Tensor) -> Tensor:
    """One plus how many of the other class are higher, for scores (N,) in descending order."""
    ranks, starts = _runs(ordered)
    positives = positive.to(ordered.dtype)
    higher_positives = (positives.cumsum(dim=0) - positives).index_select(0, starts)
    return torch.where(positive, ranks.sub_(higher_positives), higher_positives.add_(1))


def black_box_gradient(
    ordered: Tensor,
    ranks: Tensor,
    push: Tensor,
    gamma: float | Tensor,
    ranks_of: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """The gradient of section 3.4, for scores in descending order: the only place where it is computed in torch.

        (rk(a + γ·g) − rk(a)) / γ

    ordered: a; ranks: rk(a); push: g, the gradient that comes in; ranks_of: the ranks of scores in descending
    order, given those and the order that sorted them. Small shifts leave little to sort. The same in numpy, for a
    whole training set where only the positives move, is `boosting.rank_gradient`; a test compares the two.
    """
    moved, order = (ordered + gamma * push).sort(dim=-1, descending=True)
    return (moved.scatter(-1, order, ranks_of(moved, order)) - ranks) / gamma


def _runs(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """Where the run of equal scores begins that each belongs to: its rank, and its index."""
    n = ordered.shape[-1]
    starts = torch.arange(1, n + 1, dtype=ordered.dtype, device=ordered.device).expand(ordered.shape).contiguous()
    starts[..., 1:].mul_(ordered[..., 1:] != ordered[..., :-1])
    ranks, indices = starts.cummax(dim=-1)
    return ranks, indices


class _BlackBoxRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, gamma: float, normalize: bool) -> Tensor:
        ordered, order = scores.sort(dim=-1, descending=True)
        ranks = run_starts(ordered, normalize=normalize)
        ctx.save_for_backward(ordered, order, ranks)
        ctx.gamma, ctx.normalize = gamma, normalize
        return ordered.scatter(-1, order, ranks)

    @staticmethod
    def backward(ctx: Any, *incoming: Tensor) -> tuple[Tensor, None, None]:
        ordered, order, ranks = ctx.saved_tensors
        push = incoming[0].gather(-1, order)
        gradient = black_box_gradient(
            ordered, ranks, push, ctx.gamma, lambda scores, _: run_starts(scores, normalize=ctx.normalize)
        )
        return gradient.scatter(-1, order, gradient), None, None
