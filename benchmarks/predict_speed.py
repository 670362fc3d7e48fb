"""`predict` beside reading the file, and where its time goes.

python -m benchmarks predict_speed
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.fit_speed import write
from benchmarks.timing import best_times, duration, verdict
from rankreg.bundle import Bundle, predict
from rankreg.bundle.ensemble import Ensemble, FittedLearner, Linear, TableViews
from rankreg.bundle.prediction import ROWS, read_chunks
from rankreg.bundle.trees import Trees
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.fit import Source, fit
from rankreg.table_files import table_chunks

TRAINING, NEW, SHARE = 5_000, 100_000, 0.04
COLUMNS = (10, 30)
CHOICES: dict[str, tuple[str, ...]] = {
    "default": (),
    "trees": ("boosting", "forest", "extra-trees"),  # the dearest average of three
    "others": ("logistic", "logistic-normal", "mlp"),  # the cheapest
}
TARGET = 2.0


def table() -> Table:
    """The model of a default fit, the dearest and the cheapest one; one thread, as `make bench` sets it."""
    result = Table(title=f"predict, {NEW:,} rows, by rounds in which all take turns")
    for column in ("columns", "members", "read", "predict", "÷ reading", "share of the time"):
        result.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for columns in COLUMNS:
            old, new = (write(Path(folder), rows, columns, SHARE) for rows in (TRAINING, NEW))
            for name, learners in CHOICES.items():
                source = Source(old, target="y", keep_copies_together=False)
                done = fit(source, Path(folder) / f"{name}-{columns}", learners=learners, progress=False)
                assert done is not None
                result.add_row(str(columns), *_row(done.bundle, new, Path(folder) / "scores.csv"))
    return result


def _row(bundle: Bundle, path: Path, out: Path) -> list[str]:
    assert isinstance(bundle.model, Ensemble)
    works: dict[str, Callable[[], object]] = {
        "read": lambda: sum(len(chunk.rows) for chunk in table_chunks(path, rows=ROWS)),
        "predict": partial(predict, bundle, path, out),
        "prepare": lambda: sum(len(chunk.ids) for chunk in read_chunks(path, bundle.card)),
    }
    preparation = TablePreprocessor.from_dict(bundle.card.preprocessing)
    rows = np.concatenate([chunk.inputs for chunk in read_chunks(path, bundle.card)])
    views = TableViews(rows, preparation)
    works |= {learner.name: partial(learner.score, views) for learner in bundle.model.learners}
    times = best_times(works, seconds=5.0, least_rounds=3)
    parts = {"read": times["read"], "prepare": times["prepare"] - times["read"]}
    parts |= {learner.name: times[learner.name] for learner in bundle.model.learners}
    shares = ", ".join(f"{name} {seconds / times['predict']:.0%}" for name, seconds in parts.items())
    return [
        ", ".join(map(_size, bundle.model.learners)),
        duration(times["read"]),
        duration(times["predict"]),
        verdict(times["predict"] / times["read"], TARGET),
        shares,
    ]


def _size(learner: FittedLearner) -> str:
    trees = sum(len(member.trees) for member in learner.members if isinstance(member, Trees))
    kind = "linear" if isinstance(learner.members[0], Linear) else f"{trees} trees" if trees else "networks"
    return f"{len(learner.members)} × {learner.name} ({kind})"
