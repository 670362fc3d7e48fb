"""`rankreg bench` and `rankreg demo`: doors to the package `rankreg_bench`, loaded when one is used."""

from importlib.metadata import entry_points
from importlib.util import find_spec

import typer

ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(context_settings=ANYTHING)(demo)
    app.command(context_settings=ANYTHING)(bench)


def bench(context: typer.Context) -> None:
    """Regenerate the paper's tables and figures: list, run, status, table, figure, compare, verify."""
    _enter(context, *context.args)


def demo(context: typer.Context) -> None:
    """Learn a rare digit with and without rankreg, and show what each part of the method adds."""
    _enter(context, "demo", *context.args)


def _enter(context: typer.Context, *arguments: str) -> None:
    door = next(iter(entry_points(group="rankreg.commands", name="bench")), None)
    if door is None or find_spec(door.module.partition(".")[0]) is None:
        raise ValueError("the package rankreg_bench is missing: install rankreg again, with pip")
    app = door.load()
    name = context.parent.command_path if context.parent and arguments[:1] == ("demo",) else context.command_path
    status = app(list(arguments), prog_name=name, standalone_mode=False)
    if isinstance(status, int) and status:
        raise typer.Exit(status)
