"""Data sets, cut into parts: imbalanced CIFAR, skin lesions, digits, and one's own images and tables.

Each loader is imported on first use: pandas and scikit-learn are slow to load.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from rankreg._names import look_up
from rankreg.datasets.catalog import data_folder
from rankreg.datasets.partitions import Partition
from rankreg.datasets.splits import Samples, Splits

__all__ = ["DATASETS", "Partition", "Samples", "Splits", "data_folder", "load"]


def _later(module: str, function: str) -> Callable[..., Splits]:
    def loader(*arguments: Any, **options: Any) -> Splits:
        splits: Splits = getattr(import_module(f"rankreg.datasets.{module}"), function)(*arguments, **options)
        return splits

    loader.__name__ = loader.__qualname__ = function
    loader.__doc__ = f"See `rankreg.datasets.{module}.{function}`."
    return loader


DATASETS: dict[str, Callable[..., Splits]] = {
    "cifar10": _later("cifar", "cifar10"),
    "cifar100": _later("cifar", "cifar100"),
    "cifar10-lt": _later("cifar", "cifar10_long_tailed"),
    "melanoma": _later("lesions", "melanoma"),
    "ham10000": _later("lesions", "ham10000"),
    "digits": _later("digits", "digits"),
    "digits-lt": _later("digits", "digits_long_tailed"),
    "folder": _later("images", "image_folder"),
    "table": _later("table", "table"),
}


def load(name: str, *arguments: Any, **options: Any) -> Splits:
    """A data set by its name in `DATASETS`; arguments are the loader's."""
    return look_up(DATASETS, name, "data set")(*arguments, **options)
