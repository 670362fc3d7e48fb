"""What the page looks up is what `rankreg.operating` returns."""

import numpy as np
import pytest

from rankreg.metrics import threshold_at_tpr
from rankreg.operating import NotEnoughPositives, certify, certify_targets
from rankreg.operating.guarantees import lower_bound
from rankreg.operating.units import Per
from rankreg.report.scored_model import Model
from rankreg.report.sliders import Ranks, Setting, Stops, Values, counts_for, price, ranks_for, values_at
from tests.report.conftest import made_model

SHARED = [
    "tpr",
    "confidence",
    "prevalence",
    "rank",
    "recall",
    "fpr",
    "fpr_at_most",
    "alarms_per_1000",
    "alarms_per_1000_at_most",
    "ppv",
    "ppv_at_least",
    "npv",
    "npv_at_least",
    "extra_alarms_per_1000",
]


def looked_up(model: Model, stops: Stops, ranks: Ranks, setting: Setting) -> Values:
    counts = counts_for(model, ranks, stops)
    return values_at(ranks, counts, model.summary.negative_trials, stops, setting)


@pytest.mark.parametrize(
    ("positives", "negatives", "ties"),
    [(1, 5, 0), (44, 300, 0), (60, 1, 1), (150, 70, 4), (400, 90, 0), (997, 500, 2)],
)
def test_every_setting_of_the_sliders_is_what_certify_returns(positives: int, negatives: int, ties: int) -> None:
    model = made_model("a", positives, negatives, seed=positives, ties=ties)
    stops = Stops.around([0.98], 0.95, 0.01)
    ranks = ranks_for(positives, stops)
    counts = counts_for(model, ranks, stops)
    sizes = [len(stops.tprs), len(stops.confidences), len(stops.prevalences)]
    for places in np.random.default_rng(8).integers(0, sizes, size=(60, 3)).tolist():
        setting = Setting(*places)
        found = values_at(ranks, counts, negatives, stops, setting)
        tpr, sure = stops.tprs[setting.tpr], stops.confidences[setting.confidence]
        threshold = float(str(found["threshold"]))
        try:
            point = certify(
                model.labels,
                model.scores,
                tpr=tpr,
                confidence=sure,
                prevalence=stops.prevalences[setting.prevalence],
            )
        except NotEnoughPositives as error:
            expected = (False, threshold_at_tpr(model.labels, model.scores, tpr), error.needed, error.highest_tpr)
            if (found["certified"], threshold, found["needed"], found["highest_tpr"]) != expected:
                raise AssertionError(setting) from error
            continue
        assert {name: found[name] for name in SHARED} == {name: point.to_dict()[name] for name in SHARED}
        assert (found["certified"], threshold) == (True, point.threshold)
        assert found["shortfall_risk"] == point.uncertified.shortfall_risk
        assert found["fpr_at_least"] == lower_bound(int(found["false"] or 0), negatives, sure)


@pytest.mark.parametrize(("low", "same"), [(2, True), (7, False)])
def test_a_price_is_named_only_where_the_usual_threshold_is_another(low: int, same: bool) -> None:
    labels = np.repeat([1, 0], [390 + low, 300])
    model = Model("a", labels, np.repeat([1.0, 0.5, 0.0, 0.7], [390, low, 291, 9]))
    stops = Stops.around([0.98], 0.95, 0.01)
    setting = Setting(stops.fixed_tprs[0], stops.fixed_confidence, stops.fixed_prevalence)
    found = looked_up(model, stops, ranks_for(390 + low, stops), setting)
    assert (found["same"], found["at_most_if_tied"]) == (same, "at most ")


@pytest.mark.parametrize(
    ("recall", "fpr", "at_most", "word"),
    [
        (0.97, 0.0, 0.1, "low"),
        (0.97, 0.09, 0.11, "high"),
        (0.97, 0.45, 0.51, "very high"),
        (0.97, 0.94, 0.96, "very high"),
        (0.99, 0.95, 0.97, "useless"),
        (0.60, 0.60, 0.65, "useless"),
        (1.0, 1.0, 1.0, "useless"),
    ],
)
def test_a_price_is_named_by_its_bound_and_useless_where_nothing_is_told_apart(
    recall: float, fpr: float, at_most: float, word: str
) -> None:
    assert price(recall, fpr, at_most) == word


