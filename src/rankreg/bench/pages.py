"""What a page of results consists of, before it is rendered as text, Markdown, CSV or LaTeX."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table: a value, underlined if it is the best, and what goes with it."""

    value: str
    rest: str = ""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A line of a table; rule: whether a line is drawn above it; part: whether it belongs under the one before."""

    label: str
    entries: tuple[Entry, ...]
    rule: bool = False
    part: bool = False


@dataclass(frozen=True)
class Block:
    """A table with a title and the names of its columns."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Number:
    """One number with all that says what it is: a row of the CSV file."""

    experiment: str
    data: str
    test: str
    loss: str
    arm: str
    measure: str
    kind: str
    value: float
    low: float | None = None
    high: float | None = None
    splits: int = 0
    published: float | None = None


@dataclass(frozen=True)
class Page:
    """Blocks under one title, and what has to be said about them."""

    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = field(default=(), repr=False)
