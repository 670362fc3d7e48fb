"""Which label values are positive and which are negative: said by the user, never guessed. One rule for all."""

import math
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from rankreg.table_files import row_words

SHOWN = 8  # values in a message
SOME = 20  # values to keep; a column may hold thousands
UNAMBIGUOUS = {"1": {"0", "1"}, "True": {"False", "True"}}  # by the positive value: need not be named


@dataclass(frozen=True)
class LabelRule:
    """What the values of a label column mean. A value that is not covered is an error.

    positive: needed unless the column holds 0 and 1, or False and True only.
    negative: needed if there are several negative values.
    rest_negative: every other value is negative. Values that look like the positive one (by case,
    spaces, or 1 and 1.0) are still an error.
    """

    positive: str | None = None
    negative: tuple[str, ...] = ()
    rest_negative: bool = False

    def __post_init__(self) -> None:
        if self.positive is None and (self.negative or self.rest_negative):
            raise ValueError("the negative values were named, but not the positive one: add --positive VALUE")
        if self.positive in self.negative:
            raise ValueError(f"{self.positive!r} was named both positive and negative: name it once")

    def described(self) -> dict[str, Any]:
        """The rule as JSON values, where the names of the two classes do not say it all."""
        if self.rest_negative:
            return {"rest_negative": True}
        return {"negative": list(self.negative)} if len(self.negative) > 1 else {}


@dataclass(frozen=True)
class Reading:
    """How a label column was read.

    positive: as the column spells it; others: negative values, the most frequent first, at most 20.
    """

    column: str
    positive: str
    positives: int
    others: tuple[str, ...]
    negatives: int

    @property
    def negative(self) -> str:
        """The name of the negatives: their value, or "other" if there are several."""
        return self.others[0] if len(self.others) == 1 else "other"


def read_labels(
    column: "pd.Series[Any]",
    rule: LabelRule,
    where: str,
    *,
    partial: bool = False,
    name_row: Callable[[int], str] = row_words,
    counts: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], Reading]:
    """Labels 0 and 1 of a column, by the rule.

    where, name_row: what messages call the column, and a row by its index.
    partial: these are only some of the rows, so that the positive value may be absent.
    counts: how many rows each of the values stands for, default 1.
    """
    empty = np.flatnonzero(column.isna().to_numpy())
    if len(empty):
        refuse_unlabelled(len(empty), name_row(int(column.index[empty[0]])), where)
    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        raise ValueError(f"{where} holds lists or other nested values: a label is one text or number") from error
    texts = [label_text(value) for value in values]
    found = Counter[str]()
    for text, count in zip(texts, np.bincount(codes, counts, minlength=len(texts)).tolist(), strict=True):
        found[text] += int(count)
    holds = f"{where} holds {listing(f'{text!r} ({count:,})' for text, count in found.most_common())}"
    positive, negative = _meaning(column, rule, found, holds, partial)
    labels = np.asarray([text == positive for text in texts], dtype=np.int64)[codes]
    others = [text for text, _ in found.most_common() if text in negative]
    positives = found[positive]
    return labels, Reading(str(column.name), positive, positives, tuple(others[:SOME]), found.total() - positives)


def refuse_unlabelled(count: int, first: str, where: str) -> None:
    """Rows without a label; first: what the first of them is called."""
    raise ValueError(f"{where} is empty in {count:,} rows, first in {first}: label or remove them")


