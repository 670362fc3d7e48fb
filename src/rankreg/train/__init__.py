"""Training: `train(splits, config, out_dir)` → `Run`, resumable; `train_in_memory(splits, config)` → `Trained`;
`score(model, samples)` → `Scores`."""

from rankreg.train.config import LossSettings, TrainConfig
from rankreg.train.folder import FolderInUseError, in_use, locked
from rankreg.train.loop import DivergenceError
from rankreg.train.memory import Trained, train_in_memory
from rankreg.train.methods import ALMMethod, BufferMethod, BufferSettings, NoMethod, RankRegMethod
from rankreg.train.optimisers import AdamWSettings, SGDSettings
from rankreg.train.run import Run, train
from rankreg.train.scoring import score
from rankreg.train.signals import Interrupted

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
    "Trained",
    "in_use",
    "locked",
    "score",
    "train",
    "train_in_memory",
]
