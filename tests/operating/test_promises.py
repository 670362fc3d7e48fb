"""Promises beside the recall: thresholds by brute force, bounds by SciPy, promises by simulation."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from rankreg.metrics import alarm_counts
from rankreg.operating import (
    NotEnoughPositives,
    PromisedPoint,
    Review,
    certify,
    certify_groups,
    certify_promises,
    certify_review,
)
from rankreg.operating.spans import SPARED, WEAKEST, Asked, Steps, odds
from rankreg.operating.units import Sample
from tests.operating.test_certification import shortfall_limit, two_classes

Labels = NDArray[np.int64]
Scores = NDArray[np.float64]
SLACK = 1e-9


@cache
def low(count: int, total: int, confidence: float) -> float:
    """Clopper and Pearson's lower bound, by SciPy."""
    found = stats.binomtest(int(count), int(total), alternative="greater")
    return float(found.proportion_ci(confidence, method="exact").low)


@cache
def high(count: int, total: int, confidence: float) -> float:
    """Clopper and Pearson's upper bound, by SciPy."""
    found = stats.binomtest(int(count), int(total), alternative="less")
    return float(found.proportion_ci(confidence, method="exact").high)


class Tried:
    """Every positive's score as a threshold, highest first, with what reaches it; counted one by one."""

    def __init__(self, labels: Labels, scores: Scores) -> None:
        positives, negatives = scores[labels == 1], scores[labels == 0]
        self.thresholds = sorted(set(positives.tolist()), reverse=True)
        self.n, self.m = len(positives), len(negatives)
        self.caught = [int(sum(positives >= t)) for t in self.thresholds]
        self.above = [int(sum(positives > t)) for t in self.thresholds]
        self.false = [int(sum(negatives >= t)) for t in self.thresholds]

    def keeping(self, keeps: list[bool]) -> list[float]:
        return [t for t, kept in zip(self.thresholds, keeps, strict=True) if kept]

    def walk(self, passes: list[bool], starts: list[bool]) -> list[float]:
        """The thresholds from the first start down to the first that does not pass."""
        found: list[float] = []
        for t, passed, from_here in zip(self.thresholds, passes, starts, strict=True):
            if not from_here:
                continue
            if not passed:
                break
            found.append(t)
        return found


def ends(point: PromisedPoint) -> tuple[float | None, float | None]:
    return point.lowest, point.highest


def expected(kept: list[float]) -> tuple[float | None, float | None]:
    return (min(kept), max(kept)) if kept else (None, None)


@st.composite
def samples(draw: st.DrawFn) -> tuple[Labels, Scores]:
    """Small samples with many ties, between the classes too."""
    positives, negatives = draw(st.integers(3, 30)), draw(st.integers(3, 40))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    labels = np.repeat([1, 0], [positives, negatives])
    scores = random.normal(size=len(labels)) + draw(st.floats(0, 4)) * labels
    scores = np.round(scores * draw(st.sampled_from([1, 2, 100]))).astype(float)
    if len(set(scores.tolist())) == 1:
        scores[0] += 1
    return labels, scores


@given(samples(), st.sampled_from([0.05, 0.2, 0.5]), st.sampled_from([0.5, 0.8, 0.9]))
@settings(max_examples=25)
def test_recall_and_fpr_are_kept_where_clopper_and_pearson_say_so(
    sample: tuple[Labels, Scores], fpr: float, tpr: float
) -> None:
    tried = Tried(*sample)
    alone = [high(count, tried.m, 0.9) <= fpr + SLACK for count in tried.false]
    assert ends(certify_promises(*sample, fpr=fpr, confidence=0.9)) == expected(tried.keeping(alone))
    sure = 0.9**0.5
    both = [
        high(false, tried.m, sure) <= fpr + SLACK and low(caught, tried.n, sure) >= tpr - SLACK
        for false, caught in zip(tried.false, tried.caught, strict=True)
    ]
    assert ends(certify_promises(*sample, fpr=fpr, tpr=tpr, confidence=0.9)) == expected(tried.keeping(both))


