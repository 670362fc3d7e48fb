"""RankReg in a plain PyTorch loop: find the digit 8 when the training set holds only eight of them.

Run it with `python examples/plain_pytorch.py`. It trains the same network three ways on the same data, over several
random splits, and says what the buffer and the ranking term each change.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from rankreg import PositiveBuffer, RankReg
from rankreg.metrics import auc, fpr_at_tpr

METHODS = {  # name → (buffer capacity, weight of the ranking term)
    "bce": (0, 0.0),
    "bce + buffer": (32, 0.0),
    "bce + buffer + rankreg": (32, 0.1),
}


@dataclass(frozen=True)
class Data:
    """Pixels in 0 … 1, label 1 for the critical digit."""

    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor


def rare_digit(seed: int, *, digit: int = 8, ratio: int = 100) -> Data:
    """Half of the other digits for training and 1/ratio as many critical ones; everything else for testing."""
    pixels, digits = load_digits(return_X_y=True)
    inputs, labels = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits == digit).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    negatives, positives = order[labels[order] == 0], order[labels[order] == 1]
    half = len(negatives) // 2
    few = half // ratio
    train, test = torch.cat([negatives[:half], positives[:few]]), torch.cat([negatives[half:], positives[few:]])
    return Data(inputs[train], labels[train], inputs[test], labels[test])


def train(data: Data, *, seed: int, capacity: int, weight: float, epochs: int = 8) -> nn.Module:
    """The loop: five lines are rankreg's."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    buffer, reg = PositiveBuffer(capacity), RankReg(weight=weight)
    for _ in range(epochs):
        for batch in torch.randperm(len(data.train_labels), generator=generator).split(32):
            inputs, labels = buffer.extend(data.train_inputs[batch], data.train_labels[batch])
            scores = model(inputs)
            loss = binary_cross_entropy_with_logits(scores, labels.float()) + reg(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            buffer.update(inputs, labels, scores)
    return model


def evaluate(seed: int, *, capacity: int, weight: float) -> tuple[float, float]:
    """FPR at 95 % TPR and AUC, in percent, on data the model has not seen."""
    data = rare_digit(seed)
    model = train(data, seed=seed, capacity=capacity, weight=weight)
    with torch.inference_mode():
        scores = model(data.test_inputs).numpy()
    labels = data.test_labels.numpy()
    return 100 * fpr_at_tpr(labels, scores, 0.95), 100 * auc(labels, scores)


def mean_and_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The mean and the half width of its 95 % Student interval."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean()), float(half)


def main(seeds: int = 10) -> dict[str, NDArray[np.float64]]:
    """Train every method on every split, print the table, return FPR@95 by method."""
    fprs: dict[str, NDArray[np.float64]] = {}
    print(f"digit 8 against the others, 1:100, {seeds} splits; mean ± 95 % interval over splits")
    for name, (capacity, weight) in METHODS.items():
        results = np.array([evaluate(seed, capacity=capacity, weight=weight) for seed in range(seeds)])
        fprs[name] = results[:, 0]
        (fpr, fpr_half), (area, area_half) = map(mean_and_interval, results.T)
        print(f"{name:24} FPR@95 {fpr:5.1f} ± {fpr_half:4.1f}   AUC {area:5.1f} ± {area_half:3.1f}")
    for one, other in [("bce + buffer", "bce"), ("bce + buffer + rankreg", "bce + buffer")]:
        change, half = mean_and_interval(fprs[one] - fprs[other])
        print(f"{one}, less {other}: {change:+.1f} ± {half:.1f} points of FPR@95, paired over splits")
    return fprs


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
