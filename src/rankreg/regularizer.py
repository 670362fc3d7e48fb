"""The rank penalty (Eq. 4): the lower a positive ranks, the more it costs."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from rankreg._checks import (
    at_least_float32,
    check_binary,
    check_not_negative,
    check_positive,
    one_against_rest,
)
from rankreg.names import look_up, renamed
from rankreg.ranking import black_box_gradient, change_by_sorting, ranks_among_all, ranks_among_others

PenaltyName = Literal["rank", "squared", "cubed", "exponential"]
SpaceName = Literal["score", "probability"]
AmongName = Literal["all", "negatives"]

DEFAULT_REACH = 1.0  # docs/decisions/0002
DEFAULT_WEIGHT = 0.1  # docs/decisions/0053


class Penalty(NamedTuple):
    """A penalty p(r) of a normalised rank and its slope p′(r)."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


PENALTIES: dict[str, Penalty] = {
    "rank": Penalty(lambda r: r, torch.ones_like),
    "squared": Penalty(torch.square, lambda r: 2 * r),
    "cubed": Penalty(lambda r: r**3, lambda r: 3 * r**2),
    "exponential": Penalty(torch.exp, torch.exp),
}

SPACES: dict[str, Callable[[Tensor], Tensor]] = {
    "score": lambda scores: scores,
    "probability": torch.sigmoid,
}

# Normalised ranks of scores in descending order, given which of them are positives (docs/decisions/0053).
RANKINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "all": lambda ordered, positive: ranks_among_all(ordered, normalize=True),
    "negatives": lambda ordered, positive: ranks_among_others(ordered, positive).div_(1 + (~positive).sum()),
}


def rank_penalty(
    scores: Tensor,
    labels: Tensor,
    *,
    penalty: PenaltyName = "squared",
    reach: float | None = None,
    gamma: float | None = None,
    space: SpaceName = "score",
    margin: float = 0.0,
    among: AmongName = "negatives",
) -> Tensor:
    """The mean penalty of the positives' normalized ranks, differentiable in the scores.

        ℓ = 1/|P| Σ_{i∈P} p(r_i),    r_i = (1 + |{k∈N : a_k > a_i}|) / (|N| + 1)

        ∂ℓ/∂a = −(r − r(a + γ·g)) / γ,    g = ∂ℓ/∂r,    γ = reach / max g

    P and N are the samples with label 1 and 0. A negative's r counts the positives above it. The
    gradient is linear in the incoming one (docs/decisions/0002). A batch without positives or
    without negatives gives a zero that back-propagates zeros. `RankReg` is this function as a
    module, with a weight.

    Args:
        scores: raw, shape (N,).
        labels: 1 or 0, shape (N,).
        penalty: p, one of "rank", "squared", "cubed", "exponential".
        reach: the largest shift of a when asking how ranks would change, in units of a. Default 1.
        gamma: γ, the paper's way to say the same. Give one of the two.
        space: what a is: "score" for the raw scores, "probability" for their sigmoid. In float32 a
            sigmoid is 1 from a score of 17 on, so probabilities tie there.
        margin: what positives must be ahead by. It is subtracted from a at the positives.
        among: "negatives", or "all" for the published rank r = rk(a) / n. With "all" positives pass
            each other too, and are drawn together where they are closer than the reach
            (docs/decisions/0053).

    Returns:
        ℓ, a scalar.

    Raises:
        ValueError: shapes or labels are wrong, a name is unknown, a number is out of range, or both
            reach and gamma are given.

    Example:
        >>> import torch
        >>> from rankreg import rank_penalty
        >>> scores = torch.tensor([2.0, 1.5, 0.0], requires_grad=True)
        >>> value = rank_penalty(scores, torch.tensor([0, 1, 0]))  # rank 2 of 3: (2/3)²
        >>> value.backward()
        >>> value.item(), scores.grad  # the positive passes the negative above it
        (0.444..., tensor([ 0.4444, -0.4444,  0.0000]))

    Reference: Mohammadi et al., CVPR 2023, Eq. 4 and section 3.4.
    """
    check_binary(scores, labels)
    value_of, slope_of = look_up(PENALTIES, penalty, "penalty")
    ranks_of = look_up(RANKINGS, among, "among")
    _check_width(reach, gamma)
    check_not_negative(margin, "margin", "it is what positives must be ahead by")

    positive = labels == 1
    ranked = look_up(SPACES, space, "space")(at_least_float32(scores))
    if margin:
        ranked = ranked - margin * positive
    count = positive.sum()
    both_classes = (count > 0) & (count < len(labels))  # one class alone has no order to improve

    # From here on everything stands in descending order of the scores.
    ordered, order = ranked.detach().sort(descending=True)
    positive = positive.index_select(0, order)
    share = positive * (both_classes.to(ordered.dtype) / count.clamp(min=1))
    ranks = ranks_of(ordered, positive)
    push = share * slope_of(ranks)  # g, zero at the negatives
    width = gamma if gamma is not None else width_of(DEFAULT_REACH if reach is None else reach, push)
    rank_change = change_by_sorting(ranks, lambda moved, again: ranks_of(moved, positive.index_select(0, again)))
    gradient = black_box_gradient(ordered, push, width, rank_change)
    gradient = gradient.scatter(0, order, gradient)
    value: Tensor = _KnownGradient.apply(ranked, (share * value_of(ranks)).sum(), gradient)  # type: ignore[no-untyped-call]
    return value


