"""The demo is an experiment of the bench: it trains what it always trained, once, and shows what it measured."""

from pathlib import Path

import numpy as np
import pytest

from rankreg.datasets import load
from rankreg.train import TrainConfig, train
from rankreg_bench.grids import DATA, loader_options, plans_of
from rankreg_bench.records import RecordFolder, Selection
from rankreg_bench.runs import as_meant
from tests.own_data import run_command

METHODS = {
    "base": {"name": "none"},
    "alm": {"name": "alm"},
    "buffer": {"name": "buffer"},
    "rankreg": {"name": "rankreg", "among": "all", "weight": 1.0},  # as published
}


def config_of(arm: str, split: int) -> TrainConfig:
    """What docs/decisions/0043 reports on."""
    return TrainConfig.model_validate(
        {
            "seed": split,
            "epochs": 10,
            "batch_size": 32,
            "learning_rate": 0.02,
            "loss": "bce",
            "tpr": 0.98,
            "method": METHODS[arm],
            "model": {"name": "mlp", "hidden": (64, 64)},
            "precision": "float32",
            "device": "cpu",
        }
    )


def test_the_demo_compares_four_methods_on_eight_splits() -> None:
    plans = plans_of("demo", "demo")
    assert len(plans) == 32
    assert {plan.arm for plan in plans} == METHODS.keys()
    for plan in plans:
        assert TrainConfig.model_validate(as_meant(plan.config)) == config_of(plan.arm, plan.split)
        assert (plan.loader, plan.settings) == ("digits", {"critical": 8, "ratio": 100, "seed": plan.split})


@pytest.mark.slow
def test_the_demo_records_the_scores_of_a_plain_training_run_and_never_trains_twice(tmp_path: Path) -> None:
    done = run_command("demo", "--out", tmp_path, "--splits", "2", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert all(words in done.stdout for words in ("+ RankReg", "FPR@98", str(tmp_path / "report.html")))
    assert b"<html" in (tmp_path / "report.html").read_bytes()
    records = RecordFolder(tmp_path / "records")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*.*")}
    plans = Selection("demo", "demo", tmp_path / "records", 2).plans
    assert all(map(records.has, plans))
    for plan in (plan for plan in plans if plan.split == 1 and plan.arm in ("base", "rankreg")):
        splits = load("digits", **loader_options(DATA["digits-100"].settings), seed=1)
        alone = train(splits, config_of(plan.arm, 1), tmp_path / plan.arm, progress=False)
        assert np.array_equal(records.by_part(plan)["test"].values, alone.scores["test"].values)

    assert run_command("demo", "--out", tmp_path, "--splits", "2").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
