"""How large an experiment is run: as in the paper, as two cores can, or in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """How the data sets of a family are loaded and trained.

    settings: change the loader's settings, or with `replace` stand in for them.
    """

    loader: str
    config: Settings
    settings: Settings
    replace: bool = False


@dataclass(frozen=True)
class Preset:
    """A size: how many splits (None: as many as the experiment names), and how each family is trained."""

    title: str
    splits: int | None
    families: Mapping[str, Family]


def _network(name: str, width: float) -> dict[str, Any]:
    return {"name": name, "width": width}


SGD = {"name": "sgd", "momentum": 0.9, "weight_decay": 2e-4}
SKIN = {"stem": "imagenet", "pixels": "imagenet"}
PAPER = {"epochs": 100, "schedule": "constant", "optimiser": SGD, "precision": "auto"}
COMPACT = {"schedule": "cosine", "optimiser": SGD, "precision": "float32", "device": "cpu"}  # docs/decisions/0050
SMOKE = {
    "epochs": 1,
    "schedule": "cosine",
    "learning_rate": 0.05,
    "optimiser": SGD,
    "model": {"name": "mlp", "hidden": [16]},
    "precision": "float32",
    "device": "cpu",
}
DIGITS = Family("digits", SMOKE, {"critical": 8, "ratio": 50}, replace=True)

PRESETS: dict[str, Preset] = {
    "paper": Preset(
        "full width, 100 epochs, 10 splits",
        10,
        {
            "cifar10": Family(
                "cifar10",
                {**PAPER, "learning_rate": 0.01, "model": _network("resnet10", 1.0), "augmentation": "cifar"},
                {},
            ),
            "cifar100": Family(
                "cifar100",
                {**PAPER, "learning_rate": 0.001, "model": _network("resnet10", 1.0), "augmentation": "cifar"},
                {},
            ),
            "cifar10-lt": Family(
                "cifar10-lt",
                {**PAPER, "learning_rate": 0.01, "model": _network("resnet10", 1.0), "augmentation": "cifar"},
                {},
            ),
            "melanoma": Family(
                "melanoma",
                {
                    **PAPER,
                    "learning_rate": 0.01,
                    "model": {**_network("resnet18", 1.0), **SKIN},
                    "augmentation": "dermoscopy",
                },
                {"size": 256},
            ),
            "ham10000": Family(
                "ham10000",
                {
                    **PAPER,
                    "learning_rate": 0.01,
                    "model": {**_network("resnet18", 1.0), **SKIN},
                    "augmentation": "dermoscopy",
                },
                {"size": 256},
            ),
        },
    ),
    "compact": Preset(
        "quarter width, few epochs, 3 or 5 splits: what two cores can do",
        None,
        {
            "cifar10": Family(
                "cifar10",
                {
                    **COMPACT,
                    "epochs": 8,
                    "learning_rate": 0.03,
                    "model": _network("resnet10", 0.25),
                    "augmentation": "cifar",
                },
                {},
            ),
            "cifar100": Family(
                "cifar100",
                {
                    **COMPACT,
                    "epochs": 8,
                    "learning_rate": 0.03,
                    "model": _network("resnet10", 0.25),
                    "augmentation": "cifar",
                },
                {},
            ),
            "cifar10-lt": Family(
                "cifar10-lt",
                {
                    **COMPACT,
                    "epochs": 12,
                    "learning_rate": 0.03,
                    "model": _network("resnet10", 0.25),
                    "augmentation": "cifar",
                },
                {},
            ),
            "melanoma": Family(
                "melanoma",
                {
                    **COMPACT,
                    "epochs": 12,
                    "learning_rate": 0.03,
                    "model": {**_network("resnet10", 0.25), "pixels": "imagenet"},
                    "augmentation": "dermoscopy",
                },
                {"size": [48, 64]},
            ),
            "ham10000": Family(
                "ham10000",
                {
                    **COMPACT,
                    "epochs": 6,
                    "learning_rate": 0.03,
                    "model": {**_network("resnet10", 0.25), "pixels": "imagenet"},
                    "augmentation": "dermoscopy",
                },
                {"size": [48, 64]},
            ),
        },
    ),
    "smoke": Preset(
        "scikit-learn's digits in place of every data set, one epoch, 2 splits: seconds, for tests",
        2,
        {
            **dict.fromkeys(("cifar10", "cifar100", "melanoma", "ham10000"), DIGITS),
            "cifar10-lt": Family("digits-lt", SMOKE, {"imbalance": 20}, replace=True),
        },
    ),
}
