"""How to train when the user does not say: one choice for tables, one for images (docs/decisions/0042)."""

from typing import Any

DEFAULTS: dict[str, dict[str, Any]] = {
    "table": {
        "epochs": 40,
        "batch_size": 128,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "optimiser": {"name": "adamw"},
        "method": {"name": "rankreg"},
        "model": {"name": "mlp", "hidden": (64, 64), "dropout": 0.1},
        "precision": "float32",  # where bfloat16 is fast, layers as small as these are a quarter slower in it
    },
    "image": {
        "epochs": 30,
        "batch_size": 64,
        "learning_rate": 0.02,
        "schedule": "cosine",
        "optimiser": {"name": "sgd"},
        "method": {"name": "rankreg"},
        "model": {"name": "resnet10", "width": 0.25, "pixels": "imagenet"},
        "augmentation": "cifar",
    },
}

SMALL = 48  # pixels: beyond, a stem that quarters the image costs a ninth of the time (docs/decisions/0042)
