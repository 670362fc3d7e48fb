"""Does `rankreg fit` learn more from positives blended into negatives? The questions of docs/decisions/0066.

python -m benchmarks.image_blends run      # adds the runs that have no record
python -m benchmarks.image_blends table    # answers from the records
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.converged_runs import RECORDS, command, difference_cell, recorded, train_all
from benchmarks.generalisation import Blend, BlendedBatches, Mirrored, Way, mixed, pasted, update
from benchmarks.image_defaults import DATA, SIDE, enlarged
from rankreg.datasets import Splits, load
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.models import build_model
from rankreg.operating.comparison import p_value, still_significant
from rankreg.pool import keep_freed_memory
from rankreg.scores import joined
from rankreg.train import TrainConfig
from rankreg.train.config import SCHEDULES
from rankreg.train.defaults import settings
from rankreg.train.inference import score_samples
from rankreg.train.loop import borrowed_randomness
from rankreg.train.task import complete, task_of
from rankreg_bench.grids import TestSet
from rankreg_bench.records import parts_of
from rankreg_bench.runs import provenance

PLACE = RECORDS / "images/blends.jsonl"
CHOOSING, CONFIRMING = range(5), range(10, 20)  # 0058 showed the test images of splits 0 to 9
PARTNERS = 2  # one in so many negatives of a batch gets a positive
ALIKE = 0.5  # points of AUC
MIRRORED = ", mirror images"


@dataclass(frozen=True)
class Network:
    """How one network trains: the order of the images, what becomes of pairs, and what is added to the seed."""

    sampling: str = "shuffled"
    blend: Blend | None = None
    later: int = 0


NETWORKS: dict[str, Network] = {
    "plain": Network(),
    "oversampling": Network("balanced"),
    "pasted": Network(blend=pasted),
    "mixed": Network(blend=mixed),
    "oversampling again": Network("balanced", later=1000),
}
TODAY = "oversampling"
ONE: dict[str, tuple[str, ...]] = {name: (name,) for name in ("plain", "oversampling", "pasted", "mixed")}
TWO: dict[str, tuple[str, ...]] = {  # each the average of two networks
    "oversampling twice": ("oversampling", "oversampling again"),
    "plain and oversampling": ("plain", "oversampling"),
    "plain and pasted": ("plain", "pasted"),
    "plain and mixed": ("plain", "mixed"),
}
WAYS = {  # the networks, and whether mirror images are scored too; the simplest first
    name + ending: (networks, bool(ending))
    for group in (ONE, TWO)
    for ending in ("", MIRRORED)
    for name, networks in group.items()
}


def network_of(splits: Splits, config: TrainConfig, blend: Blend | None) -> torch.nn.Module:
    """A network after its last epoch, trained as the library trains it where nothing is blended."""
    assert config.model is not None
    batches = BlendedBatches(splits, config, blend, PARTNERS)
    with borrowed_randomness(config.seed):
        network = build_model(config.model)
        optimizer = config.optimizer.make(network.parameters(), config.learning_rate)
        network.train()
        for epoch in range(config.epochs):
            for step, (images, shares) in enumerate(batches.epoch(epoch)):
                done = (epoch + step / batches.steps) / config.epochs
                for group in optimizer.param_groups:
                    group["lr"] = config.learning_rate * SCHEDULES[config.schedule](done)
                update(network, optimizer, images, shares, Way())
    return network


def trained(asked: tuple[str, int]) -> dict[str, Any]:
    """All networks of a split, by data and split: the record has the measures of every way."""
    data, split = asked
    torch.set_num_threads(1)
    keep_freed_memory()
    start = time.perf_counter()
    loader, options = DATA[data]
    splits = enlarged(load(loader, None, **options, seed=split))
    shown: tuple[TestSet, ...] = ("tuning",) if split in CHOOSING else ("extended", "official")
    parts = next(names for test in shown if (names := parts_of(test, splits.parts)))
    labels = np.concatenate([splits[part].labels for part in parts])
    found: dict[tuple[str, bool], NDArray[np.float64]] = {}
    for name, network in NETWORKS.items():
        model = network_of(splits, config_of(splits, split, network), network.blend)
        for mirror in (False, True):
            found[name, mirror] = standardised(model, splits, parts, mirror=mirror)
    measures = {}
    for way, (networks, mirror) in WAYS.items():
        scores = np.mean([found[name, mirror] for name in networks], axis=0)
        measures[way] = measured(labels, scores)
    return {
        "data": data,
        "split": split,
        "positives": int((splits["train"].labels == 1).sum()),
        "measures": measures,
        "seconds": round(time.perf_counter() - start, 1),
        **provenance(),
    }


def measured(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> dict[str, float]:
    """AUC and FPR@95, in percent."""
    return {
        "auc": round(100 * auc(labels, scores), 3),
        "fpr@95": round(100 * fpr_at_tpr(labels, scores, 0.95), 3),
    }


def config_of(splits: Splits, split: int, network: Network) -> TrainConfig:
    """The recipe of `fit`."""
    config = settings(
        "image",
        0.95,
        size=SIDE,
        samples=len(splits["train"]),
        seed=split + network.later,
        precision="float32",
        method="none",
        sampling=network.sampling,
    )
    return complete(config, task_of(splits, config), splits["train"], own_model=False)


def standardised(
    model: torch.nn.Module, splits: Splits, parts: Sequence[str], *, mirror: bool
) -> NDArray[np.float64]:
    """Scores of these parts in units of the training images' spread, the mean with the mirror images' if wanted."""

    def scores(names: Sequence[str]) -> NDArray[np.float64]:
        models = (model, Mirrored(model)) if mirror else (model,)
        values = [
            joined([score_samples(one, splits[n], precision="float32") for n in names]).values for one in models
        ]
        return np.mean(values, axis=0, dtype=np.float64)  # type: ignore[no-any-return]

    known = scores(("train",))
    return (scores(parts) - known.mean()) / known.std()  # type: ignore[no-any-return]


def run(workers: int) -> None:
    """Train what has no record: first the splits that choose."""
    done = {(one["data"], one["split"]) for one in recorded(PLACE)}
    wanted = [(data, split) for split in (*CHOOSING, *CONFIRMING) for data in DATA]
    train_all(trained, (one for one in wanted if one not in done), PLACE, workers)


def values(records: list[dict[str, Any]], data: str, way: str, measure: str = "auc") -> NDArray[np.float64]:
    """One value per split of a data set."""
    return np.array([one["measures"][way][measure] for one in records if one["data"] == data])


def averages(records: list[dict[str, Any]], measure: str = "auc") -> Mapping[str, list[float]]:
    """For each way the mean of each data set."""
    return {way: [float(values(records, data, way, measure).mean()) for data in DATA] for way in WAYS}


def candidate(records: list[dict[str, Any]]) -> str:
    """The simplest way within half a point of the highest mean over the data sets."""
    means = {way: float(np.mean(found)) for way, found in averages(records).items()}
    return next(way for way in WAYS if means[way] >= max(means.values()) - ALIKE)


def table() -> str:
    """All ways on the images that choose, then the candidate beside today's way on the test images."""
    records = sorted(recorded(PLACE), key=lambda one: one["split"])
    first, later = ([r for r in records if r["split"] in splits] for splits in (CHOOSING, CONFIRMING))
    if len(first) < len(CHOOSING) * len(DATA):
        raise SystemExit(f"{len(first)} of {len(CHOOSING) * len(DATA)} splits that choose are there: run first")
    areas, rates = averages(first), averages(first, "fpr@95")
    lines = [f"| way | mean | {' | '.join(DATA)} |", "|---|---|" + "---|" * len(DATA)]
    for way in WAYS:
        pairs = [(np.mean(areas[way]), np.mean(rates[way])), *zip(areas[way], rates[way], strict=True)]
        lines.append(f"| {way} | {' | '.join(f'{area:.1f} ({rate:.1f})' for area, rate in pairs)} |")
    found = candidate(first)
    lines += ["", f"Candidate: {found}."]
    if found != TODAY and len(later) == len(CONFIRMING) * len(DATA):
        lines += ["", *comparison(later, TODAY, found)]
    return "\n".join(lines)


def comparison(
    records: list[dict[str, Any]], today: str, found: str, data_sets: Iterable[str] = tuple(DATA)
) -> list[str]:
    """Lines: a way less today's on the test images of fresh splits."""
    lines = [f"| test images | {today} | {found} | AUC | FPR@95 | p-value of AUC |", "|---|---|---|---|---|---|"]
    chances = []
    for data in data_sets:
        gaps = {m: values(records, data, found, m) - values(records, data, today, m) for m in ("auc", "fpr@95")}
        chance = p_value(gaps["auc"])
        chances += [] if chance is None else [chance]
        levels = [
            f"{values(records, data, way).mean():.1f} ({values(records, data, way, 'fpr@95').mean():.1f})"
            for way in (today, found)
        ]
        cells = [
            *levels,
            *(difference_cell(gap) for gap in gaps.values()),
            "–" if chance is None else f"{chance:.4f}" if chance >= 1e-4 else "< 0.0001",
        ]
        lines.append(f"| {data}, {len(gaps['auc'])} splits | {' | '.join(cells)} |")
    return [*lines, "", f"After Holm's correction {still_significant(chances)} of {len(chances)} count."]


if __name__ == "__main__":
    command("image_blends", __doc__, run, table)
