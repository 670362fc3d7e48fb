"""The label-noise table: what is averaged over the shares of flipped labels."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.metrics import roc_auc_score

from rankreg_bench.grids import plans_of
from rankreg_bench.records import RecordFolder
from tests.bench.handmade import write
from tests.conftest import Run

SHARES = ("cifar10-100-noise-20", "cifar10-100-noise-50")
ONLY = ("cifar10-100", *SHARES, "buffer", "rankreg")
QUALITY = {"cifar10-100": 1.5, SHARES[0]: 1.0, SHARES[1]: 0.4}


def test_differences_are_averaged_over_noisy_shares_within_splits_before_the_t_test(
    run: Run, tmp_path: Path
) -> None:
    aucs = {}
    for plan in plans_of("label-noise", "compact", splits=4, only=ONLY):
        write(tmp_path, plan, quality=QUALITY[plan.data] * (1.1 + 0.1 * plan.split * (plan.arm == "rankreg")))
        test = RecordFolder(tmp_path).by_part(plan)["test"]
        aucs[plan.data, plan.arm, plan.split] = 100 * roc_auc_score(test.labels, test.values)
    wanted = [
        np.mean([aucs[data, "rankreg", split] - aucs[data, "buffer", split] for data in SHARES])
        for split in range(4)
    ]
    words = [word for name in ONLY for word in ("--only", name)]
    command = ("bench", "table", "label-noise", "--test", "official", "--splits", "4", *words)
    status, out, _ = run(*command, "--format", "csv", "--records", str(tmp_path))
    assert status == 0
    (row,) = (
        row
        for row in csv.DictReader(io.StringIO(out))
        if (row["data"], row["measure"], row["kind"]) == ("cifar10-100-noise", "auc", "difference")
    )
    oracle = ttest_1samp(wanted, 0)
    assert float(row["value"]) == pytest.approx(np.mean(wanted), abs=1e-3)
    assert [float(row["low"]), float(row["high"])] == pytest.approx(list(oracle.confidence_interval()), abs=2e-3)
    text = run(*command, "--records", str(tmp_path))[1]
    assert "averaged over the shares of flipped labels within each split" in " ".join(text.split())


def test_nothing_is_averaged_while_a_share_is_missing(run: Run, tmp_path: Path) -> None:
    for plan in plans_of("label-noise", "compact", splits=2, only=("cifar10-100", SHARES[0], "buffer", "rankreg")):
        write(tmp_path, plan)
    text = run("bench", "table", "label-noise", "--splits", "2", "--records", str(tmp_path))[1]
    assert "RankReg (scores) − buffer" in text
    assert "averaged over" not in text
