"""Digits, one of them rare."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from rankreg.datasets.digits import digits


@pytest.mark.parametrize("critical", [0, 3, 8])
@pytest.mark.parametrize("ratio", [20, 50, 100])
def test_parts_are_disjoint_and_training_has_the_ratio(critical: int, ratio: float) -> None:
    official = load_digits()
    tests = []
    for seed in (0, 1, 2):
        splits = digits(critical=critical, ratio=ratio, seed=seed)
        ids = np.concatenate([part.ids for part in splits.parts.values()])
        assert len(np.unique(ids)) == len(ids)
        negatives, positives = np.bincount(splits["train"].labels)
        assert positives == negatives // ratio
        for part in splits.parts.values():
            np.testing.assert_array_equal(part.labels, official.target[part.ids] == critical)
            np.testing.assert_allclose(part.inputs(), official.data[part.ids] / 16)
            assert part.inputs().dtype == np.float32
        tests.append(splits["test"].ids)
    np.testing.assert_array_equal(tests[0], tests[1])
    np.testing.assert_array_equal(tests[0], tests[2])


def test_what_is_no_digit_is_refused() -> None:
    with pytest.raises(ValueError, match="critical must be a digit"):
        digits(critical=10)
