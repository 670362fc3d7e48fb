"""The settings that the paper's CIFAR experiments used: plain data, for networks and tables alike."""

DATASETS = ("cifar10-1:100", "cifar10-1:200", "cifar100-1:100", "cifar100-1:200")

# Base loss → the setting and its value on each data set; LDAM has two, the same on all.
_TUNED: dict[str, tuple[str, tuple[float, float, float, float]]] = {
    "s-ml": ("margin", (0.5, 0.5, 0.5, 2.0)),
    "s-fl": ("gamma", (0.5, 0.5, 2.0, 2.0)),
    "a-ml": ("margin", (0.5, 0.5, 2.0, 4.0)),
    "a-fl": ("gamma", (1.0, 0.5, 2.0, 2.0)),
    "cb-bce": ("beta", (0.99, 0.99, 0.99, 0.99)),
    "w-bce": ("share", (0.333, 0.333, 1.0, 1.0)),
}

# Base loss → (μ₀, δ) of ALM on each data set.
_ALM: dict[str, tuple[tuple[float, float], ...]] = {
    "bce": ((1e-7, 0.25), (1e-5, 0.5), (1e-3, 0.1), (1e-3, 0.1)),
    "s-ml": ((1e-6, 0.1), (1e-9, 0.0), (1e-3, 1.0), (1e-4, 0.5)),
    "s-fl": ((1e-6, 0.5), (1e-7, 0.0), (1e-5, 0.25), (1e-3, 0.1)),
    "a-ml": ((1e-7, 0.25), (1e-9, 0.0), (1e-3, 0.5), (1e-3, 0.5)),
    "a-fl": ((1e-5, 0.25), (1e-7, 1.0), (1e-4, 0.1), (1e-3, 0.25)),
    "cb-bce": ((1e-4, 0.5), (1e-4, 0.1), (1e-2, 0.25), (1e-3, 1.0)),
    "w-bce": ((1e-7, 1.0), (1e-7, 0.1), (1e-7, 1.0), (1e-6, 1.0)),
    "ldam": ((1e-6, 1.0), (1e-8, 0.25), (1e-7, 0.5), (1e-3, 0.25)),
}

LOSS_SETTINGS: dict[str, dict[str, dict[str, float]]] = {  # data set → base loss → settings
    dataset: {
        "bce": {},
        **{loss: {setting: values[place]} for loss, (setting, values) in _TUNED.items()},
        "ldam": {"max_margin": 0.5, "scale": 30.0},
    }
    for place, dataset in enumerate(DATASETS)
}

ALM_SETTINGS: dict[str, dict[str, tuple[float, float]]] = {  # data set → base loss → (μ₀, δ)
    dataset: {loss: values[place] for loss, values in _ALM.items()} for place, dataset in enumerate(DATASETS)
}
