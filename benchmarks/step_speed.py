"""What buffer and ranking term add to one training step of a ResNet-10."""

import torch
from rich.table import Table

from benchmarks.timing import best_times, duration, verdict
from rankreg import Objective, PositiveBuffer, RankReg, make_loss
from rankreg.models import ResNetShape, build_model

TARGET = 1.02
METHODS = {"BCE": Objective(make_loss("bce")), "BCE + RankReg": Objective(make_loss("bce"), RankReg())}


def step_times(width: float) -> dict[str, float]:
    """Seconds per step: 64 images for BCE, 32 and 32 from the buffer for RankReg."""
    torch.manual_seed(0)
    model = build_model(ResNetShape(width=width, classes=2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randint(256, (64, 3, 32, 32), dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    labels = (torch.arange(64) >= 32).long()
    buffer = PositiveBuffer(32)
    buffer.update(images, labels, torch.zeros(64))
    few = labels[:32].clone()
    few[0] = 1  # one new positive a step

    def step(objective: Objective, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = model(inputs)
        optimizer.zero_grad()
        objective(scores, targets).total.backward()
        optimizer.step()
        return scores.detach()

    def buffered_step() -> None:
        inputs, targets = buffer.extend(images[:32], few)
        buffer.update(inputs, targets, step(METHODS["BCE + RankReg"], inputs, targets))

    return best_times(
        {
            "BCE": lambda: step(METHODS["BCE"], images, labels),
            "BCE + RankReg": lambda: step(METHODS["BCE + RankReg"], images, labels),
            "BCE + buffer + RankReg": buffered_step,
        },
        seconds=8.0,
    )


def table() -> Table:
    """CIFAR-sized images, at a quarter of the width and in full."""
    result = Table(title="One step on 64 images of 32 × 32, ResNet-10")
    for column in ("width", "BCE", "with RankReg ÷ BCE", "with buffer and RankReg ÷ BCE"):
        result.add_column(column, justify="right")
    for width in (0.25, 1.0):
        times = step_times(width)
        plain = times["BCE"]
        ratios = [times[name] / plain for name in ("BCE + RankReg", "BCE + buffer + RankReg")]
        result.add_row(f"{width:g}", duration(plain), *(verdict(ratio, TARGET) for ratio in ratios))
    return result
