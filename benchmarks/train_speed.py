"""Images per second of our loop against a plain float32 loop over a DataLoader with per-sample transforms.

    python -m benchmarks.train_speed

Same network (ResNet-10, a quarter of the width), same batch (64), same optimizer, random images. Rounds of the two
are interleaved and the best of each counts, since other load only ever slows a round down.
"""

import random
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
from PIL import Image, ImageOps
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Dataset

from benchmarks.timing import best_times
from rankreg.datasets.splits import Samples, Splits
from rankreg.distributed import World
from rankreg.models import NORMALISATIONS, ResNet, ResNetShape, build_model
from rankreg.train import TrainConfig
from rankreg.train.loop import Training
from rankreg.train.task import complete, task_of

IMAGES, BATCH = 512, 64
SHAPE = ResNetShape(name="resnet10", width=0.25, classes=2, head="score")


class Transformed(Dataset[tuple[Tensor, Tensor]]):
    """One image at a time: pad, crop, flip, to float, normalise."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        mean, deviation = NORMALISATIONS["cifar"]
        self.mean, self.deviation = torch.tensor(mean).view(3, 1, 1), torch.tensor(deviation).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = ImageOps.expand(Image.fromarray(self.samples.source[index]), 4)
        left, top = random.randint(0, 8), random.randint(0, 8)
        image = image.crop((left, top, left + 32, top + 32))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float() / 255
        return (pixels - self.mean) / self.deviation, torch.tensor(float(self.samples.labels[index]))


def plain_epoch(samples: Samples) -> Callable[[], None]:
    """The loop of every tutorial."""
    network = build_model(SHAPE).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    assert isinstance(network, ResNet)
    body = nn.Sequential(network.stem, network.stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), network.head)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)
    loader = DataLoader(Transformed(samples), batch_size=BATCH, shuffle=True)

    def epoch() -> None:
        for images, labels in loader:
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(body(images), labels).backward()
            optimizer.step()

    return epoch


def our_training(samples: Samples, method: str) -> Training:
    """Our loop, as `train` runs it."""
    splits = Splits("random", {"train": samples, "validation": samples})
    config = TrainConfig.model_validate(
        {"batch_size": BATCH, "augmentation": "cifar", "model": SHAPE, "method": method, "device": "cpu"}
    )
    task = task_of(splits, config)
    config = complete(config, task, samples, own_model=False)
    return Training(splits, config, task, build_model(SHAPE), World())


def our_epoch(training: Training) -> Callable[[], None]:
    """One pass of it."""

    def epoch() -> None:
        training.start_epoch()
        for batch in training.batches.epoch(0):
            training.step(batch)

    return epoch


class Stopwatch:
    """How long a training's network is at work, forward and backward, and how long all the rest takes."""

    def __init__(self, training: Training) -> None:
        self.inside = self.started = 0.0
        training.network.register_forward_pre_hook(lambda *_: self.start())
        training.network.register_forward_hook(lambda *_: self.stop())
        training.objective.register_forward_hook(lambda *_: self.start())  # backward follows
        training.optimizer.register_step_pre_hook(lambda *_: self.stop())

    def start(self) -> None:
        self.started = perf_counter()

    def stop(self) -> None:
        self.inside += perf_counter() - self.started

    def share_outside(self, epoch: Callable[[], None]) -> float:
        """The share of one epoch's time in which the network does nothing."""
        self.inside, began = 0.0, perf_counter()
        epoch()
        return 1 - self.inside / (perf_counter() - began)


def table() -> Table:
    """Images per second of both loops, their ratio, and what our loop spends beside the network."""
    torch.manual_seed(0)
    source = np.random.default_rng(0).integers(0, 256, (IMAGES, 32, 32, 3), dtype=np.uint8)
    labels = (np.arange(IMAGES) % 100 == 0).astype(np.int64)
    samples = Samples(source, np.arange(IMAGES), labels, np.arange(IMAGES))
    trainings = {name: our_training(samples, name) for name in ("none", "rankreg")}
    ours = our_epoch(trainings["none"])
    times = best_times({"plain": plain_epoch(samples), "ours": ours}, seconds=15.0)
    ratio = times["plain"] / times["ours"]
    shares = {
        name: min(Stopwatch(training).share_outside(our_epoch(training)) for _ in range(3))
        for name, training in trainings.items()
    }

    fast = trainings["none"].precision == torch.bfloat16
    target = f" ({'met' if ratio >= 2 else 'MISSED'}: ≥ 2)" if fast else " (target 2 where the CPU has bfloat16)"
    result = Table(title=f"Training, ResNet-10 × 0.25, batch {BATCH}, {trainings['none'].precision}")
    for column in ("plain loop", "ours", "ours ÷ plain", "beside the network", "the same with RankReg"):
        result.add_column(column, justify="right")
    result.add_row(
        *(f"{IMAGES / times[name]:.0f} images/s" for name in ("plain", "ours")),
        f"{ratio:.2f} ×{target}",
        *(f"{100 * share:.1f} % ({'met' if share <= 0.15 else 'MISSED'}: ≤ 15)" for share in shares.values()),
    )
    return result


if __name__ == "__main__":
    Console().print(table())
