"""`rankreg certify` with promises, a review and small groups: what is printed, what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rankreg.notation import rounded_threshold
from rankreg.operating import certify_promises, certify_review
from rankreg.report.promise_text import promised_threshold
from tests.cli.test_operating_commands import COLUMNS, result_of
from tests.conftest import Run


def as_json(record: dict[str, object]) -> object:
    return json.loads(json.dumps(record))


def test_certify_prints_the_promises_that_the_function_returns(run: Run, table: pd.DataFrame) -> None:
    data = table["truth"], table["model output"]
    asked = ("--tpr", "0.8", "--precision", "0.1", "--alarms", "400", "--prevalence", "0.05")
    status, out, _ = run("certify", "scores.csv", *COLUMNS, *asked, "--json")
    expected = certify_promises(*data, tpr=0.8, precision=0.1, alarms=400, prevalence=0.05)
    assert status == 0
    assert result_of(out) == as_json(expected.to_dict())
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--alarms", "800", "--per-day", "4000", "--json")
    assert result_of(out) == as_json(certify_promises(*data, alarms=200).to_dict())


def test_promises_are_said_first_and_then_the_price(run: Run, table: pd.DataFrame) -> None:
    found = certify_promises(table["truth"], table["model output"], tpr=0.8, fpr=0.3, prevalence=0.05)
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--tpr", "0.8", "--fpr", "0.3", "--prevalence", "0.05")
    lines = out.splitlines()
    assert re.findall(r"[\d.]+ %", lines[0]) == ["80 %", "30 %", "95 %"]
    assert "false alarms per 1,000" in lines[1]
    assert f"alarm when score ≥ {promised_threshold(found)}" in out
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--alarms", "800", "--per-day", "4000")
    assert "at most 800 alarms per day" in out.splitlines()[0]


def test_a_conflict_is_status_one_and_says_what_would_help(run: Run, table: pd.DataFrame) -> None:
    asked = ("--tpr", "0.95", "--fpr", "0.05")
    status, out, error = run("certify", "scores.csv", *COLUMNS, *asked)
    assert (status, error) == (1, "")
    (conflict,) = certify_promises(table["truth"], table["model output"], tpr=0.95, fpr=0.05).conflicts
    for one in conflict.closest:
        assert rounded_threshold(one.threshold) in out
    assert out.startswith("Not certified")
    status, out, _ = run("certify", "scores.csv", *COLUMNS, *asked, "--json")
    assert status == 1
    assert json.loads(out)["threshold"] is None
    assert json.loads(out)["conflicts"] == [as_json(conflict.to_dict())]


def test_a_review_prints_two_thresholds_and_its_load(run: Run, table: pd.DataFrame) -> None:
    found = certify_review(table["truth"], table["model output"], precision=0.8, tpr=0.9)
    asked = ("certify", "scores.csv", *COLUMNS, "--review", "--precision", "0.8", "--tpr", "0.9")
    status, out, _ = run(*asked, "--json")
    assert status == 0
    assert result_of(out) == as_json(found.to_dict())
    out = run(*asked)[1]
    for value in (found.alarm_from, found.review_from):
        assert rounded_threshold(value or 0.0) in out
    assert "reviews" in out.splitlines()[1]
    assert "per day" in run(*asked, "--per-day", "500")[1].splitlines()[1]
    status, out, _ = run(*asked[:-4], "--precision", "0.999", "--prevalence", "0.001")
    assert status == 1
    assert out.startswith("Not certified")


def test_a_small_group_is_shown_uncertified(run: Run, table: pd.DataFrame) -> None:
    site = np.where(np.arange(2000) % 40 == 0, "small clinic", table["sex"])
    table.assign(site=site).to_csv("sites.csv", index=False)
    arguments = ("certify", "sites.csv", *COLUMNS, "--group", "site", "--tpr", "0.95")
    status, out, _ = run(*arguments)
    assert status == 0
    assert re.search(r"^small clinic +not certified", out, flags=re.MULTILINE)
    assert "in each of the groups f, m" in out
    found = json.loads(run(*arguments, "--json")[1])
    assert list(found["points"]) == ["f", "m"]
    assert list(found["uncertified"]) == ["small clinic"]
    covered = table.loc[site != "small clinic", "truth"].sum()
    assert found["everyone"]["positives"] == covered


def with_sites(table: pd.DataFrame) -> pd.DataFrame:
    """The same with two sites and a small clinic, in sites.csv."""
    site = np.where(np.arange(2000) % 80 == 0, "small clinic", table["sex"])
    made = table.assign(site=site)
    made.to_csv("sites.csv", index=False)
    return made


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        (("--tpr", "0.7", "--fpr", "0.4"), {"tpr": 0.7, "fpr": 0.4}),
        (("--precision", "0.2", "--prevalence", "0.1"), {"precision": 0.2, "prevalence": 0.1}),
        (("--alarms", "800", "--per-day", "4000"), {"alarms": 200}),
    ],
)
def test_promises_in_groups_are_those_that_the_function_returns(
    run: Run, table: pd.DataFrame, typed: tuple[str, ...], asked: dict[str, float]
) -> None:
    sites = with_sites(table)
    data: Any = sites["truth"], sites["model output"]
    found = certify_promises(*data, groups=sites["site"].to_numpy(), **asked)  # type: ignore[call-overload]
    arguments = ("certify", "sites.csv", *COLUMNS, "--group", "site", *typed)
    status, out, error = run(*arguments, "--json")
    assert (status, error) == (0, "")
    assert result_of(out) == as_json(found.to_dict())
    assert list(found.points) == ["f", "m"]
    out = run(*arguments)[1]
    for point in found.points.values():
        assert promised_threshold(point) in out
    left = found.uncertified["small clinic"]
    assert f"about {left.more_positives:,} more positives" in " ".join(out.split()).lower()


def test_reviews_in_groups_are_those_that_the_function_returns(run: Run, table: pd.DataFrame) -> None:
    sites = with_sites(table)
    data: Any = sites["truth"], sites["model output"]
    found = certify_review(*data, precision=0.5, tpr=0.8, groups=sites["site"].to_numpy())
    arguments = (
        "certify",
        "sites.csv",
        *COLUMNS,
        "--group",
        "site",
        "--review",
        "--precision",
        "0.5",
        "--tpr",
        "0.8",
    )
    status, out, _ = run(*arguments, "--json")
    assert status == 0
    assert result_of(out) == as_json(found.to_dict())
    out = run(*arguments)[1]
    for point in found.points.values():
        assert point.review_from is not None
        assert point.alarm_from is not None
        assert rounded_threshold(point.review_from) in out
        assert rounded_threshold(point.alarm_from) in out
    Path("review.json").write_text(run(*arguments, "--json")[1])
    status, _, error = run("monitor", "sites.csv", *COLUMNS, "--point", "review.json")
    assert (status, "a threshold for each group" in error) == (2, True)
    for point in found.points.values():
        assert f"--threshold {point.review_from!r}" in error


def test_promises_that_no_group_keeps_are_status_one(run: Run, table: pd.DataFrame) -> None:
    with_sites(table)
    asked = ("certify", "sites.csv", *COLUMNS, "--group", "site", "--tpr", "0.95", "--fpr", "0.01")
    status, out, error = run(*asked)
    assert (status, error) == (1, "")
    assert "Not certified" in out
    assert json.loads(run(*asked, "--json")[1])["points"] == {}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--fpr", "2"), "fpr must lie"),
        (("--precision", "0"), "precision must lie"),
        (("--alarms", "1500"), "between 0 and 1,000"),
        (("--alarms", "50", "--per-day", "20"), "between 0 and the 20 rows per day"),
        (("--alarms", "50", "--per-day", "0"), "above 0"),
        (("--per-day", "100"), "give one of them"),
        (("--review",), "--review takes --precision"),
        (("--review", "--precision", "0.9", "--fpr", "0.1"), "no other promise"),
        (("--fpr", "0.1", "--tpr", "0.9", "--tpr", "0.8"), "run the command once for each"),
        (("--group", "sex", "--tpr", "0.9", "--tpr", "0.8"), "run the command once for each"),
        (("--fpr", "0.1", "--cost-miss", "5", "--cost-alarm", "1"), "costs go with one --tpr"),
        (("--fpr", "0.1", "--per", "unit"), "add --unit"),
    ],
)
def test_bad_promises_are_a_message_and_status_two(
    run: Run, table: pd.DataFrame, asked: tuple[str, ...], message: str
) -> None:
    status, out, error = run("certify", "scores.csv", *COLUMNS, *asked)
    assert (status, out) == (2, "")
    assert message in error


def test_a_point_without_a_recall_or_a_threshold_is_watched_only_with_one(run: Run, table: pd.DataFrame) -> None:
    Path("fpr.json").write_text(run("certify", "scores.csv", *COLUMNS, "--fpr", "0.2", "--json")[1])
    watch = ("monitor", "scores.csv", *COLUMNS, "--point", "fpr.json")
    status, _, error = run(*watch)
    assert (status, "--tpr" in error) == (2, True)
    status, out, _ = run(*watch, "--tpr", "0.5", "--json")
    assert status == 0
    assert json.loads(out)["threshold"] == json.loads(Path("fpr.json").read_text())["threshold"]
    Path("none.json").write_text(
        run("certify", "scores.csv", *COLUMNS, "--tpr", "0.95", "--fpr", "0.05", "--json")[1]
    )
    status, _, error = run("monitor", "scores.csv", *COLUMNS, "--point", "none.json")
    assert (status, "holds no threshold" in error) == (2, True)