class RankReg(nn.Module):
    """The ranking regularizer: add `reg(scores, labels)` to any loss.

        loss = base(scores, labels) + λ · 1/|P| Σ_{i∈P} p(r_i)

    The term has three forms. Every document uses these names:

    - *Default*, `RankReg()`: positives are ranked among negatives, by raw scores, with reach 1 and
      weight 0.1.
    - *Published*, `RankReg.published()`: as the paper describes it. Positives are ranked among all
      samples, by probabilities, with γ = 1 and weight 1.
    - *Scores*, `RankReg(among="all", weight=1.0)`: positives are ranked among all samples, by raw
      scores, with reach 1 and weight 1. Most runs of the bench and gradient boosting use it. With
      hundreds of positives it kept networks from learning (docs/decisions/0053).

    Args:
        penalty: p, one of "rank", "squared", "cubed", "exponential".
        reach: largest shift when asking how ranks would change, in score units. Default 1.
        gamma: γ, the paper's way to say the same: the width of the interpolation. Give one of the two.
        space: "score" ranks raw scores, "probability" their sigmoid.
        margin: what positives must be ahead of negatives by, in units of the space. Default 0.
        among: "negatives" ranks positives among negatives, "all" among all samples.
        weight: λ, the factor of the term. 0 switches it off.
        positive: the index of the positive (critical) class. With it, the term takes logits (N, K)
            and class labels, and ranks samples by `positive_score`. Default: scores are binary.

    Raises:
        ValueError: a name is unknown, a number is out of range, or both reach and gamma are given.

    Example:
        >>> import torch
        >>> from rankreg import RankReg
        >>> scores, labels = torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 0])
        >>> RankReg(weight=1.0)(scores, labels)  # the positive has rank 2 of 3: (2/3)²
        tensor(0.4444)
        >>> RankReg.published()
        RankReg('squared', gamma=1.0, space='probability', margin=0.0, among='all', weight=1.0)

    Reference: Mohammadi et al., CVPR 2023, Eq. 4 and section 3.4.
    """

    name = "rankreg"

    @renamed(critical="positive")
    def __init__(
        self,
        penalty: PenaltyName = "squared",
        *,
        reach: float | None = None,
        gamma: float | None = None,
        space: SpaceName = "score",
        margin: float = 0.0,
        among: AmongName = "negatives",
        weight: float = DEFAULT_WEIGHT,
        positive: int | None = None,
    ) -> None:
        super().__init__()
        look_up(PENALTIES, penalty, "penalty")
        look_up(SPACES, space, "space")
        look_up(RANKINGS, among, "among")
        _check_width(reach, gamma)
        check_not_negative(margin, "margin", "it is what positives must be ahead by")
        check_not_negative(weight, "weight", "use 0 to switch the term off")
        self.penalty, self.space, self.margin, self.among = penalty, space, margin, among
        self.reach, self.gamma = reach, gamma
        self.weight, self.positive = weight, positive

    @classmethod
    @renamed(critical="positive")
    def published(cls, *, gamma: float = 1.0, positive: int | None = None) -> "RankReg":
        """The term as the paper describes it: squared ranks among all samples, by probabilities, weight 1.

        Args:
            gamma: γ, the width of the interpolation. The paper does not state it. We use 1.
            positive: as in `RankReg`.

        Returns:
            A `RankReg` with these settings.
        """
        return cls(gamma=gamma, space="probability", among="all", weight=1.0, positive=positive)

    def forward(self, scores: Tensor, labels: Tensor, ids: Tensor | None = None) -> Tensor:
        """The weighted penalty.

        Args:
            scores: raw, shape (N,), or logits (N, K) if the term has a `positive` class.
            labels: 1 or 0, shape (N,), or class indices.
            ids: not used. Every term is called alike, and `ALM` needs them.

        Returns:
            A scalar.
        """
        scores, labels = one_against_rest(scores, labels, self.positive)
        return self.weight * rank_penalty(
            scores,
            labels,
            penalty=self.penalty,
            reach=self.reach,
            gamma=self.gamma,
            space=self.space,
            margin=self.margin,
            among=self.among,
        )

    def extra_repr(self) -> str:
        width = f"gamma={self.gamma}" if self.gamma is not None else f"reach={self.reach or DEFAULT_REACH}"
        positive = "" if self.positive is None else f", positive={self.positive}"
        return (
            f"{self.penalty!r}, {width}, space={self.space!r}, margin={self.margin}, among={self.among!r},"
            f" weight={self.weight}{positive}"
        )


def _check_width(reach: float | None, gamma: float | None) -> None:
    if reach is not None and gamma is not None:
        raise ValueError("give reach or gamma, not both: one follows from the other")
    if gamma is not None:
        check_positive(gamma, "gamma", "it is the width of the interpolation")
    if reach is not None:
        check_positive(reach, "reach", "it is the largest shift of a score, in score units")


def width_of(reach: float, push: Tensor) -> Tensor:
    """The γ at which the largest shift γ·g is `reach`."""
    largest = push.max() if push.numel() else push.new_zeros(())
    return reach / largest.clamp(min=torch.finfo(push.dtype).tiny)


class _KnownGradient(torch.autograd.Function):
    """A value whose gradient at the given point is known: linear in what comes in, unlike `rank`."""

    @staticmethod
    def forward(ctx: Any, point: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *incoming: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return incoming[0] * gradient, None, None
