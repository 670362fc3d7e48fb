"""Data sets, cut into parts: imbalanced CIFAR, skin lesions, solar cells, digits, and one's own images and tables.

A loader is imported on first use: pandas and scikit-learn are slow to load.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankreg.datasets.partitions import Partition
from rankreg.datasets.splits import Samples, Splits
from rankreg.names import look_up

if TYPE_CHECKING:
    from rankreg.datasets.table import TableOptions

__all__ = ["DATASETS", "Partition", "Samples", "Splits", "TableOptions", "load"]


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
    "melanoma": _later("image_sets", "melanoma"),
    "ham10000": _later("image_sets", "ham10000"),
    "elpv": _later("image_sets", "elpv"),
    "digits": _later("image_sets", "digits"),
    "digits-lt": _later("image_sets", "digits_long_tailed"),
    "folder": _later("images", "image_folder"),
    "table": _later("table", "table"),
}


def load(name: str, *arguments: Any, **options: Any) -> Splits:
    """Load a data set by its name in `DATASETS`.

    Args:
        name: cifar10, cifar100, cifar10-lt, melanoma, ham10000, elpv, digits, digits-lt, folder or table.
        arguments: positional arguments of its loader, e.g. the path of a table.
        options: keywords of its loader; `help(rankreg.datasets.DATASETS[name])` says where it is.

    Returns:
        The parts, each with inputs, labels and ids.

    Raises:
        ValueError: the name is unknown, or an option is out of range.
        FileNotFoundError: the data are not here; the message says how to get them.

    >>> splits = load("digits", positive=8, ratio=50)
    >>> {name: len(part) for name, part in splits.parts.items()}
    {'train': 892, 'validation': 270, 'test': 492}
    """
    return look_up(DATASETS, name, "data set")(*arguments, **options)


def __getattr__(name: str) -> Any:
    if name == "TableOptions":  # needs pandas
        return import_module("rankreg.datasets.table").TableOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
