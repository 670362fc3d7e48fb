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
    """Train what has no record: first the splits that choose."""
    done = {(one["data"], one["split"]) for one in recorded(PLACE)}
    wanted = [(data, split) for split in CHOOSING for data in DECIDING]
    wanted += [(data, split) for data in (*DECIDING, *DATA) for split in CONFIRMING]
    train_all(trained, (one for one in dict.fromkeys(wanted) if one not in done), PLACE, workers)


def candidate(records: list[dict[str, Any]]) -> str:
    """The simplest way within half a point of the highest mean over the two data sets that decide."""
    means = {way: float(np.mean([values(records, data, way).mean() for data in DECIDING])) for way in WAYS}
    return next(way for way in WAYS if means[way] >= max(means.values()) - ALIKE)


def table() -> str:
    """All ways on the images that choose and on the test images, then the candidate less today's way."""
    records = sorted(recorded(PLACE), key=lambda one: one["split"])
    first, later = ([r for r in records if r["split"] in splits] for splits in (CHOOSING, CONFIRMING))
    if len(first) < len(CHOOSING) * len(DECIDING) or len(later) < len(CONFIRMING) * len(DATA):
        raise SystemExit(f"{len(first)} runs that choose and {len(later)} that confirm are there: run first")
    titles = [*(f"{data}, choosing" for data in DECIDING), *(f"{data}, test" for data in DATA)]
    lines = [f"| way | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
    places = [*((first, data) for data in DECIDING), *((later, data) for data in DATA)]
    for way in WAYS:
        cells = [f"{values(r, d, way).mean():.1f} ({values(r, d, way, 'fpr@95').mean():.1f})" for r, d in places]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    found = candidate(first)
    lines += ["", f"Candidate: {found}."]
    return "\n".join(lines if found == TODAY else [*lines, "", *comparison(later, TODAY, found, DECIDING)])


if __name__ == "__main__":
    from benchmarks import image_weights  # workers import it by name, and so keep the features between two runs

    command("image_weights", __doc__, image_weights.run, image_weights.table)
