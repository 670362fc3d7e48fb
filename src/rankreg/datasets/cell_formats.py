"""How the texts of a column spell numbers and dates: found in training, stored as JSON, applied to new texts."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from rankreg.dialects import Decimal

Floats = NDArray[np.float64]
Thousands = Literal["", ",", ".", " ", "'"]
Order = Literal["ymd", "dmy", "mdy", "named", "time"]
Several = TypeVar("Several", bound=Any)  # a sequence or an array
Part = Literal["days", "month", "day of week", "hour"]

TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
MISSING_WORDS = frozenset(  # beside those that pandas knows; compared without case
    {"", "?", "??", "-", "--", "---", "–", "—", ".", "..", "*", "#n/a", "#value!", "#div/0!", "na", "n/a", "n.a."}
    | {"nan", "null", "nil", "none", "(none)", "missing", "unknown", "unk", "not available", "not applicable"}
)
CURRENCIES = "$€£¥₹₽₩₺"
CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CAD|AUD|BRL|Kč|kr"
UNIT = "|".join(["%", "‰", *map(re.escape, CURRENCIES), CODES])
SIGNS = str.maketrans({"−": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'"})
WITH_UNIT = re.compile(
    rf"\s*[-+]?\s*(?P<before>{UNIT})?\s*[-+]?[\d.,' ]*\d[\d.,' ]*(?:e[-+]?\d+)?(?P<after>{UNIT})?\s*", re.I
)
MOST = 0.95  # of the texts: so many must be spelled alike, the others are faults
PARTS: tuple[Part, ...] = get_args(Part)
ORDERS: tuple[Order, ...] = get_args(Order)
LONGEST = 64  # signs: a longer text is no number and no date
LOOKED_AT = 5000  # texts that decide on a spelling
OTHER_MARK: dict[str, Decimal] = {".": ",", ",": "."}


class NumberFormat(BaseModel):
    """How numbers are spelled.

    decimal, thousands: the marks; thousands is "" if digits are not grouped.
    unit: a sign that stands before or behind every number, e.g. "%" or "€".

    >>> NumberFormat(decimal=",", thousands=".", unit="€").parse(["1.234,50 €", "€ 7", "12.3 €", "7"])
    array([1234.5,    7. ,    nan,    nan])
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    decimal: Decimal = "."
    thousands: Thousands = ""
    unit: Annotated[str, Field(pattern=rf"^(?:{UNIT})?$")] = ""

    @property
    def words(self) -> str:
        """What a number must be like."""
        said = [f"thousands as in 1{self.thousands}234{self.decimal}5"] if self.thousands else []
        said += [] if self.thousands or self.unit else [f"decimal {'point' if self.decimal == '.' else 'comma'}"]
        return ", ".join([*said, *([f"without {self.unit}"] if self.unit else [])])

    def for_file(self, trained: Decimal, decimal: Decimal) -> "NumberFormat":
        """The same spelling in a file whose decimal mark is another than in training."""
        if trained == decimal:
            return self
        thousands = OTHER_MARK.get(self.thousands, self.thousands)
        return self.model_copy(update={"decimal": OTHER_MARK[self.decimal], "thousands": thousands})

    def parse(self, texts: Sequence[str]) -> Floats:
        """The numbers, NaN where a text is none; "inf" and what overflows is infinite."""
        spelled = _number_pattern(self.decimal, self.thousands, self.unit).fullmatch
        found = [
            float(_figures(text, self)) if len(text) <= LONGEST and spelled(text) else TRUTHS.get(text, math.nan)
            for text in map(_with_plain_signs, texts)
        ]
        return np.asarray(found, dtype=np.float64)


