"""Order statistics and Clopper–Pearson, against SciPy's distributions and brute force."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rankreg.operating import NotEnoughPositives, certify, highest_tpr, positives_needed
from rankreg.operating.guarantees import certified_rank, lower_bound, shortfall_risk, upper_bound

shares = st.floats(0.01, 0.99)


@pytest.mark.parametrize(
    ("tpr", "confidence", "needed"),
    [(0.95, 0.9, 45), (0.98, 0.9, 114), (0.99, 0.9, 230), (0.95, 0.95, 59), (0.98, 0.95, 149), (0.99, 0.95, 299)],
)
def test_positives_needed(tpr: float, confidence: float, needed: int) -> None:
    assert positives_needed(tpr, confidence) == needed
    scores = np.arange(needed + 1.0)
    labels = np.append(np.ones(needed, dtype=int), 0)
    assert certify(labels, scores, tpr=tpr, confidence=confidence).threshold == 0.0
    with pytest.raises(NotEnoughPositives, match=f"{needed} are needed") as caught:
        certify(labels[1:], scores[1:], tpr=tpr, confidence=confidence)
    assert (caught.value.positives, caught.value.needed) == (needed - 1, needed)


@given(st.integers(1, 400), shares, st.floats(0.5, 0.999))
def test_the_rank_is_the_largest_that_brute_force_allows(positives: int, tpr: float, confidence: float) -> None:
    risks = stats.binom.cdf(np.arange(positives), positives, 1 - tpr)
    allowed = np.flatnonzero(risks <= (1 - confidence) * (1 + 1e-9))
    assert certified_rank(positives, tpr, confidence) == (allowed[-1] + 1 if len(allowed) else 0)


@given(st.integers(1, 500), st.floats(0.5, 0.99))
def test_the_highest_tpr_is_certifiable_and_the_next_is_not(positives: int, confidence: float) -> None:
    best = highest_tpr(positives, confidence)
    assert certified_rank(positives, best * (1 - 1e-6), confidence) >= 1
    assert certified_rank(positives, best + (1 - best) * 1e-3, confidence) == 0


def test_the_error_names_a_tpr_that_can_be_certified() -> None:
    labels, scores = [1] * 20 + [0] * 5, np.arange(25)
    with pytest.raises(
        NotEnoughPositives, match=r"20 positives are too few .* 149 are needed; .* is 86.0 %"
    ) as caught:
        certify(labels, scores, tpr=0.98)
    assert isinstance(caught.value, ValueError)
    assert certify(labels, scores, tpr=0.86).threshold == 0.0


@pytest.mark.parametrize(
    ("positives", "said"),
    [
        (0, "0 positives are too few to certify a TPR of 98 % with 95 % confidence: 149 are needed"),
        (1, "1 positive is too few .* 149 are needed; the highest TPR 1 can certify is 5.0 %"),
    ],
)
def test_the_error_counts_as_people_do(positives: int, said: str) -> None:
    assert re.fullmatch(said, str(NotEnoughPositives(positives, 0.98, 0.95)))


def test_one_positive_certifies_ten_per_cent_at_ninety() -> None:
    assert certified_rank(1, 0.1, 0.9) == 1


def test_the_usual_threshold_misses_as_often_as_published() -> None:
    assert shortfall_risk(108, 108 - 103 + 1, 0.95) == pytest.approx(0.54, abs=0.005)


@given(st.integers(1, 3000), st.floats(0, 1), shares)
def test_bounds_are_those_of_scipy(trials: int, share: float, confidence: float) -> None:
    successes = round(share * trials)
    test = stats.binomtest(successes, trials)
    less = stats.binomtest(successes, trials, alternative="less").proportion_ci(confidence, method="exact")
    greater = stats.binomtest(successes, trials, alternative="greater").proportion_ci(confidence, method="exact")
    assert upper_bound(successes, trials, confidence) == pytest.approx(less.high, abs=1e-9)
    assert lower_bound(successes, trials, confidence) == pytest.approx(greater.low, abs=1e-9)
    both = test.proportion_ci(confidence, method="exact")
    half = (1 + confidence) / 2
    assert (lower_bound(successes, trials, half), upper_bound(successes, trials, half)) == pytest.approx(
        both, abs=1e-9
    )


@pytest.mark.parametrize("value", [0.0, 1.0, 98.0, -0.1, float("nan")])
def test_shares_out_of_range_are_refused(value: float) -> None:
    labels, scores = [1] * 300 + [0], np.arange(301)
    with pytest.raises(ValueError, match="tpr must lie strictly between 0 and 1"):
        certify(labels, scores, tpr=value)
    with pytest.raises(ValueError, match="confidence must lie strictly"):
        certify(labels, scores, confidence=value)
    with pytest.raises(ValueError, match="prevalence must lie strictly"):
        certify(labels, scores, prevalence=value)
