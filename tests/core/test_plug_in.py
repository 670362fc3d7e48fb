"""What stops people from using ranking losses elsewhere: own optimisers, own samplers, indices, empty batches."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from rankreg import PositiveBuffer, RankReg


def rare_digits() -> TensorDataset:
    """One eight for a hundred other digits."""
    pixels, digits = load_digits(return_X_y=True)
    inputs, labels = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits == 8).long()
    kept = torch.cat([(labels == 0).nonzero()[:800], (labels == 1).nonzero()[:8]]).squeeze(1)
    return TensorDataset(inputs[kept], labels[kept])


def train(model: nn.Module, optimizer: torch.optim.Optimizer, loader: Any, epochs: int = 3) -> list[float]:
    """The plug-in loop; returns every loss."""
    buffer, reg = PositiveBuffer(16), RankReg()
    losses = []
    for _ in range(epochs):
        for inputs, labels in loader:
            inputs, labels = buffer.extend(inputs, labels)

            def closure(inputs: Tensor = inputs, labels: Tensor = labels) -> float:
                optimizer.zero_grad()
                scores = model(inputs).squeeze(1)
                loss = binary_cross_entropy_with_logits(scores, labels.float()) + reg(scores, labels)
                loss.backward()
                return float(loss.item())

            losses.append(float(optimizer.step(closure)))
            with torch.no_grad():
                buffer.update(inputs, labels, model(inputs).squeeze(1))
    return losses


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
        lambda parameters: torch.optim.RMSprop(parameters, lr=0.005),
        lambda parameters: torch.optim.LBFGS(parameters, lr=0.1, max_iter=3),
    ],
)
def test_any_optimiser_and_a_plain_shuffling_loader_without_indices(
    optimizer: Callable[[Any], torch.optim.Optimizer],
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    losses = train(model, optimizer(model.parameters()), DataLoader(rare_digits(), batch_size=32, shuffle=True))
    assert all(torch.isfinite(torch.tensor(losses)))
    assert sum(losses[-10:]) < sum(losses[:10])


def test_batches_without_positives_train_like_the_base_loss_alone() -> None:
    """No crash, no NaN and, with nothing to rank, exactly the gradient of the base loss."""
    model = nn.Linear(64, 1)
    inputs, labels = torch.randn(16, 64), torch.zeros(16, dtype=torch.long)
    scores = model(inputs).squeeze(1)
    base = binary_cross_entropy_with_logits(scores, labels.float())
    (alone,) = torch.autograd.grad(base, model.weight, retain_graph=True)
    (together,) = torch.autograd.grad(base + RankReg()(scores, labels), model.weight)
    assert torch.equal(alone, together)


def test_a_training_set_in_order_works_too() -> None:
    """All negatives first, then all positives: the buffer is empty for long, then full at once."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    losses = train(model, torch.optim.SGD(model.parameters(), lr=0.05), DataLoader(rare_digits(), batch_size=32))
    assert all(torch.isfinite(torch.tensor(losses)))


def test_gradient_scaling_of_mixed_precision_changes_nothing() -> None:
    """A scaler multiplies the loss by 65,536 and divides the gradients: the black-box width must not notice."""
    scores, labels = torch.randn(32, dtype=torch.float64, requires_grad=True), (torch.arange(32) % 4 == 0).long()
    (plain,) = torch.autograd.grad(RankReg()(scores, labels), scores)
    (scaled,) = torch.autograd.grad(65536 * RankReg()(scores, labels), scores)
    torch.testing.assert_close(scaled / 65536, plain)
