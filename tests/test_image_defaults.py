"""The study of docs/decisions/0058 does what the page says."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks import image_defaults
from benchmarks.converged_runs import add, recorded
from benchmarks.image_defaults import SIDE, WAYS, enlarged, measured, table
from PIL import Image
from scipy.stats import ttest_rel

from rankreg.datasets import Splits
from rankreg.datasets.splits import Samples


def test_enlarged_images_are_those_of_pillow_and_keep_their_labels() -> None:
    rng = np.random.default_rng(0)
    source = rng.integers(0, 256, (50, 32, 32, 3), dtype=np.uint8)
    train, test = np.array([40, 3, 17]), np.array([9, 41])
    parts = {
        "train": Samples(source, train, np.array([0, 1, 0]), train),
        "test": Samples(source, test, np.array([1, 0]), test),
    }
    large = enlarged(Splits("some", parts))
    for name, part in parts.items():
        assert np.array_equal(large[name].labels, part.labels)
        assert np.array_equal(large[name].ids, part.ids)
        for image, row in zip(large[name].inputs(), part.rows, strict=True):
            expected = Image.fromarray(source[row]).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            assert np.array_equal(image, np.asarray(expected))


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "defaults.jsonl"
    monkeypatch.setattr(image_defaults, "PLACE", place)
    rng = np.random.default_rng(1)
    for split in range(5):
        for number, way in enumerate(WAYS):
            found = {"auc": 70 + 5 * number + rng.normal(), "fpr@95": 50 - number + rng.normal()}
            add(place, {"data": "A", "way": way, "split": split, "positives": 7, **found})
    add(place, {"data": "A", "way": "buffer", "split": 5, "positives": 7, "auc": 0.0, "fpr@95": 100.0})
    return place


def test_the_answers_are_scipys_paired_test_over_splits_that_all_ways_have(records: Path) -> None:
    areas = measured(recorded(records), "A", "auc")
    assert {len(values) for values in areas.values()} == {5}
    test = ttest_rel(areas["buffer"], areas["plain loss"])
    low, high = test.confidence_interval()
    answer = next(line for line in table().splitlines() if "buffer − plain loss" in line)
    assert f"+{(areas['buffer'] - areas['plain loss']).mean():.1f} (+{low:.1f} to +{high:.1f})" in answer
    assert f"{test.pvalue:.4f}" in answer
