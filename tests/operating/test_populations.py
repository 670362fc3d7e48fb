"""Drawn populations and shares, against SciPy, brute force and known truths."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from rankreg.metrics import auc, error_at_tpr
from rankreg.operating import compare
from rankreg.operating.bootstrap import error_at_tpr_intervals, population_draws
from rankreg.operating.intervals import share_interval


def test_the_interval_of_a_share_is_scipys() -> None:
    found = share_interval(37, 50, confidence=0.9)
    expected = binomtest(37, 50).proportion_ci(0.9, method="exact")
    assert (found.estimate, found.low, found.high) == pytest.approx((0.74, expected.low, expected.high))


def test_models_with_the_same_order_meet_the_same_populations() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat([1, 0], [40, 90])
    scores = random.normal(size=130) + labels
    for one, other in zip(
        population_draws(labels, scores, (0.9, 0.95)),
        population_draws(labels, np.exp(scores), (0.9, 0.95)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_drawn_rates_lie_around_the_truth_and_drawn_areas_around_the_sample_value() -> None:
    labels = np.repeat([1, 0], [2000, 4000])
    scores = np.random.default_rng(1).normal(size=6000) + 1.5 * labels
    rates, area = population_draws(labels, scores, (0.9, 0.98))
    assert rates.shape == (500, 2)
    truth = norm.sf(1.5 - norm.ppf((0.9, 0.98)))
    assert np.all(np.abs(rates.mean(axis=0) - truth) < 4 * rates.std(axis=0))
    assert area.mean() == pytest.approx(auc(labels, scores), abs=4 * area.std() / np.sqrt(500))


def test_a_difference_of_draws_is_spread_like_the_interval_of_a_comparison() -> None:
    random, labels = np.random.default_rng(2), np.repeat([1, 0], [300, 900])
    common = random.normal(size=1200) + labels
    a, b = (common + random.normal(size=1200) / 2 for _ in range(2))
    draws = population_draws(labels, a, (0.95,))[0][:, 0] - population_draws(labels, b, (0.95,))[0][:, 0]
    expected = compare(labels, a, b, tpr=0.95).fpr
    assert np.quantile(draws, [0.025, 0.975]) == pytest.approx([expected.low, expected.high], abs=0.04)


def test_the_interval_of_the_others_error_holds_the_sample_value_and_covers_a_fresh_sample() -> None:
    random = np.random.default_rng(3)

    def sample() -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(600) % 4
        return labels, random.normal(size=(600, 4)) + 1.5 * np.eye(4)[labels]

    large = [sample() for _ in range(40)]
    labels, logits = np.concatenate([one[0] for one in large]), np.concatenate([one[1] for one in large])
    truth, inside = error_at_tpr(labels, logits, 0.8, positive=3), 0
    for labels, logits in large:
        (found,) = error_at_tpr_intervals(labels, logits, (0.8,), positive=3, draws=300)
        assert found.estimate == error_at_tpr(labels, logits, 0.8, positive=3)
        inside += int(found.low <= truth <= found.high)
    assert inside >= 34  # of 40; 38 expected
