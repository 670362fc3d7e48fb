"""A run that was stopped before the package was rebuilt (commit 2e0b6bf), after the first of three epochs."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from rankreg.datasets.partitions import SHARES, stratified_parts
from rankreg.datasets.preprocessing import TablePreprocessor
from rankreg.datasets.splits import Splits, samples_of
from rankreg.fit import Source, load_source, settings
from rankreg.train import train
from tests.own_data import write_table

BEFORE = Path(__file__).parent / "before"


def as_before(splits: Splits, data: Path) -> Splits:
    """The parts as version 0.1 cut them, with numbers standardised by mean and scale."""
    rows = pd.read_csv(data)
    labels = rows["sick"].to_numpy()
    cut = stratified_parts(labels, np.arange(len(rows)), SHARES, seed=0)
    numeric = []
    for name in ("size", "weight"):
        column = rows[name].to_numpy()[cut["train"]]
        missing = np.isnan(column)
        median = float(np.median(column[~missing]))
        filled = np.where(missing, median, column)
        moments = {"mean": float(filled.mean()), "scale": float(filled.std()), "may_miss": bool(missing.any())}
        numeric.append({"name": name, "median": median, **moments})
    preprocessing = {**splits.preprocessing, "numeric": numeric}
    matrix = TablePreprocessor.from_dict(preprocessing).transform(rows)
    parts = samples_of(cut, matrix, labels, rows["name"].to_numpy())
    return replace(splits, parts=parts, preprocessing=preprocessing)


def test_a_checkpoint_from_before_is_resumed_to_the_recorded_scores(tmp_path: Path) -> None:
    shutil.copytree(BEFORE, tmp_path / "run")
    (tmp_path / "own.toml").write_text('[model]\nname = "mlp"\nhidden = [3]\n')
    data = write_table(tmp_path / "data.csv", rows=120, positives=60)
    splits = as_before(load_source(Source(data, target="sick", id_column="name"), tmp_path), data)
    config = settings("table", 0.6, file=tmp_path / "own.toml", epochs=3, method="rankreg")
    run = train(splits, config, tmp_path / "run", progress=False)
    assert [record["epoch"] for record in run.history] == [0, 1, 2]
    recorded = np.loadtxt(BEFORE / "test-scores.csv")
    np.testing.assert_allclose(run.scores["test"].values, recorded, rtol=0, atol=1e-5)
