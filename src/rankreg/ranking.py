"""Ranks with ties, and a gradient through them: the only implementation, for `rank`, `RankReg` and boosting.

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

    Ties share the better rank. Half precision is ranked in float32. The gradient is not linear in
    ∂L/∂rk: a factor of the loss changes γ. `RankReg` does not have this flaw.

    Args:
        scores: a, floating point, ranked along the last axis.
        gamma: γ, how far the incoming gradient moves the scores to see how the ranks change.
        normalize: divide ranks by n in both formulas, so that they lie in (0, 1]
            (docs/decisions/0001).

    Returns:
        The ranks, in the shape of the scores.

    Raises:
        ValueError: the scores have no axis or contain NaN, or gamma is not above 0.

    Example:
        >>> import torch
        >>> from rankreg import rank
        >>> rank(torch.tensor([0.3, 0.9, 0.3, 0.1]), gamma=1.0)
        tensor([2., 1., 2., 4.])

    Reference: Mohammadi et al., CVPR 2023, Eq. 2 and section 3.4.
    """
    if scores.ndim == 0:
        raise ValueError("scores need at least one axis to rank along, got a single number")
    check_scores(scores)
    check_positive(gamma, "gamma", "it is the width of the interpolation")
    ranks: Tensor = _BlackBoxRank.apply(at_least_float32(scores), gamma, normalize)  # type: ignore[no-untyped-call]
    return ranks


def black_box_gradient(
    scores: Tensor, push: Tensor, gamma: float | Tensor, rank_change: Callable[[Tensor], Tensor]
) -> Tensor:
    """The gradient of section 3.4.

        (rk(a + γ·g) − rk(a)) / γ

    scores: a; push: g, the gradient that comes in; rank_change: by how much the ranks change when the scores
    become the given ones.
    """
    return rank_change(scores + gamma * push) / gamma


def ranks_among_all(ordered: Tensor, *, normalize: bool) -> Tensor:
    """The ranks of scores that are in descending order along the last axis."""
    ranks, _ = _runs(ordered)
    return ranks.div_(ordered.shape[-1]) if normalize else ranks


def ranks_among_others(ordered: Tensor, positive: Tensor) -> Tensor:
    """One plus how many of the other class are higher, for scores (N,) in descending order."""
    ranks, starts = _runs(ordered)
    positives = positive.to(ordered.dtype)
    higher_positives = (positives.cumsum(dim=0) - positives).index_select(0, starts)
    return torch.where(positive, ranks.sub_(higher_positives), higher_positives.add_(1))


def change_by_sorting(ranks: Tensor, ranks_of: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A `rank_change` that sorts the moved scores again; small shifts leave little to sort.

    ranks: before the move; ranks_of: of scores in descending order, given these and the order that sorted them.
    """

    def rank_change(moved: Tensor) -> Tensor:
        ordered, order = moved.sort(dim=-1, descending=True)
        return ordered.scatter(-1, order, ranks_of(ordered, order)) - ranks

    return rank_change


def change_by_lookup(
    depths: Tensor, rows: Tensor, weights: Tensor | None
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """How much stands above the few samples that move, and a `rank_change` for all samples without a second sort.

    depths: minus the scores (N,), ascending; rows: where in them the samples that move up are, ascending; weights:
    what each sample counts in a rank, in the same order, 1 without. Results are sums of weights in float64. A
    sample that stays is passed by those that start below it and land above it.
    """

    def mass(counts: Tensor, sums: Tensor | None) -> Tensor:
        return counts.double() if sums is None else sums[counts]

    before = depths[rows]
    moving = torch.ones(len(rows), dtype=torch.float64) if weights is None else weights[rows]
    sums = None if weights is None else _sums(weights)
    above = mass(torch.searchsorted(depths, before), sums)

    def rank_change(moved: Tensor) -> Tensor:
        landed, order = (-moved).to(depths.dtype).sort()
        left, joined = (None, None) if weights is None else (_sums(moving), _sums(moving[order]))
        now_above = mass(torch.searchsorted(depths, landed), sums)
        now_above -= mass(torch.searchsorted(before, landed), left)
        now_above += mass(torch.searchsorted(landed, landed), joined)
        passed = torch.zeros(len(depths) + 1, dtype=torch.float64)
        passed.index_add_(0, torch.searchsorted(depths, landed, right=True), moving[order])
        passed.index_add_(0, torch.searchsorted(depths, before, right=True), -moving)
        change = passed[:-1].cumsum_(0)
        change[rows[order]] = now_above - above[order]
        return change

    return above, rank_change


def _sums(weights: Tensor) -> Tensor:
    """The sum of the first k weights, for k = 0 … N."""
    return torch.cat([weights.new_zeros(1), weights.cumsum(0)])


def _runs(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """Where the run of equal scores begins that each belongs to: its rank, and its index.

    The begin of a run is the running maximum of the positions where a new value starts.
    """
    n = ordered.shape[-1]
    starts = torch.arange(1, n + 1, dtype=ordered.dtype, device=ordered.device).expand(ordered.shape).contiguous()
    starts[..., 1:].mul_(ordered[..., 1:] != ordered[..., :-1])
    ranks, indices = starts.cummax(dim=-1)
    return ranks, indices


class _BlackBoxRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, gamma: float, normalize: bool) -> Tensor:
        ordered, order = scores.sort(dim=-1, descending=True)
        ranks = ranks_among_all(ordered, normalize=normalize)
        ctx.save_for_backward(ordered, order, ranks)
        ctx.gamma, ctx.normalize = gamma, normalize
        return ordered.scatter(-1, order, ranks)

    @staticmethod
    def backward(ctx: Any, *incoming: Tensor) -> tuple[Tensor, None, None]:
        ordered, order, ranks = ctx.saved_tensors
        rank_change = change_by_sorting(ranks, lambda moved, _: ranks_among_all(moved, normalize=ctx.normalize))
        gradient = black_box_gradient(ordered, incoming[0].gather(-1, order), ctx.gamma, rank_change)
        return gradient.scatter(-1, order, gradient), None, None
