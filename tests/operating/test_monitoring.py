"""The monitor: false alarms over long streams, early alarms when recall falls, and its formula written out."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rankreg.operating import certify, monitor, positives_until_alarm, recertify
from rankreg.operating.monitoring import ODDS_RATIOS, log_evidence


def ever(missed: NDArray[np.bool_], miss_rate: float, level: float) -> float:
    return float(np.mean(log_evidence(missed, miss_rate)[0].max(axis=1) >= -np.log(level)))


@pytest.mark.slow
@pytest.mark.parametrize(("miss_rate", "level"), [(0.02, 0.05), (0.05, 0.1)])
def test_false_alarms_over_a_long_stream_stay_below_the_level(miss_rate: float, level: float) -> None:
    generator = np.random.default_rng(17)
    found = [ever(generator.random((500, 1500)) < miss_rate, miss_rate, level) for _ in range(4)]  # 2,000 streams
    assert 0 < np.mean(found) <= level


def test_false_alarms_stay_below_the_level() -> None:
    assert ever(np.random.default_rng(25).random((2000, 200)) < 0.05, 0.05, 0.1) <= 0.1


def test_a_recall_above_the_target_raises_still_fewer() -> None:
    generator = np.random.default_rng(18)
    assert ever(generator.random((500, 1000)) < 0.01, 0.02, 0.05) < 0.01


@pytest.mark.parametrize(
    ("fell_to", "after", "within"), [(0.9, 0, 80), (0.8, 0, 30), (0.9, 500, 250), (0.5, 500, 30)]
)
def test_a_fall_is_found_soon(fell_to: float, after: int, within: int) -> None:
    generator = np.random.default_rng(19)
    rates = np.where(np.arange(after + within) < after, 0.02, 1 - fell_to)
    alarms = log_evidence(generator.random((300, after + within)) < rates, 0.02)[0] >= np.log(20)
    assert np.mean(alarms.any(axis=1)) > 0.75


def test_the_evidence_is_its_formula_written_out() -> None:
    missed, p = np.random.default_rng(20).random(40) < 0.3, 0.1
    odds = ODDS_RATIOS * p / (1 - p)
    expected = []
    for t in range(1, 41):
        total = 1 / (t + 1)
        for q in odds / (1 + odds):
            ratios = np.where(missed[:t], q / p, (1 - q) / (1 - p))
            total += sum(np.prod(ratios[j - 1 :]) / (j * (j + 1)) for j in range(1, t + 1)) / len(odds)
        expected.append(total)
    np.testing.assert_allclose(np.exp(log_evidence(missed, p)[0]), expected)


def test_the_evidence_is_a_fair_bet_at_the_target() -> None:
    """Its mean over all streams of six, weighted by their chance, is 1 at every step."""
    streams = (np.arange(64)[:, None] >> np.arange(6)) & 1 == 1
    chances = np.prod(np.where(streams, 0.1, 0.9), axis=1)
    np.testing.assert_allclose(chances @ np.exp(log_evidence(streams, 0.1)[0]), 1)


def test_the_alarm_is_the_first_and_stays() -> None:
    scores = np.array([1.0] * 30 + [-1.0] * 6 + [1.0] * 500)
    watch = monitor(scores, threshold=0.0, tpr=0.98)
    assert watch.alarm_at is not None
    assert 30 < watch.alarm_at <= 36
    assert watch.path[watch.alarm_at - 1] >= 20 > watch.path[watch.alarm_at - 2]
    assert watch.alarm_at == monitor(scores[:36], threshold=0.0, tpr=0.98).alarm_at
    assert (watch.positives, watch.misses) == (536, 6)
    assert "path" not in watch.to_dict()


def test_a_score_at_the_threshold_is_caught() -> None:
    assert monitor([0.5, 0.5], threshold=0.5).misses == 0


def test_no_alarm_without_misses_and_the_bias_is_named() -> None:
    watch = monitor(np.ones(2000), threshold=0.0)
    assert watch.alarm_at is None
    assert "rarely confirmed" in watch.warning


def test_seldom_verified_misses_weigh_more() -> None:
    generator = np.random.default_rng(21)
    caught = np.where(generator.random(2000) < 0.9, 1.0, -1.0)  # the true recall is 90 %, not 98 %
    confirmed = caught[(caught > 0) | (generator.random(2000) < 0.1)]
    assert monitor(confirmed, threshold=0.0, tpr=0.98).alarm_at is None
    assert monitor(confirmed, threshold=0.0, tpr=0.98, verified_below=0.1).alarm_at is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": float("nan")}, "threshold is NaN"),
        ({"threshold": 0.0, "level": 0.0}, "level must lie strictly"),
        ({"threshold": 0.0, "verified_below": 0.0}, "verified_below must lie in"),
        ({"threshold": 0.0, "tpr": 1.0}, "tpr must lie strictly"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        monitor([1.0, 2.0], **settings)


def test_an_empty_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one confirmed positive"):
        monitor([], threshold=0.0)


def test_recertifying_tells_what_holds_from_what_fell() -> None:
    generator = np.random.default_rng(22)
    labels = np.repeat([1, 0], [1000, 3000])
    scores = generator.standard_normal(4000) + 2 * labels
    point = certify(labels, scores, tpr=0.95)
    new = generator.standard_normal(4000) + 2 * labels
    low = recertify(labels, new, threshold=-2.0, tpr=0.95)
    assert low.verdict == "holds"
    assert low.point == certify(labels, new, tpr=0.95)
    worse = recertify(labels, new - 0.5, threshold=point.threshold, tpr=0.95)
    assert worse.verdict == "fallen"
    assert worse.recall.high < 0.95
    assert worse.recall.estimate == np.mean((new - 0.5)[:1000] >= point.threshold)
    assert recertify(labels, new, threshold=float(np.quantile(new[:1000], 0.05)), tpr=0.95).verdict == "undecided"


def test_a_fall_is_proved_with_fewer_positives_than_a_certificate_needs() -> None:
    found = recertify([1] * 30 + [0] * 30, np.append(np.linspace(-1, 1, 30), np.linspace(-3, 0, 30)), threshold=0.0)
    assert found.verdict == "fallen"
    assert found.point is None
    assert "59 are needed" in str(found.uncertified_because)


@pytest.mark.parametrize(
    ("misses", "caught", "recall", "settings"),
    [(3, 10, 0.8, {}), (0, 100, 0.7, {"tpr": 0.9}), (0, 30, 0.7, {"verified_below": 0.5})],
)
def test_the_time_until_a_fall_is_noticed_is_that_of_streams_that_go_on(
    misses: int, caught: int, recall: float, settings: dict[str, Any]
) -> None:
    """Brute force: whole streams with the fall in them, judged from their beginning."""
    watch = monitor([1.0] * caught + [-1.0] * misses, threshold=0.0, level=0.02, **settings)
    assert watch.alarm_at is None
    below = (1 - recall) * watch.verified_below
    later = np.random.default_rng(30).random((800, 800)) < below / (below + recall)
    before = np.tile(np.repeat([False, True], [caught, misses]), (800, 1))
    p = (1 - watch.tpr) * watch.verified_below
    alarms = log_evidence(np.hstack([before, later]), p / (p + watch.tpr))[0] >= -np.log(0.02)
    assert alarms.any(axis=1).all()
    expected = np.mean(alarms.argmax(axis=1) + 1 - len(watch.path))
    assert positives_until_alarm(watch, recall=recall) == pytest.approx(expected, rel=0.1)


def test_the_time_until_a_fall_is_noticed_counts_units() -> None:
    """Units of one size are rows; with small units beside large ones it takes longer."""
    rows = monitor([1.0] * 60, threshold=0.0)
    pairs = monitor([1.0] * 120, threshold=0.0, units=np.arange(120) // 2)
    mixed = monitor([1.0] * 126, threshold=0.0, units=np.append(np.arange(54), np.repeat(np.arange(54, 60), 12)))
    assert positives_until_alarm(pairs) == positives_until_alarm(rows)
    assert positives_until_alarm(mixed) > 1.2 * positives_until_alarm(rows)


def test_a_fall_that_cannot_be_noticed_soon_takes_forever_and_a_noticed_one_no_time() -> None:
    assert positives_until_alarm(monitor([1.0] * 5, threshold=0.0), recall=0.9499, draws=20) == np.inf
    assert positives_until_alarm(monitor([-1.0] * 5, threshold=0.0)) == 0
    with pytest.raises(ValueError, match=r"below 0\.95"):
        positives_until_alarm(monitor([1.0], threshold=0.0), recall=0.95)


def test_a_unit_is_dated_when_it_and_all_before_it_are_complete() -> None:
    days = np.datetime64("2025-03-01") + np.array([0, 0, 3, 5, 9])
    watch = monitor([1.0] * 5, threshold=0.0, units=list("abacb"), times=days)
    assert watch.times is not None
    assert watch.times.tolist() == (days[[2, 4, 4]]).tolist()  # c is in on the 6th, b before it only on the 10th
    assert (watch.first_time, watch.last_time, watch.alarm_time) == ("2025-03-01", "2025-03-10", None)


def test_the_alarm_has_a_date() -> None:
    hours = np.datetime64("2025-03-01T10:30") + np.arange(50) * np.timedelta64(1, "h")
    watch = monitor([1.0] * 30 + [-1.0] * 20, threshold=0.0, times=hours)
    assert watch.alarm_at is not None
    assert watch.alarm_time == str(hours[watch.alarm_at - 1].astype("datetime64[s]")).replace("T", " ")
    for wrong, message in (
        (hours[::-1], "must ascend"),
        (hours[:-1], "expected 50 times"),
        (["x"] * 50, "numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            monitor([1.0] * 50, threshold=0.0, times=wrong)
