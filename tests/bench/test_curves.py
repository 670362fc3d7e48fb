"""Two arms compared epoch by epoch."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rankreg_bench.grids import plan_run
from tests.bench.handmade import write
from tests.conftest import Run

LOSSES = ("bce", "ldam")


def test_a_comparison_ends_with_validation_auc_epoch_by_epoch(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    curves = random.uniform(0.5, 1, size=(2, 2, 3, 4))  # arms, losses, splits, epochs
    for place in np.ndindex(2, 2, 3):
        arm, loss, split = ("rankreg", "buffer")[place[0]], LOSSES[place[1]], place[2]
        plan = plan_run("compact", "cifar100-100", loss, arm, split)
        write(tmp_path, plan, validation_auc=curves[place].tolist(), best_epoch=int(curves[place].argmax()))
    words = ("compare", "rankreg", "buffer", "--test", "official", "--records", str(tmp_path))
    out = run("bench", *words)[1]
    assert "validation AUC epoch by epoch, 3 splits, 2 losses" in out
    assert "5 differences are shown" in " ".join(out.split())
    rows = list(csv.DictReader(io.StringIO(run("bench", *words, "--format", "csv")[1])))
    found = {row["measure"]: row for row in rows if row["test"] == "validation" and row["kind"] == "difference"}
    assert list(found) == ["epoch 1", "epoch 2", "epoch 3", "epoch 4", "epoch kept"]
    by_split = 100 * (curves[0] - curves[1]).mean(axis=0)  # splits, epochs
    low, high = stats.t.interval(0.95, 2, by_split[:, 2].mean(), stats.sem(by_split[:, 2]))
    assert float(found["epoch 3"]["value"]) == pytest.approx(by_split[:, 2].mean(), abs=1e-3)
    assert [float(found["epoch 3"][end]) for end in ("low", "high")] == pytest.approx([low, high], abs=1e-3)
    best = 100 * np.subtract(*curves.max(axis=-1)).mean()
    assert float(found["epoch kept"]["value"]) == pytest.approx(best, abs=1e-3)


def test_arms_that_keep_the_last_epoch_are_said_to(run: Run, tmp_path: Path) -> None:
    for arm, split in np.ndindex(2, 2):
        plan = plan_run("compact", "cifar100-100", "bce", ("rankreg-last", "buffer-last")[arm], 5 + split)
        write(tmp_path, plan, validation_auc=[0.95, 0.7 + 0.1 * arm], best_epoch=1)
    out = run("bench", "compare", "rankreg-last", "buffer-last", "--records", str(tmp_path))[1]
    assert "whatever its validation results" in " ".join(out.split())
    assert "highest validation AUC" not in out


def test_runs_of_different_length_have_no_common_epochs(run: Run, tmp_path: Path) -> None:
    for arm, epochs in (("base", 4), ("buffer", 2)):
        write(
            tmp_path,
            plan_run("compact", "cifar100-100", "bce", arm, 0),
            validation_auc=[0.7] * epochs,
            best_epoch=0,
        )
    assert "epoch by epoch" not in run("bench", "compare", "base", "buffer", "--records", str(tmp_path))[1]


def test_the_epoch_kept_is_the_runs_own_choice_not_the_highest_auc(run: Run, tmp_path: Path) -> None:
    for arm, split in np.ndindex(2, 2):
        plan = plan_run("compact", "cifar10-lt-100", "ce", ("rankreg", "buffer")[arm], split)
        write(tmp_path, plan, validation_auc=[0.95, 0.7, 0.6 + 0.1 * arm + 0.02 * split], best_epoch=2)
    out = run("bench", "compare", "rankreg", "buffer", "--records", str(tmp_path))[1]
    row = next(line for line in out.splitlines() if line.startswith(" epoch kept"))
    assert row.split()[2:5] == ["61.0", "71.0", "−10.0"]
    assert "lowest validation error of the other classes" in " ".join(out.split())
