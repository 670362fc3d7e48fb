"""Does a second network still help beside pretrained features? The last question of docs/decisions/0066.

python -m benchmarks.image_features run      # adds the runs that have no record
python -m benchmarks.image_features table    # answers from the records
"""

import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.converged_runs import RECORDS, command, recorded, train_all
from benchmarks.image_blends import NETWORKS, comparison, config_of, measured, network_of, standardised
from benchmarks.image_defaults import DATA, enlarged
from rankreg.backbones import load_backbone
from rankreg.bundle.ensemble import FrozenBackbone, ImageViews
from rankreg.datasets import Splits, load
from rankreg.fit.learners import Folds, frozen
from rankreg.models import BackboneShape
from rankreg.pool import keep_freed_memory
from rankreg_bench.grids import TestSet
from rankreg_bench.records import parts_of
from rankreg_bench.runs import provenance

PLACE = RECORDS / "images/features.jsonl"
SPLITS = range(20, 30)  # no other study has used them
WAYS = {
    "features": ("features",),
    "features, oversampling": ("features", "oversampling"),
    "features, oversampling, plain": ("features", "oversampling", "plain"),
}
TODAY, NEW = list(WAYS)[1:]


@cache
def backbone() -> FrozenBackbone:
    """The pretrained network that `fit` takes by default."""
    shape = BackboneShape()
    return FrozenBackbone(load_backbone(shape.name), shape)


@cache
def known_features(data: str) -> dict[Any, NDArray[np.float32]]:
    """The features of a data set's images that this process has computed, by id: splits share most of them."""
    return {}


def features_of(data: str, splits: Splits, parts: Sequence[str]) -> NDArray[np.float32]:
    """The features of these parts, (N, D)."""
    known, found = known_features(data), []
    for part in (splits[name] for name in parts):
        new = np.array([place for place, one in enumerate(part.ids.tolist()) if one not in known], dtype=np.int64)
        if len(new):
            rows = backbone().features(part.inputs(new))
            known.update(zip(part.ids[new].tolist(), rows, strict=True))
        found += [known[one] for one in part.ids.tolist()]
    return np.stack(found)


def scores_of_features(data: str, splits: Splits, parts: Sequence[str]) -> NDArray[np.float64]:
    """Scores of these parts by the learner "frozen", trained on all training images, in units of their spread."""
    rows, labels = features_of(data, splits, ["train"]), splits["train"].labels
    all_train = Folds(np.ones((1, len(labels)), dtype=np.int64), 1)  # no row is in the fold of the only member
    (member,) = frozen().fit(ImageViews(splits["train"].inputs(), known=rows), labels, all_train)
    on_train, scores = member.score(rows), member.score(features_of(data, splits, parts))
    return np.asarray((scores - on_train.mean()) / on_train.std(), dtype=np.float64)


def scored(data: str, split: int, *tests: TestSet) -> tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    """Labels and every learner's scores, on the first of these test sets that the data have."""
    torch.set_num_threads(1)
    keep_freed_memory()
    loader, options = DATA[data]
    splits = enlarged(load(loader, None, **options, seed=split))
    parts = next(names for test in tests if (names := parts_of(test, splits.parts)))
    labels = np.concatenate([splits[part].labels for part in parts])
    found = {"features": scores_of_features(data, splits, parts)}
    for name in ("oversampling", "plain"):
        model = network_of(splits, config_of(splits, split, NETWORKS[name]), None)
        found[name] = standardised(model, splits, parts, mirror=False)
    return labels, found


def trained(asked: tuple[str, int]) -> dict[str, Any]:
    """The learners of a split, by data and split: the record has the measures of every way."""
    data, split = asked
    start = time.perf_counter()
    labels, found = scored(data, split, "extended", "official")
    return {
        "data": data,
        "split": split,
        "measures": {
            way: measured(labels, np.mean([found[n] for n in names], axis=0)) for way, names in WAYS.items()
        },
        "seconds": round(time.perf_counter() - start, 1),
        **provenance(),
    }


def run(workers: int) -> None:
    """Train what has no record."""
    done = {(one["data"], one["split"]) for one in recorded(PLACE)}
    wanted = [(data, split) for split in SPLITS for data in DATA]
    train_all(trained, (one for one in wanted if one not in done), PLACE, workers)


def table() -> str:
    """The average with both networks beside the average with one."""
    records = sorted(recorded(PLACE), key=lambda one: one["split"])
    if len(records) < len(SPLITS) * len(DATA):
        raise SystemExit(f"{len(records)} of {len(SPLITS) * len(DATA)} runs are recorded: run first")
    return "\n".join(comparison(records, TODAY, NEW))


if __name__ == "__main__":
    from benchmarks import image_features  # workers import it by name, and so keep the features between two runs

    command("image_features", __doc__, image_features.run, image_features.table)
