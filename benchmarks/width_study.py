"""Which width and strength should the ranking gradient have: a γ, or the γ that follows from a reach?

`python -m benchmarks.width_study OUT.csv [--mammography FILE]` trains a small network on rare classes with several
widths, batch sizes and random splits and writes one row per run; run again, it goes on where it stopped. Settings
are judged on the validation half only (docs/decisions/0002).
"""

import argparse
import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.progress import track
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from rankreg import PositiveBuffer, RankReg
from rankreg.metrics import auc, fpr_at_tpr

WIDTHS: dict[str, dict[str, Any]] = {
    "score, reach 0.3": {"reach": 0.3},
    "score, reach 1": {"reach": 1.0},
    "score, reach 3": {"reach": 3.0},
    "score, gamma 3": {"gamma": 3.0},
    "score, gamma 30": {"gamma": 30.0},
    "probability, reach 0.1": {"reach": 0.1, "space": "probability"},
    "probability, reach 0.3": {"reach": 0.3, "space": "probability"},
    "probability, gamma 1": {"gamma": 1.0, "space": "probability"},
    "probability, gamma 10": {"gamma": 10.0, "space": "probability"},
    "score, reach 1, penalty r": {"reach": 1.0, "penalty": "rank"},
}
SETTINGS: dict[str, RankReg] = {
    "no ranking term": RankReg(weight=0.0),
    **{name: RankReg(**width, among="all", weight=1.0) for name, width in WIDTHS.items()},
    "score, reach 1, among negatives": RankReg(reach=1.0, among="negatives", weight=1.0),
    "score, reach 1, among negatives, weight 0.1": RankReg(reach=1.0, among="negatives", weight=0.1),
}
BATCH_SIZES = (16, 64)
COLUMNS = ["data", "seed", "batch_size", "setting", "validation_fpr95", "test_fpr95", "test_auc"]


def tasks(mammography: Path | None) -> Iterator[tuple[str, int, Tensor, Tensor]]:
    """Name, seed, inputs and labels of every task."""
    pixels, digits = load_digits(return_X_y=True)
    for digit, seed in product(range(10), range(3)):
        yield f"digit {digit}", seed, torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits == digit)
    if mammography is not None:
        table = pd.read_csv(mammography, header=None).drop_duplicates()
        features = table.iloc[:, :-1].to_numpy(np.float32)
        labels = table.iloc[:, -1].str.strip("'").to_numpy() == "1"
        scaled = (features - features.mean(0)) / features.std(0)
        for seed in range(15):
            yield "mammography", seed, torch.tensor(scaled), torch.tensor(labels)


def run(inputs: Tensor, labels: Tensor, reg: RankReg, *, seed: int, batch_size: int) -> tuple[float, float, float]:
    """Train on half of the negatives and 1 % as many positives; score the rest, half validation, half test."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    negatives, positives = order[~labels[order]], order[labels[order]]
    half = len(negatives) // 2
    train = torch.cat([negatives[:half], positives[: half // 100]])
    rest = torch.cat([negatives[half:], positives[half // 100 :]])

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(inputs.shape[1], 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    buffer = PositiveBuffer(32)
    for _ in range(10):
        for batch in train[torch.randperm(len(train), generator=generator)].split(batch_size):
            batch_inputs, batch_labels = buffer.extend(inputs[batch], labels[batch].long())
            scores = model(batch_inputs)
            loss = binary_cross_entropy_with_logits(scores, batch_labels.float()) + reg(scores, batch_labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            buffer.update(batch_inputs, batch_labels, scores)
    with torch.inference_mode():
        validation, test = ((labels[part].numpy(), model(inputs[part]).numpy()) for part in (rest[::2], rest[1::2]))
    return fpr_at_tpr(*validation, 0.95), fpr_at_tpr(*test, 0.95), auc(*test)


def main() -> None:
    """Run what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mammography", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    done = set()
    if arguments.out.exists():
        with arguments.out.open(newline="") as file:
            done = {tuple(row[:4]) for row in csv.reader(file)}
    grid = product(list(tasks(arguments.mammography)), BATCH_SIZES, SETTINGS.items())
    with arguments.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(COLUMNS)
        for (data, seed, inputs, labels), batch_size, (setting, reg) in track(list(grid), "training"):
            key = (data, str(seed), str(batch_size), setting)
            if key not in done:
                results = run(inputs, labels, reg, seed=seed, batch_size=batch_size)
                writer.writerow([*key, *(f"{result:.4f}" for result in results)])
                file.flush()


if __name__ == "__main__":
    main()
