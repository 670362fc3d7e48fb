"""`rankreg tune`: search for good settings."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankreg.cli import options as opt
from rankreg.cli.data import DataDir, Groups, Size, takes_table_options
from rankreg.cli.fit import show_commands
from rankreg.terminal import Terminal, say, show_lines

if TYPE_CHECKING:
    from rankreg.datasets.table import TableOptions

SHOWN = 10  # trials
SEARCH = "Search"


_named = partial(opt.option, panel="Data sets known by name")
_search = partial(opt.option, panel=SEARCH)


@takes_table_options
def tune(
    data: Annotated[
        Path, typer.Argument(help="A table, a folder of images, or a data set such as digits.", show_default=False)
    ],
    out: Annotated[Path, opt.option("Folder for the search and its results.")],
    columns: "TableOptions",
    tpr: Annotated[float, typer.Option(help="The TPR at which false alarms count.")] = opt.TPR,
    preset: Annotated[
        str,
        typer.Option(help="default, or alm: the paper's two-step grid for ALM, by AUC.", rich_help_panel=SEARCH),
    ] = "default",
    trials: Annotated[
        int | None, _search("How many in all, those of earlier starts included (default: 50).", min=1)
    ] = None,
    splits: Annotated[
        int | None, _search("Train and judge every trial on so many splits (default: 3; images 1).", min=1)
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes, one thread each.", rich_help_panel=SEARCH)] = 1,
    method: Annotated[
        list[str] | None,
        _search("Search only this one of none, buffer, alm, rankreg; may be repeated. none is always in."),
    ] = None,
    loss: Annotated[
        list[str] | None, _search("Search only this base loss; may be repeated (default: four of them).")
    ] = None,
    epochs: Annotated[int | None, _search("The most a trial may train (default: 40; images 30).")] = None,
    seed: Annotated[int | None, _search("Decides parts, training and search (default: 0).")] = None,
    config: Annotated[
        Path | None, _search("TOML file as for `rankreg fit`: settings that are not searched.")
    ] = None,
    storage: Annotated[
        str | None, _search("Optuna storage URL that several machines share (default: a file in --out).")
    ] = None,
    study: Annotated[
        str, typer.Option(help="Name of the search in the storage.", rich_help_panel=SEARCH)
    ] = "rankreg",
    calibration: Annotated[float, typer.Option(help="Share of the data kept for certifying, as for `fit`.")] = 0.15,
    size: Size = None,
    groups: Groups = None,
    ratio: Annotated[float | None, _named("Training negatives per positive.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Search for the settings with the fewest false alarms on the validation part, the baseline among them.

    The search tries methods, oversampling, base losses, ranking weight, reach, buffer, learning rate and epochs. It
    gives up trials that lag behind. It never looks at the calibration and test parts. It writes best.toml and
    baseline.toml, and prints the two fits that compare them on the test part.

    If a search is stopped, the same command goes on; only the trials under way are lost. Several machines can share
    one search: type the same command on each, with one --storage URL and an --out of its own.

    Examples:
        rankreg tune claims.csv --target fraud --positive yes --out search
        rankreg tune digits --trials 20 --workers 4 --out search
    """
    try:
        from rankreg import tune as room
    except ImportError as error:
        if getattr(error, "name", None) not in (None, "optuna"):
            raise
        raise ValueError(str(error)) from error
    from rankreg.fit.sources import check_request
    from rankreg.tune.results import next_steps, result_lines, settings_text, write_results
    from rankreg.tune.search_data import load_parts
    from rankreg.tune.space import plan_search

    check_request(out, tpr=tpr, confidence=0.95)
    own = {"calibration": calibration, "groups": groups, "size": size, **vars(columns)}
    named = room.tune_data(data, out, ratio=ratio, data_dir=data_dir, **own)
    plan = plan_search(
        named,
        preset=preset,
        tpr=tpr,
        trials=trials,
        methods=method or (),
        losses=loss or (),
        epochs=epochs,
        seed=seed,
        file=config,
    )
    named = named.seeded(plan.base.seed)
    parts = load_parts(named, splits or (3 if named.side is None else 1))
    try:
        finished = room.search(
            named, plan, out, splits=len(parts), workers=workers, storage=storage, study=study, parts=parts
        )
    except KeyboardInterrupt as stopped:
        say(f"rankreg: stopped; the same command again goes on from {storage or out}", err=True)
        raise typer.Exit(130) from stopped
    result = room.rank_trials(finished, plan)
    write_results(out, result, tpr=tpr)
    _show_trials([(one.number, one.fpr, one.auc, settings_text(one)) for one in result.ranked[:SHOWN]], tpr)
    baseline = "" if result.baseline is None else " baseline.toml,"
    files = ("Files", f"{out}: best.toml,{baseline} trials.csv, summary.json")
    show_lines([*result_lines(result, plan, parts, tpr), files])
    show_commands("To train them for good, certify and test them", next_steps(named, out, result, tpr))


def _show_trials(trials: list[tuple[int, float, float, str]], tpr: float) -> None:
    from rich.table import Table

    listing = Table(title=f"The best {len(trials)} trials, on validation samples", title_justify="left")
    for heading in ("trial", f"FPR at {100 * tpr:g} %", "AUC"):
        listing.add_column(heading, justify="right", no_wrap=True)
    listing.add_column("settings", overflow="fold")
    for number, fpr, auc, words in trials:
        listing.add_row(str(number), f"{100 * fpr:.1f}", f"{100 * auc:.1f}", words)
    Terminal(highlight=False, markup=False).print(listing)
