"""`rankreg data list` and `rankreg data get`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from rankreg._terminal import Terminal, say

FOLDER_HELP = "Where data sets live (default: $RANKREG_DATA, else the user's cache)."
DataDir = Annotated[Path | None, typer.Option("--data-dir", help=FOLDER_HELP, show_default=False)]

ADDRESS = re.compile(r"https?://[^\s,;]+")

data_app = typer.Typer(help="Show and get data sets.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(data_app, name="data")


@data_app.command("list")
def show(data_dir: DataDir = None) -> None:
    """Show which data sets are there, and how to get the others."""
    from rich.table import Table

    from rankreg.datasets.catalog import CATALOG, data_folder, find

    addresses: list[str] = []

    def numbered(address: "re.Match[str]") -> str:
        addresses.append(address.group())
        return f"[{len(addresses)}]"

    listing = Table(title=f"Data sets in {data_folder(data_dir)}", title_justify="left")
    for heading in ("name", "data set", "there", "where, or how to get it"):
        listing.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for name, entry in CATALOG.items():
        place = find(name, data_dir) if entry.found_by else None
        if not entry.found_by:
            listing.add_row(name, entry.title, "yes", "comes with scikit-learn")
        elif place is not None:
            listing.add_row(name, entry.title, "yes", str(place))
        else:
            advice = f"rankreg data get {name}" if entry.url else entry.by_hand
            listing.add_row(name, entry.title, "no", ADDRESS.sub(numbered, advice))
    console = Terminal(markup=False, highlight=False)
    console.print(listing)
    for number, address in enumerate(addresses, 1):  # below the table, where no cell breaks them
        console.print(f"[{number}] {address}", soft_wrap=True)


@data_app.command()
def get(
    name: Annotated[str, typer.Argument(help="cifar10 or cifar100; for others it says where to get them.")],
    data_dir: DataDir = None,
) -> None:
    """Download a data set from its official address; a broken download goes on where it stopped."""
    from rankreg.datasets.catalog import CATALOG
    from rankreg.datasets.catalog import get as download

    if name in CATALOG and not CATALOG[name].found_by:
        say(f"{name}: {CATALOG[name].by_hand}")
    else:
        say(download(name, data_dir))
