"""A rare digit with Lightning: rankreg is one callback, and the scores in what `training_step` returns.

Run with `python examples/lightning_loop.py`. It trains with and without the callback on one split and prints FPR at
95 % TPR; one split decides nothing, `examples/plain_pytorch.py` takes several.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from rankreg.integrations import FPRAtTPR, RankRegCallback


class Classifier(LightningModule):
    """A small network; two words of it are rankreg's."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
        self.fpr = FPRAtTPR(0.95, undefined="nan")

    def training_step(self, batch: list[Tensor], batch_idx: int) -> dict[str, Tensor]:
        inputs, labels = batch
        scores = self.network(inputs)
        loss = binary_cross_entropy_with_logits(scores, labels.float())
        return {"loss": loss, "scores": scores}  # without rankreg: return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        inputs, labels = batch
        self.fpr.update(self.network(inputs), labels)
        self.log("fpr_at_95", self.fpr)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def loaders(*, digit: int = 8, ratio: int = 100, seed: int = 0) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Half of the other digits for training and 1/ratio as many critical ones; everything else for validation."""
    pixels, digits = load_digits(return_X_y=True)
    inputs, labels = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits == digit).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    negatives, positives = order[labels[order] == 0], order[labels[order] == 1]
    half = len(negatives) // 2
    few = half // ratio
    train, rest = torch.cat([negatives[:half], positives[:few]]), torch.cat([negatives[half:], positives[few:]])
    return (
        DataLoader(TensorDataset(inputs[train], labels[train]), batch_size=32, shuffle=True),
        DataLoader(TensorDataset(inputs[rest], labels[rest]), batch_size=512),
    )


def main(epochs: int = 8) -> dict[str, float]:
    """Train both ways, print and return FPR at 95 % TPR in percent."""
    found = {}
    for name, callbacks in {"bce": [], "bce + rankreg": [RankRegCallback(capacity=32)]}.items():
        seed_everything(0, verbose=False)
        with TemporaryDirectory() as folder:
            trainer = Trainer(
                max_epochs=epochs,
                accelerator="cpu",
                callbacks=list(callbacks),
                default_root_dir=Path(folder),
                logger=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(Classifier(), *loaders())
        found[name] = 100 * float(trainer.callback_metrics["fpr_at_95"])
        print(f"{name:16} FPR@95 {found[name]:.1f}")
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
