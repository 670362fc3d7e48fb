"""Means over repeats against SciPy, and what so many repeats could have shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nct, ttest_1samp, ttest_rel
from scipy.stats import t as student

from rankreg.operating.comparison import detectable, p_value, standard_deviation, still_significant
from rankreg.operating.intervals import mean_of

VALUES = st.lists(st.floats(-50, 50), min_size=2, max_size=12).filter(lambda values: np.std(values) > 1e-3)


@given(VALUES)
def test_interval_and_p_value_are_those_of_a_t_test(values: list[float]) -> None:
    expected = ttest_1samp(values, 0)
    interval, found = expected.confidence_interval(0.95), mean_of(values)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert p_value(values) == pytest.approx(expected.pvalue)


def test_paired_differences_are_a_paired_t_test() -> None:
    a, b = [31.0, 28.5, 40.25, 35.0], [30.0, 30.5, 33.0, 31.0]
    assert p_value(np.subtract(a, b)) == pytest.approx(ttest_rel(a, b).pvalue)


@given(VALUES)
def test_the_detectable_difference_is_found_with_four_fifths_power(values: list[float]) -> None:
    found, count = detectable(values), len(values)
    assert found is not None
    shift = found / (np.std(values, ddof=1) / np.sqrt(count))
    critical = student.ppf(0.975, count - 1)
    assert nct.sf(critical, count - 1, shift) == pytest.approx(0.8, abs=1e-3)


def test_simulated_experiments_find_the_detectable_difference_as_often_as_said() -> None:
    random = np.random.default_rng(0)
    reference = random.normal(size=5)
    reference *= 3 / reference.std(ddof=1)  # a spread of exactly 3
    shift = detectable(reference)
    assert shift is not None
    experiments = random.normal(shift, 3, size=(4000, 5))
    found = np.asarray(ttest_1samp(experiments, 0, axis=1).pvalue) < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.03)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_rejects_as_long_as_each_step_allows(p_values: list[float]) -> None:
    ordered, count = sorted(p_values), 0
    while count < len(ordered) and ordered[count] <= 0.05 / (len(ordered) - count):
        count += 1
    assert still_significant(p_values) == count


def test_one_repeat_says_nothing_about_the_spread() -> None:
    assert (p_value([1.0]), detectable([1.0]), standard_deviation([1.0])) == (None, None, None)
    assert not mean_of([1.0]).bounded


def test_repeats_that_do_not_vary_have_no_detectable_difference() -> None:
    assert detectable([2.0, 2.0, 2.0]) is None
    assert (p_value([2.0, 2.0]), p_value([0.0, 0.0])) == (0.0, 1.0)