@given(samples(), st.sampled_from([100, 300, 600]), st.sampled_from([0.02, 0.3]))
@settings(max_examples=25)
def test_alarms_are_counted_or_bounded_by_class(
    sample: tuple[Labels, Scores], alarms: float, prevalence: float
) -> None:
    tried = Tried(*sample)
    counted = [
        high(caught + false, tried.n + tried.m, 0.9) <= alarms / 1000 + SLACK
        for caught, false in zip(tried.caught, tried.false, strict=True)
    ]
    assert ends(certify_promises(*sample, alarms=alarms, confidence=0.9)) == expected(tried.keeping(counted))
    by_class = [
        prevalence * high(caught, tried.n, 0.9**0.1) + (1 - prevalence) * high(false, tried.m, 0.9**0.9)
        <= alarms / 1000 + SLACK
        for caught, false in zip(tried.caught, tried.false, strict=True)
    ]
    found = certify_promises(*sample, alarms=alarms, prevalence=prevalence, confidence=0.9)
    assert ends(found) == expected(tried.keeping(by_class))


@given(samples(), st.sampled_from([0.3, 0.5, 0.7]))
@settings(max_examples=25)
def test_a_precision_is_tested_downwards_from_a_start_that_the_scores_do_not_choose(
    sample: tuple[Labels, Scores], precision: float
) -> None:
    tried = Tried(*sample)
    passes = [
        above + false > 0
        and stats.binomtest(above, above + false, precision, alternative="greater").pvalue <= 0.2 + SLACK
        for above, false in zip(tried.above, tried.false, strict=True)
    ]
    fewest = next(k for k in range(SPARED + 1, 1000) if stats.binom.cdf(SPARED, k, 1 - precision) <= 0.2)
    starts = [caught + false >= fewest for caught, false in zip(tried.caught, tried.false, strict=True)]
    found = certify_promises(*sample, precision=precision, confidence=0.8)
    assert ends(found) == expected(tried.walk(passes, starts))


@given(samples(), st.sampled_from([0.3, 0.5]), st.sampled_from([0.2, 0.5]))
@settings(max_examples=25)
def test_a_precision_at_a_stated_prevalence_divides_the_risk_by_three(
    sample: tuple[Labels, Scores], precision: float, prevalence: float
) -> None:
    tried, sure, ratio = Tried(*sample), 0.8 ** (1 / 3), odds(precision, prevalence)
    start = next(
        (
            count
            for spared in range(min(SPARED, tried.m), -1, -1)
            for count in range(1, tried.n + 1)
            if ratio * low(count, tried.n, sure) >= high(spared, tried.m, sure)
        ),
        tried.n + 1,
    )

    def caught_at_least(above: int) -> float:
        first, rest = low(start, tried.n, sure), tried.n - start
        return first + (1 - first) * (low(max(above - start, 0), rest, sure) if rest else 0.0)

    possible = start <= tried.n
    passes = [
        possible and high(false, tried.m, sure) <= min(1.0, ratio * caught_at_least(above)) + SLACK
        for above, false in zip(tried.above, tried.false, strict=True)
    ]
    kept = tried.walk(passes, [caught >= start for caught in tried.caught])
    found = certify_promises(*sample, precision=precision, prevalence=prevalence, confidence=0.8)
    assert ends(found) == expected(kept)


def test_with_a_recall_everything_else_is_one_claim_about_the_negatives() -> None:
    labels, scores = two_classes(300, 2000)
    asked: dict[str, Any] = {"tpr": 0.8, "fpr": 0.3, "precision": 0.3, "alarms": 300.0}
    found = certify_promises(labels, scores, **asked, prevalence=0.1)
    sure = 0.95**0.5
    alone = certify(labels, scores, tpr=0.8, confidence=sure)
    assert found.threshold == alone.threshold
    assert {one.confidence for one in found.promises} == {sure}
    bound = {one.name: one.bound for one in found.promises}
    fpr = high(round(alone.fpr * 2000), 2000, sure)
    recall = low(300 - alone.rank + 1, 300, sure)
    assert bound["tpr"] == pytest.approx(recall)
    assert bound["fpr"] == pytest.approx(fpr)
    assert bound["alarms"] == pytest.approx(1000 * (0.1 + 0.9 * fpr))
    assert bound["precision"] == pytest.approx(0.1 * recall / (0.1 * recall + 0.9 * fpr))
    for one in found.promises:
        assert one.bound is not None
        assert (one.bound >= one.target) == (one.name in ("tpr", "precision"))


def test_a_recall_alone_is_what_certify_gives() -> None:
    labels, scores = two_classes(200, 500)
    assert certify_promises(labels, scores, tpr=0.9).threshold == certify(labels, scores, tpr=0.9).threshold


