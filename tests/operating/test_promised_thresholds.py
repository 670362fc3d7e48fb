"""The threshold of a fit that promises more than its recall."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, norm

from rankreg.operating import (
    PromisedPoint,
    Promises,
    Review,
    certify_promises,
    certify_review,
    choose_threshold,
    cross_fitted_threshold,
    promised_threshold,
)
from rankreg.operating.reviews import review_point
from rankreg.operating.spans import Steps
from rankreg.operating.thresholds import lowered, rounded_down
from rankreg.operating.units import Sample

Array = NDArray[Any]
REVIEW = Promises(precision=0.6, review=True)


def scored(seed: int, positives: int = 300, negatives: int = 2700) -> tuple[Array, Array]:
    """N(2, 1) against N(0, 1), in the numbers of a network."""
    random = np.random.default_rng(seed)
    labels = np.repeat([1, 0], [positives, negatives])
    return labels, (random.normal(size=len(labels)) + 2 * labels).astype(np.float32)


def low(count: int, total: int, sure: float) -> float:
    """Clopper and Pearson's lower bound."""
    return float(beta.ppf(1 - sure, count, total - count + 1)) if count else 0.0


@pytest.mark.parametrize("held_out", [True, False])
def test_without_rounding_the_promises_are_those_of_certify(held_out: bool) -> None:
    data = scored(0)
    made: dict[str, Any] = {"tpr": 0.9, "held_out": held_out, "rounding": 0.0}
    found = promised_threshold(*data, promises=REVIEW, **made)
    expected = certify_review(*data, tpr=0.9, precision=0.6)
    if not held_out:  # the load is an estimate there
        expected = replace(expected, review_per_1000_at_most=None)
    assert found.found == expected
    asked: dict[str, Any] = {"fpr": 0.4, "alarms": 500.0, "prevalence": 0.1}
    point = promised_threshold(*data, promises=Promises(**asked), **made)
    assert point.found == certify_promises(*data, tpr=0.9, **asked)
    for one in (found, point):
        assert one.kept
        assert one.threshold.kind == ("certified" if held_out else "cross-fitted")
        assert (one.threshold.certified, one.threshold.point is not None) == (held_out, held_out)
        assert one.threshold.confidence == 0.95


def test_every_positive_may_score_lower_by_what_scores_differ_and_false_alarms_are_counted_there() -> None:
    labels, scores = scored(1)
    found = promised_threshold(labels, scores, promises=REVIEW, tpr=0.9, held_out=True)
    exact = certify_review(labels, scores, tpr=0.9, precision=0.6)
    assert isinstance(found.found, Review)
    assert exact.alarm_from is not None
    for ours, theirs in ((found.threshold.value, exact.review_from), (found.alarm_from, exact.alarm_from)):
        assert ours == rounded_down(lowered(theirs), scores) == np.float32(ours)
    below = np.float32(found.threshold.value)
    between = np.nextafter(below, np.float32(np.inf))  # reaches the stored threshold, not the positive's score
    assert between < exact.review_from
    more = np.append(scores, np.full(300, between)), np.append(labels, np.zeros(300, int))
    counted = promised_threshold(more[1], more[0], promises=REVIEW, tpr=0.9, held_out=True).found
    assert isinstance(counted, Review)
    assert counted.review_from == below
    assert counted.review_per_1000 == pytest.approx(
        1000 * np.mean((more[0] >= below) & (more[0] < np.float32(counted.alarm_from or np.inf))), abs=1e-9
    )


def test_both_thresholds_of_a_review_pass_clopper_and_pearson_s_bounds_at_a_third_of_the_risk() -> None:
    labels, scores = scored(2)
    found = promised_threshold(labels, scores, promises=REVIEW, tpr=0.9, held_out=True)
    sure, positive = 1 - 0.05 / 3, labels == 1
    caught = int(np.sum(scores[positive] >= found.threshold.value))
    assert low(caught, 300, sure) >= 0.9
    assert low(caught - 1, 300, sure) < 0.9  # a higher threshold would not do
    alarm = scores >= found.alarm_from
    true = int(np.sum(alarm & positive)) - 1  # its own positive is not counted
    assert low(true, int(alarm.sum()) - 1, sure) >= 0.6


@pytest.mark.parametrize("held_out", [True, False])
@pytest.mark.parametrize(
    ("promises", "between"),
    [
        (Promises(fpr=0.01), ("tpr", "fpr")),
        (Promises(precision=0.5, prevalence=0.1), ("tpr", "precision")),
        (Promises(alarms=120.0), ("tpr", "alarms")),
        (Promises(precision=0.999, review=True), ("precision",)),
    ],
)
def test_promises_that_conflict_leave_the_threshold_of_the_recall_alone(
    held_out: bool, promises: Promises, between: tuple[str, ...]
) -> None:
    data = scored(3)
    found = promised_threshold(*data, promises=promises, tpr=0.9, held_out=held_out)
    choose = choose_threshold if held_out else cross_fitted_threshold
    assert not found.kept
    assert found.alarm_from is None
    assert found.threshold == choose(*data, tpr=0.9)
    assert isinstance(found.found, PromisedPoint)
    assert found.found.threshold is None
    assert found.found.review == promises.review
    (conflict,) = found.found.conflicts
    assert conflict.between == between
    assert conflict.closest
    assert {one.name for one in found.found.promises} == {"tpr", *promises.targets}