def test_targets_fixed_together_hold_together() -> None:
    model = made_model("a", 700, 900)
    stops = Stops.around([0.98, 0.9, 0.95], 0.9, 0.1)
    ranks = ranks_for(700, stops)
    together = certify_targets(
        model.labels, model.scores, tprs=[0.98, 0.9, 0.95], confidence=0.9, prevalence=0.1
    ).points
    for stop in stops.fixed_tprs:
        found = looked_up(model, stops, ranks, Setting(stop, stops.fixed_confidence, stops.fixed_prevalence))
        point = next(point for point in together if point.tpr == stops.tprs[stop])
        assert (found["rank"], found["fpr_at_most"]) == (point.rank, point.fpr_at_most)


def test_of_several_targets_those_out_of_reach_do_not_spoil_the_rest() -> None:
    model = made_model("a", 60, 100)
    stops = Stops.around([0.98, 0.9], 0.95, 0.1)
    ranks = ranks_for(60, stops)
    found = [
        looked_up(model, stops, ranks, Setting(stop, stops.fixed_confidence, stops.fixed_prevalence))
        for stop in stops.fixed_tprs
    ]
    assert [value["certified"] for value in found] == [False, True]
    alone = certify(model.labels, model.scores, tpr=0.9)
    assert (found[1]["rank"], found[1]["fpr_at_most"]) == (alone.rank, alone.fpr_at_most)


def test_the_sliders_stand_on_what_was_fixed_however_odd() -> None:
    stops = Stops.around([0.98765, 0.3], 0.9123, 0.000_001_234)
    assert [stops.tprs[stop] for stop in stops.fixed_tprs] == [0.98765, 0.3]
    assert stops.confidences[stops.fixed_confidence] == 0.9123
    assert stops.prevalences[stops.fixed_prevalence] == 0.000_001_234
    for values in (stops.tprs, stops.confidences, stops.prevalences):
        assert list(values) == sorted(set(values))


def with_units(mixed: bool) -> Model:
    """Two hundred positive and as many negative units of one to seven rows, or half as many with both."""
    generator = np.random.default_rng(41)
    sizes = generator.integers(1, 8, 400)
    units = np.repeat(np.arange(400), sizes)
    labels = units % 2
    scores = generator.standard_normal(400)[units] + generator.standard_normal(len(units)) + 3 * labels
    return Model("a", labels, scores, units=units // 2 if mixed else units)


@pytest.mark.parametrize("per", ["row", "unit"])
@pytest.mark.parametrize("mixed", [False, True])
def test_with_units_the_sliders_are_what_certify_returns_too(per: Per, mixed: bool) -> None:
    model = with_units(mixed)
    stops = Stops.around([0.9], 0.95, 0.01, coarse=True)
    ranks = ranks_for(model.sample.judged(per).trials, stops)
    counts = counts_for(model, ranks, stops, per)
    assert len(stops.tprs) * len(stops.confidences) < 200
    shared = [name for name in SHARED if per == "row" or "_at_least" not in name]
    for tpr, sure in [(0.9, 0.95), (0.95, 0.8), (0.5, 0.999), (0.998, 0.99)]:
        setting = Setting(stops.tprs.index(tpr), stops.confidences.index(sure), stops.fixed_prevalence)
        found = values_at(ranks, counts, model.summary.negative_trials, stops, setting)
        try:
            point = certify(
                model.labels, model.scores, tpr=tpr, confidence=sure, prevalence=0.01, units=model.units, per=per
            )
        except NotEnoughPositives as error:
            if (found["certified"], found["needed"]) != (False, error.needed):
                raise AssertionError(setting) from error
            continue
        assert {name: found[name] for name in shared} == pytest.approx(
            {name: point.to_dict()[name] for name in shared}, rel=1e-9
        )
        assert (found["certified"], found["threshold"]) == (True, repr(point.threshold))
