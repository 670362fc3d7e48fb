"""Score a table, or images, with a model that `rankreg export` wrote: without torch, and without rankreg.

python examples/onnx_consumer.py model.onnx rows.csv
python examples/onnx_consumer.py model.onnx one.png two.jpg
"""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime import InferenceSession

WORDS = {"": "nan", "na": "nan", "n/a": "nan", "null": "nan", "true": "1", "false": "0"}


def number(cell: str) -> float:
    """A cell of a column of numbers: gaps and truth values are words, other texts are inf, which alarms."""
    try:
        return float(WORDS.get(cell.lower(), cell))
    except ValueError:
        return float("inf")


def texts(row: dict[str, str], inputs: dict[str, Any]) -> list[str]:
    """The cells of the columns of texts: a gap is spelled as the model wants it."""
    cells = [row[name] for name in inputs["texts"]]
    return [inputs["missing_text"] if WORDS.get(cell.lower()) == "nan" else cell for cell in cells]


def whole(row: dict[Any, Any]) -> dict[str, str]:
    """A row with as many fields as the first line; one that was cut must not be scored as if cells were missing."""
    if None in row or None in row.values():
        raise ValueError(f"too few or too many fields: {row}")
    return row


def score_table(model: str, table: str) -> tuple[Any, ...]:
    """Ten lines: score, alarm and, with three answers, the answer of every row of a CSV file with a header line."""
    session = InferenceSession(model)
    inputs = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    with Path(table).open(newline="", encoding="utf-8-sig") as file:
        rows = [whole(row) for row in csv.DictReader(file)]
    feeds: dict[str, Any] = {}
    if "numbers" in inputs:
        feeds["numbers"] = np.array([[number(row[name]) for name in inputs["numbers"]] for row in rows])
    if "texts" in inputs:
        feeds["texts"] = np.array([texts(row, inputs) for row in rows], dtype=object)
    return tuple(session.run(None, feeds))  # score, alarm; answer: 0 dismiss, 1 review, 2 alarm


def score_images(model: str, files: list[str]) -> tuple[Any, ...]:
    """The same for image files."""
    from PIL import Image, ImageOps

    session = InferenceSession(model)
    height, width = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])["images"].values()
    images = []
    for name in files:
        with Image.open(name) as image:
            image.draft("RGB", (2 * max(height, width),) * 2)  # as in training: JPEGs are decoded at a smaller size
            upright = ImageOps.exif_transpose(image).convert("RGB")
        images.append(np.asarray(upright.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3.0)))
    return tuple(session.run(None, {"images": np.stack(images)}))


if __name__ == "__main__":
    model, *files = sys.argv[1:]
    names = {value.name for value in InferenceSession(model).get_inputs()}
    found = score_images(model, files) if "images" in names else score_table(model, files[0])
    for score, *decisions in zip(*found, strict=True):
        print(score, *map(int, decisions), sep=",")
