"""The demo: one of the experiments, on scikit-learn's digits, shown as a table and as a page in the browser."""

from pathlib import Path

import numpy as np
from PIL import Image

from rankreg.datasets import load
from rankreg.report import Model, Settings, write
from rankreg.terminal import Terminal
from rankreg_bench.arms import ARMS
from rankreg_bench.grids import DATA, loader_options
from rankreg_bench.pages import Page, print_pages
from rankreg_bench.records import Grid, Selection
from rankreg_bench.tables import Sheet

NOTES = (
    "Lower FPR is better, higher AUC is better. The base loss is BCE.",
    "The splits have different training data and the same test data: the intervals say how much the split matters,"
    " not what another data set would give.",
    "This is a demonstration, not evidence: its settings were chosen after these test digits had been looked at,"
    " and RankReg (scores) is the best of four forms of the term that were tried on them.",
)


def show(selection: Selection, path: Path) -> None:
    """Print what each method reaches and what each part of it adds, and write the report."""
    (grid,) = selection.grids()
    (data,) = grid.names(0)
    sheet, console = Sheet(selection, grid, data), Terminal(highlight=False)
    title = f"{DATA[data].title} in training: {grid.title(data)}, in %"
    print_pages([Page(title, (sheet.singles(), sheet.differences()), NOTES)], console)
    report = write_report(path, grid, data)
    console.print(f"Report for the browser: {report.resolve()}", markup=False, soft_wrap=True)
    console.print(f"Records and scores: {selection.folder.resolve()}", markup=False, soft_wrap=True)


def write_report(path: Path, grid: Grid, data: str) -> Path:
    """One report on the shared test part; the scores of each method are the mean over its splits."""
    pixels = load("digits", **loader_options(DATA[data].settings), seed=0)["test"]

    def picture(place: int) -> Image.Image:
        rows = (255 * pixels.inputs(np.array([place]))[0]).astype(np.uint8).reshape(8, 8)
        return Image.fromarray(255 - rows).resize((64, 64), Image.Resampling.NEAREST)

    models = [Model.of(ARMS[arm].title, cell.mean, image=picture) for (_, _, arm), cell in grid.cells.items()]
    settings = Settings(tprs=(0.95,), title=f"{DATA[data].title} in training: ensembles of all splits")
    return write(path, models, settings)
