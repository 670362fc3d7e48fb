"""The demo: one of the experiments, on scikit-learn's digits, shown as a table and as a page in the browser."""

from pathlib import Path

import numpy as np
from PIL import Image

from rankreg.datasets import load
from rankreg.report import Model, Settings, write
from rankreg_bench.arms import ARMS
from rankreg_bench.grids import DATA
from rankreg_bench.pages import Page
from rankreg_bench.records import Grid
from rankreg_bench.sheets import Sheet

NOTES = (
    "Lower FPR is better, higher AUC is better. Single networks are what one training run gives.",
    "The splits differ in what is trained on and share one test part: the intervals say how much the split matters,"
    " not what another data set would give.",
)


def demo_page(sheet: Sheet) -> Page:
    """The networks of each method and the differences between methods, in brief."""
    return Page(sheet.page().title, (sheet.singles(), *[sheet.differences()] * bool(sheet.pairs)), NOTES)


def write_report(path: Path, grid: Grid, data: str) -> Path:
    """One report on the shared test part; the scores of each method are the mean over its splits."""
    pixels = load("digits", **DATA[data].settings, seed=0)["test"]

    def picture(place: int) -> Image.Image:
        rows = (255 * pixels.inputs(np.array([place]))[0]).astype(np.uint8).reshape(8, 8)
        return Image.fromarray(255 - rows).resize((64, 64), Image.Resampling.NEAREST)

    models = [Model.of(ARMS[arm].title, cell.mean, image=picture) for (_, _, arm), cell in grid.cells.items()]
    settings = Settings(tprs=(0.95,), title=f"{DATA[data].title}: ensembles of all splits")
    return write(path, models, settings)
