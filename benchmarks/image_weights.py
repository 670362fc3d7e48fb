"""How much should pretrained features count beside networks from scratch? The questions of docs/decisions/0067.

python -m benchmarks.image_weights run      # adds the runs that have no record
python -m benchmarks.image_weights table    # answers from the records
"""

import time
from typing import Any

import numpy as np

from benchmarks.converged_runs import RECORDS, command, recorded, train_all
from benchmarks.image_blends import comparison, measured, values
from benchmarks.image_defaults import DATA
from benchmarks.image_features import scored
from rankreg_bench.runs import provenance

PLACE = RECORDS / "images/weights.jsonl"
CHOOSING, CONFIRMING = range(5), range(30, 40)  # no other study has used the later ones
DECIDING = ("solar cells 1:50", "skin lesions 1:170")  # classes of CIFAR are classes of ImageNet
ALIKE = 0.5  # points of AUC
LEARNERS = ("features", "oversampling", "plain")
WAYS: dict[str, tuple[float, float, float]] = {  # the weight of each learner; the simplest first
    "features": (1, 0, 0),
    "features, oversampling": (1, 1, 0),
    "features twice, oversampling": (2, 1, 0),
    "features, half of each network": (2, 1, 1),
    "features twice, half of each network": (4, 1, 1),
}
TODAY = "features, oversampling"


def trained(asked: tuple[str, int]) -> dict[str, Any]:
    """The learners of a split, by data and split: the record has the measures of every way."""
    data, split = asked
    start = time.perf_counter()
    labels, found = scored(data, split, *(("tuning",) if split in CHOOSING else ("extended", "official")))
    columns = np.stack([found[name] for name in LEARNERS])
    return {
        "data": data,
        "split": split,
        "measures": {way: measured(labels, np.asarray(weights) @ columns) for way, weights in WAYS.items()},
        "seconds": round(time.perf_counter() - start, 1),
        **provenance(),
    }


def run(workers: int) -> None:
    """Train what has no record: the splits that choose, then those that confirm another way than today's."""
    _train([(data, split) for split in CHOOSING for data in DECIDING], workers)
    if candidate(_of(CHOOSING)) != TODAY:
        _train([(data, split) for split in CONFIRMING for data in DATA], workers)


def _train(wanted: list[tuple[str, int]], workers: int) -> None:
    done = {(one["data"], one["split"]) for one in recorded(PLACE)}
    train_all(trained, (one for one in wanted if one not in done), PLACE, workers)


def _of(splits: range) -> list[dict[str, Any]]:
    return sorted((one for one in recorded(PLACE) if one["split"] in splits), key=lambda one: int(one["split"]))


def candidate(records: list[dict[str, Any]]) -> str:
    """The simplest way within half a point of the highest mean over the two data sets that decide."""
    means = {way: float(np.mean([values(records, data, way).mean() for data in DECIDING])) for way in WAYS}
    return next(way for way in WAYS if means[way] >= max(means.values()) - ALIKE)


def table() -> str:
    """All ways on the images that choose, then the candidate less today's way on the test images."""
    records, later = _of(CHOOSING), _of(CONFIRMING)
    if len(records) < len(CHOOSING) * len(DECIDING):
        raise SystemExit(f"{len(records)} of {len(CHOOSING) * len(DECIDING)} runs that choose are there: run first")
    lines = [f"| way | mean | {' | '.join(DECIDING)} |", "|---|---|" + "---|" * len(DECIDING)]
    for way in WAYS:
        areas, rates = ([values(records, data, way, m).mean() for data in DECIDING] for m in ("auc", "fpr@95"))
        pairs = [(np.mean(areas), np.mean(rates)), *zip(areas, rates, strict=True)]
        lines.append(f"| {way} | {' | '.join(f'{area:.1f} ({rate:.1f})' for area, rate in pairs)} |")
    found = candidate(records)
    lines += ["", f"Candidate: {found}."]
    whole = len(later) == len(CONFIRMING) * len(DATA)
    return "\n".join([*lines, "", *comparison(later, TODAY, found, DECIDING)] if whole else lines)


if __name__ == "__main__":
    from benchmarks import image_weights  # workers import it by name, and so keep the features between two runs

    command("image_weights", __doc__, image_weights.run, image_weights.table)
