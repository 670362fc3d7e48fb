"""What `RankReg` refuses, and how it says so."""

import pytest
import torch
from torch import Tensor

from rankreg import RankReg


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"penalty": "square"}, "did you mean 'squared'"),
        ({"space": "probabilty"}, "did you mean 'probability'"),
        ({"among": "negative"}, "did you mean 'negatives'"),
        ({"gamma": "1"}, "gamma must be a finite number"),
        ({"gamma": 0.0}, "gamma must be a finite number above 0"),
        ({"reach": -1.0}, "reach must be a finite number above 0"),
        ({"reach": 1.0, "gamma": 1.0}, "not both"),
        ({"margin": -0.1}, "margin"),
        ({"weight": float("inf")}, "weight"),
    ],
)
def test_bad_settings_are_refused_at_once(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RankReg(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (torch.zeros(4, 1), torch.zeros(4), "squeeze"),
        (torch.zeros(4), torch.zeros(3), "one shape"),
        (torch.zeros(2), torch.tensor([1, 2]), "labels must be 0 or 1"),
        (torch.tensor([0.0, float("nan")]), torch.tensor([0, 1]), "NaN"),
        (torch.zeros(2, dtype=torch.long), torch.tensor([0, 1]), "floating point"),
    ],
)
def test_bad_batches_are_refused_with_what_to_do(scores: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RankReg()(scores, labels)


def test_what_is_not_a_tensor_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="labels must be a torch tensor, got ndarray"):
        RankReg()(torch.zeros(2), torch.tensor([0, 1]).numpy())
    with pytest.raises(ValueError, match="scores must be a torch tensor, got list"):
        RankReg()([0.0, 1.0], torch.tensor([0, 1]))


def test_bad_multi_class_batches_are_refused() -> None:
    with pytest.raises(ValueError, match=r"labels must lie in 0 … 2"):
        RankReg(positive=0)(torch.zeros(2, 3), torch.tensor([0, 3]))
    with pytest.raises(ValueError, match=r"logits \(N, K\)"):
        RankReg(positive=0)(torch.zeros(2), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="positive must be a class index"):
        RankReg(positive=3)(torch.zeros(2, 3), torch.tensor([0, 1]))


def test_values_on_another_device_are_not_looked_at() -> None:
    RankReg()(torch.empty(5, device="meta"), torch.empty(5, device="meta"))
