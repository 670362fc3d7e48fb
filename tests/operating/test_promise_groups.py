"""Promises in groups: each group against the same function alone, against brute force, and by simulation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from rankreg.operating import (
    ScoreSummary,
    certify_groups,
    certify_promises,
    certify_review,
)
from rankreg.operating.promise_certification import promised_groups
from rankreg.operating.spans import WEAKEST, Asked
from rankreg.operating.units import Groups, Sample
from tests.operating.test_certification import shortfall_limit, two_classes
from tests.operating.test_promises import SLACK, Tried, expected, high, low, samples

Labels = NDArray[np.int64]
Scores = NDArray[np.float64]
ASKED: list[dict[str, Any]] = [
    {"tpr": 0.8, "fpr": 0.3},
    {"fpr": 0.1},
    {"precision": 0.5},
    {"precision": 0.4, "prevalence": 0.1},
    {"alarms": 200.0},
    {"tpr": 0.7, "precision": 0.3, "alarms": 400.0, "prevalence": 0.1},
]


def three_groups(small: int = 0) -> tuple[Labels, Scores, NDArray[np.str_]]:
    """Three groups of 200 positives and 1,000 negatives; `small` of each class are a fourth."""
    labels, scores = two_classes(600, 3000)
    groups = np.array(["a", "b", "c"] * 1200, dtype="U5")
    for kind in (0, 1):
        groups[np.flatnonzero(labels == kind)[:small]] = "small"
    return labels, scores, groups


@pytest.mark.parametrize("asked", ASKED)
def test_every_group_gets_what_its_samples_alone_show_at_its_share_of_the_confidence(asked: dict[str, Any]) -> None:
    labels, scores, groups = three_groups()
    found = certify_promises(labels, scores, groups=groups, **asked)
    assert list(found.points) == ["a", "b", "c"]
    for name, point in found.points.items():
        chosen = groups == name
        assert point == certify_promises(labels[chosen], scores[chosen], confidence=0.95 ** (1 / 3), **asked)
    assert found.targets == {name: value for name, value in asked.items() if name != "prevalence"}


@given(samples(), samples(), st.sampled_from([0.2, 0.5]), st.sampled_from([0.5, 0.8]))
@settings(max_examples=25)
def test_the_thresholds_of_each_group_are_those_that_brute_force_finds(
    one: tuple[Labels, Scores], other: tuple[Labels, Scores], fpr: float, tpr: float
) -> None:
    labels, scores = (np.concatenate(both) for both in zip(one, other, strict=True))
    groups = np.repeat(["one", "other"], [len(one[0]), len(other[0])])
    found = certify_promises(labels, scores, tpr=tpr, fpr=fpr, confidence=0.8, groups=groups)
    tried = {"one": Tried(*one), "other": Tried(*other)}

    def possible(group: Tried, sure: float) -> bool:
        return low(group.n, group.n, sure) >= tpr - SLACK and high(0, group.m, sure) <= fpr + SLACK

    sharing = 2 if all(possible(group, 0.8**0.25) for group in tried.values()) else 1
    sure = 0.8 ** (1 / (2 * sharing))
    kept: dict[str, list[float]] = {}
    for name, group in tried.items():
        counts = zip(group.caught, group.false, strict=True)
        keeps = [
            high(false, group.m, sure) <= fpr + SLACK and low(caught, group.n, sure) >= tpr - SLACK
            for caught, false in counts
        ]
        if any(keeps):
            kept[name] = group.keeping(keeps)
    for name, point in found.points.items():
        assert (point.lowest, point.highest) == expected(kept[name])
    if sharing == 2:
        assert set(found.points) == set(kept)
    else:  # one of them is too small beside another
        assert len(found.points) <= 1
    if found.everyone is not None:
        for point in found.points.values():
            assert point.lowest is not None
            assert point.highest is not None
            assert found.everyone.threshold is not None
            assert point.lowest <= found.everyone.threshold <= point.highest


@pytest.mark.parametrize("small", [0, 20])
def test_a_recall_alone_is_what_certify_groups_gives(small: int) -> None:
    labels, scores, groups = three_groups(small)
    found, plain = (
        certify_promises(labels, scores, tpr=0.9, groups=groups),
        certify_groups(labels, scores, groups, tpr=0.9),
    )
    thresholds = {name: point.threshold for name, point in plain.points.items()}
    assert {name: point.threshold for name, point in found.points.items()} == thresholds
    assert list(found.uncertified) == list(plain.uncertified)
    assert found.everyone is not None
    assert found.everyone.threshold == plain.everyone.threshold
    assert (found.everyone.recall, found.everyone.fpr) == (plain.everyone.recall, plain.everyone.fpr)


def test_a_small_group_does_not_block_the_others_and_says_what_it_needs() -> None:
    labels, scores, groups = three_groups(10)
    asked: dict[str, Any] = {"tpr": 0.8, "fpr": 0.45}
    found = certify_promises(labels, scores, groups=groups, **asked)
    rest = groups != "small"
    assert found.points == certify_promises(labels[rest], scores[rest], groups=groups[rest], **asked).points
    (left,) = found.uncertified.values()
    assert (left.positives, left.negatives) == (10, 10)
    assert left.more_positives is not None
    assert left.more_negatives is not None
    assert left.more_positives > 0
    factors = np.ceil(1 + np.array([left.more_negatives, left.more_positives]) / 10).astype(int)
    times = np.where(rest, 1, factors[labels])  # the same shares, in whole copies
    more = certify_promises(
        *(np.repeat(part, times) for part in (labels, scores)), groups=np.repeat(groups, times), **asked
    )
    assert not more.uncertified


def test_a_group_whose_scores_do_not_keep_the_promises_keeps_its_share_of_the_confidence() -> None:
    labels, scores, groups = three_groups()
    useless = np.where(groups == "c", np.random.default_rng(1).normal(size=len(scores)), scores)
    found = certify_promises(labels, useless, tpr=0.8, fpr=0.3, groups=groups)
    assert list(found.points) == ["a", "b"]
    assert {point.confidence for point in found.points.values()} == {0.95 ** (1 / 3)}
    assert [one.between for one in found.uncertified["c"].conflicts] == [("tpr", "fpr")]


def test_the_number_of_positives_does_not_choose_the_groups_where_rows_are_drawn_together() -> None:
    labels, scores, groups = three_groups()
    barren = np.where((groups == "c") & (scores < 3), 0, labels)  # hardly any positives left in c
    barren[np.flatnonzero(groups == "c")[:-1]] = 0
    for asked, parts in (({"precision": 0.5}, 3), ({"precision": 0.5, "prevalence": 0.1}, 2)):
        found = certify_promises(barren, scores, groups=groups, **asked)  # type: ignore[call-overload]
        assert list(found.points) == ["a", "b"]
        assert {point.confidence for point in found.points.values()} == {0.95 ** (1 / parts)}


@pytest.mark.parametrize("kind", [0, 1])
def test_a_group_of_one_class_is_left_uncertified(kind: int) -> None:
    labels, scores, groups = three_groups()
    groups[np.flatnonzero(labels == kind)[:30]] = "one"
    for asked in (*ASKED, {"tpr": 0.9}):
        left = certify_promises(labels, scores, groups=groups, **asked).uncertified["one"]
        assert (left.positives, left.negatives) == ((30, 0) if kind else (0, 30))
        assert (left.conflicts, left.more_positives) == ((), None)


def test_one_threshold_serves_all_groups_only_if_their_intervals_meet() -> None:
    labels, scores, groups = three_groups()
    asked: dict[str, Any] = {"tpr": 0.8, "fpr": 0.3}
    found = certify_promises(labels, scores, groups=groups, **asked)
    assert found.everyone is not None
    assert found.everyone.threshold == min(point.highest or np.inf for point in found.points.values())
    assert found.everyone.recall == np.mean(scores[labels == 1] >= found.everyone.threshold)
    apart = certify_promises(labels, scores + 5 * (groups == "a"), groups=groups, **asked)
    assert list(apart.points) == ["a", "b", "c"]
    assert apart.everyone is None
    alone = certify_promises(labels, scores, groups=groups, fpr=0.1)
    assert alone.everyone is not None
    assert alone.everyone.threshold == max(point.lowest or -np.inf for point in alone.points.values())


def test_a_unit_in_several_groups_makes_the_risks_add_up() -> None:
    labels, scores, groups = three_groups()
    across = np.where(np.arange(len(labels)) < 3, 0, np.arange(len(labels)))  # the first three rows, a, b and c
    found = certify_promises(labels, scores, tpr=0.7, fpr=0.3, groups=groups, units=across)
    assert [point.confidence for point in found.points.values()] == [pytest.approx(1 - 0.05 / 3)] * 3


@pytest.mark.parametrize("prevalence", [None, 0.15])
def test_a_review_in_each_group_is_the_review_of_its_samples(prevalence: float | None) -> None:
    labels, scores, groups = three_groups(12)
    asked: dict[str, Any] = {"precision": 0.6, "tpr": 0.8, "prevalence": prevalence}
    found = certify_review(labels, scores, groups=groups, **asked)
    assert list(found.points) == ["a", "b", "c"]
    for name, point in found.points.items():
        chosen = groups == name
        assert point == certify_review(labels[chosen], scores[chosen], confidence=0.95 ** (1 / 3), **asked)
    left = found.uncertified["small"]
    assert {name for one in left.conflicts for name in one.between} <= {"tpr", "precision"}
    assert left.more_positives is not None


def test_groups_need_labels_and_scores() -> None:
    summary = ScoreSummary.of([0, 0, 1, 1], [0.0, 1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="knows no groups"):
        certify_promises(summary, fpr=0.1, groups=[0, 0, 1, 1])
    with pytest.raises(ValueError, match="one group per sample"):
        certify_promises([0, 0, 1, 1], [0, 1, 2, 3], fpr=0.1, groups=[0, 1])


@pytest.mark.parametrize("asked", [ASKED[0], ASKED[2], {"tpr": 0.7, "alarms": 250.0}])
def test_promises_in_groups_are_broken_no_more_often_than_stated(asked: dict[str, Any]) -> None:
    """Two groups with other prevalences and shifts, and one that is too small."""
    random, broken, draws = np.random.default_rng(5), 0, 200
    kinds = {"0": (0.1, 2.0), "1": (0.2, 2.4), "2": (0.1, 2.0)}
    groups = np.repeat([0, 1, 2], [1500, 1000, 20])
    share, shift = (np.array([kind[place] for kind in kinds.values()])[groups] for place in (0, 1))
    promise = Asked({name: asked[name] for name in WEAKEST if name in asked}, asked.get("prevalence"), 0.8)
    for _ in range(draws):
        labels = (random.random(len(groups)) < share).astype(np.int64)
        sample = Sample.of(labels, random.normal(shift * labels, 1))
        found = promised_groups(Groups.of(sample, groups), promise, advise=False)
        wrong = False
        for name, point in found.points.items():
            prevalence, distance = kinds[name]
            for threshold in (point.lowest, point.highest, found.everyone and found.everyone.threshold):
                if threshold is None:
                    continue
                recall, fpr = stats.norm.sf(threshold - distance), stats.norm.sf(threshold)  # type: ignore[operator, arg-type]
                alarms = prevalence * recall + (1 - prevalence) * fpr
                wrong |= recall < asked.get("tpr", 0) or fpr > asked.get("fpr", 1)
                wrong |= prevalence * recall < asked.get("precision", 0) * alarms
                wrong |= 1000 * alarms > asked.get("alarms", 1000)
        broken += wrong
    assert broken / draws <= shortfall_limit(0.2, draws)
