"""Batched augmentation of uint8 images (N, C, H, W): every random number from the generator that is passed."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional

Augmentation = Callable[[Tensor, Generator], Tensor]


def unchanged(inputs: Tensor, generator: Generator) -> Tensor:
    """The inputs as they are."""
    return inputs


def crop_and_flip(images: Tensor, generator: Generator, *, pad: int = 4) -> Tensor:
    """The CIFAR augmentation: pad with black, cut the old size out at random, mirror with probability 1/2.

    images: uint8 (N, C, H, W); pad: pixels on each side.
    """
    _check_images(images)
    count, _, height, width = images.shape
    down, right = _integers(2 * pad + 1, (2, count), images, generator)
    mirrored = _integers(2, (count, 1), images, generator) == 1

    rows = down[:, None] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device)
    columns = right[:, None] + torch.where(mirrored, width - 1 - columns, columns)

    padded = functional.pad(images.permute(0, 2, 3, 1), (0, 0, pad, pad, pad, pad))  # channels last
    each = torch.arange(count, device=images.device)[:, None, None]
    return padded[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def turn_and_tint(images: Tensor, generator: Generator, *, jitter: float = 0.2) -> Tensor:
    """For dermoscopy: rotate by any angle, mirror with probability 1/2, vary brightness, contrast, saturation.

    A lesion has no upright position, so all angles are alike. Pixels from outside are mirrored in.

    images: uint8 (N, C, H, W); the three factors are drawn from 1 ± jitter.
    """
    _check_images(images)
    turned = functional.grid_sample(
        images.float(), _turns(images, generator), padding_mode="reflection", align_corners=False
    )
    brightness, contrast, saturation = 1 + jitter * (2 * _uniform((3, len(images), 1, 1, 1), images, generator) - 1)
    bright = turned * brightness
    level = bright.mean(dim=(1, 2, 3), keepdim=True)
    contrasted = level + contrast * (bright - level)
    grey = contrasted.mean(dim=1, keepdim=True)
    tinted = grey + saturation * (contrasted - grey)
    return torch.clamp(tinted.round_(), 0, 255).to(images.dtype)


AUGMENTATIONS: dict[str, Augmentation] = {
    "none": unchanged,
    "cifar": crop_and_flip,
    "dermoscopy": turn_and_tint,
}


def _turns(images: Tensor, generator: Generator) -> Tensor:
    """Where each pixel of a rotated, possibly mirrored image comes from: (N, H, W, 2) in [−1, 1]."""
    count, _, height, width = images.shape
    angles = 2 * math.pi * _uniform((count,), images, generator)
    mirror = 1 - 2 * _integers(2, (count,), images, generator).float()
    aspect = height / width  # coordinates run from −1 to 1 along both sides, whatever their lengths
    zeros = torch.zeros_like(angles)
    matrices = torch.stack(
        [
            torch.stack([mirror * angles.cos(), -mirror * angles.sin() * aspect, zeros], dim=1),
            torch.stack([angles.sin() / aspect, angles.cos(), zeros], dim=1),
        ],
        dim=1,
    )
    return functional.affine_grid(matrices, list(images.shape), align_corners=False)


def _integers(below: int, shape: tuple[int, ...], images: Tensor, generator: Generator) -> Tensor:
    return torch.randint(below, shape, generator=generator, device=generator.device).to(images.device)


def _uniform(shape: tuple[int, ...], images: Tensor, generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device).to(images.device)


def _check_images(images: Tensor) -> None:
    if images.ndim != 4 or images.dtype != torch.uint8:
        raise ValueError(
            f"expected uint8 images (N, C, H, W), got {images.dtype} of shape {tuple(images.shape)}:"
            " for tables use augmentation 'none'"
        )