def test_what_is_observed_is_counted_at_the_threshold() -> None:
    labels, scores = two_classes(200, 1800)
    found = certify_promises(labels, scores, fpr=0.1, prevalence=0.01)
    assert found.threshold is not None
    alarm = scores >= found.threshold
    recall, fpr = alarm[labels == 1].mean(), alarm[labels == 0].mean()
    assert (found.recall, found.fpr) == (recall, fpr)
    assert found.alarms_per_1000 == pytest.approx(1000 * (0.01 * recall + 0.99 * fpr))
    assert found.precision == pytest.approx(0.01 * recall / (0.01 * recall + 0.99 * fpr))
    as_here = certify_promises(labels, scores, fpr=0.1)
    assert as_here.precision == pytest.approx(labels[alarm].mean())
    assert as_here.alarms_per_1000 == pytest.approx(1000 * alarm.mean())


@pytest.mark.parametrize(
    "asked",
    [
        {"tpr": 0.95, "fpr": 0.1},
        {"tpr": 0.9, "precision": 0.5, "prevalence": 0.1},
        {"tpr": 0.9, "precision": 0.8},
        {"tpr": 0.9, "alarms": 150.0, "prevalence": 0.1},
    ],
)
def test_the_closest_promise_is_kept_and_a_harder_one_is_not(asked: dict[str, Any]) -> None:
    labels, scores = two_classes(200, 1800)
    found = certify_promises(labels, scores, **asked)
    (conflict,) = found.conflicts
    assert found.threshold is None
    assert len(conflict.closest) == 2
    for one in conflict.closest:
        assert {one.keeps, one.name} == set(conflict.between)
        instead = certify_promises(labels, scores, **(asked | {one.name: one.target}))
        assert instead.threshold == one.threshold
        harder = one.target * (1.001 if one.name in ("tpr", "precision") else 0.999)
        assert certify_promises(labels, scores, **(asked | {one.name: harder})).threshold is None


def test_as_many_more_samples_as_are_named_settle_a_conflict() -> None:
    labels, scores = two_classes(100, 1000)
    asked: dict[str, Any] = {"tpr": 0.85, "fpr": 0.19}
    conflict = certify_promises(labels, scores, **asked).conflicts[0]
    assert conflict.between == ("tpr", "fpr")
    assert conflict.more_positives is not None
    assert conflict.more_negatives is not None
    assert conflict.more_positives + conflict.more_negatives > 0
    factors = 1 + np.array([conflict.more_negatives / 1000, conflict.more_positives / 100])
    times = np.ceil(factors).astype(int)[labels]  # the same shares, in whole copies
    assert certify_promises(np.repeat(labels, times), np.repeat(scores, times), **asked).threshold is not None


def test_no_number_of_samples_settles_what_the_shares_rule_out() -> None:
    labels, scores = two_classes(400, 4000)
    conflict = certify_promises(labels, scores, tpr=0.99, fpr=0.01).conflicts[0]
    assert (conflict.more_positives, conflict.more_negatives) == (None, None)


def test_a_promise_that_cannot_be_kept_alone_is_named_alone() -> None:
    labels, scores = two_classes(20, 1000)
    found = certify_promises(labels, scores, tpr=0.95, fpr=0.9)
    assert [conflict.between for conflict in found.conflicts] == [("tpr",)]
    (closest,) = found.conflicts[0].closest
    assert closest.keeps is None
    assert closest.target == pytest.approx(low(20, 20, 0.95**0.5), rel=1e-3)
    assert found.conflicts[0].more_positives is not None
    assert found.conflicts[0].more_negatives == 0


def dipping(random: np.random.Generator, rows: int, share: float) -> tuple[Labels, Scores]:
    """A clump of negatives among the positives: the precision is not monotone."""
    labels = (random.random(rows) < share).astype(np.int64)
    clump = (random.random(rows) < 0.02) & (labels == 0)
    return labels, np.where(clump, random.normal(2.2, 0.05, rows), random.normal(2.5 * labels, 1))


