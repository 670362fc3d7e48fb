"""The demo's report: the methods' ensembles side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from rankreg.datasets.digits import digits
from rankreg.demo.runs import ARMS, CRITICAL, RATIO
from rankreg.ensemble import mean_scores
from rankreg.report import Model, Settings, write
from rankreg.scores import Scores


def write_page(path: Path, scores: Mapping[str, Sequence[Scores]]) -> Path:
    """One page on the shared test part, where each method is the mean of its splits' networks."""
    pixels = digits(critical=CRITICAL, ratio=RATIO, seed=0)["test"]

    def picture(place: int) -> Image.Image:
        rows = (255 * pixels.inputs(np.array([place]))[0]).astype(np.uint8).reshape(8, 8)
        return Image.fromarray(255 - rows).resize((64, 64), Image.Resampling.NEAREST)

    models = [
        Model.of(ARMS[name].title, mean_scores({str(k): one for k, one in enumerate(each)}), image=picture)
        for name, each in scores.items()
    ]
    settings = Settings(tprs=(0.95,), title=f"The digit {CRITICAL}, learned from few: ensembles of all splits")
    return write(path, models, settings)