@cache
def _number_pattern(decimal: str, thousands: str, unit: str) -> re.Pattern[str]:
    point, mark, one = re.escape(decimal), re.escape(thousands), re.escape(unit)
    grouped = rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|" if thousands else ""
    figures = rf"(?:(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)(?:e[-+]?\d+)?|inf(?:inity)?"
    before = rf"\s*(?:[-+]?\s*{one}\s*|{one}\s*[-+])(?:{figures})\s*|" if unit else ""
    return re.compile(rf"{before}\s*[-+]?(?:{figures})\s*{one}\s*", re.IGNORECASE | re.ASCII)


def _with_plain_signs(text: str) -> str:
    return text if text.isascii() else text.translate(SIGNS)


def _figures(text: str, spelling: NumberFormat) -> str:
    """A text that is known to be a number, as Python spells it."""
    if spelling.unit:
        text = re.sub(re.escape(spelling.unit), "", text, flags=re.IGNORECASE).replace(" ", "")
    if spelling.thousands:
        text = text.replace(spelling.thousands, "")
    return text if spelling.decimal == "." else text.replace(spelling.decimal, ".")


def find_number_format(texts: Sequence[str], decimal: Decimal) -> NumberFormat:
    """The spelling that reads the most of these texts; of several, the plainest with the file's decimal mark."""
    looked_at = spread_out(texts, LOOKED_AT)
    units: dict[str, int] = {}
    for text in looked_at:
        found = WITH_UNIT.fullmatch(_with_plain_signs(text)) if len(text) <= LONGEST else None
        if found is not None:
            unit = found["before"] or found["after"] or ""
            units[unit] = units.get(unit, 0) + 1
    unit = max(units, key=lambda one: units[one]) if units else ""
    best, most = NumberFormat(decimal=decimal), -1
    for mark in (decimal, OTHER_MARK[decimal]):
        for thousands in ("", OTHER_MARK[mark], " ", "'"):
            one = NumberFormat(decimal=mark, thousands=thousands, unit=unit)
            read = int(np.count_nonzero(~np.isnan(one.parse(looked_at))))
            if read > most:
                best, most = one, read
            if read == len(looked_at):
                return best
    return best


def spread_out(values: Several, most: int) -> Several:
    """At most so many of them, at even distances."""
    some: Several = values[:: max(1, -(-len(values) // most))]
    return some


YEAR = "January, February, March, April, May, June, July, August, September, October, November, December"
MONTHS = YEAR.lower().split(", ")
MONTH_NUMBERS = {name[:size]: k for k, name in enumerate(MONTHS, 1) for size in (3, len(name))} | {"sept": 9}
EPOCH = date(1970, 1, 1).toordinal()
YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})", re.ASCII)
YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})", re.ASCII)
DAY_NAMED = re.compile(r"(\d{1,2})(?:\. |[- ])([a-z]{3,9})\.?[-, ]\s*(\d{4})", re.ASCII | re.IGNORECASE)
NAMED_DAY = re.compile(r"([a-z]{3,9})\.? (\d{1,2}),? (\d{4})", re.ASCII | re.IGNORECASE)
TIME = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*([ap]m)?\s*(?:(z)|([-+])(\d{2}):?(\d{2}))?",
    re.ASCII | re.IGNORECASE,
)


