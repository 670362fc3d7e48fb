"""`rankreg demo`."""

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo() -> None:
    """Learn a rare digit with and without rankreg."""
