"""Records made by hand: scores of known quality, in place of training."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rankreg.scores import Scores
from rankreg_bench.grids import RunPlan, plans_of
from rankreg_bench.records import Outcome, RecordFolder

SIZES = {"validation": (20, 30), "tuning": (20, 30), "test": (40, 80), "extended": (60, 0)}  # positives, negatives
QUALITY = {"base": 0.5, "alm": 0.7, "buffer": 1.0, "rankreg": 1.2}


def part(name: str, quality: float, seed: int, classes: int = 2) -> Scores:
    """Scores of one part: ids and labels are the same for every run."""
    positives, negatives = SIZES[name]
    count = positives + negatives
    ids = np.arange(count) + 1000 * list(SIZES).index(name)
    random = np.random.default_rng([seed, list(SIZES).index(name)])
    if classes == 2:
        labels = np.repeat([1, 0], [positives, negatives]).astype(np.int64)
        return Scores(ids, labels, (random.normal(size=count) + quality * labels).astype(np.float32))
    labels = np.arange(count) % classes
    logits = random.normal(size=(count, classes))
    logits[np.arange(count), labels] += quality
    return Scores(ids, labels, logits.astype(np.float32))


def write(
    folder: Path,
    plan: RunPlan,
    parts: Iterable[str] = tuple(SIZES),
    quality: float | None = None,
    seconds: float = 60,
    **more: Any,
) -> None:
    """A record of one run."""
    level = QUALITY.get(plan.arm, 0.8) if quality is None else quality
    seed = plan.split * 31 + sum(map(ord, plan.loss + plan.arm))
    scores = {name: part(name, level, seed, 10 if "-lt-" in plan.data else 2) for name in parts}
    RecordFolder(folder).write(plan, Outcome({"seconds": {"total": seconds}, **more}, scores))


def write_all(
    folder: Path, name: str, preset: str = "compact", *, splits: int = 3, only: Iterable[str] = ()
) -> None:
    """Records of a whole experiment."""
    for plan in plans_of(name, preset, splits=splits, only=tuple(only)):
        write(folder, plan)