class DateFormat(BaseModel):
    """How dates are spelled, and which numbers are made of them.

    order: "ymd", "dmy" and "mdy" are the order of year, month and day as numbers, "named" has the month's English
    name, "time" is a time of day alone.
    parts: days since 1970 with the time of day as a fraction, month, day of week (Monday is 0), hour.

    >>> DateFormat(order="dmy", parts=("days", "hour")).parse(["31.01.1970 06:00", "30.02.2020"])
    array([[30.25,  6.  ],
           [  nan,   nan]])
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    order: Order
    parts: Annotated[tuple[Part, ...], Field(strict=False, min_length=1)]  # JSON has lists only

    def parse(self, texts: Sequence[str]) -> Floats:
        """One row per text, one column per part; NaN where a text is no such date."""
        places = [PARTS.index(part) for part in self.parts]
        return parse_dates(texts, self.order)[:, places]


def parse_dates(texts: Sequence[str], order: Order) -> Floats:
    """A row for each text: days, month, day of week and hour, as `PARTS`; NaN where it is no date of that order."""
    heads, tails = [], []
    for text in texts:
        text = text.strip() if len(text) <= LONGEST else ""
        colon = text.find(":")
        if colon < 0:
            heads.append(text)
            tails.append("")
        else:
            start = max(colon - 2 if text[colon - 2 : colon].isdigit() else colon - 1, 0)
            heads.append(text[:start].rstrip(" ").removesuffix("T").removesuffix(","))
            tails.append(text[start:])
    days, hours = _parsed(heads, lambda head: _date(head, order), 3), _parsed(tails, _time, 2)
    if order == "time":
        is_time = np.asarray([not head and tail != "" for head, tail in zip(heads, tails, strict=True)], dtype=bool)
        days = np.where(is_time[:, None], 0.0, np.nan) * np.ones(3)
    moments = days[:, 0] + (hours[:, 0] - hours[:, 1]) / 24
    found = np.column_stack([moments, days[:, 1:], hours[:, 0]])
    return np.where(np.isnan(found).any(axis=1, keepdims=True), np.nan, found)


def _parsed(texts: list[str], parse: Callable[[str], tuple[float, ...] | None], width: int) -> Floats:
    """What each text gives, parsed once for all equal ones; NaN where that is None."""
    codes, distinct = pd.factorize(np.asarray(texts, dtype=object))
    found = [parse(text) or (math.nan,) * width for text in distinct]
    return np.asarray(found, dtype=np.float64).reshape(-1, width)[codes]


def _date(text: str, order: Order) -> tuple[float, ...] | None:
    """Days since 1970, month and day of week."""
    if order == "ymd":
        match = YEAR_FIRST.fullmatch(text)
        fields = None if match is None else (match[1], match[3], match[4])
    elif order == "named":
        match = DAY_NAMED.fullmatch(text) or NAMED_DAY.fullmatch(text)
        if match is None:
            return None
        first, second = (match[1], match[2]) if match[1].isdigit() else (match[2], match[1])
        fields = match[3], str(MONTH_NUMBERS.get(second.lower(), 0)), first
    else:
        match = YEAR_LAST.fullmatch(text)
        if match is None or (order == "mdy" and match[2] == "."):
            return None
        day, month = (match[1], match[3]) if order == "dmy" else (match[3], match[1])
        fields = match[4], month, day
    if fields is None:
        return None
    try:
        found = date(*map(int, fields))
    except ValueError:
        return None
    return float(found.toordinal() - EPOCH), float(found.month), float(found.weekday())


def _time(text: str) -> tuple[float, float] | None:
    """Hours since midnight as written, and the hours by which they are ahead of UTC; no time is midnight."""
    if not text:
        return 0.0, 0.0
    match = TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second, fraction, half, _, sign, ahead, more = match.groups()
    hours = int(hour)
    if half:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
    seconds = float(f"{second or 0}.{fraction or 0}")
    if hours > 23 or int(minute) > 59 or seconds >= 61:
        return None
    offset = 0.0 if sign is None else float(f"{sign}1") * (int(ahead) + int(more) / 60)
    return hours + int(minute) / 60 + seconds / 3600, offset


def find_date_order(texts: Sequence[str]) -> tuple[Order | None, bool]:
    """The order that reads the most of these texts, None if too few; and whether another one reads as many."""
    looked_at = spread_out(texts, LOOKED_AT)
    counts: dict[Order, int] = {}
    for one in ORDERS:
        counts[one] = int(np.count_nonzero(~np.isnan(parse_dates(looked_at, one)[:, 0])))
    order = max(ORDERS, key=lambda one: counts[one])
    if counts[order] < MOST * len(looked_at):
        return None, False
    dotted = sum("." in text for text in looked_at)  # the day stands first wherever dates have points
    return order, order == "dmy" and counts["mdy"] == counts["dmy"] and dotted < len(looked_at)
