"""How numbers are written; `words.js` writes them alike, name by name."""

from collections.abc import Callable
from typing import Any

from rankreg.desk.words import number, share
from rankreg.operating import percent

UNDEFINED = "undefined"


def _or_undefined(write: Callable[[float], str]) -> Callable[[Any], str]:
    return lambda value: UNDEFINED if value is None else write(value)


FORMATS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "count": lambda value: f"{value:,}",
    "percent": percent,
    "rounded": lambda value: f"{100 * value:.3g} %",
    "share": _or_undefined(share),
    "share_up": lambda value: share(value, up=True),
    "share_down": lambda value: share(value, up=False),
    "number": number,
    "number_up": lambda value: number(value, up=True),
}


def unbroken(text: str) -> str:
    """No line ends between a number and its %."""
    return text.replace(" %", "\u00a0%")


def _unbroken(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: unbroken(write(value))


# For sentences; numbers that the sliders change are kept whole by the style sheet.
FILTERS: dict[str, Callable[[Any], str]] = {
    "unbroken": unbroken,
    **{name: _unbroken(write) for name, write in FORMATS.items()},
}
