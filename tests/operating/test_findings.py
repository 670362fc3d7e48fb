"""Reversed scores, hard predictions and thresholds that alarm on everything come first, and are no success."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from rankreg.bundle.evaluation import evaluate_scores
from rankreg.operating import auc_interval, certify, findings
from rankreg.report import Model, Settings
from rankreg.report.page import render
from tests.conftest import Run

LABELS = np.repeat([1, 0], [200, 800])
COLUMNS = ("--label", "y", "--score", "s")


def scores(shift: float, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(1000) + shift * LABELS


HARD = (scores(2.0) > 0.5).astype(float)


def names(values: NDArray[np.float64], threshold: float | None = None) -> list[str]:
    return [one.name for one in findings(LABELS, values, threshold=threshold)]


def test_ordinary_scores_have_no_findings() -> None:
    assert names(scores(2.0)) == []
    assert names(scores(2.0), threshold=0.5) == []


def test_reversed_scores_are_those_whose_whole_interval_lies_below_one_half() -> None:
    assert names(scores(-2.0)) == ["reversed"]
    seen = set()
    for shift in np.linspace(-0.4, 0.2, 13):
        values = scores(shift)
        found, area = names(values), auc_interval(LABELS, values)
        by_chance = "below-chance" if area.estimate < 0.5 else "chance"
        assert found == (["reversed"] if area.high < 0.5 else [by_chance] if area.low <= 0.5 else [])
        seen |= {*found}
    assert seen == {"reversed", "below-chance", "chance"}


def test_the_interval_is_left_out_only_where_it_cannot_reach_one_half() -> None:
    generator = np.random.default_rng(2)
    for _ in range(200):
        sizes = generator.integers(2, 60, 2)
        labels = np.repeat([1, 0], sizes)
        values = np.round(generator.standard_normal(len(labels)) + generator.uniform(0, 3) * labels, 1)
        shown = auc_interval(labels, values).low > 0.5
        assert ([one.name for one in findings(labels, values) if "two" not in one.name] == []) == shown


def test_chance_alone_is_seldom_called_reversed() -> None:
    generator = np.random.default_rng(1)
    labels = np.repeat([1, 0], [50, 200])
    found = [findings(labels, generator.standard_normal(250)) for _ in range(1000)]
    assert sum(one.refuses for some in found for one in some) <= 40  # 2.5 % are expected at most


def test_two_values_are_hard_predictions_whatever_they_are_called() -> None:
    assert names(HARD) == ["two-values"]
    assert names(HARD * 7 - 3) == ["two-values"]
    assert names(HARD + (np.arange(1000) == 0)) == []


def test_a_threshold_that_nearly_every_negative_reaches_alarms_on_everything() -> None:
    values = scores(2.0)
    ordered = np.sort(values[LABELS == 0])
    assert names(values, threshold=ordered[0]) == ["alarms-on-everything"]
    assert names(values, threshold=ordered[40]) == ["alarms-on-everything"]  # 760 of 800 are 95 %
    assert names(values, threshold=np.nextafter(ordered[40], np.inf)) == []
    assert certify(LABELS, HARD, tpr=0.97).fpr == 1.0  # the only threshold with that recall
    assert names(HARD, threshold=0.0) == ["alarms-on-everything", "two-values"]


def test_a_threshold_that_catches_no_larger_share_of_positives_alarms_at_random() -> None:
    values = scores(2.0)
    values[:40] = -4.0  # a fifth of the positives score below all negatives: the ROC curve crosses the diagonal
    by_rate = {
        threshold: np.mean(values[LABELS == 0] >= threshold) >= np.mean(values[LABELS == 1] >= threshold)
        for threshold in np.linspace(-1.5, 6, 31)
    }
    assert {*by_rate.values()} == {True, False}
    for threshold, random in by_rate.items():
        assert names(values, threshold=threshold) == (["alarms-at-random"] if random else [])
    assert all(one.useless for one in findings(LABELS, values, threshold=6.0))


def test_one_sample_of_a_class_proves_no_reversal() -> None:
    assert [one.name for one in findings([1, 0, 0, 0], [0.0, 1.0, 2.0, 3.0])] == ["below-chance"]


def write(path: Path, values: NDArray[np.float64]) -> str:
    pd.DataFrame({"y": LABELS, "s": values}).to_csv(path, index=False)
    return str(path)


def named(out: str) -> list[str]:
    return [one["name"] for one in json.loads(out)["findings"]]


@pytest.mark.parametrize("options", [(), ("--json",), ("--tpr", "0.9", "--tpr", "0.95"), ("--group", "g")])
def test_certify_refuses_reversed_scores(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    table = pd.DataFrame({"y": LABELS, "s": scores(-2.0), "g": np.arange(1000) % 2})
    table.to_csv(tmp_path / "scores.csv", index=False)
    status, out, error = run("certify", "scores.csv", *COLUMNS, *options)
    assert (status, out) == (2, "")
    assert "reversed" in error
    assert "Traceback" not in error


def test_certify_says_first_that_scores_are_hard_and_that_everything_alarms(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "hard.csv", HARD)
    status, out, _ = run("certify", "hard.csv", *COLUMNS, "--tpr", "0.97")
    assert status == 0
    assert out.startswith("Beware")
    everything = run("certify", "hard.csv", *COLUMNS, "--tpr", "0.97", "--json")[1]
    assert named(everything) == ["alarms-on-everything", "two-values"]
    assert named(run("certify", "hard.csv", *COLUMNS, "--tpr", "0.8", "--json")[1]) == ["two-values"]


def test_recertify_keeps_its_verdict_but_certifies_nothing_new_from_reversed_scores(
    run: Run, tmp_path: Path
) -> None:
    write(tmp_path / "new.csv", scores(-2.0))
    status, out, _ = run("recertify", "new.csv", *COLUMNS, "--threshold", "-1", "--json")
    found = json.loads(out)
    assert status == 0
    assert named(out) == ["reversed"]
    assert (found["verdict"], found["point"]) == ("fallen", None)
    assert "reversed" in found["uncertified_because"]
    assert run("recertify", "new.csv", *COLUMNS, "--threshold", "-1")[1].startswith("Beware")


def test_compare_names_the_model_that_is_reversed(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "good.csv", scores(2.0))
    write(tmp_path / "bad.csv", scores(-2.0, seed=1))
    status, out, _ = run("compare", "good.csv", "bad.csv", *COLUMNS, "--draws", "100", "--json")
    assert status == 0
    assert named(out) == ["reversed", "alarms-on-everything"]  # at the TPR of the comparison
    assert json.loads(out)["findings"][0]["sentence"].startswith("bad.csv: ")


def test_an_evaluation_carries_the_findings_at_its_threshold() -> None:
    found = evaluate_scores(LABELS, scores(-2.0), threshold=-20.0)
    assert [one.name for one in found.findings] == ["reversed", "alarms-on-everything"]
    assert found.to_dict()["findings"][0]["name"] == "reversed"


def test_a_report_shows_reversed_scores_and_useless_thresholds_as_no_success() -> None:
    page = render([Model("model", LABELS, scores(-2.0))], Settings(tprs=(0.9,)))
    assert 'data-finding="reversed"' in page
    assert '<tr class="bad">' in page
    assert '<tr class="good">' not in page
    assert 'data-when="refused">' in page
    assert 'data-when="certified fixed low" hidden' in page

    page = render([Model("model", LABELS, HARD)], Settings(tprs=(0.97,)))
    assert 'data-finding="two-values"' in page
    assert 'data-finding="useless"' in page
    assert '<tr class="bad">' in page
    assert '<tr class="good">' not in page
    assert 'data-when="certified fixed low" hidden' in page
    assert '"alarms-on-everything"' in page or "alarms-on-everything&#34;" in page  # in the card's JSON

    page = render([Model("model", LABELS, scores(5.0))], Settings(tprs=(0.9,)))
    assert "data-finding" not in page
    assert '<tr class="good">' in page
    assert 'data-when="certified fixed low">' in page


def test_the_page_states_no_chance_of_falling_short_where_everything_alarms() -> None:
    labels, values = np.repeat([1, 0], [30, 100]), np.repeat([0.0, 1.0], [30, 100])
    values[:20] = 2.0  # the lowest positives lie below all negatives, and 30 positives certify 90 % at most
    page = render([Model("model", labels, values)], Settings(tprs=(0.98,)))
    assert 'data-when="too_few usual_selective" hidden' in page
    assert 'data-when="too_few everything">' in page