@pytest.mark.parametrize(
    "asked",
    [
        {"precision": 0.6},
        {"precision": 0.6, "prevalence": 0.1},
        {"fpr": 0.05, "precision": 0.5},
        {"tpr": 0.7, "precision": 0.5, "prevalence": 0.1},
        {"tpr": 0.7, "alarms": 140.0},
    ],
)
def test_promises_are_broken_no_more_often_than_stated(asked: dict[str, Any]) -> None:
    random, broken, draws = np.random.default_rng(4), 0, 200
    promise = Asked({name: asked[name] for name in WEAKEST if name in asked}, asked.get("prevalence"), 0.9)
    for _ in range(draws):
        steps = Steps.of(Sample.of(*dipping(random, 2000, 0.1)))
        kept = promise.kept(steps)
        if kept.empty:
            continue
        for threshold in steps.thresholds[[kept.first, kept.last]]:
            recall = stats.norm.sf(threshold - 2.5)
            fpr = 0.98 * stats.norm.sf(threshold) + 0.02 * stats.norm.sf((threshold - 2.2) / 0.05)
            alarms = 0.1 * recall + 0.9 * fpr
            wrong = recall < asked.get("tpr", 0) or fpr > asked.get("fpr", 1)
            wrong |= 0.1 * recall < asked.get("precision", 0) * alarms or 1000 * alarms > asked.get("alarms", 1000)
            if wrong:
                broken += 1
                break
    assert broken / draws <= shortfall_limit(0.1, draws)


def test_units_with_rows_of_both_classes_share_the_risk_by_the_sum() -> None:
    labels, scores = two_classes(400, 4000)
    mixed = np.arange(4400) % 400
    found = certify_promises(labels, scores, tpr=0.6, fpr=0.5, units=mixed)
    assert [one.confidence for one in found.promises] == [0.975, 0.975]
    assert [one.bound for one in found.promises][1] == 0.5
    plain = certify_promises(labels, scores, tpr=0.6, fpr=0.5, units=np.arange(4400))
    assert plain.threshold == certify_promises(labels, scores, tpr=0.6, fpr=0.5).threshold


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "nothing is promised"),
        ({"fpr": 0}, "fpr must lie strictly between 0 and 1"),
        ({"fpr": 5}, "fpr must lie"),
        ({"precision": 1.0}, "precision must lie"),
        ({"precision": float("nan")}, "precision must lie"),
        ({"alarms": 1000}, "between 0 and 1,000"),
        ({"alarms": -1}, "between 0 and 1,000"),
        ({"tpr": 1}, "tpr must lie"),
        ({"fpr": 0.1, "prevalence": 0}, "prevalence must lie"),
        ({"fpr": 0.1, "confidence": 95}, "confidence must lie"),
        ({"fpr": 0.1, "per": "unit"}, "pass them as units="),
        ({"precision": 0.5, "units": [0, 0, 1, 1]}, "needs a prevalence"),
        ({"precision": 0.5, "units": [0, 0, 1, 1], "per": "unit"}, "share of rows"),
    ],
)
def test_promises_that_make_no_sense_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify_promises([0, 0, 1, 1], [0, 1, 2, 3], **asked)


def test_a_review_keeps_the_recall_below_and_the_precision_above() -> None:
    labels, scores = two_classes(400, 3600)
    found = certify_review(labels, scores, tpr=0.95, precision=0.8)
    sure = 1 - 0.05 / 3
    assert found.review_from == certify(labels, scores, tpr=0.95, confidence=sure).threshold
    alone = certify_promises(labels, scores, precision=0.8, confidence=sure)
    assert found.alarm_from == alone.threshold
    assert alone.threshold is not None
    between = (scores >= found.review_from) & (scores < alone.threshold)
    assert found.review_per_1000 == pytest.approx(1000 * between.mean())
    assert found.review_per_1000_at_most is not None
    assert found.review_per_1000 < found.review_per_1000_at_most <= 1000
    assert found.alarm_precision == pytest.approx(labels[scores >= alone.threshold].mean())
    stated = certify_review(labels, scores, tpr=0.95, precision=0.8, prevalence=0.1)
    assert stated.review_per_1000 == pytest.approx(
        1000 * (0.1 * _between(stated, scores[labels == 1]) + 0.9 * _between(stated, scores[labels == 0]))
    )


def _between(found: Review, scores: Scores) -> float:
    assert found.alarm_from is not None
    return float(((scores >= found.review_from) & (scores < found.alarm_from)).mean())


def test_a_review_of_a_good_model_is_empty_and_of_a_bad_one_is_everything() -> None:
    labels, scores = two_classes(400, 3600)
    good = certify_review(labels, scores + 3 * labels, precision=0.5)
    assert good.alarm_from == good.review_from
    assert (good.review_per_1000, good.review_per_1000_at_most) == (0, 0)
    bad = certify_review(labels, scores, precision=0.99, prevalence=0.001)
    assert bad.alarm_from is None
    assert (bad.alarms_per_1000, bad.alarm_recall) == (0, 0)
    assert bad.highest_precision is not None
    kept = certify_review(labels, scores, precision=bad.highest_precision, prevalence=0.001)
    assert kept.alarm_from is not None
    with pytest.raises(NotEnoughPositives, match="a third of the risk"):
        certify_review(labels[390:], scores[390:], precision=0.5)


