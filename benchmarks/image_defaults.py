"""Which way to treat rare positives should `rankreg fit` use for images? The questions of docs/decisions/0058.

python -m benchmarks.image_defaults run      # adds the runs that have no record
python -m benchmarks.image_defaults table    # answers from the records
"""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from benchmarks.converged_runs import RECORDS, command, difference_cell, recorded, train_all
from rankreg.datasets import Splits, load
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.operating.comparison import p_value, still_significant
from rankreg.pool import keep_freed_memory
from rankreg.scores import joined
from rankreg.train import train
from rankreg.train.defaults import DEFAULTS, settings
from rankreg_bench.grids import TestSet
from rankreg_bench.records import parts_of
from rankreg_bench.runs import provenance

PLACE = RECORDS / "images/defaults.jsonl"
SIDE = 64  # pixels, as `fit` reads images
BATCH: int = DEFAULTS["image"]["batch_size"]
SPLITS = 10
DATA: dict[str, tuple[str, dict[str, Any]]] = {  # name: the loader and its settings
    "CIFAR-10 1:100": ("cifar10", {"ratio": 100}),
    "CIFAR-100 1:100": ("cifar100", {"ratio": 100}),
    "solar cells 1:50": ("elpv", {"ratio": 50, "size": SIDE}),
    "skin lesions 1:170": ("ham10000", {"positive": "mel", "ratio": 170, "size": SIDE}),
}
WAYS: dict[str, dict[str, Any]] = {  # the simplest first
    "plain loss": {"method": "none"},
    "oversampling": {"method": "none", "sampling": "balanced"},
    "buffer": {"method": "buffer"},
}


def enlarged(splits: Splits) -> Splits:
    """The same images with `SIDE` pixels, resized as `fit` resizes files."""
    source = splits["train"].source
    if source.shape[1:3] == (SIDE, SIDE):
        return splits
    rows = np.unique(np.concatenate([part.rows for part in splits.parts.values()]))
    resized = np.empty((len(rows), SIDE, SIDE, 3), dtype=np.uint8)
    for place, row in enumerate(rows):
        resized[place] = np.asarray(Image.fromarray(source[row]).resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    parts = {
        name: replace(part, source=resized, rows=np.searchsorted(rows, part.rows))
        for name, part in splits.parts.items()
    }
    return replace(splits, parts=parts)


def trained(asked: tuple[str, str, int]) -> dict[str, Any]:
    """One run, by data, way and split: the recipe of `fit` on all training images, judged after the last epoch."""
    data, way, split = asked
    return {"data": data, "way": way, "split": split, **judged(data, way, split, on="test")}


def judged(data: str, way: str, split: int, *, on: str, steps: int | None = None) -> dict[str, Any]:
    """The record of a run; on: "test", or "tuning" for the images that may choose; steps: another length."""
    torch.set_num_threads(1)
    keep_freed_memory()
    start = time.perf_counter()
    loader, options = DATA[data]
    splits = enlarged(load(loader, None, **options, seed=split))
    shown: tuple[TestSet, ...] = ("extended", "official") if on == "test" else ("tuning",)
    parts = next(found for test in shown if (found := parts_of(test, splits.parts)))
    chosen = WAYS[way] if steps is None else WAYS[way] | {"epochs": ceil(steps * BATCH / len(splits["train"]))}
    config = settings(
        "image", 0.95, size=SIDE, samples=len(splits["train"]), seed=split, precision="float32", **chosen
    )
    with tempfile.TemporaryDirectory() as folder:
        run = train(splits, config, Path(folder), score_parts=parts, progress=False)
    scores = joined([run.scores[part] for part in parts])
    return {
        "auc": round(100 * auc(scores.labels, scores.values), 3),
        "fpr@95": round(100 * fpr_at_tpr(scores.labels, scores.values, 0.95), 3),
        "positives": int((splits["train"].labels == 1).sum()),
        "config": config.model_dump(mode="json", exclude_none=True),
        "seconds": round(time.perf_counter() - start, 1),
        **provenance(),
    }


def run(workers: int) -> None:
    """Train what has no record, split by split."""
    done = {(one["data"], one["way"], one["split"]) for one in recorded(PLACE)}
    wanted = [(data, way, split) for split in range(SPLITS) for data in DATA for way in WAYS]
    train_all(trained, (one for one in wanted if one not in done), PLACE, workers)


def measured(records: list[dict[str, Any]], data: str, measure: str) -> Mapping[str, NDArray[np.float64]]:
    """The values of each way, over the splits of one data set that all ways have."""
    found = {(one["way"], one["split"]): one[measure] for one in records if one["data"] == data}
    shared = sorted(set.intersection(*({split for way, split in found if way == known} for known in WAYS)))
    return {way: np.array([found[way, split] for split in shared]) for way in WAYS}


def table() -> str:
    """Means, then every difference of two ways, paired over the splits."""
    records = recorded(PLACE)
    positives = {one["data"]: one["positives"] for one in records}
    lines = [f"| data (training positives), splits | {' | '.join(WAYS)} |", "|---|" + "---|" * len(WAYS)]
    answers: list[str] = []
    p_values: list[float] = []
    for data in positives:
        areas, rates = (measured(records, data, measure) for measure in ("auc", "fpr@95"))
        count = len(areas["buffer"])
        cells = [f"{areas[way].mean():.1f} ({rates[way].mean():.1f})" for way in WAYS]
        lines.append(f"| {data} ({positives[data]}), {count} | {' | '.join(cells)} |")
        for first, second in combinations(WAYS, 2):
            gaps = areas[second] - areas[first]
            chance = p_value(gaps)
            p_values += [] if chance is None else [chance]
            cells = [difference_cell(gaps), difference_cell(rates[second] - rates[first])]
            shown = "–" if chance is None else f"{chance:.4f}"
            answers.append(f"| {data}: {second} − {first} | {' | '.join(cells)} | {shown} |")
    lines += ["", "| question | AUC | FPR@95 | p-value of AUC |", "|---|---|---|---|", *answers]
    if p_values:
        passed = still_significant(p_values)
        lines += ["", f"After Holm's correction the {passed} smallest of {len(p_values)} p-values count."]
    return "\n".join(lines)


if __name__ == "__main__":
    command("image_defaults", __doc__, run, table)