def test_a_review_with_too_few_positives_for_a_third_of_the_risk_says_how_many_more() -> None:
    labels, scores = scored(4, positives=35, negatives=300)  # 29 are enough for 95 %, 39 for 1 − 0.05 / 3
    found = promised_threshold(labels, scores, promises=REVIEW, tpr=0.9, held_out=True)
    assert isinstance(found.found, PromisedPoint)
    assert found.found.conflicts[0].between == ("tpr",)
    assert found.found.conflicts[0].more_positives in (4, 5)  # to 2 %
    assert found.found.conflicts[0].more_negatives == 0
    assert found.threshold.certified


def test_promises_never_raise_the_threshold_of_the_recall() -> None:
    for seed in range(20):
        data = scored(seed, 120, 600)
        alone = choose_threshold(*data, tpr=0.8).value
        for promises in (REVIEW, Promises(fpr=0.6), Promises(precision=0.2)):
            assert promised_threshold(*data, promises=promises, tpr=0.8, held_out=True).threshold.value <= alone


def test_promises_that_make_no_sense_are_refused() -> None:
    shares: list[dict[str, Any]] = [
        {"fpr": 2.0},
        {"precision": 0.0},
        {"alarms": 1000.0},
        {"prevalence": 1.0, "fpr": 0.1},
    ]
    for wrong in shares:
        with pytest.raises(ValueError, match=r"must lie|between"):
            Promises(**wrong)
    reviews: list[dict[str, Any]] = [{}, {"precision": 0.5, "fpr": 0.1}, {"precision": 0.5, "alarms": 10.0}]
    for review in reviews:
        with pytest.raises(ValueError, match="a review takes a precision"):
            Promises(review=True, **review)
    with pytest.raises(ValueError, match="a review speaks of rows"):
        promised_threshold(*scored(0), promises=REVIEW, held_out=True, per="unit", units=np.arange(3000))


def test_a_review_of_units_of_one_row_is_that_of_rows_and_of_several_needs_a_prevalence() -> None:
    labels, scores = scored(5)
    own = np.arange(len(labels))
    plain = certify_review(labels, scores, tpr=0.9, precision=0.6)
    found = certify_review(labels, scores, tpr=0.9, precision=0.6, units=own)
    assert (found.review_from, found.alarm_from) == (plain.review_from, plain.alarm_from)
    with pytest.raises(ValueError, match="needs a prevalence"):
        certify_review(labels, scores, tpr=0.9, precision=0.6, units=own // 2)


def true_shares(found: Review, prevalence: float) -> tuple[float, float, float]:
    """Recall, precision and reviews per 1,000 of N(2, 1) against N(0, 1)."""
    upper = np.inf if found.alarm_from is None else found.alarm_from
    (recall, fpr), (true, false) = ((norm.sf(level - 2), norm.sf(level)) for level in (found.review_from, upper))
    alarms = prevalence * true + (1 - prevalence) * false
    reviews = 1000 * (prevalence * recall + (1 - prevalence) * fpr - alarms)
    return recall, prevalence * true / alarms if alarms else 1.0, reviews


@pytest.mark.slow
def test_a_review_on_a_part_with_the_shares_of_the_whole_is_broken_no_more_often_than_stated() -> None:
    """As `fit` cuts it: the whole is a random sample, its part has as large a share of positives."""
    random, prevalence, draws, broken, kept = np.random.default_rng(6), 0.1, 1000, 0, 0
    for _ in range(draws):
        positives = random.binomial(4000, prevalence)
        held = round(0.3 * positives), round(0.3 * (4000 - positives))
        labels = np.repeat([1, 0], held)
        scores = random.normal(size=len(labels)) + 2 * labels
        made: dict[str, Any] = {"tpr": 0.9, "confidence": 0.8, "held_out": True}
        found = promised_threshold(labels, scores, promises=Promises(precision=0.7, review=True), **made).found
        if isinstance(found, Review):
            kept += 1
            recall, precision, reviews = true_shares(found, prevalence)
            broken += recall < 0.9 or precision < 0.7 or reviews > (found.review_per_1000_at_most or 0)
    assert kept > 0.5 * draws
    assert 0 < broken <= 0.2 * draws


@pytest.mark.slow
def test_a_review_of_copied_rows_keeps_its_promises_where_counting_rows_does_not() -> None:
    random, share, draws = np.random.default_rng(7), 0.2, 60
    copies, broken, naive = 6, 0, 0
    labels = np.repeat([1, 0], [150, 600])
    units = np.repeat(np.arange(750), copies)
    for _ in range(draws):
        scores = np.repeat(random.normal(size=750) + 2 * labels, copies)
        for own in (units, None):
            steps = Steps.of(Sample.of(np.repeat(labels, copies), scores, own))
            found = review_point(steps, 0.75, 0.85, share, 0.8)
            recall, precision, reviews = true_shares(found, share)
            wrong = recall < 0.85 or precision < 0.75 or reviews > (found.review_per_1000_at_most or 0)
            broken, naive = broken + (wrong and own is not None), naive + (wrong and own is None)
    assert broken <= 0.2 * draws
    assert naive > 0.3 * draws
