"""Ranks with ties, and a gradient through them.

Reference: Mohammadi, Zhao, Zhai, Tung, "Ranking Regularization for Critical Rare Classes", CVPR 2023, Eq. 2 and
section 3.4, after Vlastelica et al., ICLR 2020 (black-box solvers) and Rolínek et al., CVPR 2020 (ranking).
"""

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


def plain_ranks(scores: Tensor, *, normalize: bool) -> Tensor:
    """Ranks along the last axis by one sort, without a gradient.

    In sorted order a rank is the position at which its run of equal scores begins: the running maximum of the
    positions where a new value starts.
    """
    ordered, order = scores.sort(dim=-1, descending=True)
    positions = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
    starts = torch.where(ordered[..., 1:] != ordered[..., :-1], positions[1:], 1)
    starts = torch.cat([torch.ones_like(ordered[..., :1]), starts], dim=-1)
    ranks = torch.empty_like(ordered).scatter_(-1, order, starts.cummax(dim=-1).values)
    return ranks / max(scores.shape[-1], 1) if normalize else ranks


class _BlackBoxRank(torch.autograd.Function):
    @staticmethod
    def forward(scores: Tensor, gamma: float, normalize: bool) -> Tensor:
        return plain_ranks(scores, normalize=normalize)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, bool], output: Tensor) -> None:
        scores, ctx.gamma, ctx.normalize = inputs
        ctx.save_for_backward(scores, output)

    @staticmethod
    def backward(ctx: Any, *incoming: Tensor) -> tuple[Tensor, None, None]:
        scores, ranks = ctx.saved_tensors
        perturbed = plain_ranks(scores + ctx.gamma * incoming[0], normalize=ctx.normalize)
        return (perturbed - ranks) / ctx.gamma, None, None
