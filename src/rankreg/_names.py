"""Look-up in a literal table, with the nearest valid name in the error."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

Value = TypeVar("Value")


def look_up(table: Mapping[str, Value], name: str, what: str) -> Value:
    """Return `table[name]`, or raise a ValueError that names what is valid."""
    if isinstance(name, str) and name in table:
        return table[name]
    near = get_close_matches(str(name).lower(), table, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"unknown {what} {name!r}: {hint}choose one of {', '.join(map(repr, table))}")
