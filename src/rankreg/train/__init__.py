"""Training: `train(splits, config, folder)` → `Run`, which resumes; `score(model, inputs)` → scores."""

from rankreg.train.config import (
    AdamWSettings,
    ALMMethod,
    BufferMethod,
    BufferSettings,
    LossSettings,
    NoMethod,
    RankRegMethod,
    SGDSettings,
    TrainConfig,
)
from rankreg.train.folder import FolderInUseError
from rankreg.train.inference import score
from rankreg.train.loop import DivergenceError
from rankreg.train.run import Interrupted, Run, train, train_ensemble, train_in_memory  # noqa: F401 - an old name

__all__ = [
    "ALMMethod",
    "AdamWSettings",
    "BufferMethod",
    "BufferSettings",
    "DivergenceError",
    "FolderInUseError",
    "Interrupted",
    "LossSettings",
    "NoMethod",
    "RankRegMethod",
    "Run",
    "SGDSettings",
    "TrainConfig",
    "score",
    "train",
    "train_ensemble",
]
