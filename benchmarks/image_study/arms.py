"""The arms of the study: what a member of each is, as plain data and one function per arm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankreg.datasets.splits import Samples, Splits
from rankreg.train import TrainConfig, train

Values = NDArray[np.float64]
WATCHED = 100  # held-out negatives that are scored after every epoch, for the record only


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold of one split.

    Attributes:
        split: which of the splits.
        number: which of its folds.
        train: what a member trains on.
        held: training samples of the other lesions, for the scale of the scores.
        test: untouched lesions, of all folds alike.
    """

    split: int
    number: int
    train: Samples
    held: Samples
    test: Samples

    @property
    def seed(self) -> int:
        """Every member has one of its own."""
        return 100 * self.split + self.number


@dataclass(frozen=True)
class Arm:
    """A learner.

    Attributes:
        folds: how many members are cross-fitted.
        config: its settings, as they stand in the records.
        member: from a fold and the features of all images to the scores of the held-out and the test samples.
        uses_features: whether features are needed.
    """

    folds: int
    config: Mapping[str, Any]
    member: Callable[["Arm", Fold, NDArray[np.float32] | None], tuple[Values, Values]] = field(compare=False)
    uses_features: bool = False


def linear(arm: Arm, fold: Fold, features: NDArray[np.float32] | None) -> tuple[Values, Values]:
    """Logistic regression on standardised features of the frozen network."""
    assert features is not None
    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=arm.config["C"], class_weight="balanced", max_iter=1000)
    )
    model.fit(features[fold.train.rows], fold.train.labels)
    held, test = (model.decision_function(features[part.rows]) for part in (fold.held, fold.test))
    return held, test


def network(arm: Arm, fold: Fold, features: NDArray[np.float32] | None) -> tuple[Values, Values]:
    """A network trained by `rankreg.train.train`, the last epoch kept."""
    negatives = np.flatnonzero(fold.held.labels == 0)[:WATCHED]
    watched = np.sort(np.append(negatives, np.flatnonzero(fold.held.labels == 1)))
    config = dict(arm.config)
    parts = {
        "train": _thinned(fold, config.pop("negatives", None)),
        "validation": fold.held.take(watched),
        "held": fold.held,
        "test": fold.test,
    }
    settings = TrainConfig.model_validate({**config, "seed": fold.seed})
    run = train(Splits("ham10000", parts), settings, score_parts=("held", "test"), progress=False)
    held, test = (run.scores[part].values.astype(np.float64) for part in ("held", "test"))
    return held, test


def _thinned(fold: Fold, negatives: int | None) -> Samples:
    """The training samples, with so many of the negatives, others for every member."""
    if negatives is None:
        return fold.train
    rng = np.random.default_rng(fold.seed)
    drawn = rng.choice(np.flatnonzero(fold.train.labels == 0), negatives, replace=False)
    return fold.train.take(np.sort(np.append(drawn, np.flatnonzero(fold.train.labels == 1))))


SIDE = 128
ON_CPU = {"precision": "float32", "device": "cpu", "selection": "last", "schedule": "cosine"}

ARMS: dict[str, Arm] = {
    "frozen": Arm(5, {"backbone": "efficientnet-lite0", "side": SIDE, "flips": True, "C": 3e-6}, linear, True),
    "fine-tuned": Arm(
        3,
        {
            "negatives": 2000,
            "epochs": 1,
            "batch_size": 32,
            "learning_rate": 1.5e-3,
            "optimizer": "adamw",
            "method": "none",
            "sampling": "balanced",
            "model": {"name": "efficientnet-lite0", "side": 96, "trainable": 3, "flips": False},
            "augmentation": "cifar",
            **ON_CPU,
        },
        network,
    ),
    "scratch": Arm(
        3,
        {
            "epochs": 4,
            "batch_size": 64,
            "learning_rate": 0.02,
            "optimizer": "sgd",
            "method": "buffer",
            "model": {"name": "resnet10", "width": 0.25, "stem": "imagenet", "pixels": "imagenet"},
            "augmentation": "dermoscopy",
            **ON_CPU,
        },
        network,
    ),
}

AVERAGES: dict[str, tuple[str, ...]] = {
    "scratch + frozen": ("scratch", "frozen"),
    "frozen + fine-tuned": ("frozen", "fine-tuned"),
    "scratch + fine-tuned": ("scratch", "fine-tuned"),
    "all three": ("scratch", "frozen", "fine-tuned"),
}
