"""Networks: binary ones return one score per sample, (N,), multi-class ones logits (N, K).

A description (`ResNetShape`, `BackboneShape`, `MLPShape`) is plain data that survives JSON; `build_model` makes the
network from it. The weights of a pretrained one come from `rankreg.backbones` or from a bundle.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, field_validator, model_validator
from torch import Tensor, nn
from torch.nn import functional

from rankreg._checks import at_least_float32
from rankreg.names import look_up

__all__ = ["BackboneShape", "MLPShape", "ResNetShape"]

HeadName = Literal["score", "pair", "cosine"]
PixelsName = Literal["cifar", "imagenet"]

# What a description may ask for: 2 GB of weights, whoever wrote it.
MOST_WEIGHTS = 500_000_000
MOST_LAYERS = 64
WIDEST = 6.0  # times the channels of a ResNet-18, which has 11 million weights and then 36 times as many

NORMALISATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {  # mean and deviation, per channel
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "efficientnet-lite": ((127 / 255,) * 3, (128 / 255,) * 3),
}

# EfficientNet-Lite0, stage by stage: blocks, kernel, stride, expansion, channels.
LITE0 = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
LITE_STAGES = len(LITE0) + 2  # the first and the last convolution count as stages
LITE_POOLED = (2, 3, 5, 7, 8)  # stages whose mean over the map is a feature: the last one of every resolution
STRIDE = 32  # pixels of a side that become one


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    head: HeadName | None = None  # None: what the loss asks for
    classes: int | None = Field(default=None, ge=2)  # None: taken from the data


class ResNetShape(_Shape):
    """A residual network for uint8 images: 64-128-256-512 channels times `width`.

    Args:
        head: "score", "pair" or "cosine". Default None: what the loss needs.
        classes: at least 2. Default None: taken from the data.
        name: "resnet10" or "resnet18".
        width: factor of the channels, at most 6. Default 1.
        stem: "cifar" is one 3×3 convolution; "imagenet" is a 7×7 one of stride 2 and a max-pool.
        pixels: whose means and deviations normalise pixels: "cifar" or "imagenet".

    >>> ResNetShape(width=0.25).name
    'resnet10'
    """

    name: Literal["resnet10", "resnet18"] = "resnet10"
    width: PositiveFloat = 1.0
    stem: Literal["cifar", "imagenet"] = "cifar"
    pixels: PixelsName = "cifar"

    @field_validator("width")
    @classmethod
    def _can_be_built(cls, width: float) -> float:
        if width > WIDEST:
            raise ValueError(f"width must be at most {WIDEST:g}")
        return width


class BackboneShape(_Shape):
    """A network that starts from ImageNet weights, for uint8 images of any size: pooled features and a linear head.

    The features are the means over the maps of several stages. Batch normalisation keeps its ImageNet statistics.

    Args:
        head: "score", "pair" or "cosine". Default None: what the loss needs.
        classes: at least 2. Default None: taken from the data.
        name: "efficientnet-lite0".
        side: images are resized to this many pixels a side, a multiple of 32. Default 128.
        trainable: how many of the last of 9 stages are trained with the head. Default 3; 0: the head alone.
        flips: score the mean features of an image and its mirror image. Default True.

    >>> BackboneShape(side=96).trainable
    3
    """

    name: Literal["efficientnet-lite0"] = "efficientnet-lite0"
    side: int = Field(default=128, ge=STRIDE, le=512, multiple_of=STRIDE)
    trainable: int = Field(default=3, ge=0, le=LITE_STAGES)
    flips: bool = True


class MLPShape(_Shape):
    """A multi-layer perceptron for rows of numbers, with layer normalisation: no statistics of the batch.

    Args:
        head: "score", "pair" or "cosine". Default None: what the loss needs.
        classes: at least 2. Default None: taken from the data.
        name: "mlp".
        hidden: the width of each hidden layer. Default (64, 64).
        dropout: the share of values that is dropped in training, in [0, 1). Default 0.
        features: the number of columns. Default None: taken from the data.

    >>> MLPShape(hidden=(16,)).dropout
    0.0
    """

    name: Literal["mlp"] = "mlp"
    hidden: tuple[PositiveInt, ...] = (64, 64)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    features: PositiveInt | None = None  # None: taken from the data

    @model_validator(mode="after")
    def _can_be_built(self) -> "MLPShape":
        if len(self.hidden) > MOST_LAYERS:
            raise ValueError(f"hidden must be at most {MOST_LAYERS} layers")
        weights = sum(inputs * outputs for inputs, outputs in pairwise((self.features or 1, *self.hidden, 1)))
        if weights > MOST_WEIGHTS:
            raise ValueError(f"hidden would make a network of more than {MOST_WEIGHTS:,} weights: make it narrower")
        return self


AnyShape = ResNetShape | BackboneShape | MLPShape
ModelShape = Annotated[AnyShape, Field(discriminator="name")]


def build_model(shape: AnyShape) -> nn.Module:
    """Make the network of a description. Its weights come from torch's global generator.

    shape: with the number of classes and, for an MLP, of features. The network returns (N,) scores
    for two classes and (N, K) logits for more.
    """
    if shape.classes is None or (isinstance(shape, MLPShape) and shape.features is None):
        raise ValueError(f"{shape!r} is not complete: say how many classes, and for an MLP how many features")
    return look_up(MODELS, shape.name, "model")(shape)


class Pixels(nn.Module):
    """The first layer of an image network: uint8 images (N, 3, H, W) become normalised floats, channels last.

    x → (x / 255 − mean) / deviation
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str = "cifar") -> None:
        super().__init__()
        mean, deviation = look_up(NORMALISATIONS, name, "normalisation")
        self.register_buffer("mean", 255 * torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("deviation", 255 * torch.tensor(deviation).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Normalise."""
        if images.ndim != 4 or images.shape[1] != self.mean.shape[1]:
            raise ValueError(f"expected images (N, 3, H, W) with pixels 0 … 255, got shape {tuple(images.shape)}")
        pixels = images.to(self.mean.dtype, memory_format=torch.channels_last)
        return (pixels - self.mean) / self.deviation


class ScoreHead(nn.Linear):
    """One score, or K logits: a linear layer."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, 1 if classes == 2 else classes)

    def forward(self, features: Tensor) -> Tensor:
        logits = super().forward(features)
        return logits.squeeze(1) if self.out_features == 1 else logits


class PairHead(nn.Linear):
    """The paper's last layer: two logits; the score is their difference (docs/decisions/0030)."""

    def __init__(self, features: int, classes: int) -> None:
        _check_binary(classes, "pair")
        super().__init__(features, 2)

    def forward(self, features: Tensor) -> Tensor:
        negative, positive = super().forward(features).unbind(1)
        return positive - negative


class CosineHead(nn.Module):
    """The positive class's cosine less the negative one's, for LDAM: features and weights are normalised."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        _check_binary(classes, "cosine")
        self.weight = nn.Parameter(torch.randn(2, features))

    def forward(self, features: Tensor) -> Tensor:
        cosines = functional.linear(functional.normalize(features), functional.normalize(self.weight))
        negative, positive = cosines.unbind(1)
        return positive - negative


HEADS: dict[str, Callable[[int, int], nn.Module]] = {"score": ScoreHead, "pair": PairHead, "cosine": CosineHead}


class Block(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.stride = stride
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, maps: Tensor) -> Tensor:
        inner = functional.relu(self.norm1(self.conv1(maps)), inplace=True)
        # Strided by a pool of one pixel, not in the 1×1 convolution: torch 2.13's backward of that one overwrites
        # foreign memory on CPUs when maps are channels-last with fewer than 8 channels. Slicing gives the same, but
        # a gradient that is not channels-last, and an eighth more time.
        kept = functional.avg_pool2d(maps, 1, self.stride) if self.stride > 1 else maps
        return functional.relu(self.norm2(self.conv2(inner)) + self.shortcut(kept), inplace=True)


class ResNet(nn.Module):
    """Stem, four stages of `blocks` blocks each, mean over the map, head.

    Reference: He et al., "Deep residual learning for image recognition", CVPR 2016.
    """

    def __init__(self, shape: ResNetShape, blocks: int) -> None:
        super().__init__()
        widths = [max(1, round(base * shape.width)) for base in (64, 128, 256, 512)]
        self.pixels = Pixels(shape.pixels)
        self.stem = look_up(STEMS, shape.stem, "stem")(widths[0])
        stages: list[nn.Module] = []
        inputs = widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stages.append(Block(inputs, width, stride=2 if stage > 0 and block == 0 else 1))
                inputs = width
        self.stages = nn.Sequential(*stages)
        self.head = look_up(HEADS, shape.head or "score", "head")(inputs, shape.classes or 2)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        features = self.stages(self.stem(self.pixels(images))).mean(dim=(2, 3))
        return full_precision(self.head, features)


class Backbone(nn.Module):
    """What every pretrained network is to us: uint8 images (N, 3, H, W) in, pooled features (N, D) out."""

    pixels: Pixels
    width: int  # D

    def forward(self, images: Tensor, side: int) -> Tensor:
        return self.pooled(resized(self.pixels(images), side))

    def pooled(self, maps: Tensor) -> Tensor:
        """Features (N, D) of normalised images: means over the maps of several stages."""
        raise NotImplementedError


class InvertedBlock(nn.Module):
    """A 1×1 convolution to more channels, one convolution per channel, a 1×1 convolution to few; a shortcut.

    Reference: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", CVPR 2018.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        layers = [] if expansion == 1 else [*_convolved(inputs, inner, 1, 1), nn.ReLU6()]
        layers += [*_convolved(inner, inner, kernel, stride, groups=inner), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, *_convolved(inner, outputs, 1, 1))
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, maps: Tensor) -> Tensor:
        inner: Tensor = self.layers(maps)
        return inner + maps if self.shortcut else inner


class EfficientNetLite0(Backbone):
    """EfficientNet-Lite0 without its last layer; its features have 1,776 columns, from coarse to fine stages.

    Reference: Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", ICML 2019.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pixels = Pixels("efficientnet-lite")
        stages: list[nn.Module] = [nn.Sequential(*_convolved(3, 32, 3, 2), nn.ReLU6())]
        inputs = 32
        for blocks, kernel, stride, expansion, outputs in LITE0:
            stage: list[nn.Module] = []
            for block in range(blocks):
                stage.append(InvertedBlock(inputs, outputs, kernel, stride if block == 0 else 1, expansion))
                inputs = outputs
            stages.append(nn.Sequential(*stage))
        self.stages = nn.Sequential(*stages, nn.Sequential(*_convolved(inputs, 1280, 1, 1), nn.ReLU6()))
        self.width = sum([LITE0[place - 1][-1] for place in LITE_POOLED[:-1]], start=1280)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def pooled(self, maps: Tensor) -> Tensor:
        means = []
        for place, stage in enumerate(self.stages):
            maps = stage(maps)
            if place in LITE_POOLED:
                means.append(at_least_float32(maps).mean(dim=(2, 3)))
        return torch.cat(means, dim=1)


class Standardise(nn.Module):
    """Features (N, D) with the means and deviations of some training samples; a row has length about 1."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))

    def forward(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.deviation


class BackboneNetwork(nn.Module):
    """A backbone, its features standardised, a head. Frozen stages get no gradient."""

    def __init__(self, shape: BackboneShape) -> None:
        super().__init__()
        self.side, self.flips = shape.side, shape.flips
        self.backbone = EfficientNetLite0()
        self.backbone.stages[: LITE_STAGES - shape.trainable].requires_grad_(False)
        width = self.backbone.width
        self.scale = Standardise(width)
        self.head = look_up(HEADS, shape.head or "score", "head")(width, shape.classes or 2)

    def train(self, mode: bool = True) -> "BackboneNetwork":
        """Statistics of the backbone stay those of ImageNet: a few hundred images would make them worse."""
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        features = self.backbone(images, self.side)
        if self.flips and not self.training:
            features = (features + self.backbone(images.flip(3), self.side)) / 2
        return full_precision(nn.Sequential(self.scale, self.head), features)


class MLP(nn.Module):
    """Linear, layer norm, ReLU, dropout; repeated; head."""

    def __init__(self, shape: MLPShape) -> None:
        super().__init__()
        sizes = [shape.features or 1, *shape.hidden]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.LayerNorm(outputs), nn.ReLU(), nn.Dropout(shape.dropout)]
        self.layers = nn.Sequential(*layers)
        self.head = look_up(HEADS, shape.head or "score", "head")(sizes[-1], shape.classes or 2)

    def forward(self, rows: Tensor) -> Tensor:
        if rows.ndim != 2 or not rows.is_floating_point():
            raise ValueError(f"an MLP takes rows of floats (N, F), got {rows.dtype} of shape {tuple(rows.shape)}")
        return full_precision(self.head, self.layers(rows))


def full_precision(head: nn.Module, features: Tensor) -> Tensor:
    """The head outside of autocast: scores of half precision would tie."""
    with torch.autocast(features.device.type, enabled=False):
        scores: Tensor = head(at_least_float32(features))
    return scores


def resized(maps: Tensor, side: int) -> Tensor:
    """Square maps of that side, bilinear; smoothed first where they shrink."""
    if maps.shape[2:] == (side, side):
        return maps
    return functional.interpolate(maps, (side, side), mode="bilinear", align_corners=False, antialias=True)


def _convolved(inputs: int, outputs: int, kernel: int, stride: int, *, groups: int = 1) -> list[nn.Module]:
    """Convolution and normalisation, padded as TensorFlow does: of an even size, less above and left by one."""
    around = kernel // 2
    pads = [nn.ZeroPad2d((around - 1, around, around - 1, around))] if stride == 2 else []
    convolution = nn.Conv2d(
        inputs, outputs, kernel, stride, padding=0 if pads else around, groups=groups, bias=False
    )
    return [*pads, convolution, nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01)]


def cifar_stem(width: int) -> nn.Module:
    """One 3×3 convolution that keeps the size."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
    )


def imagenet_stem(width: int) -> nn.Module:
    """A 7×7 convolution and a max-pool that quarter the size."""
    convolution = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
    return nn.Sequential(
        convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1)
    )


STEMS: dict[str, Callable[[int], nn.Module]] = {"cifar": cifar_stem, "imagenet": imagenet_stem}

MODELS: dict[str, Callable[..., nn.Module]] = {
    "resnet10": lambda shape: ResNet(shape, blocks=1),
    "resnet18": lambda shape: ResNet(shape, blocks=2),
    "efficientnet-lite0": BackboneNetwork,
    "mlp": MLP,
}


def _check_binary(classes: int, head: str) -> None:
    if classes != 2:
        raise ValueError(f"the {head!r} head is for two classes, got {classes}: use head 'score'")
