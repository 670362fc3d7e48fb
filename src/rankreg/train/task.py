"""The task: one score per sample, or one logit per class with one critical class."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankreg.datasets.splits import Samples, Splits
from rankreg.metrics import auc, error_at_tpr, fpr_at_tpr, positive_score
from rankreg.models import AnyShape, MLPShape, ResNetShape
from rankreg.scores import Scores
from rankreg.train.config import MULTICLASS_LOSS, LossSettings, TrainConfig

WATCHED_TPRS = (0.98, 0.95, 0.92, 0.90)

# How good an epoch is by its validation results; of two, the greater is better, later entries break ties.
SELECTIONS: dict[str, Callable[[dict[str, float]], tuple[float, ...]]] = {
    "auc": lambda found: (found["auc"],),
    "fpr": lambda found: (-found["fpr"], found["auc"]),
    "error": lambda found: (-found["error"], found["auc"]),
    "last": lambda found: (found["epoch"],),
}


def merit(selection: str, found: Mapping[str, float], epoch: int) -> list[float]:
    """What epochs are compared by: the selection's numbers, then the lower validation loss, then the later epoch.

    Many epochs tie where the validation part is small or easy; without the loss, the first and least trained of
    them would be kept.
    """
    return [*SELECTIONS[selection]({**found, "epoch": epoch}), -found["loss"], epoch]


@dataclass(frozen=True)
class Task:
    """How many classes, which one is critical, at which TPR false alarms count."""

    classes: int
    critical: int
    tpr: float

    @property
    def term_critical(self) -> int | None:
        """What a term is told: nothing when scores are binary already."""
        return self.critical if self.classes > 2 else None

    def criticality(self, values: Tensor) -> Tensor:
        """One score per sample, higher = more critical."""
        return values if self.classes == 2 else positive_score(values, self.critical)

    def _one_against_all(self, scores: Scores) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """Labels of 0 and 1, and one score per sample."""
        labels = (scores.labels == self.critical).astype(np.int64)
        return labels, self.criticality(torch.from_numpy(scores.values)).numpy()

    def watched(self, scores: Scores) -> dict[str, float]:
        """AUC of the critical class and its FPR at `WATCHED_TPRS`, for learning curves."""
        labels, values = self._one_against_all(scores)
        rates = {f"fpr@{100 * tpr:.0f}": fpr_at_tpr(labels, values, tpr) for tpr in WATCHED_TPRS}
        return {"auc": auc(labels, values), **rates}

    def metrics(self, scores: Scores) -> dict[str, float]:
        """AUC and FPR of the critical class against the others; with many classes also accuracy and error."""
        labels, values = self._one_against_all(scores)
        found = {"auc": auc(labels, values), "fpr": fpr_at_tpr(labels, values, self.tpr)}
        if self.classes > 2:
            found["accuracy"] = float(np.mean(scores.values.argmax(axis=1) == scores.labels))
            found["error"] = error_at_tpr(scores.labels, scores.values, self.tpr, positive=self.critical)
        return found


def task_of(splits: Splits, config: TrainConfig) -> Task:
    """The task, after a look at whether the data can answer it."""
    classes = len(splits.classes)
    critical = splits.critical if config.critical is None else config.critical
    if not 0 <= critical < classes:
        raise ValueError(f"critical must be a class index in 0 … {classes - 1} of {splits.name}, got {critical}")
    if classes == 2 and critical != 1:
        raise ValueError(f"with two classes label 1 is the critical one, got critical {critical}: swap the labels")
    if classes == 2 and config.selection == "error":
        raise ValueError(
            "selection 'error' is about several classes, the data have two: use 'auc', 'fpr' or 'last'"
        )
    for part in ("train", "validation"):
        if part not in splits.parts:
            raise ValueError(f"{splits.name} has no part {part!r}: it has {', '.join(splits.parts)}")
        _check_part(splits, part, critical)
    return Task(classes, critical, config.tpr)


def complete(config: TrainConfig, task: Task, train: Samples, *, own_model: bool) -> TrainConfig:
    """The config with what it left to the data filled in: the loss and, unless one's own is used, the network."""
    loss = config.loss or LossSettings(name="bce" if task.classes == 2 else MULTICLASS_LOSS)
    if (loss.name == MULTICLASS_LOSS) != (task.classes > 2):
        raise ValueError(
            f"loss {loss.name!r} does not fit {task.classes} classes: use"
            f" {'a binary loss such as bce' if task.classes == 2 else repr(MULTICLASS_LOSS)}"
        )
    images = train.source.ndim == 4
    if not images and config.augmentation != "none":
        raise ValueError(f"augmentation {config.augmentation!r} is for images, the data are rows: use 'none'")
    if own_model and config.model is not None:
        raise ValueError("give a model of your own or config.model, not both")
    model = None if own_model else _complete_shape(config, task, train, loss.name)
    return config.model_copy(update={"loss": loss, "model": model})


def _complete_shape(config: TrainConfig, task: Task, train: Samples, loss: str) -> AnyShape:
    images = train.source.ndim == 4
    model = config.model or (ResNetShape() if images else MLPShape())
    if isinstance(model, MLPShape) == images:
        raise ValueError(
            f"model {model.name!r} takes {'rows of numbers' if images else 'images'}, the data are"
            f" {'images' if images else 'rows of numbers'}: use {'resnet10' if images else 'mlp'!r}"
        )
    known: dict[str, object] = {"classes": task.classes, "head": "cosine" if loss == "ldam" else "score"}
    if not images:
        known["features"] = train.source.shape[1]
    for key, value in known.items():
        stated = getattr(model, key)
        if stated is not None and stated != value and key != "head":
            raise ValueError(f"model.{key} is {stated}, but the data have {value}: leave it out")
    return model.model_copy(update={key: value for key, value in known.items() if getattr(model, key) is None})


def counts(labels: NDArray[np.int64], critical: int) -> tuple[int, int]:
    """How many samples are not critical, and how many are."""
    positives = int(np.count_nonzero(labels == critical))
    return len(labels) - positives, positives


def _check_part(splits: Splits, part: str, critical: int) -> None:
    samples = splits[part]
    negatives, positives = counts(samples.labels, critical)
    if not negatives or not positives:
        raise ValueError(
            f"part {part!r} of {splits.name} holds {positives} samples of the critical class"
            f" {splits.classes[critical]!r} and {negatives} others: at least one of each is needed"
        )
    if samples.labels.min() < 0 or samples.labels.max() >= len(splits.classes):
        raise ValueError(f"labels of part {part!r} must lie in 0 … {len(splits.classes) - 1}")
    if samples.source.ndim not in (2, 4):
        raise ValueError(
            f"inputs must be images (M, H, W, 3) or rows (M, F), got an array of shape {samples.source.shape}"
        )
    if samples.source.dtype != (np.uint8 if samples.source.ndim == 4 else np.float32):
        raise ValueError(f"images must be uint8 and rows float32, got {samples.source.dtype}")