def test_the_review_load_stays_below_its_bound_and_both_promises_hold() -> None:
    random, broken, draws = np.random.default_rng(8), 0, 300
    for _ in range(draws):
        labels = (random.random(3000) < 0.1).astype(np.int64)
        found = certify_review(labels, random.normal(2.5 * labels, 1), tpr=0.9, precision=0.6, confidence=0.8)
        top = np.inf if found.alarm_from is None else found.alarm_from
        recall, fpr = (stats.norm.sf(np.array([found.review_from, top]) - shift) for shift in (2.5, 0.0))
        load = 1000 * (0.1 * (recall[0] - recall[1]) + 0.9 * (fpr[0] - fpr[1]))
        real = 0.1 * recall[1] < 0.6 * (0.1 * recall[1] + 0.9 * fpr[1])
        broken += recall[0] < 0.9 or load > (found.review_per_1000_at_most or 0) + SLACK or real
    assert broken / draws <= shortfall_limit(0.2, draws)


def test_a_small_group_is_named_and_does_not_block_the_others() -> None:
    labels, scores = two_classes(600, 900)
    groups = np.array(["a", "b"] * 750, dtype="U12")
    groups[:20], groups[-30:] = "small", "small"
    groups[20:40] = "no negatives"
    found = certify_groups(labels, scores, groups)
    assert list(found.points) == ["a", "b"]
    assert list(found.uncertified) == ["no negatives", "small"]
    assert "20 positives in group 'small' are too few" in found.uncertified["small"]
    rest = np.isin(groups, ["a", "b"])
    assert found.points == certify_groups(labels[rest], scores[rest], groups[rest]).points
    assert found.everyone == certify_groups(labels[rest], scores[rest], groups[rest]).everyone
    with pytest.raises(NotEnoughPositives, match=r"in group '.*', the largest"):
        certify_groups(labels, scores, groups, tpr=0.999)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_counts_at_or_above_are_those_counted_one_by_one(scores: list[int], candidates: list[int]) -> None:
    ordered = np.unique(candidates).astype(float)
    counted = [sum(score >= one for score in scores) for one in ordered]
    assert alarm_counts(np.array(scores, dtype=float), ordered).tolist() == counted


def test_samples_that_would_settle_one_promise_are_not_offered_where_another_conflicts_with_it() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat([1, 0], [300, 6000])
    scores = random.normal(size=6300) + 2.2 * labels
    at_recall = np.sort(scores[labels == 1])[15]  # 95 % of the positives reach it
    assert np.mean(labels[scores >= at_recall]) < 0.5  # so no number of such samples shows a precision of 90 %
    alone = certify_promises(labels, scores, precision=0.9).conflicts
    both = certify_promises(labels, scores, precision=0.9, tpr=0.95).conflicts
    assert [one.between for one in alone] == [one.between for one in both] == [("precision",)]
    assert alone[0].more_positives is not None
    assert both[0].more_positives is None


@pytest.mark.parametrize(
    ("shift", "precision", "prevalence"), [(2.0, 0.8, 0.01), (2.0, 0.9, 0.1), (3.5, 0.8, 0.01)]
)
def test_advice_for_a_precision_is_no_less_than_its_observed_shares_need(
    shift: float, precision: float, prevalence: float
) -> None:
    labels = np.repeat([1, 0], [400, 2000])
    scores = np.random.default_rng(4).normal(size=2400) + shift * labels
    found = certify_promises(labels, scores, precision=precision, prevalence=prevalence)
    (conflict,) = found.conflicts
    assert conflict.more_positives is not None
    assert conflict.more_negatives is not None
    tried, total = Tried(labels, scores), 2000 + conflict.more_negatives
    sure = 0.95 ** (1 / 3)
    limits = [odds(precision, prevalence) * caught / tried.n for caught in tried.caught]  # as if the TPR were known
    bounds = [high(round(false * total / 2000), total, sure) for false in tried.false]
    assert any(bound <= limit for bound, limit in zip(bounds, limits, strict=True))
