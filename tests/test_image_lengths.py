"""The study of docs/decisions/0059 does what the page says."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks import image_defaults, image_lengths
from benchmarks.converged_runs import add
from benchmarks.image_defaults import DATA
from benchmarks.image_lengths import CHOOSING, CONFIRMING, STEPS, TODAY, WAYS, candidate, table
from scipy.stats import ttest_rel

FIRST = next(iter(DATA))


@pytest.fixture(name="records")
def _records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both studies, where 1,000 steps of the plain loss are within half a point of the best."""
    lengths, defaults = tmp_path / "lengths.jsonl", tmp_path / "defaults.jsonl"
    monkeypatch.setattr(image_lengths, "PLACE", lengths)
    monkeypatch.setattr(image_defaults, "PLACE", defaults)
    means = {(300, "plain loss"): 70.0, (300, "oversampling"): 75.0, (1000, "plain loss"): 79.6}
    rng = np.random.default_rng(0)
    for data in DATA:
        for steps in STEPS:
            for way in WAYS:
                for split in CHOOSING:
                    found = {"auc": means.get((steps, way), 80.0), "fpr@95": 50.0}
                    add(lengths, {"data": data, "steps": steps, "way": way, "split": split, **found})
    for split in CONFIRMING:
        old, new = ({"auc": level + rng.normal(), "fpr@95": 50.0 + rng.normal()} for level in (75, 79))
        add(defaults, {"data": FIRST, "way": "oversampling", "split": split, **old})
        add(defaults, {"data": FIRST, "way": "plain loss", "split": split, "auc": 0.0, "fpr@95": 100.0})
        add(lengths, {"data": FIRST, "steps": 1000, "way": "plain loss", "split": split, **new})


@pytest.mark.usefixtures("records")
def test_the_shortest_and_simplest_within_half_a_point_is_the_candidate() -> None:
    assert candidate() == (1000, "plain loss")


@pytest.mark.usefixtures("records")
def test_the_candidate_is_compared_by_scipys_paired_test_on_other_splits() -> None:
    new, old = (
        [r["auc"] for r in image_lengths.confirmed(choice).values() if r["data"] == FIRST]
        for choice in ((1000, "plain loss"), TODAY)
    )
    assert len(new) == len(old) == len(CONFIRMING)
    test = ttest_rel(new, old)
    low, high = test.confidence_interval()
    answer = next(line for line in table().splitlines() if line.startswith(f"| {FIRST} | {len(CONFIRMING)} |"))
    assert f"+{np.subtract(new, old).mean():.1f} (+{low:.1f} to +{high:.1f})" in answer
    assert f"{test.pvalue:.4f}" in answer


def test_nothing_is_chosen_before_all_runs_that_choose_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_lengths, "PLACE", tmp_path / "none.jsonl")
    with pytest.raises(SystemExit, match="0 of 72"):
        candidate()
