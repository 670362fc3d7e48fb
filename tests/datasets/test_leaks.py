"""Columns that alone rank almost perfectly are named; chance names none."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from rankreg.datasets.column_kinds import likely_leaks
from rankreg.metrics import auc


def labels_of(positives: int, negatives: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(np.r_[np.ones(positives, int), np.zeros(negatives, int)])


def test_columns_that_know_the_outcome_are_named() -> None:
    rng = np.random.default_rng(0)
    labels = labels_of(40, 2000)
    rows = pd.DataFrame(
        {
            "noise": rng.normal(size=2040),
            "good": rng.normal(size=2040) + 2 * labels,
            "up": rng.normal(size=2040) + 9 * labels,
            "down": rng.normal(size=2040) - 9 * labels,
            "only when sick": np.where(labels == 1, rng.normal(size=2040), np.nan),
            "missing when sick": np.where(labels == 1, np.nan, rng.normal(size=2040)),
            "code": np.where(labels == 1, rng.choice(["C43", "C44"], 2040), rng.choice(["D22", "L82"], 2040)),
            "site": rng.choice(np.array(["arm", "leg", None]), 2040),
        }
    )
    found = {leak.column: leak for leak in likely_leaks(rows, labels)}
    assert found.keys() == {"up", "down", "only when sick", "missing when sick", "code"}
    assert found["up"].auc == pytest.approx(auc(labels, rows["up"]), abs=1e-12)
    assert all(leak.low <= leak.auc <= 1 for leak in found.values())
    assert likely_leaks(rows[["good", "noise"]], labels) == []


def test_numbers_that_are_categories_are_ranked_by_their_share_of_positives() -> None:
    labels = labels_of(40, 400)
    codes = np.where(labels == 1, 5, np.random.default_rng(0).choice([3, 9], 440))  # in the middle
    rows = pd.DataFrame({"code": codes})
    assert likely_leaks(rows, labels) == []
    assert [leak.column for leak in likely_leaks(rows, labels, categorical=["code"])] == ["code"]


def test_a_large_table_gives_the_same_answer() -> None:
    rng = np.random.default_rng(0)
    labels = labels_of(300, 200_000)
    rows = pd.DataFrame({"x": rng.normal(size=len(labels)), "leak": rng.normal(size=len(labels)) + 6 * labels})
    (found,) = likely_leaks(rows, labels)
    assert found.column == "leak"
    assert found.auc == pytest.approx(auc(labels, rows["leak"]), abs=1e-3)


@pytest.mark.parametrize(("positives", "negatives"), [(20, 500), (8, 60), (3, 200), (2, 8)])
def test_chance_names_no_column(positives: int, negatives: int) -> None:
    """Numbers, numbers with gaps, and categories of 2 to 200 values: fewer than 1 % of 1,000 columns."""
    rng = np.random.default_rng(0)
    count = positives + negatives
    labels = labels_of(positives, negatives)
    rows = {f"n{k}": rng.normal(size=count) for k in range(600)}
    rows |= {f"g{k}": np.where(rng.random(count) < 0.5, np.nan, rng.normal(size=count)) for k in range(200)}
    rows |= {f"c{k}": rng.integers(0, 2 + k, count).astype(str).astype(object) for k in range(200)}
    assert len(likely_leaks(pd.DataFrame(rows), labels)) < 10


def test_one_class_alone_has_no_leaks() -> None:
    assert likely_leaks(pd.DataFrame({"x": np.arange(10)}), np.zeros(10, dtype=int)) == []
