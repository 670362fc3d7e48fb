"""Stratified parts with groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankreg.datasets.partitions import FEWEST, SHARES, apportion, check_both_classes, linked, stratified_parts

seeds = st.integers(0, 2**32)


@given(
    groups=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=60),
    seed=seeds,
)
def test_every_sample_is_in_one_part_and_no_group_in_two(groups: list[tuple[int, int]], seed: int) -> None:
    codes = np.repeat(np.arange(len(groups)), [size for size, _ in groups])
    labels = np.repeat([label for _, label in groups], [size for size, _ in groups])
    parts = stratified_parts(labels, codes, SHARES, seed=seed)
    assert np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(len(labels)))
    homes = [set(codes[rows]) for rows in parts.values()]
    assert sum(map(len, homes)) == len(groups)


@given(negatives=st.integers(8, 300), positives=st.integers(8, 60), seed=seeds)
def test_single_samples_are_shared_out_exactly_by_class(negatives: int, positives: int, seed: int) -> None:
    labels = np.repeat([0, 1], [negatives, positives])
    parts = stratified_parts(labels, np.arange(len(labels)), SHARES, seed=seed)
    for label, total in ((0, negatives), (1, positives)):
        found = np.array([np.count_nonzero(labels[rows] == label) for rows in parts.values()])
        wanted = np.array(list(SHARES.values())) * total
        assert found.min() >= FEWEST
        if wanted.min() >= FEWEST:
            assert np.abs(found - wanted).max() < 1


@given(seed=st.integers(0, 1000))
def test_patients_with_several_positives_spread_in_proportion(seed: int) -> None:
    generator = np.random.default_rng(seed)
    patients = generator.integers(0, 300, 4000)
    labels = (generator.random(4000) < 0.02).astype(np.int64)
    parts = stratified_parts(labels, patients, {"train": 0.7, "validation": 0.1, "test": 0.2}, seed=seed)
    total = labels.sum()
    for rows, share in zip(parts.values(), (0.7, 0.1, 0.2), strict=True):
        assert abs(labels[rows].sum() - share * total) <= 2
        assert abs(len(rows) - share * 4000) < 40


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_a_groups_chance_of_a_part_does_not_depend_on_its_size(size: int) -> None:
    """Otherwise the calibration part would hold small groups only, and certify nothing about large ones. The share
    of groups of a size that go to a part is a mean of 400 cuts: its standard error is below 0.012."""
    sizes = np.repeat([1, 2, 5, 20], [60, 30, 12, 4])
    groups = np.repeat(np.arange(len(sizes)), sizes)
    found = dict.fromkeys(SHARES, 0.0)
    for seed in range(400):
        for name, rows in stratified_parts(np.ones(len(groups), dtype=np.int64), groups, SHARES, seed=seed).items():
            found[name] += float(np.mean(np.isin(np.flatnonzero(sizes == size), groups[rows]))) / 400
    assert found == pytest.approx(SHARES, abs=0.04)
    first = stratified_parts(np.ones(len(groups), dtype=np.int64), groups, SHARES, seed=0, largest_first=True)
    assert (sizes[groups[first["calibration"]]] < 20).all()  # what the older rule does


def test_samples_that_share_any_code_are_linked() -> None:
    copies, patients = np.array([0, 1, 0, 2, 3, 4]), np.array([7, 7, 8, 9, 9, 1])
    found = linked(copies, patients)
    np.testing.assert_array_equal(found[:, None] == found, np.equal.outer([0, 0, 0, 1, 1, 2], [0, 0, 0, 1, 1, 2]))
    np.testing.assert_array_equal(linked(copies), copies)


def test_another_seed_gives_another_split_and_the_same_seed_the_same() -> None:
    labels, groups = np.repeat([0, 1], [500, 50]), np.arange(550)
    first, again, other = (stratified_parts(labels, groups, SHARES, seed=seed)["test"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@given(seed=seeds, member=st.integers(1, 20))
def test_members_of_an_ensemble_differ_in_training_and_agree_on_what_judges_them(seed: int, member: int) -> None:
    labels, groups = np.repeat([0, 1], [300, 40]), np.arange(340) // 2
    first, other = (stratified_parts(labels, groups, SHARES, seed=seed, member=k) for k in (0, member))
    for part in ("calibration", "test"):
        np.testing.assert_array_equal(first[part], other[part])
    assert not np.array_equal(first["train"], other["train"])
    assert sorted(np.r_[other["train"], other["validation"]]) == sorted(np.r_[first["train"], first["validation"]])
    assert len(np.intersect1d(groups[other["train"]], groups[other["validation"]])) == 0
    assert len(other["validation"]) == pytest.approx(len(first["validation"]), abs=4)


@given(total=st.integers(0, 10_000), shares=st.lists(st.floats(0.01, 1), min_size=1, max_size=6))
def test_apportioned_counts_add_up(total: int, shares: list[float]) -> None:
    counts = apportion(total, shares)
    assert counts.sum() == total
    assert counts.min() >= (FEWEST if total >= FEWEST * len(shares) else 0)


def test_too_few_or_no_samples_of_a_class_is_an_error_that_says_how_many_are_needed() -> None:
    with pytest.raises(ValueError, match="only 2 positive samples: at least 8 are needed, 2 for each of train"):
        check_both_classes(np.repeat([0, 1], [100, 2]), SHARES, ("negative", "positive"))
    with pytest.raises(ValueError, match="no positive samples: all 100 belong to one class"):
        check_both_classes(np.zeros(100, dtype=np.int64), SHARES, ("negative", "positive"))
    with pytest.raises(ValueError, match="no negative samples"):
        check_both_classes(np.ones(100, dtype=np.int64), SHARES, ("negative", "positive"))


@pytest.mark.parametrize("shares", [{"train": 0.5, "test": 0.0}, {"test": 1.0}, {"train": float("nan")}])
def test_shares_must_be_above_zero_and_include_training(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares must be"):
        stratified_parts(np.array([0, 1]), np.arange(2), shares, seed=0)
