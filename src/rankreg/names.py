"""Names: look-up in a table with the nearest valid name in the error, and old names of parameters and modules.

Old names keep working for one version, with a FutureWarning that gives the new name.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import ParamSpec, TypeVar

__all__ = ["look_up"]

Value = TypeVar("Value")
Given = ParamSpec("Given")

MOVED = {
    "rankreg.bench": "rankreg_bench",
    "rankreg.boosting.objective": "rankreg.boosting.objectives",
    "rankreg.bundle.files": "rankreg.bundle.storage",
    "rankreg.datasets.digits": "rankreg.datasets.image_sets",
    "rankreg.datasets.lesions": "rankreg.datasets.image_sets",
    "rankreg.desk": "rankreg.score_files",
    "rankreg.estimator": "rankreg.estimators",
    "rankreg.export": "rankreg.bundle",
    "rankreg.multiclass": "rankreg",
    "rankreg.predict": "rankreg.bundle",
    "rankreg.thresholding": "rankreg.estimators",
}


def look_up(table: Mapping[str, Value], name: str, what: str) -> Value:
    """Return `table[name]`, or raise a ValueError that names what is valid.

    Args:
        table: values by name.
        name: the name asked for.
        what: what messages call such a name, e.g. "loss".

    >>> look_up({"bce": 1}, "bce", "loss")
    1
    """
    if isinstance(name, str) and name in table:
        return table[name]
    hint = did_you_mean(str(name).lower(), table, cutoff=0.5)
    raise ValueError(f"unknown {what} {name!r}: {hint}choose one of {', '.join(map(repr, table))}")


def did_you_mean(name: str, valid: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A question that suggests the nearest valid name, in any case; empty if none is near.

    >>> did_you_mean("age", ["Age ", "sex"])
    "did you mean 'Age '? "
    """
    folded = {one.strip().casefold(): one for one in valid}
    near = get_close_matches(name.strip().casefold(), folded, n=1, cutoff=cutoff)
    return f"did you mean {folded[near[0]]!r}? " if near else ""


def renamed(**new_names: str) -> Callable[[Callable[Given, Value]], Callable[Given, Value]]:
    """Decorate a function so that old spellings of its keywords still work, with a FutureWarning.

    `@renamed(critical="positive")` passes `critical=2` on as `positive=2`. The signature shows new names only.
    """

    def decorate(function: Callable[Given, Value]) -> Callable[Given, Value]:
        @wraps(function)
        def call(*args: Given.args, **given: Given.kwargs) -> Value:
            for old in new_names.keys() & given.keys():
                new = new_names[old]
                if new in given:
                    raise TypeError(f"{new} was given twice, also by its old name {old}: pass {new} alone")
                warnings.warn(f"{old} is now {new}: pass {new}=", FutureWarning, stacklevel=2)
                given[new] = given.pop(old)
            return function(*args, **given)

        return call

    return decorate


class MovedModules(MetaPathFinder, Loader):
    """Finds the modules of `MOVED` under their old names, after every other finder has given up."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = MOVED[module.__name__]
        warnings.warn(f"{module.__name__} is now {new}: import that", FutureWarning, stacklevel=2)
        home = import_module(new)
        module.__getattr__ = lambda name: getattr(home, name)  # type: ignore[method-assign]


def keep_old_names() -> None:
    """Install the finder, once."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
