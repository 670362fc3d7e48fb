"""Text for a terminal: control codes are shown, not obeyed, and characters that it lacks are spelled out."""

import codecs
import inspect
import io
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from rankreg.notation import short_name, short_quotes

__all__ = ["say"]

# Control codes are shown as the pictures Unicode has for them. Others that would hide, move or reverse text, and
# halves of characters, have none.
_HIDING = (*range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
UNPRINTABLE = dict.fromkeys(_HIDING, "\ufffd") | {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421"}
del UNPRINTABLE[ord("\n")], UNPRINTABLE[ord("\t")]
SPELLED = {
    "≥": ">=",
    "≤": "<=",
    "−": "-",
    "–": "-",
    "…": "...",
    "×": "x",
    "→": "->",
    "═": "=",
    "·": "*",
    "±": "+/-",
}
HANDLER = "rankreg.spelled"
SILENCE = 30  # seconds


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return text.translate(UNPRINTABLE)


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a line of text from any origin: control codes in it are shown, not obeyed.

    Args:
        text: the line.
        err: print to the standard error.
        nl: end the line.

    >>> say("3 alarms")
    3 alarms
    """
    typer.echo(printable(str(text)), err=err, nl=nl)


class Terminal(Console):
    """Rich's console for printable text; its own colours and cursor moves pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def lay_out_help(app: typer.Typer) -> None:
    """Set the help of every command from its docstring: paragraphs that wrap anew, examples below the options.

    A docstring that has examples ends with "Examples:" and a line for each.
    """
    for group in app.registered_groups:
        if group.typer_instance is not None:
            lay_out_help(group.typer_instance)
    for command in app.registered_commands:
        text, _, examples = (inspect.getdoc(command.callback) or "").partition("\nExamples:\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
        if examples:
            command.epilog = "\n\n".join(["Examples:", *map(str.strip, examples.splitlines())])


def progress_bar(*, shown: bool | None = None, in_bytes: bool = False) -> Progress:
    """A bar on the standard error, gone when done. Use it as a context manager.

    shown: by default only on a terminal.
    """
    console = Terminal(stderr=True)
    shown = console.is_terminal if shown is None else shown
    console.quiet = not shown  # Rich before 15 ends even a disabled bar with an empty line
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not shown,
    )


class SparseLog:
    """Lines on the standard error for a log file, where no bar is shown: not more than one in 30 seconds.

    The first 30 seconds are silent, so that short tasks say nothing.
    """

    def __init__(self) -> None:
        self._last = time.monotonic()

    def note(self, text: str) -> None:
        """Print what begins now, unless a line was printed or the log was begun just before."""
        if time.monotonic() - self._last >= SILENCE:
            say(text, err=True)
            self._last = time.monotonic()


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A spinner on a terminal, nothing elsewhere."""
    console = Terminal(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        yield


def show_lines(lines: Iterable[tuple[str, str]], *, err: bool = False) -> None:
    """Print headings with a sentence beside each; err: to the standard error."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for heading, sentence in lines:
        grid.add_row(Text(heading), Text(short_quotes(sentence)))
    if grid.row_count:
        Terminal(stderr=err, highlight=False).print(grid)


def show_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table whose first row is the header; where it is too wide, a block of lines per row."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(map(short_name, row)) for row in rows]
    console, header = Terminal(highlight=False), rows[0]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + len(widths) > console.width:  # a cropped table would lose numbers
        for row in rows[1:]:
            show_lines([*zip(header, row, strict=True), ("", "")])
        return
    grid = Table(box=None, pad_edge=False)
    for heading, width in zip(header, widths, strict=True):
        grid.add_column(Text(heading), min_width=width)
    for row in rows[1:]:
        grid.add_row(*map(Text, row))
    console.print(grid, "")


def spell_what_cannot_be_encoded() -> None:
    """Standard output and error in latin-1 or ASCII spell out the signs they lack instead of failing."""
    codecs.register_error(HANDLER, _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "backslashreplace"):
            stream.reconfigure(errors=HANDLER)


def _spelled(error: Any) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(SPELLED.get(sign, "?") for sign in error.object[error.start : error.end]), error.end
