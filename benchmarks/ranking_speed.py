"""`rank` and `RankReg` against plain sorts and the usual argsort-of-argsort ranker."""

import torch
from rich.table import Table
from torch import Tensor

from benchmarks.timing import Work, best_times, duration, verdict
from rankreg import RankReg, rank

SIZES = (64, 1_000, 10_000, 100_000, 1_000_000)
TARGET_FROM = 10_000
SORTS_TARGET = 1.3


class ArgsortOfArgsort(torch.autograd.Function):
    """What published code does: ranks by sorting twice, and twice again in the backward pass."""

    @staticmethod
    def forward(ctx, scores: Tensor, gamma: float) -> Tensor:  # type: ignore[no-untyped-def]
        ranks = scores.argsort(descending=True).argsort().to(scores.dtype) + 1
        ctx.save_for_backward(scores, ranks)
        ctx.gamma = gamma
        return ranks

    @staticmethod
    def backward(ctx, incoming: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        scores, ranks = ctx.saved_tensors
        moved = (scores + ctx.gamma * incoming).argsort(descending=True).argsort().to(scores.dtype) + 1
        return (moved - ranks) / ctx.gamma, None


def candidates(n: int) -> dict[str, Work]:
    """The contestants on n scores, one in a hundred positive."""
    generator = torch.Generator().manual_seed(n)
    scores = torch.randn(n, generator=generator, requires_grad=True)
    plain, labels = scores.detach(), (torch.arange(n) % 100 == 0).long()
    incoming = 2 * rank(plain, gamma=1.0, normalize=True) * labels / labels.sum()  # what a squared rank sends back
    noise = torch.randn(n, generator=generator)
    shuffled = plain + noise  # what a random gradient makes of the scores
    reg = RankReg()
    return {
        "two sorts": lambda: (plain.sort(), plain.sort()),
        "two sorts, random gradient": lambda: (plain.sort(), shuffled.sort()),
        "argsort of argsort": lambda: ArgsortOfArgsort.apply(scores, 1.0).backward(incoming),  # type: ignore[no-untyped-call]
        "rank": lambda: rank(scores, gamma=1.0).backward(incoming),
        "rank, random gradient": lambda: rank(scores, gamma=1.0).backward(noise),
        "RankReg": lambda: reg(scores, labels).backward(),
    }


def table() -> Table:
    """One row per size; targets hold from 10 k on."""
    result = Table(title="Forward and backward on n scores")
    for column in (
        "n",
        "two torch.sort",
        "argsort²",
        "rank",
        "rank ÷ two sorts",
        "same, random gradient",
        "RankReg ÷ two sorts",
        "rank ÷ argsort²",
    ):
        result.add_column(column, justify="right")
    for n in SIZES:
        times = best_times(candidates(n), seconds=2.0)
        sorts, usual = times["two sorts"], times["argsort of argsort"]
        ratios = [
            times["rank"] / sorts,
            times["rank, random gradient"] / times["two sorts, random gradient"],
            times["RankReg"] / sorts,
            times["rank"] / usual,
        ]
        targets = (SORTS_TARGET, SORTS_TARGET, SORTS_TARGET, 1.0)
        shown = [
            verdict(ratio, target) if n >= TARGET_FROM else f"{ratio:.2f} ×"
            for ratio, target in zip(ratios, targets, strict=True)
        ]
        result.add_row(f"{n:,}", duration(sorts), duration(usual), duration(times["rank"]), *shown)
    return result
