"""`rankreg bench`: the paper's tables and figures, from grids of runs."""

from pathlib import Path
from typing import Annotated

import typer

bench = typer.Typer(
    help="Regenerate the paper's tables and figures beside the published numbers: list, run, status, table, figure,"
    " compare.",
    no_args_is_help=True,
)

RECORDS = Annotated[Path, typer.Option("--records", help="Folder of the records, one per finished run.")]
PRESET = Annotated[str, typer.Option("--preset", help="Size: paper, compact or smoke (see `rankreg bench list`).")]
SPLITS = Annotated[int | None, typer.Option("--splits", min=1, help="How many splits (default: the preset's).")]
ONLY = Annotated[
    list[str] | None,
    typer.Option("--only", help="Only this data set, loss or arm; may be given several times."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(bench, name="bench")


@bench.command("list")
def list_() -> None:
    """Show the experiments, the presets, and how many runs each would take."""
    from rich.console import Console

    from rankreg.bench.words import experiment_table, preset_table

    console = Console(highlight=False)
    console.print(experiment_table())
    console.print(preset_table())


@bench.command()
def run(
    names: Annotated[list[str], typer.Argument(help="Experiments, from `rankreg bench list`.", metavar="NAME...")],
    preset: PRESET = "compact",
    only: ONLY = None,
    splits: SPLITS = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes (default: one per core).")] = None,
    on: Annotated[str, typer.Option(help="loky: this machine's cores; dask: an existing cluster.")] = "loky",
    address: Annotated[str | None, typer.Option(help="The Dask scheduler, e.g. tcp://10.0.0.1:8786.")] = None,
    records: RECORDS = Path("records"),
    runs: Annotated[Path, typer.Option(help="Folder for checkpoints of unfinished runs.")] = Path("runs"),
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data sets (default: RANKREG_DATA).")] = None,
) -> None:
    """Train what an experiment lacks: finished runs are never repeated, killed ones go on where they were.

    With --on dask the workers need rankreg, the data, and the records' and runs' folders under the same paths (a
    shared file system); start them with one thread each: dask worker tcp://... --nthreads 1
    """
    from rankreg.bench.planning import plans_of
    from rankreg.bench.running import Place, run_all
    from rankreg.bench.words import RunDisplay

    if on not in ("loky", "dask"):
        raise ValueError(f"--on must be loky or dask, got {on!r}")
    plans = [plan for name in names for plan in plans_of(name, preset, splits=splits, only=only or ())]
    place = Place(records.absolute(), runs.absolute(), data_dir.absolute() if data_dir else None)
    with RunDisplay(plans, place.records) as display:
        try:
            summary = run_all(
                plans,
                place,
                workers=workers,
                on="dask" if on == "dask" else "loky",
                address=address,
                report=display.settled,
            )
        except KeyboardInterrupt as stopped:
            typer.echo("rankreg: stopped; the same command goes on where it was", err=True)
            raise typer.Exit(130) from stopped
    display.conclude(summary)
    if summary.failed:
        raise typer.Exit(1)
