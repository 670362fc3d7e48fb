"""How large an experiment is run: as in the paper, as two cores can, or in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """How the data sets of a family are loaded and trained.

    settings: change the loader's settings, or with `replace` stand in for them. methods: what a method (that of the
    config, e.g. "alm") changes in the config. split_is: the loader's word for what a split deals anew; all splits
    of a data set must share the test part.
    """

    loader: str
    config: Settings
    settings: Settings
    replace: bool = False
    methods: Mapping[str, Settings] = field(default_factory=dict)
    split_is: Literal["seed", "member"] = "seed"

    def config_of(self, method: str) -> Settings:
        """How it is trained with that method."""
        return {**self.config, **self.methods.get(method, {})}


@dataclass(frozen=True)
class Preset:
    """A size: how many splits (None: as many as the experiment names), and how each family is trained.

    curves: whether records hold the measures of every epoch, and the last epoch's scores beside those of the best.
    """

    title: str
    splits: int | None
    families: Mapping[str, Family]
    curves: bool = False


def _network(name: str, width: float) -> dict[str, Any]:
    return {"name": name, "width": width}


SGD = {"name": "sgd", "momentum": 0.9, "weight_decay": 2e-4}
SKIN_SPLITS: dict[str, Literal["seed", "member"]] = {"melanoma": "member", "ham10000": "seed"}
SKIN = {"stem": "imagenet", "pixels": "imagenet"}
# By AUC of the critical class the first epochs win, when a network of many classes has hardly begun (0050).
MANY_CLASSES: Settings = {"selection": "error", "tpr": 0.9}
PAPER = {
    "epochs": 100,
    "learning_rate": 0.01,
    "schedule": "constant",
    "optimiser": SGD,
    "augmentation": "cifar",
    "precision": "auto",
}
COMPACT = {
    "schedule": "cosine",
    "optimiser": SGD,
    "augmentation": "cifar",
    "precision": "float32",
    "device": "cpu",
}


def _compact(name: str, epochs: tuple[int, int], settings: Settings | None = None, **changes: Any) -> Family:
    """Quarter width, with budgets chosen on tuning data (docs/decisions/0050).

    epochs: without and with a buffer. With one, an epoch has twice the steps, each of 32 samples and 32 from the
    buffer: half the epochs are as many steps and samples.
    """
    plain, buffered = ({"learning_rate": r, "epochs": n} for r, n in zip((0.03, 0.01), epochs, strict=True))
    return Family(
        name,
        {**COMPACT, **plain, "model": _network("resnet10", 0.25), **changes},
        settings or {},
        methods={"buffer": buffered, "rankreg": buffered},
        split_is=SKIN_SPLITS.get(name, "seed"),
    )


def _converged(name: str, rate: float) -> Family:
    """The paper's schedule at a quarter of the width; every arm sees as many samples (docs/decisions/0055)."""
    config = {**COMPACT, "schedule": "constant", "learning_rate": rate, "model": _network("resnet10", 0.25)}
    return Family(
        name,
        {**config, "epochs": 100},
        {},
        methods={"buffer": {"epochs": 50}, "rankreg": {"epochs": 50}},
    )


SMOKE = {
    "epochs": 1,
    "schedule": "cosine",
    "learning_rate": 0.05,
    "optimiser": SGD,
    "model": {"name": "mlp", "hidden": [16]},
    "precision": "float32",
    "device": "cpu",
}
TABLE = {  # a table of one's own: the defaults of `rankreg fit`
    "epochs": 40,
    "learning_rate": 2e-3,
    "schedule": "cosine",
    "optimiser": {"name": "adamw"},
    "model": {"name": "mlp", "hidden": [64, 64], "dropout": 0.1},
    "precision": "float32",
    "device": "cpu",
}
OWN_TABLE = Family("table", TABLE, {}, split_is="member")  # another member leaves the test part as it is
DIGITS = Family("digits", SMOKE, {"critical": 8, "ratio": 50}, replace=True)

PRESETS: dict[str, Preset] = {
    "paper": Preset(
        "full width, 100 epochs, 10 splits",
        10,
        {
            "table": OWN_TABLE,
            "cifar10": Family("cifar10", {**PAPER, "model": _network("resnet10", 1.0)}, {}),
            "cifar100": Family(
                "cifar100", {**PAPER, "learning_rate": 0.001, "model": _network("resnet10", 1.0)}, {}
            ),
            "cifar10-lt": Family("cifar10-lt", {**PAPER, **MANY_CLASSES, "model": _network("resnet10", 1.0)}, {}),
            **{
                name: Family(
                    name,
                    {**PAPER, "model": {**_network("resnet18", 1.0), **SKIN}, "augmentation": "dermoscopy"},
                    {"size": 256},
                    split_is=split_is,
                )
                for name, split_is in SKIN_SPLITS.items()
            },
        },
    ),
    "compact": Preset(
        "quarter width, 4 to 16 epochs, 3 to 10 splits: what two cores can do",
        None,
        {
            "table": OWN_TABLE,
            "cifar10": _compact("cifar10", (16, 8)),
            "cifar100": _compact("cifar100", (16, 8)),
            "cifar10-lt": _compact("cifar10-lt", (12, 12), precision="bfloat16", **MANY_CLASSES),
            **{
                name: _compact(
                    name,
                    (8, 4),
                    {"size": [48, 64]},
                    model={**_network("resnet10", 0.25), "pixels": "imagenet"},
                    augmentation="dermoscopy",
                    precision="bfloat16",
                )
                for name in SKIN_SPLITS
            },
        },
    ),
    "converged": Preset(
        "quarter width, 100 epochs of 64 samples or 50 of 32 + 32, constant rate, 10 splits",
        10,
        {
            "table": OWN_TABLE,
            "cifar10": _converged("cifar10", 0.01),
            "cifar100": _converged("cifar100", 0.001),
        },
        curves=True,
    ),
    "smoke": Preset(
        "scikit-learn's digits in place of every data set, one epoch, 2 splits: seconds, for tests",
        2,
        {
            "table": Family("table", {**TABLE, "epochs": 1}, {}, split_is="member"),
            **dict.fromkeys(("cifar10", "cifar100", "melanoma", "ham10000"), DIGITS),
            "cifar10-lt": Family("digits-lt", {**SMOKE, **MANY_CLASSES}, {"imbalance": 20}, replace=True),
        },
    ),
}
