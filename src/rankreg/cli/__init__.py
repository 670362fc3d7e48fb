"""The command line: one file per group of commands; torch is imported only inside commands that need it."""

import os
import sys

import typer

from rankreg.cli import bench, data, desk, export, fit, report, tune

app = typer.Typer(
    help="Few false alarms at a high true positive rate, for rare and critical classes.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def version(show: bool) -> None:
    """Print the version and leave."""
    if show:
        from rankreg import __version__

        typer.echo(f"rankreg {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show_version: bool = typer.Option(
        False, "--version", callback=version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Few false alarms at a high true positive rate, for rare and critical classes."""


for group in (fit, tune, export, desk, report, data, bench):
    group.register(app)


def main(command: typer.Typer = app) -> None:
    """Run the command line; what the user can mend is a message and exit status 2, not a traceback."""
    try:
        command()
    except (ValueError, OSError) as error:
        if os.environ.get("RANKREG_TRACEBACK"):
            raise
        typer.echo(f"rankreg: {error}", err=True)
        sys.exit(2)
