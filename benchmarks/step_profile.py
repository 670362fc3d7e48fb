"""Where a training step of the bench spends its time, in both number formats, and what `torch.compile` gains.

    python -m benchmarks.step_profile

ResNet-10 at a quarter of the width, 64 images of 32 × 32. The three candidates take turns; then torch's profiler
adds up the time of each kind of operation. Compiling takes half a minute and needs a C++ compiler.
"""

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.timing import Work, best_times
from rankreg import Objective, make_loss
from rankreg.models import ResNetShape, build_model

IMAGES = 64
KINDS = {  # by what the names of torch's operations contain
    "convolutions": ("convolution",),
    "batch normalisation": ("batch_norm",),
    "ReLU, sums": ("threshold", "clamp", "relu", "aten::add"),
}


def candidate(dtype: torch.dtype, *, compiled: bool = False) -> Work:
    """One step: forward, loss, backward, update."""
    torch.manual_seed(0)
    network = build_model(ResNetShape(width=0.25, classes=2))
    model: nn.Module = torch.compile(network) if compiled else network  # type: ignore[assignment]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)
    images = torch.randint(256, (IMAGES, 3, 32, 32), dtype=torch.uint8).contiguous(
        memory_format=torch.channels_last
    )
    labels, objective = (torch.arange(IMAGES) % 2).long(), Objective(make_loss("bce"))

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            scores = model(images)
        optimizer.zero_grad()
        objective(scores.float(), labels).total.backward()
        optimizer.step()

    return step


def shares(step: Work) -> dict[str, float]:
    """The share of a step that each kind of operation takes."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(10):
            step()
    events = [event for event in profiler.key_averages() if event.self_cpu_time_total > 0]
    whole = sum(event.self_cpu_time_total for event in events)
    found = {
        kind: sum(e.self_cpu_time_total for e in events if any(part in e.key for part in parts)) / whole
        for kind, parts in KINDS.items()
    }
    return found | {"all else": 1 - sum(found.values())}


def table() -> Table:
    """A row per format, and one for the compiled network."""
    steps = {
        "float32": candidate(torch.float32),
        "bfloat16": candidate(torch.bfloat16),
        "bfloat16, compiled": candidate(torch.bfloat16, compiled=True),
    }
    times = best_times(steps, seconds=20.0)
    result = Table(title=f"One step on {IMAGES} images of 32 × 32, ResNet-10 × 0.25: where the time goes")
    for column in ("", "images/s", "÷ float32", *KINDS, "all else"):
        result.add_column(column, justify="right")
    for name, step in steps.items():
        parts = ["–"] * (len(KINDS) + 1) if "compiled" in name else [f"{s:.0%}" for s in shares(step).values()]
        ratio = times["float32"] / times[name]
        result.add_row(name, f"{IMAGES / times[name]:.0f}", f"{ratio:.2f} ×", *parts)
    return result


if __name__ == "__main__":
    torch.set_num_threads(1)
    Console().print(table())
