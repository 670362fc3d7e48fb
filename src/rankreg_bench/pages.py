"""Pages of results, rendered as text, Markdown, CSV or LaTeX; the same page gives the same bytes."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from rankreg.names import look_up
from rankreg.notation import plain, signed
from rankreg.operating import Interval
from rankreg.safe_files import write_whole

WIDTH = 120  # of lines that do not go to a terminal; a table may be a little wider than its titles and notes
WIDEST, LABEL = 160, 26
MATHS = ("pm", "times", "Delta", "gamma", "mu", "delta", "geq", "rightarrow")
LATEX: dict[str, str | int | None] = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "²": "$^2$",
    "³": "$^3$",
    "…": r"\ldots{}",
    **{sign: f"$\\{name}$" for sign, name in zip("±×Δγμδ≥→", MATHS, strict=True)},
}


@dataclass(frozen=True)
class TableEntry:
    """A cell of a table: a value, underlined if it is the best, and what follows it."""

    value: str
    rest: str = ""
    best: bool = False


NOTHING = TableEntry("–")


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


def verdict(found: Interval) -> str:
    """What the interval allows to say."""
    if not found.bounded:
        return "no interval"
    if found.half_width < 1e-9:  # a few splits that agree to the digit are no certainty
        return "no spread" if found.estimate else "identical"
    if not found.excludes_zero:
        return "not told apart"
    return "lower" if found.estimate < 0 else "higher"


def judged(difference: Interval) -> str:
    """A difference with its interval and what it allows to say."""
    return f"{signed(difference.estimate)} {limits(difference)}: {verdict(difference)}"


def measure_title(measure: str) -> str:
    """As the head of a column: FPR@98, AUC, error@80."""
    return measure.upper() if measure.startswith(("fpr", "auc")) else measure.removesuffix("tpr")


def head_of(measures: Iterable[str]) -> tuple[str, ...]:
    """The head of a table with a column for each measure."""
    return ("", *map(measure_title, measures), "splits")


def difference_entry(difference: Interval) -> TableEntry:
    """A difference with its interval."""
    return TableEntry(signed(difference.estimate), limits(difference))


def estimate_entry(found: Interval | None, rest: str = "") -> TableEntry:
    """An estimate with its interval, then the rest; without an estimate, a dash."""
    if found is None:
        return TableEntry("–", rest)
    return TableEntry(plain(found.estimate), f"{bracket(found)} {rest}".strip())


def mean_entry(mean: Interval, rest: str = "") -> TableEntry:
    """A mean over splits with ± half the interval, then the rest."""
    return TableEntry(plain(mean.estimate), spread(mean) + rest)


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


def write(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Write a file, whole or not at all; make its folder; shared: other processes may be writing it too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content, shared=shared)


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
    columns = [Column(name, justify="right", no_wrap=not narrow) for name in block.head[1:]]
    label = Column(block.head[0], max_width=LABEL)
    table = Table(label, *columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for row in block.rows:
        if row.rule:
            table.add_section()
        cells = [Text("  " * row.part + row.label)]
        for entry in row.entries:
            value = f"_{entry.value}_" if entry.best and underscores else entry.value
            style = "underline" if entry.best and not underscores else ""
            cells.append(Text.assemble((value, style), f" {entry.rest}" if entry.rest else ""))
        table.add_row(*cells)
    return table


def as_markdown(pages: Sequence[Page]) -> str:
    """Tables as GitHub shows them."""
    lines: list[str] = []
    for page in pages:
        lines += [f"### {page.title}", ""]
        for block in page.blocks:
            lines += [block.title, "", _pipes(block.head), _pipes(["---", *["---:"] * (len(block.head) - 1)])]
            lines += [_pipes(_cells(row, str, part="&nbsp;&nbsp;", best="<u>{}</u>")) for row in block.rows]
            lines.append("")
        lines += [*(f"- {note}" for note in page.notes), ""]
    return "\n".join(lines)


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _cells(row: Row, escaped: Callable[[str], str], *, part: str, best: str) -> list[str]:
    """Label and entries; part: what goes before the label of a part; best: how the best value is marked."""
    cells = [part * row.part + escaped(row.label)]
    for entry in row.entries:
        value = escaped(entry.value)
        cells.append(f"{best.format(value) if entry.best else value} {escaped(entry.rest)}".strip())
    return cells


def as_latex(pages: Sequence[Page]) -> str:
    """booktabs tables; the notes are comments, for the caption."""
    lines = ["% needs \\usepackage{booktabs}"]
    for page in pages:
        lines += [f"% {page.title}"]
        for block in page.blocks:
            lines += [f"% {block.title}", f"\\begin{{tabular}}{{l{'r' * (len(block.head) - 1)}}}", "\\toprule"]
            lines += [" & ".join(map(latex, block.head)) + r" \\", "\\midrule"]
            for row in block.rows:
                cells = _cells(row, latex, part="\\quad ", best="\\underline{{{}}}")
                lines += [*["\\midrule"] * row.rule, " & ".join(cells) + r" \\"]
            lines += ["\\bottomrule", "\\end{tabular}", ""]
        lines += [*(f"% {note}" for note in page.notes), ""]
    return "\n".join(lines)


def latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return text.translate(str.maketrans(LATEX))


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
