"""Pages of results, rendered as text, Markdown, CSV or LaTeX; the same page gives the same bytes."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankreg.names import look_up
from rankreg.notation import plain
from rankreg.operating import Interval
from rankreg.safe_files import write_whole

WIDTH = 120  # of lines that do not go to a terminal; a table may be a little wider than its titles and notes
WIDEST, LABEL = 160, 26
LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "…": r"\ldots{}",
    "×": r"$\times$",
    "Δ": r"$\Delta$",
    "γ": r"$\gamma$",
    "μ": r"$\mu$",
    "δ": r"$\delta$",
    "²": "$^2$",
    "³": "$^3$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
}


@dataclass(frozen=True)
class TableEntry:
    """A cell of a table: a value, underlined if it is the best, and what follows it."""

    value: str
    rest: str = ""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a table; rule: draw a line above it; part: it belongs to the row above."""

    label: str
    entries: tuple[TableEntry, ...]
    rule: bool = False
    part: bool = False


@dataclass(frozen=True)
class TableBlock:
    """A table with a title and the names of its columns."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Number:
    """One number and what it is: a row of the CSV file."""

    experiment: str
    data: str
    test: str
    loss: str
    arm: str
    measure: str = ""
    kind: str = ""
    value: float = 0.0
    low: float | None = None
    high: float | None = None
    splits: int = 0
    published: float | None = None

    def with_bounds(self, kind: str, found: Interval) -> "Number":
        """The same place, with an estimate and its interval."""
        low, high = (found.low, found.high) if found.bounded else (None, None)
        return replace(self, kind=kind, value=found.estimate, low=low, high=high)


@dataclass(frozen=True)
class Page:
    """Tables under one title, with notes."""

    title: str
    blocks: tuple[TableBlock, ...]
    notes: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = field(default=(), repr=False)


def short(value: float, reach: float) -> str:
    """Without decimals where the interval is too wide for them."""
    return plain(value, 1 if reach < 20 else 0)


def bracket(interval: Interval) -> str:
    """The interval of an estimate or a gain; decimals only where it is narrow."""
    low, high = (plain(end, 0 if interval.high - interval.low >= 3 else 1) for end in (interval.low, interval.high))
    return f"[{low} to {high}]" if interval.low < 0 else f"[{low}–{high}]"


def spread(interval: Interval) -> str:
    """± half the interval; empty for one split."""
    return f"± {short(interval.half_width, interval.half_width)}" if interval.bounded else ""


def limits(interval: Interval) -> str:
    """The interval of a difference."""
    if not interval.bounded:
        return "(one split)"
    return f"({short(interval.low, interval.half_width)} to {short(interval.high, interval.half_width)})"


def published_text(value: float | None, *, others: bool) -> str:
    """A published value in brackets; a dash where it is missing from a table that has others."""
    return f"({plain(value)})" if value is not None else "(–)" if others else ""


def rendered(pages: Sequence[Page], style: str) -> str:
    """All pages in one format, without colours.

    Args:
        pages: from `pages_of`.
        style: "text", "markdown", "csv" or "latex".

    Returns:
        The text.
    """
    return look_up(FORMATS, style, "format")(pages)


def write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all; make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)


def as_text(pages: Sequence[Page]) -> str:
    """For a pipe or a file: the best values stand between underscores."""
    sink = io.StringIO()
    print_pages(pages, Console(file=sink, width=WIDEST, highlight=False, color_system=None))
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def print_pages(pages: Sequence[Page], console: Console) -> None:
    """For a terminal: the best values are underlined."""
    for page in pages:
        _print_wrapped(console, page.title, style="bold")
        console.print("═" * min(console.width, WIDTH))
        for block in page.blocks:
            console.print()
            _print_wrapped(console, block.title)
            console.print(_rich_table(block, underscores=not console.is_terminal, narrow=console.width < WIDTH))
        console.print()
        for note in page.notes:
            _print_wrapped(console, f"· {note}")
        console.print()


def _print_wrapped(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), width=min(console.width, WIDTH))


def _rich_table(block: TableBlock, *, underscores: bool, narrow: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, name in enumerate(block.head):
        if place:
            table.add_column(name, justify="right", no_wrap=not narrow)
        else:
            table.add_column(name, max_width=LABEL)
    for row, following in zip(block.rows, [*block.rows[1:], None], strict=True):
        cells = [Text(("  " if row.part else "") + row.label)]
        for entry in row.entries:
            value = Text(f"_{entry.value}_" if entry.best and underscores else entry.value)
            if entry.best and not underscores:
                value.stylize("underline")
            cells.append(value.append(f" {entry.rest}" if entry.rest else "", style="not underline"))
        table.add_row(*cells, end_section=following is not None and following.rule)
    return table


def as_markdown(pages: Sequence[Page]) -> str:
    """Tables as GitHub shows them."""
    lines: list[str] = []
    for page in pages:
        lines += [f"### {page.title}", ""]
        for block in page.blocks:
            lines += [block.title, "", _pipes(block.head), _pipes(["---", *["---:"] * (len(block.head) - 1)])]
            for row in block.rows:
                marked = [f"<u>{entry.value}</u>" if entry.best else entry.value for entry in row.entries]
                cells = [f"{value} {entry.rest}".strip() for value, entry in zip(marked, row.entries, strict=True)]
                lines.append(_pipes(["&nbsp;&nbsp;" * row.part + row.label, *cells]))
            lines.append("")
        lines += [*(f"- {note}" for note in page.notes), ""]
    return "\n".join(lines)


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def as_latex(pages: Sequence[Page]) -> str:
    """booktabs tables; the notes are comments, for the caption."""
    lines = ["% needs \\usepackage{booktabs}"]
    for page in pages:
        lines += [f"% {page.title}"]
        for block in page.blocks:
            lines += [f"% {block.title}", f"\\begin{{tabular}}{{l{'r' * (len(block.head) - 1)}}}", "\\toprule"]
            lines += [" & ".join(map(latex, block.head)) + r" \\", "\\midrule"]
            for row in block.rows:
                lines += ["\\midrule"] * row.rule
                cells = [("\\quad " if row.part else "") + latex(row.label)]
                for entry in row.entries:
                    value = f"\\underline{{{latex(entry.value)}}}" if entry.best else latex(entry.value)
                    cells.append(f"{value} {latex(entry.rest)}".strip())
                lines.append(" & ".join(cells) + r" \\")
            lines += ["\\bottomrule", "\\end{tabular}", ""]
        lines += [*(f"% {note}" for note in page.notes), ""]
    return "\n".join(lines)


def latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(LATEX.get(sign, sign) for sign in text)


def as_csv(pages: Sequence[Page]) -> str:
    """One row per number."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(field.name for field in fields(Number))
    for number in (number for page in pages for number in page.numbers):
        writer.writerow(f"{value:.6g}" if isinstance(value, float) else value for value in astuple(number))
    return sink.getvalue()


FORMATS: dict[str, Callable[[Sequence[Page]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "latex": as_latex,
}
ENDINGS = {".txt": "text", ".md": "markdown", ".csv": "csv", ".tex": "latex"}
