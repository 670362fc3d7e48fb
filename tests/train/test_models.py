import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from rankreg.models import CosineHead, MLPShape, ModelShape, PairHead, Pixels, ResNetShape, build_model


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("shape", "published"),
    [
        (ResNetShape(name="resnet18", stem="imagenet", classes=1000), 11_689_512),  # torchvision's resnet18
        (ResNetShape(name="resnet18", classes=10), 11_173_962),  # the usual CIFAR ResNet-18
        (ResNetShape(name="resnet10", classes=10), 4_903_242),
    ],
)
def test_resnets_have_as_many_parameters_as_published(shape: ResNetShape, published: int) -> None:
    assert count(build_model(shape)) == published


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
@pytest.mark.parametrize(("classes", "shape"), [(2, (3,)), (5, (3, 5))])
def test_binary_networks_return_scores_and_others_logits(stem: str, classes: int, shape: tuple[int, ...]) -> None:
    network = build_model(ResNetShape.model_validate({"stem": stem, "classes": classes, "width": 0.1}))
    images = torch.randint(256, (3, 3, 40, 40), dtype=torch.uint8)
    assert network(images).shape == shape
    assert build_model(MLPShape(features=7, classes=classes))(torch.randn(3, 7)).shape == shape


def test_a_description_survives_json_and_builds_the_same_network() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ModelShape)
    for shape in (ResNetShape(width=0.25, head="cosine", classes=2), MLPShape(hidden=(8,), features=3, classes=4)):
        again = adapter.validate_json(shape.model_dump_json())
        assert again == shape
        weights = build_model(shape).state_dict()
        build_model(again).load_state_dict(weights)
    with pytest.raises(ValidationError, match="depth"):
        adapter.validate_python({"name": "resnet10", "depth": 3})
    with pytest.raises(ValueError, match="not complete"):
        build_model(MLPShape(classes=2))


def test_pixels_are_normalised_as_the_protocol_says_and_kept_with_the_weights() -> None:
    images = torch.randint(256, (4, 3, 5, 6), dtype=torch.uint8)
    expected = torch.stack(
        [
            (images[:, 0] / 255 - 0.4914) / 0.2023,
            (images[:, 1] / 255 - 0.4822) / 0.1994,
            (images[:, 2] / 255 - 0.4465) / 0.2010,
        ],
        dim=1,
    )
    pixels = Pixels()
    torch.testing.assert_close(pixels(images), expected)
    assert pixels(images).is_contiguous(memory_format=torch.channels_last)
    other = Pixels("imagenet")
    other.load_state_dict(pixels.state_dict())
    torch.testing.assert_close(other(images), expected)
    with pytest.raises(ValueError, match="expected images"):
        pixels(images[:, :1])


def test_one_score_is_the_two_logit_head_but_for_a_doubled_step() -> None:
    features, labels = torch.randn(16, 5), torch.randint(2, (16,))
    pair = PairHead(5, 2)
    logits = nn.Linear.forward(pair, features)
    bce = binary_cross_entropy_with_logits(pair(features), labels.float())
    torch.testing.assert_close(bce, cross_entropy(logits, labels))

    single = (pair.weight[1] - pair.weight[0]).detach().requires_grad_()
    bias = (pair.bias[1] - pair.bias[0]).detach()
    binary_cross_entropy_with_logits(features @ single + bias, labels.float()).backward()
    bce.backward()
    assert pair.weight.grad is not None
    assert single.grad is not None
    torch.testing.assert_close(pair.weight.grad[1] - pair.weight.grad[0], 2 * single.grad)


def test_the_cosine_head_knows_directions_only() -> None:
    head, features = CosineHead(4, 2), torch.randn(50, 4)
    scores = head(features)
    similarity = nn.CosineSimilarity(dim=1)
    expected = similarity(features, head.weight[1:]) - similarity(features, head.weight[:1])
    torch.testing.assert_close(scores, expected)
    torch.testing.assert_close(head(7 * features), scores)
    assert scores.abs().max() <= 2
    with pytest.raises(ValueError, match="two classes"):
        CosineHead(4, 3)


def test_scores_under_bfloat16_do_not_tie() -> None:
    network = build_model(ResNetShape(width=0.125, classes=2)).eval()
    images = torch.randint(256, (200, 3, 8, 8), dtype=torch.uint8)
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        scores = network(images)
    assert scores.dtype == torch.float32
    assert len(scores.unique()) == 200
    assert len(scores.bfloat16().unique()) < 200  # what would have happened


@pytest.mark.slow
def test_networks_of_any_width_learn_without_breaking_memory() -> None:
    script = (
        "import torch; from rankreg.models import ResNetShape, build_model\n"
        "for width in (0.03, 0.0625, 0.1):\n"
        "    network = build_model(ResNetShape(width=width, classes=2))\n"
        "    for _ in range(30):\n"
        "        network(torch.randint(256, (32, 3, 8, 8), dtype=torch.uint8)).sum().backward()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "MALLOC_CHECK_": "3"}, timeout=600)
    assert done.returncode == 0


def test_an_mlp_refuses_images() -> None:
    with pytest.raises(ValueError, match="rows of floats"):
        build_model(MLPShape(features=3, classes=2))(torch.zeros(2, 3, 4, 4, dtype=torch.uint8))
