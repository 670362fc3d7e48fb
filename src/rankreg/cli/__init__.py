"""The command line: one file per group of commands; torch is imported only inside commands that need it."""

import os
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec

import typer

from rankreg.cli import data, deployed, fit, operating, tune
from rankreg.notation import short_quotes
from rankreg.terminal import lay_out_help, say, spell_what_cannot_be_encoded

app = typer.Typer(
    help="Few false alarms at a high true positive rate, for rare and critical classes.",
    epilog="Help on a command, with examples:\n\nrankreg fit --help",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

LONGEST = 2000  # characters of a message
ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


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


for command in (fit.fit, fit.evaluate, fit.predict, fit.export, tune.tune):
    app.command()(command)
for command in (operating.certify, operating.compare, operating.report, deployed.monitor, deployed.recertify):
    app.command()(command)
app.add_typer(data.data_app, name="data")


@app.command(context_settings=ANYTHING)
def demo(context: typer.Context) -> None:
    """Learn a rare digit with and without rankreg, and show what each part of the method adds."""
    _enter(context, "demo", *context.args)


@app.command(context_settings=ANYTHING)
def bench(context: typer.Context) -> None:
    """Regenerate the paper's tables and figures: list, run, status, table, figure, compare, verify."""
    _enter(context, *context.args)


def _enter(context: typer.Context, *arguments: str) -> None:
    """Open a door to the package `rankreg_bench`, which is loaded only then."""
    door = next(iter(entry_points(group="rankreg.commands", name="bench")), None)
    if door is None or find_spec(door.module.partition(".")[0]) is None:
        raise ValueError("the package rankreg_bench is missing: install rankreg again, with pip")
    app = door.load()
    name = context.parent.command_path if context.parent and arguments[:1] == ("demo",) else context.command_path
    status = app(list(arguments), prog_name=name, standalone_mode=False)
    if isinstance(status, int) and status:
        raise typer.Exit(status)


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
    text = short_quotes(str(error)) or type(error).__name__
    if (
        isinstance(error, OSError) and error.strerror
    ):  # without "[Errno 2]" and the name that a new file has at first
        place = str(error.filename or "").removesuffix(".unfinished")
        text = f"{place}: {error.strerror}" if place else error.strerror
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"  # a name in a damaged file can be endless
