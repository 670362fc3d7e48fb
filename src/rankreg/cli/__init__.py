"""The command line: one file per group of commands; torch is imported only inside commands that need it."""

import os
import sys

import typer

from rankreg.cli import bench, data, deployed, fit, operating, tune
from rankreg.terminal import lay_out_help, say, spell_what_cannot_be_encoded

app = typer.Typer(
    help="Few false alarms at a high true positive rate, for rare and critical classes.",
    epilog="Help on a command, with examples:\n\nrankreg fit --help",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


LONGEST = 2000  # characters of a message


def version(show: bool) -> None:
    """Print the version and leave."""
    if show:
        from rankreg import __version__

        say(f"rankreg {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show_version: bool = typer.Option(
        False, "--version", callback=version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Few false alarms at a high true positive rate, for rare and critical classes."""


for group in (fit, tune, operating, deployed, data, bench):
    group.register(app)
lay_out_help(app)


def main(command: typer.Typer = app) -> None:
    """Run the command line; what the user can mend is a message and exit status 2, not a traceback."""
    spell_what_cannot_be_encoded()
    try:
        command()
    except (ValueError, OSError, MemoryError, RecursionError) as error:
        if os.environ.get("RANKREG_TRACEBACK"):
            raise
        say(f"rankreg: {_sentence(error)}", err=True)
        sys.exit(2)


def _sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"the memory of this machine is not enough: use less data or a smaller network ({error})"
    if isinstance(error, RecursionError):
        return "a file is nested too deeply to be read"
    text = str(error) or type(error).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"  # a name in a damaged file can be endless
