"""Partitions, draws, long tails and noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankreg.datasets.cifar import PARTITIONS
from rankreg.datasets.partitions import (
    Partition,
    binary_split,
    flip_labels,
    long_tail_counts,
    partition_class,
    shuffled,
    thinned,
)

seeds = st.integers(0, 2**32)


def pair(size: int, negatives: int, positives: int = 1) -> dict[int, np.ndarray]:
    """Classes 0 … with `size` samples each, laid out one after the other."""
    return {k: np.arange(k * size, (k + 1) * size) for k in range(negatives + positives)}


def split(name: str, ratio: float, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    size, negatives = (5000, 1) if name == "cifar10" else (500, 5)
    members = pair(size, negatives)
    parts = binary_split(members, range(negatives), [negatives], sizes=PARTITIONS[name], ratio=ratio, seed=seed)
    first = size * negatives
    return {part: (rows[rows < first], rows[rows >= first]) for part, rows in parts.items()}


@pytest.mark.parametrize(
    ("name", "ratio", "negatives", "positives"),
    [
        ("cifar10", 100, 4410, 44),
        ("cifar10", 200, 4410, 22),
        ("cifar100", 100, 2025, 20),
        ("cifar100", 200, 2025, 10),
    ],
)
def test_training_counts_are_those_of_the_protocol(name: str, ratio: float, negatives: int, positives: int) -> None:
    no, yes = split(name, ratio, seed=0)["train"]
    assert (len(no), len(yes)) == (negatives, positives)


@given(name=st.sampled_from(["cifar10", "cifar100"]), ratio=st.floats(8, 400), seed=seeds)
def test_parts_of_a_split_are_disjoint(name: str, ratio: float, seed: int) -> None:
    parts = split(name, ratio, seed)
    everything = np.concatenate([side for sides in parts.values() for side in sides])
    assert len(np.unique(everything)) == len(everything)


@settings(max_examples=25)
@given(name=st.sampled_from(["cifar10", "cifar100"]), ratios=st.tuples(st.floats(8, 400), st.floats(50, 400)))
def test_what_one_split_trains_on_no_other_split_is_judged_by(name: str, ratios: tuple[float, float]) -> None:
    trained = np.concatenate([np.concatenate(split(name, ratios[0], seed)["train"]) for seed in range(10)])
    judged = {
        part: np.concatenate(split(name, ratios[0], 10**6)[part]) for part in ("validation", "tuning", "extended")
    }
    assert not np.isin(trained, np.concatenate(list(judged.values()))).any()
    other = split(name, ratios[1], 77)  # another ratio leaves validation and tuning as they are
    for part in ("validation", "tuning"):
        np.testing.assert_array_equal(np.concatenate(other[part]), judged[part])


def test_ten_splits_are_different_draws() -> None:
    draws = [split("cifar10", 100, seed)["train"] for seed in range(10)]
    for side, most_shared in ((0, 0.97), (1, 0.25)):
        for k in range(10):
            for other in range(k):
                shared = np.isin(draws[k][side], draws[other][side]).mean()
                assert shared < most_shared


def test_every_negative_of_the_pool_is_trained_on_by_some_split() -> None:
    used = np.unique(np.concatenate([split("cifar10", 100, seed)["train"][0] for seed in range(10)]))
    assert len(used) == 5000 - 100 - 245


def test_the_rarer_training_set_is_part_of_the_less_rare_one_with_the_same_seed() -> None:
    few, many = (split("cifar100", ratio, 5)["train"][1] for ratio in (200, 100))
    assert set(few) < set(many)


def test_a_low_ratio_takes_from_the_extended_test_only() -> None:
    usual, greedy = split("cifar10", 100, 0), split("cifar10", 1.5, 0)
    assert len(greedy["train"][1]) == 2940
    for part in ("validation", "tuning"):
        np.testing.assert_array_equal(greedy[part][1], usual[part][1])
    assert set(greedy["extended"][1]) < set(usual["extended"][1])


def test_a_ratio_that_needs_more_positives_than_there_are_says_so() -> None:
    with pytest.raises(ValueError, match="4000 are left to train on, 4410 are needed; raise the ratio"):
        split("cifar10", 1, 0)
    with pytest.raises(ValueError, match="leave no positive: lower the ratio"):
        split("cifar10", 5000, 0)
    for ratio in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="ratio must be a number above 0"):
            split("cifar10", ratio, 0)


def test_several_positive_classes_share_the_count_evenly() -> None:
    sizes = Partition(validation=10)
    parts = binary_split(pair(100, 2, 3), [0, 1], [2, 3, 4], sizes=(sizes, sizes), ratio=10, seed=0)
    assert np.bincount(parts["train"] // 100, minlength=5).tolist() == [81, 81, 6, 5, 5]


@given(size=st.integers(1, 300), data=st.data())
def test_a_partition_uses_every_member_once(size: int, data: st.DataObject) -> None:
    validation, test, tuning = (data.draw(st.integers(0, (size - 1) // 3)) for _ in range(3))
    sizes = Partition(validation, tuning, data.draw(st.integers(0, size - 1 - validation - test - tuning)), test)
    members = np.arange(size) * 3 + 1
    parts = partition_class(members, sizes, label=4)
    assert np.array_equal(np.sort(np.concatenate(list(parts.values()))), members)
    assert {part: len(parts[part]) for part in ("validation", "test", "tuning", "extended")} == {
        "validation": validation,
        "test": test,
        "tuning": tuning,
        "extended": sizes.extended,
    }


def test_an_order_is_the_same_on_every_version_of_numpy() -> None:
    assert shuffled(np.arange(8), 1, 0, 9).tolist() == [6, 2, 0, 4, 1, 7, 3, 5]  # published splits rest on it


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed must be 0 or more"):
        shuffled(np.arange(3), 1, -1)


def test_the_long_tail_is_exponential() -> None:
    # the counts of the long-tailed CIFAR-10 of Cao et al., NeurIPS 2019, for 5,000 images and imbalance 100
    published = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    assert long_tail_counts(5000, 100, 10) == published
    assert long_tail_counts(4900, 200, 10)[-1] == 24
    with pytest.raises(ValueError, match="leaves the rarest class empty"):
        long_tail_counts(50, 100, 10)
    with pytest.raises(ValueError, match="imbalance must be at least 1"):
        long_tail_counts(50, 0.01, 10)


@given(positives=st.integers(1, 60), eta=st.sampled_from([0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5]), seed=seeds)
def test_balanced_noise_swaps_equally_many_of_either_class(positives: int, eta: float, seed: int) -> None:
    labels = np.repeat([0, 1], [1000, positives])
    noisy = flip_labels(labels, eta, seed=seed)
    lost, gained = ((labels == 1) & (noisy == 0)).sum(), ((labels == 0) & (noisy == 1)).sum()
    assert lost == gained
    assert abs(lost - eta * positives) <= 0.5


def test_noise_outside_0_to_1_is_refused() -> None:
    labels = np.array([0, 1])
    with pytest.raises(ValueError, match="share of labels"):
        flip_labels(labels, 1.5, seed=0)


def test_thinning_names_the_lowest_ratio_that_works() -> None:
    labels = (np.arange(1050) < 50).astype(np.int64)
    assert labels[thinned(np.arange(1050), labels, 100, seed=0)].sum() == 10
    with pytest.raises(ValueError, match="is 100 positives, there are 50: the lowest ratio is 20"):
        thinned(np.arange(1050), labels, 10, seed=0)
