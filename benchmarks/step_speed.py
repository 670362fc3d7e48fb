"""What buffer and ranking term add to one training step of a ResNet-10."""

import torch
from rich.table import Table

from benchmarks.timing import best_times, duration
from rankreg import Objective, PositiveBuffer, RankReg, make_loss
from rankreg.models import ResNetShape, build_model

TARGET = 0.02


def step_times(width: float) -> dict[str, float]:
    """Seconds of a BCE step on 64 images, and of what comes on top, timed by itself: it is far below the noise of
    whole steps."""
    torch.manual_seed(0)
    model = build_model(ResNetShape(width=width, classes=2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randint(256, (64, 3, 32, 32), dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    labels = (torch.arange(64) >= 32).long()  # as many positives as with a full buffer
    scores = torch.randn(64, requires_grad=True)
    plain, ranked = Objective(make_loss("bce")), Objective(make_loss("bce"), RankReg())
    buffer = PositiveBuffer(32)
    buffer.update(images, labels, torch.zeros(64))
    few = labels[:32].clone()
    few[0] = 1  # one new positive a step

    def step() -> None:
        optimizer.zero_grad()
        plain(model(images), labels).total.backward()
        optimizer.step()

    def refill() -> None:
        inputs, targets = buffer.extend(images[:32], few)
        buffer.update(inputs, targets, scores)

    small = best_times(
        {
            "bce": lambda: plain(scores, labels).total.backward(),
            "rankreg": lambda: ranked(scores, labels).total.backward(),
            "buffer": refill,
        }
    )
    step_seconds = best_times({"step": step}, seconds=5.0)["step"]
    return {"step": step_seconds, "rankreg": small["rankreg"] - small["bce"], "buffer": small["buffer"]}


def table() -> Table:
    """CIFAR-sized images, at a quarter of the width and in full."""
    result = Table(title="One step on 64 images of 32 × 32, ResNet-10")
    for column in ("width", "BCE step", "RankReg adds", "buffer adds", "both ÷ step"):
        result.add_column(column, justify="right")
    for width in (0.25, 1.0):
        times = step_times(width)
        share = (times["rankreg"] + times["buffer"]) / times["step"]
        met = "met" if share <= TARGET else "MISSED"
        shown = (duration(times[name]) for name in ("step", "rankreg", "buffer"))
        result.add_row(f"{width:g}", *shown, f"{share:.2%} ({met}: ≤ {TARGET:.0%})")
    return result
