"""The share of the gap between the base loss and the same network with all positives."""

import re
from pathlib import Path

import numpy as np
import pytest

from rankreg.scores import Scores
from rankreg_bench.gains import Gap, gap_of
from rankreg_bench.grids import plan_run
from rankreg_bench.records import Cell, Outcome, RecordFolder, Selection
from rankreg_bench.tables import pages_of
from tests.bench.handmade import write
from tests.conftest import Run

LABELS = np.repeat([1, 0], [50, 200])
ALARMS = {"base": 120, "buffer": 80, "rankreg": 40, "alm": 150}  # negatives above every positive
HAM, ALL = "ham10000-170", "ham10000-all"


def alarming(folder: Path, data: str, arm: str, alarms: int, *, first_id: int = 0) -> None:
    """A run whose false alarms are known at every TPR."""
    values = np.where(LABELS == 1, 0.5, np.arange(250) < 50 + alarms).astype(np.float64)
    scores = {"test": Scores(np.arange(250) + first_id, LABELS, values)}
    RecordFolder(folder).write(plan_run("compact", data, "bce", arm, 0), Outcome({}, scores))


def gap(folder: Path, **changes: int) -> Gap:
    """The gap from 120 alarms to the ceiling's 20."""
    for arm, alarms in ALARMS.items():
        alarming(folder, HAM, arm, alarms)
    alarming(folder, ALL, "base", **{"alarms": 20, **changes})
    selection = Selection("ham10000", "compact", folder, 1)
    found = gap_of(selection, selection.grids("official")[0], HAM)
    assert found is not None
    return found


def test_an_arm_closes_its_share_of_the_way_to_the_ceiling(tmp_path: Path) -> None:
    shares = gap(tmp_path).shares
    for measure in ("fpr@98", "fpr@90", "auc"):
        found = {arm: each[measure] for arm, each in shares.items()}
        assert {arm: round(one.estimate) for arm, one in found.items() if one} == {
            "alm": -30,
            "buffer": 40,
            "rankreg": 80,
        }
        assert all(one and one.low < one.estimate < one.high for one in found.values())
    assert "base" not in shares


def test_the_interval_covers_the_share_as_often_as_it_says() -> None:
    """Alarms of nested arms are nested binomial counts: the true share is known."""
    random, rates, inside = np.random.default_rng(0), {"base": 0.6, "buffer": 0.35, "far": 0.1}, 0
    for _ in range(100):
        drawn = random.random(200)  # the same negatives for all three
        cells = {}
        for arm, rate in rates.items():
            values = np.append(np.full(50, 0.5), drawn < rate).astype(np.float64)
            cells[arm] = Cell(HAM, 1, {0: Scores(np.arange(250), LABELS, values)})
        share = Gap({"base": cells["base"], "buffer": cells["buffer"]}, cells["far"], "compact").shares["buffer"][
            "fpr@95"
        ]
        inside += share is not None and share.low <= 50 <= share.high
    assert 88 <= inside <= 100


def test_without_a_gap_there_is_no_share_of_it(tmp_path: Path) -> None:
    found = gap(tmp_path, alarms=119)
    assert found.shares["buffer"]["fpr@95"] is None
    assert {row.entries[1].value for row in found.block().rows[1:5]} >= {"no gap"}


def test_a_ceiling_of_other_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ham10000-ceiling was scored on other samples than the runs of ham10000"):
        gap(tmp_path, first_id=7)


def test_only_splits_that_the_ceiling_has_too_are_set_against_it(tmp_path: Path) -> None:
    for arm, data, splits in (
        ("base", HAM, (0, 1)),
        ("buffer", HAM, (0, 1)),
        ("rankreg", HAM, (1,)),
        ("base", ALL, (0,)),
    ):
        for split in splits:
            write(tmp_path, plan_run("compact", data, "bce", arm, split), parts=["test"])
    selection = Selection("ham10000", "compact", tmp_path, 2)
    found = gap_of(selection, selection.grids("official")[0], HAM)
    assert found is not None
    assert (found.arms["base"].splits, found.arms["buffer"].splits, found.ceiling.splits) == ((0,), (0,), (0,))
    assert list(found.shares) == ["buffer"]


def test_the_table_shows_the_ceiling_once_it_is_recorded(run: Run, tmp_path: Path) -> None:
    for arm in ("base", "buffer"):
        write(tmp_path, plan_run("compact", HAM, "bce", arm, 0), parts=["validation", "test"])
    words = ("bench", "table", "ham10000", "--splits", "1", "--records", str(tmp_path))
    assert "1 of 1 runs are missing: rankreg bench run ham10000-ceiling" in run(*words)[1]
    write(tmp_path, plan_run("compact", ALL, "bce", "base", 0), parts=["validation", "test"], quality=3.0)
    status, out, _ = run(*words)
    assert status == 0
    assert re.search(r"\n ceiling +\d", out)
    assert "run ham10000-ceiling" not in out
    (page,) = pages_of(Selection("ham10000", "compact", tmp_path, 1))
    assert {n.arm for n in page.numbers if n.kind == "share of the gap"} == {"buffer"}
