"""Notation: how numbers are written in sentences and in JSON. Every room writes its numbers with these."""

import json
import math
import re
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

Lines = list[tuple[str, str]]  # results as text: a heading and a sentence each

LONGEST_NAME = 60  # characters
LONGEST_QUOTE = 200  # characters: a path in a command that can be typed is shorter
_QUOTED = re.compile(rf"""(?<!\w)(['"])((?:(?!\1)[^\n]){{{LONGEST_QUOTE + 1},}})\1(?!\w)""")


@dataclass(frozen=True)
class Record:
    """A frozen result with `to_dict()`."""

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, nested results too. `json_text` writes the dictionary as JSON."""
        return asdict(self)


def percent(value: float) -> str:
    """A share that somebody chose, such as a target TPR, in percent with up to six digits.

    >>> percent(0.98), percent(0.9995)
    ('98 %', '99.95 %')
    """
    return f"{100 * value:.6g} %"


def share(value: float, *, up: bool | None = None) -> str:
    """A share that was measured, in percent with three digits. A share just below 1 keeps its nines.

    up: True rounds up, for an upper bound; False rounds down; None rounds to the nearest.

    >>> share(0.034056), share(0.034056, up=True), share(0.99987)
    ('3.41 %', '3.41 %', '99.987 %')
    """
    if value > 0.99 and up is not True and value < 1:
        lost = 100 * (1 - value)
        digits = max(0, 1 - math.floor(math.log10(lost)))
        return f"{math.floor(100 * value * 10**digits + 1e-9) / 10**digits:.{digits}f} %"
    return number(100 * value, up=up) + " %"


def number(value: float, *, up: bool | None = None) -> str:
    """A number with three digits, or with all digits before the point.

    up: True rounds up, for an upper bound; False rounds down; None rounds to the nearest.

    >>> number(0.012345), number(12.345, up=True), number(1234.5)
    ('0.0123', '12.4', '1,234')
    """
    if value == 0 or not math.isfinite(value) or abs(value) >= 1e9:
        return f"{value:.3g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    scaled = value * 10**digits
    if up is not None:
        scaled = math.ceil(scaled - 1e-9) if up else math.floor(scaled + 1e-9)
    return f"{scaled / 10**digits:,.{digits}f}"


def rounded_threshold(value: float, digits: int = 6, *, up: bool = False) -> str:
    """A threshold with a few digits, rounded down: a lower threshold never loses an alarm.

    Nines are not digits: below 1 they are kept, and as many digits follow.

    digits: how many, at most. up: round up, for the lower end of a range.

    >>> rounded_threshold(0.30712345678), rounded_threshold(0.9999987654321, 3), rounded_threshold(-2.0)
    ('0.307123', '0.99999876', '-2')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exact = Decimal(repr(float(value)))
    size = 1 - exact if Decimal("0.9") < exact < 1 else abs(exact)
    places = digits - 1 - size.adjusted()
    if places < 0 and exact.adjusted() < 15:
        places = 0  # all digits before the point
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    kept = exact.scaleb(places).to_integral_value(rounding).scaleb(-places)
    return repr(float(kept)).removesuffix(".0")


def short_name(name: str, most: int = LONGEST_NAME) -> str:
    """A name from the data for people to read: its middle is left out if it is long. JSON has it whole.

    >>> short_name("benign"), short_name("a" * 5000 + "z", 10)
    ('benign', 'aaaaaa…aaz')
    """
    end = most // 3
    return name if len(name) <= most else f"{name[: most - end - 1]}…{name[len(name) - end :]}"


def short_quotes(text: str) -> str:
    """A sentence with the long names in quotes shortened.

    >>> short_quotes(f"column 'age' holds {'x' * 5000!r}") == f"column 'age' holds '{short_name('x' * 5000)}'"
    True
    """
    return _QUOTED.sub(lambda found: found[1] + short_name(found[2]) + found[1], text)


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign: a true minus sign, a plus sign, or none where it rounds to 0.

    >>> signed(0.84), signed(-0.04), signed(-1.26)
    ('+0.8', '0.0', '−1.3')
    """
    text = plain(value, digits)
    return text if text.startswith("−") or not float(text) else f"+{text}"


def plain(value: float, digits: int = 1) -> str:
    """A number with fixed decimals, a true minus sign and no negative zero.

    >>> plain(-0.84), plain(-0.04)
    ('−0.8', '0.0')
    """
    return f"{value:z.{digits}f}".replace("-", "−")


def p_text(value: float) -> str:
    """A p-value with two digits. It is never written as 0.

    >>> p_text(0.0312), p_text(0.0)
    ('p = 0.031', 'p < 1e-300')
    """
    return f"p = {value:.2g}" if value >= 1e-300 else "p < 1e-300"


def json_value(value: Any) -> Any:
    """The same value for JSON, which has no infinities: they become the texts "inf" and "-inf".

    `float("inf")` reads them back, and so does `float` for every other number. Files of earlier
    versions may have null in their place.

    >>> json_value({"threshold": float("-inf"), "points": (1, 2.5)})
    {'threshold': '-inf', 'points': [1, 2.5]}
    """
    if isinstance(value, dict):
        return {key: json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    return str(float(value)) if isinstance(value, float) and not math.isfinite(value) else value


def json_text(record: dict[str, Any]) -> str:
    """JSON that every parser reads and every terminal shows: ASCII only, no infinities.

    >>> print(json_text({"threshold": float("inf")}))
    {
      "threshold": "inf"
    }
    """
    return json.dumps(json_value(record), indent=2, allow_nan=False).replace("\x7f", "\\u007f")
