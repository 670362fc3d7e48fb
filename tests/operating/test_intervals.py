"""Intervals cover as stated; DeLong against a published table and against its definition."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from rankreg.metrics import fpr_at_tpr
from rankreg.operating import Interval, auc_interval, fpr_at_tpr_interval
from rankreg.operating.intervals import aucs


@pytest.mark.parametrize(("positives", "negatives", "tpr"), [(40, 300, 0.9), (150, 600, 0.95), (200, 100, 0.9)])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_the_fpr_interval_covers_as_stated(positives: int, negatives: int, tpr: float, step: float) -> None:
    generator, missed, draws = np.random.default_rng(7), 0, 2000
    labels = np.repeat([1, 0], [positives, negatives])
    quantile = 2 + stats.norm.ppf(1 - tpr)
    if step:  # the highest threshold on the grid with enough recall: rounded, a score reaches t from t − ½ step on
        quantile = step * np.floor((quantile + step / 2) / step) - step / 2
    truth = stats.norm.sf(quantile)
    for _ in range(draws):
        scores = generator.standard_normal(len(labels)) + 2 * labels
        scores = np.round(scores / step) * step if step else scores
        found = fpr_at_tpr_interval(labels, scores, tpr=tpr)
        missed += not found.low <= truth <= found.high
    assert missed / draws <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)


def test_the_fpr_interval_holds_the_estimate_and_shrinks() -> None:
    generator = np.random.default_rng(8)
    widths = []
    for positives in (60, 600, 6000):
        labels = np.repeat([1, 0], [positives, 10 * positives])
        scores = generator.standard_normal(len(labels)) + 3 * labels
        found = fpr_at_tpr_interval(labels, scores, tpr=0.95)
        assert found.estimate == fpr_at_tpr(labels, scores, 0.95)
        assert found.low <= found.estimate <= found.high
        widths.append(found.high - found.low)
    assert widths[0] > 2 * widths[1] > 4 * widths[2]


def test_too_few_positives_bound_nothing_and_say_so() -> None:
    found = fpr_at_tpr_interval([1, 1, 0, 0], [3.0, 2.0, 1.0, 0.0], tpr=0.98)
    assert found.high == 1.0
    assert fpr_at_tpr_interval([1, 1, 0, 0], [3.0, 2.0, 1.0, 0.0], tpr=1.0).high == 1.0


def test_delong_matches_the_published_ct_ratings() -> None:
    """109 CT images rated 1 to 5 (Hanley and McNeil, Radiology 1982); Stata's manual gives area 0.8932, DeLong
    standard error 0.0307 and the interval 0.83295 to 0.95339."""
    ratings = np.repeat(np.tile(np.arange(1, 6), 2), [33, 6, 6, 11, 2, 3, 2, 2, 11, 33])
    abnormal = np.repeat([0, 1], [58, 51])
    found = aucs(abnormal == 1, [ratings.astype(float)])
    area, reach = found.areas[0], stats.norm.ppf(0.975) * np.sqrt(found.covariance[0, 0])
    assert (round(area, 4), round(area - reach, 5), round(area + reach, 5)) == (0.8932, 0.83295, 0.95339)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 6)), min_size=4, max_size=40))
def test_delong_is_its_definition_written_out(rows: list[tuple[bool, int, int]]) -> None:
    table = np.array([(1, 3, 2), (1, 4, 4), (0, 1, 3), (0, 4, 0), *rows], dtype=float)
    positive, columns = table[:, 0] == 1, [table[:, 1], table[:, 2]]
    wins = [(s[positive][:, None] > s[~positive]) + 0.5 * (s[positive][:, None] == s[~positive]) for s in columns]
    expected = np.cov([w.mean(axis=1) for w in wins]) / positive.sum()
    expected += np.cov([w.mean(axis=0) for w in wins]) / (~positive).sum()
    found = aucs(positive, columns)
    np.testing.assert_allclose(found.covariance, expected, atol=1e-12)
    np.testing.assert_allclose(found.areas, [roc_auc_score(positive, s) for s in columns], atol=1e-12)


@pytest.mark.parametrize("interval", [auc_interval, fpr_at_tpr_interval])
def test_scores_that_are_all_equal_are_refused(interval: Callable[..., Interval]) -> None:
    with pytest.raises(ValueError, match=r"all 30 scores equal 3.0"):
        interval([1] * 10 + [0] * 20, [3.0] * 30)


def test_a_single_positive_has_no_variance() -> None:
    with pytest.raises(ValueError, match="two samples or units of each class, got 1"):
        auc_interval([1, 0, 0], [2.0, 1.0, 0.0])