def _meaning(
    column: "pd.Series[Any]", rule: LabelRule, counts: Counter[str], holds: str, partial: bool
) -> tuple[str, set[str]]:
    """The positive value and the negative ones as the column spells them; all its values are among them."""
    if rule.positive is None:
        for positive, both in UNAMBIGUOUS.items():
            if counts.keys() <= both:
                return positive, both - {positive}
        raise ValueError(f"{holds}: say which value is the positive one, with --positive VALUE")
    positive = _spelled(rule.positive, column)
    named = {_spelled(value, column) for value in rule.negative}
    others = [value for value, _ in counts.most_common() if value != positive]
    unnamed = [value for value in others if value not in named]
    covered = rule.rest_negative or (not named and len(unnamed) <= 1) or not unnamed
    if positive not in counts and not (partial and covered):
        raise ValueError(f"{holds}: none of them is the positive value {rule.positive!r}")
    numbers = pd.api.types.is_numeric_dtype(column)  # two of them are spelled alike already
    similar = [value for value in unnamed if not numbers and alike(value, positive)]
    if similar:
        raise ValueError(
            f"{holds}: {listing(map(repr, similar))} beside {positive!r} looks like the positive value but would"
            " not count as positive: spell them alike in the file"
        )
    if not covered:
        typed = " ".join(f"--negative {shlex.quote(value)}" for value in others[:SHOWN])
        raise ValueError(
            f"{holds}: {listing(map(repr, unnamed))} was named neither positive nor negative. Name the negative"
            f" values ({typed}), count all others as negative (--rest-negative), or remove those rows"
        )
    return positive, named | set(unnamed)


def alike(value: str, other: str) -> bool:
    """Whether two labels differ by spaces, by case, or as 1 does from 1.0."""
    return value.strip().casefold() == other.strip().casefold() or _number(value) == _number(other)


def label_text(value: Any) -> str:
    """A label as text; 1.0 is "1", since a file may hold either."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def listing(texts: Iterable[str]) -> str:
    """The first few of them."""
    shown = list(texts)
    return ", ".join(shown[:SHOWN]) + (", …" if len(shown) > SHOWN else "")


def _spelled(value: str, column: "pd.Series[Any]") -> str:
    """A value as typed, spelled as `label_text` does: 1.0 is 1 among numbers, true is True among truth values."""
    if pd.api.types.is_bool_dtype(column):
        return value.strip().capitalize()
    number = _number(value)
    if math.isnan(number) or not pd.api.types.is_numeric_dtype(column):
        return value
    return str(int(value)) if value.strip().lstrip("+-").isdecimal() else label_text(number)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan  # equals no label


def binary_target(y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """The targets as an array (N,) and their two classes, sorted; anything else is scikit-learn's own error."""
    from sklearn.utils import assert_all_finite, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets, type_of_target

    if y is None:
        raise ValueError("This classifier requires y to be passed, but the target y is None.")
    target: NDArray[Any] = column_or_1d(y, warn=True)
    assert_all_finite(target, input_name="y")
    check_classification_targets(target)
    kind = type_of_target(target, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
    classes = np.unique(target)
    if len(classes) < 2:
        raise ValueError(f"Two classes are needed, y holds 1 class only: {classes.tolist()!r:.80}")
    first, second = map(str, classes.tolist())
    if classes.dtype.kind in "OUST" and alike(first, second):
        raise ValueError(f"The classes {first!r} and {second!r} of y look like one: spell them alike.")
    return target, classes


def positive_class(classes: NDArray[Any], pos_label: Any, *, must_be_named: bool) -> int:
    """The place of the critical class in `classes`: that of `pos_label`, or 1, the greater of two numbers.

    Of two words the alphabet does not know which one is critical, so `pos_label` must name it; where nothing is
    promised about that class (must_be_named=False) a warning does.
    """
    if pos_label is not None:
        places = np.flatnonzero([label == pos_label for label in classes.tolist()])
        if not len(places):
            raise ValueError(
                f"pos_label={pos_label!r} is not a valid label: It should be one of {classes.tolist()}"
            )
        return int(places[0])
    if classes.dtype.kind in "OUST" and not all(isinstance(label, int | float) for label in classes.tolist()):
        said = f"y takes value in {set(classes.tolist())!r:.120} and pos_label is not specified: pass pos_label"
        if must_be_named:
            raise ValueError(f"{said}, the class whose misses are expensive")
        warnings.warn(f"{said}; the last by the alphabet, {classes[1]!r:.60}, is taken", UserWarning, stacklevel=3)
    return 1
