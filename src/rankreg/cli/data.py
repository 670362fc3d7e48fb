"""`rankreg data list` and `rankreg data get`, and the options that describe one's own data, for every command."""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from rankreg.cli import options as opt
from rankreg.terminal import say

_table = partial(opt.option, panel="Tables")
_images = partial(opt.option, panel="Images")

Positive = Annotated[str | None, opt.option("The critical class: a target value or a class folder.")]
Negative = Annotated[
    list[str] | None, opt.option("A negative value or class folder. Needed if there are several; repeatable.")
]
RestNegative = Annotated[
    bool, opt.option("Every value or class folder except the positive one is negative.", "--rest-negative")
]
Size = Annotated[int | None, _images("Side in pixels (default: 64).")]
Groups = Annotated[
    Path | None,
    _images("CSV file with columns file and group. Images of one group, e.g. a patient, stay together."),
]
TABLE_OPTIONS = {  # by the fields of rankreg.datasets.TableOptions
    "target": Annotated[str | None, _table("Column to predict.")],
    "positive": Positive,
    "negative": Negative,
    "rest_negative": RestNegative,
    "group": Annotated[
        str | None, _table("Column of what rows belong to, e.g. a patient. Such rows stay together.")
    ],
    "drop": Annotated[list[str] | None, _table("Column not to learn from; repeatable.")],
    "categorical": Annotated[
        list[str] | None, _table("Numeric column to treat as categorical, e.g. a postcode; repeatable.")
    ],
    "id_column": Annotated[str | None, _table("Column that names the rows.", "--id")],
    "header": Annotated[bool, _table("The file has no header line: columns are 0, 1, 2, …", " /--no-header")],
    "keep_copies_together": Annotated[
        bool, _table("Treat equal rows as independent, not as copies.", " /--split-copies")
    ],
    "separator": Annotated[str | None, _table("What separates the fields: , ; | or tab (default: detected).")],
    "decimal": Annotated[str | None, _table("Decimal mark: . or , as in 3,14 (default: detected).")],
    "encoding": Annotated[
        str | None, _table("Encoding of the text, e.g. utf-8, utf-16, cp1252 (default: detected).")
    ],
}


def takes_table_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with `TABLE_OPTIONS` as options; its parameter `columns` gets them as one TableOptions."""

    @wraps(command)
    def with_columns(**given: Any) -> None:
        from rankreg.datasets.table import TableOptions

        fields = {name: given.pop(name) for name in TABLE_OPTIONS}
        lists = {name: tuple(fields[name] or ()) for name in ("negative", "drop", "categorical")}
        command(**given, columns=TableOptions(**fields | lists))

    kind = inspect.Parameter.KEYWORD_ONLY
    own = [
        one.replace(kind=kind) for one in inspect.signature(command).parameters.values() if one.name != "columns"
    ]
    defaults = {"rest_negative": False, "header": True, "keep_copies_together": True}
    options = [
        inspect.Parameter(name, kind, default=defaults.get(name), annotation=annotation)
        for name, annotation in TABLE_OPTIONS.items()
    ]
    with_columns.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    with_columns.__annotations__ = {one.name: one.annotation for one in (*own, *options)}
    return with_columns


FOLDER_HELP = "Folder of the data sets (default: $RANKREG_DATA, else the user's cache)."
DataDir = Annotated[Path | None, opt.option(FOLDER_HELP, "--data-dir")]

data_app = typer.Typer(help="Show and get data sets.", no_args_is_help=True)


@data_app.command("list")
def show(data_dir: DataDir = None) -> None:
    """Show which data sets are there, and how to get the others.

    Examples:
        rankreg data list
        rankreg data list --data-dir datasets
    """
    from rankreg.datasets.catalog import CATALOG, data_folder, find

    say(f"Data sets in {data_folder(data_dir)}:")
    for name, entry in CATALOG.items():
        place = find(name, data_dir) if entry.found_by else None
        if not entry.found_by:
            where = "there: it comes with scikit-learn"
        elif place is not None:
            where = f"there: {place}"
        else:
            where = "missing: " + (f"rankreg data get {name}" if entry.url else entry.by_hand)
        say(f"  {name:<9} {entry.title}\n  {'':<9} {where}")


@data_app.command()
def get(
    name: Annotated[
        str, typer.Argument(help="cifar10 or cifar100. For others, the message says where to get them.")
    ],
    data_dir: DataDir = None,
) -> None:
    """Download a data set from its official address. Run it again to resume a broken download.

    Examples:
        rankreg data get cifar10
        rankreg data get cifar100 --data-dir datasets
    """
    from rankreg.datasets.catalog import CATALOG
    from rankreg.datasets.catalog import get as download

    if name in CATALOG and not CATALOG[name].found_by:
        say(f"{name}: {CATALOG[name].by_hand}")
    else:
        say(download(name, data_dir))
