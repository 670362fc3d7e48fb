"""What a page of results consists of, before it is rendered as text, Markdown, CSV or LaTeX.

A page as text, Markdown, CSV or LaTeX; the same page gives the same bytes.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from rankreg.extension import look_up, write_whole

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


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


def rendered(pages: Sequence[Page], style: str) -> str:
    """All pages in one of the formats, text without colours."""
    return look_up(FORMATS, style, "format")(pages)


def write(path: Path, text: str) -> None:
    """Whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def as_text(pages: Sequence[Page]) -> str:
    """For a pipe or a file: the best are between underscores."""
    from rich.console import Console

    sink = io.StringIO()
    print_pages(pages, Console(file=sink, width=WIDEST, highlight=False, color_system=None))
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def print_pages(pages: Sequence[Page], console: "Console") -> None:
    """On a terminal the best are underlined."""
    for page in pages:
        _print_wrapped(console, page.title, style="bold")
        console.print("═" * min(console.width, WIDTH))
        for block in page.blocks:
            console.print()
            _print_wrapped(console, block.title)
            console.print(_rich_table(block, plain=not console.is_terminal, narrow=console.width < WIDTH))
        console.print()
        for note in page.notes:
            _print_wrapped(console, f"· {note}")
        console.print()


def _print_wrapped(console: "Console", text: str, style: str = "") -> None:
    from rich.text import Text

    console.print(Text(text, style=style), width=min(console.width, WIDTH))


def _rich_table(block: Block, *, plain: bool, narrow: bool) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, name in enumerate(block.head):
        table.add_column(
            name,
            justify="right" if place else "left",
            no_wrap=bool(place) and not narrow,
            max_width=None if place else LABEL,
        )
    for row, following in zip(block.rows, [*block.rows[1:], None], strict=True):
        cells = [Text(("  " if row.part else "") + row.label)]
        for entry in row.entries:
            value = Text(f"_{entry.value}_" if entry.best and plain else entry.value)
            if entry.best and not plain:
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
            lines += [_pipes([_indented(row), *(_marked(entry) for entry in row.entries)]) for row in block.rows]
            lines.append("")
        lines += [*(f"- {note}" for note in page.notes), ""]
    return "\n".join(lines)


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _indented(row: Row) -> str:
    return f"&nbsp;&nbsp;{row.label}" if row.part else row.label


def _marked(entry: Entry) -> str:
    value = f"<u>{entry.value}</u>" if entry.best else entry.value
    return f"{value} {entry.rest}".strip()


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
                label = ("\\quad " if row.part else "") + latex(row.label)
                lines.append(" & ".join([label, *map(_latex_entry, row.entries)]) + r" \\")
            lines += ["\\bottomrule", "\\end{tabular}", ""]
        lines += [*(f"% {note}" for note in page.notes), ""]
    return "\n".join(lines)


def latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(LATEX.get(sign, sign) for sign in text)


def _latex_entry(entry: Entry) -> str:
    value = f"\\underline{{{latex(entry.value)}}}" if entry.best else latex(entry.value)
    return f"{value} {latex(entry.rest)}".strip()


def as_csv(pages: Sequence[Page]) -> str:
    """One row per number."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(field.name for field in fields(Number))
    for number in (number for page in pages for number in page.numbers):
        writer.writerow(_digits(value) for value in astuple(number))
    return sink.getvalue()


def _digits(value: object) -> object:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


FORMATS: dict[str, Callable[[Sequence[Page]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "latex": as_latex,
}
ENDINGS = {".txt": "text", ".md": "markdown", ".csv": "csv", ".tex": "latex"}
