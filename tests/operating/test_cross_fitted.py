"""Thresholds from out-of-fold scores: order statistics by scipy, prices by enumeration."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from scipy.stats import binom

from rankreg.operating import cross_fitted_threshold, positives_needed, price_of_certifying
from rankreg.operating.guarantees import certified_rank
from rankreg.operating.thresholds import lowered
from rankreg.operating.units import UnitSizes

TPRS, CONFIDENCES = st.floats(0.5, 0.99), st.floats(0.5, 0.99)


def sample(
    positives: int, negatives: int = 40, seed: int = 0
) -> tuple[list[int], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Labels and scores with ties."""
    rng = np.random.default_rng(seed)
    labels = [1] * positives + [0] * negatives
    return labels, np.round(rng.normal(size=len(labels)) + labels, 1)


@effort(max_examples=100)
@given(n=st.integers(1, 400), tpr=TPRS, confidence=CONFIDENCES, seed=st.integers(0, 999))
def test_it_is_the_order_statistic_that_the_binomial_allows(
    n: int, tpr: float, confidence: float, seed: int
) -> None:
    labels, scores = sample(n, seed=seed)
    found = cross_fitted_threshold(labels, scores, tpr=tpr, confidence=confidence)
    ranks = np.flatnonzero(binom.cdf(np.arange(n), n, 1 - tpr) <= (1 - confidence) * (1 + 1e-9)) + 1
    if len(ranks):
        rank, kind = int(ranks[-1]), "cross-fitted"
    else:
        rank, kind = max(1, int(np.floor((1 - tpr) * (n + 1) + 1e-9))), "expected"
    assert found.kind == kind
    assert found.value == pytest.approx(lowered(np.sort(scores[:n])[rank - 1]))
    assert (found.certified, found.point, found.positives) == (False, None, n)
    assert found.expected_recall == pytest.approx(1 - rank / (n + 1))
    if kind == "expected":
        assert found.needed == positives_needed(tpr, confidence) > n
        assert rank == 1 or rank <= (1 - tpr) * (n + 1) + 1e-9
    else:
        assert found.needed is None


def test_the_expected_recall_is_reached_on_average() -> None:
    rng = np.random.default_rng(0)
    n, tpr, draws = 30, 0.9, 4000
    caught = np.empty(draws)
    for k in range(draws):
        scores = rng.random(n + 1)  # the last one is new
        found = cross_fitted_threshold(
            [1] * n + [0], np.append(scores[:n], 0.0), tpr=tpr, confidence=0.99, rounding=0
        )
        assert found.kind == "expected"
        caught[k] = scores[n] >= found.value
    error = 3 * caught.std() / np.sqrt(draws)
    assert found.expected_recall == pytest.approx(1 - 3 / 31)
    assert abs(caught.mean() - found.expected_recall) < error


def test_units_count_once() -> None:
    labels, scores = sample(120)
    units = np.append(np.arange(120) // 4, 1000 + np.arange(40))
    found = cross_fitted_threshold(labels, scores, tpr=0.7, units=units)
    rank = certified_rank(UnitSizes.of([4] * 30), 0.7, 0.95)
    assert (found.kind, found.units, found.per) == ("cross-fitted", 30, "row")
    assert found.value == pytest.approx(lowered(np.sort(scores[:120])[rank - 1]))
    assert rank < certified_rank(120, 0.7, 0.95)

    highest = np.sort(scores[:120].reshape(30, 4).max(axis=1))
    found = cross_fitted_threshold(labels, scores, tpr=0.7, units=units, per="unit")
    rank = int(np.flatnonzero(binom.cdf(np.arange(30), 30, 0.3) <= 0.05)[-1]) + 1
    assert (found.kind, found.units, found.per) == ("cross-fitted", 30, "unit")
    assert found.value == pytest.approx(lowered(highest[rank - 1]))

    few = cross_fitted_threshold(labels, scores, tpr=0.95, units=units)  # 30 units, 59 are needed
    assert few.kind == "expected"
    assert (few.needed, few.units) == (59, 30)
    rank = int(0.05 * (120 + 4) - 4 + 1 + 1e-9)
    assert few.value == pytest.approx(lowered(np.sort(scores[:120])[max(rank, 1) - 1]))


def test_copies_do_not_lower_the_expected_recall_below_that_of_their_originals() -> None:
    rng = np.random.default_rng(1)
    units, size, tpr, draws = 12, 5, 0.8, 300
    caught = np.empty(draws)
    for k in range(draws):
        scores = rng.random(units + 1)
        found = cross_fitted_threshold(
            [1] * (units * size) + [0],
            np.append(np.repeat(scores[:units], size), 0.0),
            tpr=tpr,
            confidence=0.99,
            units=np.append(np.repeat(np.arange(units), size), 99),
            rounding=0,
        )
        caught[k] = scores[-1] >= found.value
    assert found.kind == "expected"
    assert caught.mean() >= tpr - 3 * caught.std() / np.sqrt(draws)


def test_scores_of_float32_have_a_threshold_of_float32_that_catches_them() -> None:
    labels, scores = sample(100)
    single = scores.astype(np.float32)
    for rounding in (0.0, 1e-5):
        found = cross_fitted_threshold(labels, single, rounding=rounding)
        assert found.value == float(np.float32(found.value))
        rank = int(np.flatnonzero(binom.cdf(np.arange(100), 100, 0.05) <= 0.05)[-1]) + 1
        assert (single[:100] >= np.float32(found.value)).sum() >= 100 - rank + 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tpr": 1.0}, "tpr"),
        ({"confidence": 0.0}, "confidence"),
        ({"y_true": [1, 1, 0]}, "y_true|labels|shape|as many"),
    ],
)
def test_nonsense_is_refused(given: dict[str, object], message: str) -> None:
    values: dict[str, object] = {"y_true": [1, 0], "y_score": [0.1, 0.2]} | given
    with pytest.raises(ValueError, match=message):
        cross_fitted_threshold(**values)  # type: ignore[arg-type]


@effort(max_examples=25)
@given(
    n=st.integers(6, 12),
    share=st.floats(0.1, 0.5),
    tpr=st.sampled_from([0.3, 0.5, 0.7]),
    confidence=st.sampled_from([0.6, 0.8, 0.9]),
    seed=st.integers(0, 999),
)
def test_the_price_of_certifying_is_the_mean_over_all_ways_to_hold_out(
    n: int, share: float, tpr: float, confidence: float, seed: int
) -> None:
    labels, scores = sample(n, 17, seed)
    negatives = scores[n:]
    held = max(int(np.ceil(share * n)), int(np.ceil(np.log(1 - confidence) / np.log(tpr))))
    found = price_of_certifying(labels, scores, tpr=tpr, confidence=confidence, share=share)
    if held > n / 2:
        assert found is None
        return
    rank = int(np.flatnonzero(binom.cdf(np.arange(held), held, 1 - tpr) <= 1 - confidence)[-1]) + 1
    rates = [np.mean(negatives >= sorted(some)[rank - 1]) for some in combinations(scores[:n], held)]
    assert found == pytest.approx(np.mean(rates))
