"""`rankreg-bench`, also `rankreg bench`: the paper's tables and figures, from grids of runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import rankreg.cli
from rankreg.names import look_up
from rankreg.safe_files import is_stream
from rankreg.terminal import Terminal, lay_out_help, say
from rankreg_bench import figures
from rankreg_bench.arms import ARMS, PRESETS
from rankreg_bench.differences import Question, compare_pages
from rankreg_bench.grids import DATA, RunPlan, experiment_of, loader_options, plans_of
from rankreg_bench.pages import ENDINGS, Page, print_pages, rendered, write
from rankreg_bench.queue import Place, run_all
from rankreg_bench.records import DEFAULT_FOLDER, Grid, Selection
from rankreg_bench.status import RunDisplay, experiment_table, status_of, status_table
from rankreg_bench.tables import Sheet, pages_of

app = typer.Typer(
    help="Regenerate the paper's tables and figures beside the published numbers: list, run, status, table, figure,"
    " compare, verify.",
    epilog="Help on one of them:\n\nrankreg bench run --help",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

SIZES = "paper, converged, compact, demo or smoke (see `rankreg bench list`)"
NAME = Annotated[str, typer.Argument(help="Experiment, from `rankreg bench list`, such as cifar100-100.")]
RECORDS = Annotated[Path, typer.Option("--records", help="Folder of the records, one per finished run.")]
DATA_DIR = Annotated[Path | None, typer.Option(help="Folder of the data sets (default: RANKREG_DATA).")]
WORKERS = Annotated[int | None, typer.Option(min=1, help="Processes here (default: one per core).")]
PRESET = Annotated[
    str | None, typer.Option("--preset", help=f"Size: {SIZES}.", show_default="the experiment's, mostly compact")
]
SPLITS = Annotated[int | None, typer.Option("--splits", min=1, help="How many splits (default: the preset's).")]
ONLY = Annotated[list[str] | None, typer.Option("--only", help="Only this data set, loss or arm; repeatable.")]
TEST_HELP = (
    "official: the paper's test set; extended: with the fresh positives; tuning: validation and tuning pool"
    " (default: what the experiment is judged on)."
)
TEST = Annotated[str | None, typer.Option(help=TEST_HELP, show_default=False)]
FORMAT_HELP = "text, markdown (md), csv or latex (tex) (default: by the ending of --out; text without one)."
FORMAT = Annotated[str | None, typer.Option("--format", help=FORMAT_HELP, show_default=False)]
OUT = Annotated[Path | None, typer.Option(help="File to write instead of printing.", show_default=False)]
DEMO_NOTES = (
    "Lower FPR is better, higher AUC is better. The base loss is BCE.",
    "The splits have different training data and the same test data: the intervals say how much the split matters,"
    " not what another data set would give.",
    "This is a demonstration, not evidence: its settings were chosen after these test digits had been looked at,"
    " and RankReg (scores) is the best of four forms of the term that were tried on them.",
)


def main() -> None:
    """The console script `rankreg-bench`."""
    rankreg.cli.main(app)


@app.command("list")
def list_() -> None:
    """Show the experiments, the presets, and how many runs each would take.

    Examples:
        rankreg bench list
    """
    sizes = Table("preset", "size")
    for name, preset in PRESETS.items():
        sizes.add_row(name, preset.title)
    Terminal(highlight=False).print(experiment_table(), sizes)


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(help="Experiments, from `rankreg bench list`.", metavar="NAME...")],
    preset: PRESET = None,
    only: ONLY = None,
    splits: SPLITS = None,
    workers: WORKERS = None,
    on: Annotated[str, typer.Option(help="loky: this machine's cores; dask: an existing cluster.")] = "loky",
    address: Annotated[str | None, typer.Option(help="The Dask scheduler, e.g. tcp://10.0.0.1:8786.")] = None,
    records: RECORDS = DEFAULT_FOLDER,
    runs: Annotated[Path, typer.Option(help="Folder for checkpoints of unfinished runs.")] = Path("runs"),
    data_dir: DATA_DIR = None,
) -> None:
    """Train the runs of an experiment that have no record. Killed runs are resumed.

    Two benches may share the same folders. With --on dask, all workers need rankreg, and they must see data,
    records and runs under the same paths. Start each with `dask worker tcp://... --nthreads 1`.

    Examples:
        rankreg bench run demo --splits 2
        rankreg bench run cifar10-100 --preset smoke --workers 2
    """
    if on not in ("loky", "dask"):
        raise ValueError(f"--on must be loky or dask, got {on!r}")
    if on == "loky" and address is not None:
        raise ValueError("--address is a Dask scheduler's: add --on dask, or leave it out")
    if on == "dask" and workers is not None:
        raise ValueError("--workers is for --on loky: a Dask cluster has its own workers")
    plans: list[RunPlan] = []
    for name in names:
        plans += plans_of(name, preset or experiment_of(name).preset, splits=splits, only=only or ())
    _train(plans, records, runs, data_dir, workers=workers, on=on, address=address)


def _train(plans: Sequence[RunPlan], records: Path, runs: Path, data_dir: Path | None = None, **how: Any) -> None:
    """Run the plans and show how far they are; exit status 1 if one failed, 130 after Ctrl-C."""
    place = Place(records.absolute(), runs.absolute(), data_dir.absolute() if data_dir else None)
    with RunDisplay(plans, place.records) as display:
        try:
            found = run_all(plans, place, report=display.settled, **how)
        except KeyboardInterrupt as stopped:
            say("rankreg: stopped; the same command continues", err=True)
            raise typer.Exit(130) from stopped
    display.conclude(len(found.done), found.failed)
    if found.failed:
        raise typer.Exit(1)


@app.command()
def table(
    name: NAME,
    preset: PRESET = None,
    test: TEST = None,
    only: ONLY = None,
    splits: SPLITS = None,
    style: FORMAT = None,
    out: OUT = None,
    records: RECORDS = DEFAULT_FOLDER,
) -> None:
    """Print the table of an experiment from its records, beside the published values.

    Each test set has three parts: ensembles of all splits, as in the paper; the mean of single networks; paired
    differences between methods. A cell without a record is a dash. Neither torch nor the data are needed.

    Examples:
        rankreg bench table cifar100-100
        rankreg bench table cifar100-100 --test extended --out table.tex
    """
    _show(pages_of(_selection(name, preset, records, splits, only), test), style, out)


def _selection(name: str, preset: str | None, records: Path, splits: int | None, only: ONLY) -> Selection:
    return Selection(name, preset or experiment_of(name).preset, records, splits, tuple(only or ()))


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="Arm, such as rankreg.", metavar="A")],
    second: Annotated[str, typer.Argument(help="Arm it is compared with, such as buffer.", metavar="B")],
    data: Annotated[
        list[str] | None, typer.Option(help="Data set, such as cifar10-100 (default: every one that has both).")
    ] = None,
    loss: Annotated[list[str] | None, typer.Option(help="Base loss (default: every one that has both).")] = None,
    preset: Annotated[str, typer.Option(help=f"Size: {SIZES}.")] = "compact",
    test: TEST = None,
    splits: SPLITS = None,
    brief: Annotated[bool, typer.Option("--brief", help="One row for each data set, no details.")] = False,
    style: FORMAT = None,
    out: OUT = None,
    records: RECORDS = DEFAULT_FOLDER,
) -> None:
    """Compare two arms on the splits that both have: A minus B, for each base loss and over all of them.

    Shows the mean difference of single networks with an interval over splits, the smallest difference that could
    have been detected, the difference in each split, the difference of the ensembles with an interval over test
    samples, and validation AUC by epoch. A negative FPR difference means that A raises fewer false alarms.

    Examples:
        rankreg bench compare rankreg buffer --brief
        rankreg bench compare buffer base --data cifar10-100 --loss bce
    """
    question = Question(first, second, preset, records, tuple(data or ()), tuple(loss or ()), splits)
    _show(compare_pages(question, test, brief=brief), style, out)


def _show(pages: Sequence[Page], style: str | None, out: Path | None) -> None:
    """On the terminal, or in a file whose ending names the format."""
    if style is None:
        style = look_up(ENDINGS, out.suffix.lower(), "ending of --out") if out and out.suffix else "text"
    style = ENDINGS.get(f".{style}", style)
    console = Terminal(highlight=False)
    if out is not None:
        write(out, rendered(pages, style).encode())
        say(f"written: {out}", err=is_stream(out))
    elif style == "text" and console.is_terminal:
        print_pages(pages, console)
    else:
        say(rendered(pages, style), nl=False)


@app.command()
def status(
    records: RECORDS = DEFAULT_FOLDER,
    workers: Annotated[int | None, typer.Option(min=1, help="Cores (default: this machine's).")] = None,
) -> None:
    """Show how many runs of each experiment are recorded, their mean time, and the hours left on this machine.

    Examples:
        rankreg bench status
        rankreg bench status --workers 8
    """
    (standings, lines), console = status_of(records, workers), Terminal(highlight=False)
    if standings:
        console.print(status_table(standings))
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


@app.command()
def verify(
    record: Annotated[
        str | None, typer.Argument(help="A record's file, or its name as `run` shows it.", show_default=False)
    ] = None,
    random: Annotated[int, typer.Option(min=1, help="Without RECORD: so many, of this kind of machine.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Which ones are drawn (default: others every time).")] = None,
    tolerance: Annotated[float, typer.Option(min=0.0, help="Largest difference of a score that passes.")] = 1e-3,
    records: RECORDS = DEFAULT_FOLDER,
    data_dir: DATA_DIR = None,
) -> None:
    """Train recorded runs again and compare the scores. The exit status is 1 if they differ.

    On the same kind of processor, with the same versions, the difference is 0. Records made on this kind of
    processor are drawn first.

    Examples:
        rankreg bench verify
        rankreg bench verify --random 3 --seed 0
    """
    from rankreg_bench.runs import draw_records, verify

    files = [Path(record) if Path(record).is_file() else records / f"{record}.json"] if record else []
    if record and not files[0].is_file():
        raise ValueError(f"no record {record}: give its file, or its name below {records} as `bench run` shows it")
    passed = True
    for file in files or draw_records(records, random, seed):
        found = verify(file, data_dir)
        passed &= found.difference <= tolerance
        say(found.sentence(tolerance))
    if not passed:
        raise typer.Exit(1)


@app.command()
def figure(
    name: NAME,
    out: Annotated[
        Path | None, typer.Option(help="File to write: .png, .svg or .pdf (default: NAME.png).", show_default=False)
    ] = None,
    preset: PRESET = None,
    only: ONLY = None,
    splits: SPLITS = None,
    test: TEST = None,
    records: RECORDS = DEFAULT_FOLDER,
) -> None:
    """Draw an experiment from its records: ROC curves, label noise, buffer sizes, or an interval for each arm.

    This needs matplotlib, which the extra `figures` of the package installs, but neither torch nor the data.

    Examples:
        rankreg bench figure roc --out roc.png
        rankreg bench figure buffer-size
    """
    path = out or Path(f"{name}.png")
    figures.check_path(path)
    chosen = figures.choose(_selection(name, preset, records, splits, only), test)
    figures.write_figure(chosen, path)
    say(f"{path}: {path.stat().st_size / 1000:,.0f} kB, {chosen.splits()}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path("rankreg-demo"),
    workers: WORKERS = None,
    splits: SPLITS = None,
) -> None:
    """Learn a rare digit with and without rankreg, and show what each part of the method adds.

    It trains four methods on eight splits of scikit-learn's digits. This takes about a minute.

    Examples:
        rankreg demo
        rankreg demo --splits 2 --out small-demo
    """
    selection = Selection("demo", "demo", out / "records", splits)
    _train(selection.plans, selection.folder, out / "runs", workers=workers)
    (grid,) = selection.grids()
    (data,) = grid.names(0)
    sheet, console = Sheet(selection, grid, data), Terminal(highlight=False)
    title = f"{DATA[data].title} in training: {grid.title(data)}, in %"
    print_pages([Page(title, (sheet.singles(), sheet.differences()), DEMO_NOTES)], console)
    report = _demo_report(out / "report.html", grid, data)
    console.print(f"Report for the browser: {report.resolve()}", markup=False, soft_wrap=True)
    console.print(f"Records and scores: {selection.folder.resolve()}", markup=False, soft_wrap=True)


def _demo_report(path: Path, grid: Grid, data: str) -> Path:
    """One report on the shared test part; the scores of each method are the mean over its splits."""
    import numpy as np
    from PIL import Image

    from rankreg.datasets import load
    from rankreg.report import Model, Settings
    from rankreg.report import write as write_report

    pixels = load("digits", **loader_options(DATA[data].settings), seed=0)["test"]

    def picture(place: int) -> Image.Image:
        rows = (255 * pixels.inputs(np.array([place]))[0]).astype(np.uint8).reshape(8, 8)
        return Image.fromarray(255 - rows).resize((64, 64), Image.Resampling.NEAREST)

    models = [Model.of(ARMS[arm].title, cell.mean, image=picture) for (_, _, arm), cell in grid.cells.items()]
    settings = Settings(tprs=(0.95,), title=f"{DATA[data].title} in training: ensembles of all splits")
    return write_report(path, models, settings)


lay_out_help(app)
