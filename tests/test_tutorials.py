"""The tutorials run, write into temporary folders only, and compute what their sentences say."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom, norm, ttest_1samp
from sklearn.metrics import recall_score, roc_auc_score

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs/tutorials"
PROGRAM = """
import json, runpy, sys
names = runpy.run_path(sys.argv[1], run_name="__main__")
facts = {name: eval(name, names) for name in sys.argv[2:]}
print(json.dumps(facts, default=lambda value: value.tolist()))
"""

pytestmark = pytest.mark.slow


def computed(script: str, home: Path, *expressions: str) -> dict[str, Any]:
    """Run a tutorial in an empty folder; then the values of expressions over its names."""
    work, temporary = home / "work", home / "temporary"
    work.mkdir()
    temporary.mkdir()
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": str(temporary),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONUTF8": "1",
        "TMPDIR": str(temporary),
    }
    command = [sys.executable, "-c", PROGRAM, str(TUTORIALS / script), "len(plt.get_fignums())", *expressions]
    run = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert list(work.iterdir()) == []
    facts: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    assert facts.pop("len(plt.get_fignums())") >= 1
    return facts


def test_there_is_a_test_for_every_tutorial() -> None:
    tested = {"operating_point.py", "own_images.py", "own_table.py", "pytorch_loop.py"}
    assert {script.name for script in TUTORIALS.glob("*.py")} == tested


def test_the_gain_of_the_buffer_is_there_early_and_not_significant_late(tmp_path: Path) -> None:
    curves, early, late, batches = computed(
        "pytorch_loop.py",
        tmp_path,
        "{name: runs.tolist() for name, runs in curves.items()}",
        "list(early.values())",
        "list(late.values())",
        "positives_per_batch",
    ).values()
    assert sum(batches) == 8
    assert 0.3 < batches.count(0) / len(batches) < 0.7  # about half have none
    runs = {name: np.array(values) for name, values in curves.items()}
    pairs = [("buffer", "plain loss"), ("buffer", "balanced sampling"), ("buffer and term", "buffer")]
    for found, epoch in ((early, 7), (late, -1)):
        for (mean, low, high), (one, other) in zip(found, pairs, strict=True):
            paired = runs[one][:, epoch] - runs[other][:, epoch]
            interval = ttest_1samp(paired, 0).confidence_interval(1 - 0.05 / 6)
            np.testing.assert_allclose([mean, low, high], [paired.mean(), interval.low, interval.high])
    assert early[0][2] < 0
    assert all(low < 0 < high for _, low, high in [*early[1:], *late])
    plain, buffer = runs["plain loss"].mean(axis=0), runs["buffer"].mean(axis=0)
    assert plain[7] - buffer[7] > 4 * abs(plain[-1] - buffer[-1])  # the plain loss catches up
    assert abs(buffer[4] - buffer[-1]) < 5  # the buffer is there after five epochs


def test_the_table_keeps_its_promise_and_the_leak_catches_nothing(tmp_path: Path) -> None:
    found = computed(
        "own_table.py",
        tmp_path,
        "description[0]",
        "[threshold.kind, threshold.calibration_positives, threshold.value]",
        "[[one.fpr.estimate, one.fpr.low, one.fpr.high] for one in fitted.race]",
        "[fitted.judged.fpr.estimate, fitted.judged.fpr.low, fitted.judged.fpr.high]",
        "[predicted.samples, predicted.unreadable, pd.read_csv(folder / 'scores.csv')['alarm'][7]]",
        "[labels, scores]",
        "[truth.recall.estimate, truth.recall.low, truth.fpr.estimate]",
        "[leaked.judged.recall.estimate, leaked.judged.fpr.estimate, leaked_truth.recall.estimate]",
        "(folder / 'model' / 'report.html').exists()",
    )
    leak, threshold, race, judged, predicted, scores, truth, leaked, report = found.values()
    assert "'recovered'" in leak
    assert threshold[0] == "cross-fitted"
    assert 29 / threshold[1] > 1 / 3  # what certifying would set aside
    lows, highs = [low for _, low, _ in race], [high for _, _, high in race]
    assert max(lows) < min(highs)  # no learner stands out
    assert race[-1][0] < judged[0]  # the margin is paid in false alarms
    assert predicted == [1000, 1, 1]
    labels, values = map(np.array, scores)
    assert truth[0] == recall_score(labels, values >= threshold[2])
    assert truth[1] > 0.9
    assert judged[0] / 2 < truth[2] < judged[0]  # somewhat fewer false alarms than out of fold
    assert leaked[0] > 0.9
    assert leaked[1] < 0.01
    assert leaked[2] == 0
    assert report


def test_cracked_tiles_are_caught_as_promised(tmp_path: Path) -> None:
    found = computed(
        "own_images.py",
        tmp_path,
        "suspected_groups(names)",
        "[threshold.kind, threshold.per, threshold.units]",
        "[int(caught), len(cracked_tiles)]",
        "[share.low, share.high]",
        "[labels, scores]",
        "float(np.mean(alarms[labels == 0]))",
        "threshold.value",
    )
    suspicion, threshold, (caught, tiles), share, (labels, scores), fpr, value = found.values()
    assert suspicion is not None
    assert threshold == ["cross-fitted", "unit", 50]
    missed = tiles - caught
    low = beta.ppf(0.025, caught, missed + 1)
    high = beta.ppf(0.975, caught + 1, missed) if missed else 1.0
    np.testing.assert_allclose(share, [low, high])
    assert high > 0.9  # the promise is not contradicted
    assert fpr < 0.1  # a few second looks per hundred
    caught_photos = recall_score(labels, np.array(scores) >= value)
    assert caught_photos < caught / tiles  # the second photo pays
    assert roc_auc_score(labels, scores) > 0.9


def test_the_operating_point_holds_and_each_watch_sees_its_own_change(tmp_path: Path) -> None:
    found = computed(
        "operating_point.py",
        tmp_path,
        "[broken['usual'], broken['certified']]",
        "[wish.threshold, conflict.more_positives]",
        "[review.review_from, review.alarm_from]",
        "[[one.fpr.low, one.fpr.high] for one in (whole, part)]",
        "[watches[name].alarm_at for name in clinics]",
        "[drifts[name].alarm_at for name in clinics]",
        "[checked.verdict, checked.point.threshold, point.threshold]",
        "'torch' in __import__('sys').modules",
    )
    broken, wish, review, compared, watches, drifts, checked, torch = found.values()
    assert 0.4 < broken[0] < 0.65
    assert broken[1] * 400 <= binom.ppf(0.999, 400, 0.05)
    assert wish == [None, None]
    assert norm.sf(review[0], 2.5) > 0.95
    alarms = [0.05 * norm.sf(review[1], 2.5), 0.95 * norm.sf(review[1])]
    assert alarms[0] / sum(alarms) > 0.8
    assert compared[0][1] < 0
    assert compared[1][0] < 0 < compared[1][1]
    assert watches[0] is not None
    assert watches[1] is None
    assert drifts[0] is None
    assert drifts[1] is not None
    assert checked[0] == "fallen"
    assert checked[1] < checked[2]
    assert not torch
