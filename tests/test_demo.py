"""The demo claims what it measured and no more."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from rankreg.demo import ARMS, contrasts, mean_of, result_table, results_of, run_all, verdict_lines
from rankreg.demo.statistics import METRICS
from rankreg.metrics import auc, fpr_at_tpr
from rankreg.operating.repeats import Estimate
from rankreg.scores import Scores
from tests.own_data import run_command


def test_an_interval_over_splits_is_students() -> None:
    values = [31.0, 28.5, 40.25, 35.0, 29.0]
    found, expected = mean_of(values), ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert mean_of([3.0]) == Estimate(3.0, None, None)


def test_a_contrast_is_paired_by_split() -> None:
    rng = np.random.default_rng(0)
    results = {name: rng.normal(40, 10, (5, len(METRICS))) for name in ARMS}
    found = contrasts(results)["ranking"]["FPR@95"]
    expected = ttest_rel(results["rankreg"][:, 1], results["buffer"][:, 1]).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_results_are_those_of_the_metrics_in_percent() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [80, 20])
    scores = Scores(np.arange(100), labels, rng.normal(size=100) + labels)
    expected = [100 * fpr_at_tpr(labels, scores.values, tpr) for tpr in (0.98, 0.95, 0.9)]
    found = results_of({"bce": [scores]})["bce"]
    assert found[0].tolist() == pytest.approx([*expected, 100 * auc(labels, scores.values)])


def test_a_verdict_never_goes_beyond_its_interval() -> None:
    rows = np.array([[50.0, 40, 30, 90], [52, 41, 31, 91], [51, 42, 29, 90]])
    noise = np.array([[20.0], [-20], [1]])
    results = {"bce": rows, "buffer": rows - [[10, 11, 12, 0], [11, 12, 10, 0], [12, 10, 11, 0]]}
    results["rankreg"] = results["buffer"] + noise
    lines = verdict_lines(contrasts(results), 3)
    start = lines.index("What the buffer adds to BCE (BCE + buffer less BCE, split by split):")
    assert all("fewer false alarms here" in line for line in lines[start + 1 : start + 4])
    start = next(k for k, line in enumerate(lines) if line.startswith("What the ranking term adds to the buffer"))
    assert all("no verdict, 0 is inside" in line for line in lines[start + 1 : start + 4])


@pytest.mark.slow
def test_runs_in_processes_are_finished_once_and_then_read(tmp_path: Path) -> None:
    first = run_all(tmp_path, arms=["bce", "rankreg"], splits=2, workers=2)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("last.pt")}
    assert len(stamps) == 4
    again = run_all(tmp_path, arms=["bce", "rankreg"], splits=2)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("last.pt")} == stamps
    for name, scores in first.items():
        for one, other in zip(scores, again[name], strict=True):
            assert np.array_equal(one.values, other.values)
    alone = run_all(tmp_path / "alone", arms=["rankreg"], splits=1, workers=1)
    assert np.array_equal(alone["rankreg"][0].values, first["rankreg"][0].values)
    assert result_table(results_of(first)).row_count == 2


@pytest.mark.slow
def test_the_demo_prints_a_table_its_verdicts_and_where_the_files_are(tmp_path: Path) -> None:
    done = run_command("demo", "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    for words in ("BCE + RankReg", "FPR@98", "What the ranking term adds", str(tmp_path / "demo")):
        assert words in done.stdout
