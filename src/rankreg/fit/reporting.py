"""The page that goes with a fit: the calibration scores, which carry the certificate, for someone to look at."""

from pathlib import Path

import numpy as np
from PIL import Image

from rankreg.datasets.splits import Samples, Splits
from rankreg.operating import Per
from rankreg.report import Model, Settings, write
from rankreg.scores import Scores
from rankreg.train import TrainConfig


def write_report(
    path: Path, splits: Splits, calibration: Scores, config: TrainConfig, *, tpr: float, confidence: float, per: Per
) -> str:
    """Write the report; where it was put, or why there is none (a network that gives every sample one score)."""
    part = splits["calibration"]
    pictures = splits.preprocessing.get("kind") == "image"
    model = Model.of(splits.name, calibration, image=(lambda place: picture(part, place)) if pictures else None)
    settings = Settings(
        tprs=(tpr,),
        confidence=confidence,
        per=per,
        title=f"Operating point of {splits.name}",
        config=config.model_dump(mode="json", exclude_none=True),
    )
    try:
        return str(write(path, [model], settings))
    except ValueError as error:
        return f"none: {error}"


def picture(part: Samples, place: int) -> Image.Image:
    """The image at that place of the part, as the network saw it."""
    return Image.fromarray(part.inputs(np.array([place]))[0])
