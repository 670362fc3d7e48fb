"""Names: look-up in a literal table, with the nearest valid name in the error, and old spellings of parameters."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

Value = TypeVar("Value")
Given = ParamSpec("Given")


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
    """A question that suggests the nearest valid name; empty if none is near."""
    near = get_close_matches(name, list(valid), n=1, cutoff=cutoff)
    return f"did you mean {near[0]!r}? " if near else ""


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
