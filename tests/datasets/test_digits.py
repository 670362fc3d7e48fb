"""Digits, one of them rare."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from rankreg.datasets.image_sets import digits, digits_long_tailed


@pytest.mark.parametrize("positive", [0, 3, 8])
@pytest.mark.parametrize("ratio", [20, 50, 100])
def test_parts_are_disjoint_and_training_has_the_ratio(positive: int, ratio: float) -> None:
    official = load_digits()
    tests = []
    for seed in (0, 1, 2):
        splits = digits(positive=positive, ratio=ratio, seed=seed)
        ids = np.concatenate([part.ids for part in splits.parts.values()])
        assert len(np.unique(ids)) == len(ids)
        negatives, positives = np.bincount(splits["train"].labels)
        assert positives == negatives // ratio
        for part in splits.parts.values():
            np.testing.assert_array_equal(part.labels, official.target[part.ids] == positive)
            np.testing.assert_allclose(part.inputs(), official.data[part.ids] / 16)
            assert part.inputs().dtype == np.float32
        tests.append(splits["test"].ids)
    np.testing.assert_array_equal(tests[0], tests[1])
    np.testing.assert_array_equal(tests[0], tests[2])


def test_what_is_no_digit_is_refused() -> None:
    with pytest.raises(ValueError, match="positive must be a digit"):
        digits(positive=10)
    with pytest.raises(ValueError, match="positive must be a digit"):
        digits_long_tailed(positive=10)


@pytest.mark.parametrize("imbalance", [1, 20, 100])
def test_the_tail_of_the_digits_is_exponential(imbalance: float) -> None:
    official = load_digits()
    scarcest = np.bincount(official.target).min()
    for seed in (0, 1):
        splits = digits_long_tailed(imbalance=imbalance, seed=seed)
        counts = np.bincount(splits["train"].labels, minlength=10)
        held_out = len(splits["validation"]) // 10 + len(splits["test"]) // 10
        expected = (scarcest - held_out) * imbalance ** (-np.arange(10) / 9)
        np.testing.assert_allclose(counts, expected, atol=1)
        assert counts[0] == scarcest - held_out
        for part in splits.parts.values():
            np.testing.assert_array_equal(part.labels, official.target[part.ids])
            np.testing.assert_allclose(part.inputs(), official.data[part.ids] / 16)
        assert len(np.unique(np.concatenate([part.ids for part in splits.parts.values()]))) == sum(
            map(len, splits.parts.values())
        )
        assert splits.critical == 9
        assert splits.classes == tuple("0123456789")


def test_the_seed_of_the_long_tail_draws_training_samples_only() -> None:
    one, two = digits_long_tailed(seed=0), digits_long_tailed(seed=1)
    for part in ("validation", "test"):
        np.testing.assert_array_equal(one[part].ids, two[part].ids)
        assert np.ptp(np.bincount(one[part].labels)) == 0  # balanced
    assert set(one["train"].ids) != set(two["train"].ids)
    np.testing.assert_array_equal(digits_long_tailed(seed=1)["train"].ids, two["train"].ids)
