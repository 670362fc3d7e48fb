"""The study of docs/decisions/0057 does what the page says."""

import shutil
from itertools import permutations

import numpy as np
import pytest
import torch
from benchmarks import generalisation
from benchmarks.generalisation import LAST, Mirrored, Way, drawn, mixed, order_of_shares, pasted, update
from numpy.typing import NDArray
from scipy.special import expit
from torch import Generator, Tensor, nn

from rankreg.datasets import Splits, load
from rankreg.datasets.splits import Samples
from rankreg.metrics import auc
from rankreg.models import ResNetShape
from rankreg.train import TrainConfig, train
from rankreg.train.config import NoMethod
from rankreg.train.task import complete, task_of
from rankreg_bench.arms import FASTER

SHARES = torch.tensor([0.0, 0.1, 0.5, 0.97, 1.0])


def black_and_white(height: int, width: int) -> tuple[Tensor, Tensor]:
    black = torch.zeros(len(SHARES), 3, height, width, dtype=torch.uint8)
    return black, torch.full_like(black, 255)


def test_the_share_of_a_pasted_image_is_the_share_of_its_pixels() -> None:
    black, white = black_and_white(20, 30)
    for seed in range(20):
        images, shares = pasted(black, white, SHARES, Generator().manual_seed(seed))
        assert torch.equal(shares, (images == 255).float().mean(dim=(1, 2, 3)))
        assert torch.allclose(shares, SHARES, atol=0.06)
        assert shares[0] == 0
        assert shares[-1] == 1


def test_mixed_pixels_are_the_weighted_average() -> None:
    rng = np.random.default_rng(0)
    negatives, positives = (rng.integers(0, 256, (5, 3, 4, 4), dtype=np.uint8) for _ in range(2))
    images, shares = mixed(torch.from_numpy(negatives), torch.from_numpy(positives), SHARES, Generator())
    weights = SHARES.double().numpy()[:, None, None, None]
    assert torch.equal(shares, SHARES)
    assert np.abs(images.numpy() - (weights * positives + (1 - weights) * negatives)).max() <= 0.5 + 1e-4


def test_drawn_images_are_whole_and_as_often_positive_as_the_share_says() -> None:
    black, white = black_and_white(2, 2)
    found = [
        drawn(black, white, SHARES, generator) for generator in [Generator().manual_seed(1)] for _ in range(2000)
    ]
    for images, labels in found[:50]:
        assert torch.equal(images[:, 0, 0, 0] == 255, labels == 1)
    frequency = torch.stack([labels for _, labels in found]).mean(dim=0)
    assert torch.allclose(frequency, SHARES, atol=0.045)  # four standard errors


def test_no_order_of_the_scores_is_better_than_the_order_of_the_shares() -> None:
    shares = torch.tensor([0.0, 0.2, 0.4, 0.6, 0.9])
    values = {
        order: float(order_of_shares(torch.tensor(order), shares))
        for order in permutations((0.0, 3.0, 6.0, 9.0, 12.0))
    }
    assert min(values, key=values.__getitem__) == (0.0, 3.0, 6.0, 9.0, 12.0)
    assert max(values, key=values.__getitem__) == (12.0, 9.0, 6.0, 3.0, 0.0)


def test_a_sharpness_aware_step_takes_the_gradient_at_the_worse_weights() -> None:
    rng = np.random.default_rng(3)
    inputs, labels, weights = rng.normal(size=(6, 4)), np.array([1.0, 0, 0, 1, 0, 0]), rng.normal(size=4)
    linear = nn.Linear(4, 1, bias=False, dtype=torch.float64)
    linear.weight.data = torch.tensor(weights[None])
    network = nn.Sequential(linear, nn.Flatten(0))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    update(network, optimizer, torch.from_numpy(inputs), torch.from_numpy(labels), Way(radius=0.3))

    def residuals(at: NDArray[np.float64]) -> NDArray[np.float64]:
        return expit(inputs @ at) - labels  # type: ignore[no-any-return]

    climb = (residuals(weights) * labels) @ inputs
    gradient = residuals(weights + 0.3 * climb / np.linalg.norm(climb)) @ inputs / 6
    assert np.allclose(linear.weight.detach().numpy()[0], weights - 0.5 * gradient)


def test_the_mirrored_network_sees_mirror_images() -> None:
    images = torch.arange(24).reshape(2, 1, 3, 4)
    seen: list[Tensor] = []
    Mirrored(lambda x: seen.append(x) or x.sum(dim=(1, 2, 3)))(images)  # type: ignore[arg-type,func-returns-value]
    assert np.array_equal(seen[0].numpy(), images.numpy()[..., ::-1])


def digit_images() -> Splits:
    """The digits as images; eights are rare."""
    digits = load("digits", positive=8, ratio=20)
    grey = np.repeat(digits["train"].source.reshape(-1, 8, 8, 1), 3, axis=3)
    source = (255 * (grey - grey.min()) / np.ptp(grey)).astype(np.uint8)
    parts = {
        name: Samples(source=source, rows=part.rows, labels=part.labels, ids=part.ids)
        for name, part in digits.parts.items()
    }
    return Splits(name="small", parts=parts, classes=digits.classes)


@pytest.fixture
def small_images(monkeypatch: pytest.MonkeyPatch) -> tuple[Splits, TrainConfig]:
    """Small images and a small network, in place of the data of the bench."""
    splits = digit_images()
    config = TrainConfig(
        epochs=2,
        batch_size=64,
        learning_rate=0.01,
        schedule="constant",
        method=NoMethod(),
        model=ResNetShape(width=0.0625),
        augmentation="cifar",
        precision="float32",
        selection="last",
        seed=3,
    )
    task = task_of(splits, config)
    config = complete(config, task, splits["train"], own_model=False)
    monkeypatch.setattr(generalisation, "prepared", lambda *asked, **changes: (splits, config, task))
    return splits, config


def test_the_plain_way_is_training_as_the_library_does_it(small_images: tuple[Splits, TrainConfig]) -> None:
    splits, config = small_images
    record = generalisation.trained(("small", "plain", 0))
    same, other = (
        train(splits, config.model_copy(update={"seed": seed})).scores["test"] for seed in (config.seed, 4)
    )
    found = record["looks"][0][LAST]["official"]["auc"]
    assert [one["epoch"] for one in record["looks"]] == [1]
    assert found == pytest.approx(
        100 * auc(same.labels, same.values), abs=1
    )  # rounding: a loss is summed, or averaged
    assert abs(found - 100 * auc(other.labels, other.values)) > 2


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own
def test_the_faster_way_differs_by_rounding_only(
    small_images: tuple[Splits, TrainConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, config = small_images
    task, found = task_of(splits, config), []
    for settings in ({}, FASTER):
        own = config.model_copy(update={"learning_rate": 1e-3, **settings})  # rounding grows fast at high rates
        monkeypatch.setattr(generalisation, "prepared", lambda *asked, own=own, **changes: (splits, own, task))
        found.append(generalisation.trained(("small", "plain", 0))["looks"][-1])
    for variant in generalisation.VARIANTS:
        ours, theirs = (look[variant]["official"]["auc"] for look in found)
        assert ours == pytest.approx(theirs, abs=1)  # points of percent, with 8 bits of precision


@pytest.mark.parametrize("way", generalisation.WAYS)
def test_every_way_repeats_itself(way: str, small_images: tuple[Splits, TrainConfig]) -> None:
    first, second = (generalisation.trained(("small", way, 0))["looks"] for _ in range(2))
    assert first == second
