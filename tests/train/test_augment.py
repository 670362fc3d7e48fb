import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn.functional import pad

from rankreg.augment import AUGMENTATIONS, crop_and_flip, turn_and_tint


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def noise(count: int, size: int = 8) -> Tensor:
    return torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=seeded(99))


def test_every_crop_is_a_shifted_possibly_mirrored_copy_and_all_of_them_occur() -> None:
    image = noise(1)
    cut = crop_and_flip(image.expand(3000, -1, -1, -1), seeded(), pad=2)
    padded = pad(image[0], (2, 2, 2, 2))
    windows = [padded[:, y : y + 8, x : x + 8] for y in range(5) for x in range(5)]
    possible = {bytes(w.contiguous().numpy()) for window in windows for w in (window, window.flip(2))}
    assert len(possible) == 50
    assert {bytes(one.contiguous().numpy()) for one in cut} == possible


def test_crops_differ_within_a_batch_and_keep_layout() -> None:
    cut = crop_and_flip(noise(1).expand(64, -1, -1, -1), seeded())
    assert len({bytes(one.contiguous().numpy()) for one in cut}) > 30
    assert cut.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", sorted(AUGMENTATIONS))
def test_the_generator_decides_everything(name: str) -> None:
    augment, images = AUGMENTATIONS[name], noise(16)
    torch.manual_seed(1)
    once = augment(images, seeded(5))
    torch.manual_seed(2)
    assert torch.equal(augment(images, seeded(5)), once)
    assert torch.equal(augment(images, seeded(6)), once) == (name == "none")
    assert once.shape == images.shape
    assert once.dtype == torch.uint8


def slopes(maps: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean slope of each map, downward and to the right."""
    down, right = np.gradient(maps.double().numpy(), axis=(1, 2))
    return down.mean(axis=(1, 2)), right.mean(axis=(1, 2))


def ramps(height: int, width: int) -> Tensor:
    """One image whose first channel rises to the right and whose second rises downward, 3 a pixel."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    planes = [128 + 3 * (x - width // 2), 128 + 3 * (y - height // 2), torch.full_like(x, 128)]
    return torch.stack(planes).clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize(("height", "width"), [(33, 33), (33, 65)])
def test_turning_keeps_slopes_takes_all_angles_and_mirrors_half_of_the_images(height: int, width: int) -> None:
    turned = turn_and_tint(ramps(height, width).expand(400, -1, -1, -1), seeded(), jitter=0)
    inner = turned[:, :, height // 2 - 4 : height // 2 + 5, width // 2 - 4 : width // 2 + 5]
    (down0, right0), (down1, right1) = slopes(inner[:, 0]), slopes(inner[:, 1])
    np.testing.assert_allclose(np.hypot(down0, right0), 3, rtol=0.1)  # pixels are rounded
    np.testing.assert_allclose(np.hypot(down1, right1), 3, rtol=0.1)
    upright = right0 * down1 - down0 * right1 > 0
    assert 150 < upright.sum() < 250
    quarters = np.bincount(((np.arctan2(down0, right0) + np.pi) // (np.pi / 2)).astype(int) % 4, minlength=4)
    assert quarters.min() > 60


def test_tints_stay_within_the_jitter() -> None:
    grey = torch.full((500, 3, 4, 4), 100, dtype=torch.uint8)
    levels = turn_and_tint(grey, seeded(), jitter=0.2)[:, 0, 0, 0].float()
    assert 80 <= levels.min() < 85
    assert 115 < levels.max() <= 120


def test_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="uint8 images"):
        crop_and_flip(torch.zeros(3, 4), seeded())
