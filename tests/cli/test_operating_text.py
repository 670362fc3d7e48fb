"""What the desk's commands say: every number, how the labels were read, and no more than is known."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from rankreg.notation import number, rounded_threshold, share
from rankreg.operating import certify_promises
from rankreg.report.promise_text import promised_threshold
from tests.cli.test_operating_commands import COLUMNS, write
from tests.conftest import Run


@pytest.mark.parametrize("width", ["60", "80", "200"])
def test_long_group_names_hide_no_number(
    run: Run, table: pd.DataFrame, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    names = table["sex"].map(
        {"f": "a hospital whose name is quite long", "m": "another hospital, with a longer name"}
    )
    table.assign(site=names).to_csv("sites.csv", index=False)
    arguments = ("certify", "sites.csv", *COLUMNS, "--group", "site", "--tpr", "0.95")
    found, out = json.loads(run(*arguments, "--json")[1]), run(*arguments)[1]
    for name, point in found["points"].items():
        for text in (
            name,
            f"{point['positives']:,}",
            rounded_threshold(point["threshold"]),
            share(point["recall"]),
            share(point["fpr"]),
            share(point["fpr_at_most"], up=True),
            number(point["alarms_per_1000"]),
        ):
            assert text in out


def test_it_is_said_how_labels_were_read(run: Run, table: pd.DataFrame) -> None:
    arguments = ("certify", "scores.csv", "--score", "model output", "--label", "answer", "--positive", "yes")
    assert "yes → positive (400), no → negative (1,600)" in run(*arguments)[1]
    read = {"column": "answer", "positive": "yes", "positives": 400, "others": ["no"], "negatives": 1600}
    assert json.loads(run(*arguments, "--json")[1])["labels"] == read


def test_compare_warns_of_too_few_positives_and_never_says_that_p_is_zero(run: Run) -> None:
    generator, labels = np.random.default_rng(3), np.repeat([1, 0], [40, 4000])
    good, bad = labels + 1e-3 * generator.random(4040), generator.random(4040) - labels
    pd.DataFrame({"y": labels, "good": good, "bad": bad}).to_csv("both.csv", index=False)
    columns = ("--label", "y", "--score", "good", "--score-b", "bad")
    arguments = ("compare", "both.csv", "both.csv", *columns, "--tpr", "0.98")
    _, out, _ = run(*arguments)
    warning = json.loads(run(*arguments, "--json")[1])["warning"]
    assert ("40 positives" in warning, "98 %" in warning) == (True, True)
    assert warning in " ".join(out.split())
    assert "p < 1e-300" in out


def test_targets_hold_together_and_each_bound_says_how_sure_it_is(run: Run, table: pd.DataFrame) -> None:
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--tpr", "0.9", "--tpr", "0.98")
    assert re.match(r"Targets +both .+ 95 %", out)
    assert out.count("(97.46 % confidence)") == 2  # √0.95, rounded down
    assert out.count("(92.46 % confidence)") == 4


def test_no_price_is_named_where_there_is_none(run: Run) -> None:
    rows = "1,1\n" * 390 + "1,0.5\n" * 2 + "0,0\n" * 300 + "0,1\n" * 9
    asked = ("--label", "y", "--score", "s", "--tpr", "0.98")
    _, out, _ = run("certify", write("y,s\n" + rows), *asked)
    assert re.search(r"^Guarantee +free", out, re.MULTILINE)
    rows = "1,1\n" * 390 + "1,0.5\n" * 7 + "0,0\n" * 300 + "0,0.7\n" * 9
    _, out, _ = run("certify", write("y,s\n" + rows), *asked)
    assert re.search(r"usual threshold 1, .+ 98 % with a chance of at most", " ".join(out.split()))


def test_monitor_says_that_without_labels_every_row_counts(run: Run, table: pd.DataFrame) -> None:
    arguments = ("monitor", "scores.csv", "--score", "model output", "--threshold", "1.0")
    assert "--label" in run(*arguments)[1]
    found = json.loads(run(*arguments, "--json")[1])
    assert ("every row" in found["labels"]["read_as"], found["positives"]) == (True, 2000)


def test_a_monitor_rounds_its_threshold_down_and_its_evidence_to_three_digits(run: Run) -> None:
    pd.DataFrame({"s": [0.1] * 9 + [0.9] * 9}).to_csv("confirmed.csv", index=False)
    arguments = ("monitor", "confirmed.csv", "--score", "s", "--threshold", "0.3279826045036316", "--tpr", "0.99")
    found, out = json.loads(run(*arguments, "--json")[1]), run(*arguments)[1]
    assert found["threshold"] == 0.3279826045036316
    assert re.findall(r"below (0\.\d+)", out) == ["0.327982"]
    assert found["e_value"] > 1e6
    now, highest = (float(text) for text in re.findall(r"(\S+) now, (\S+) at its highest", out)[0])
    assert (now, highest) == pytest.approx((found["e_value"], found["largest_e_value"]), rel=5e-3)


def test_a_missing_file_is_named_without_a_number_of_the_system(run: Run) -> None:
    status, out, error = run("certify", "absent.csv", *COLUMNS)
    assert (status, out) == (2, "")
    assert "absent.csv" in error
    assert "[Errno" not in error


@pytest.mark.parametrize(
    "asked",
    [
        ("certify", "s.csv", "--tpr", "0.9"),
        ("certify", "s.csv", "--tpr", "0.9", "--tpr", "0.8"),
        ("certify", "s.csv", "--fpr", "0.2"),
        ("certify", "s.csv", "--tpr", "0.9", "--fpr", "0.6"),
        ("certify", "s.csv", "--tpr", "0.95", "--fpr", "0.01"),
        ("certify", "s.csv", "--tpr", "0.8", "--precision", "0.4", "--review"),
        ("certify", "s.csv", "--group", "g"),
        ("certify", "s.csv", "--group", "g", "--fpr", "0.6"),
        ("certify", "s.csv", "--cost-miss", "10", "--cost-alarm", "1"),
        ("compare", "s.csv", "s.csv", "--score-b", "t", "--draws", "200"),
        ("recertify", "s.csv", "--threshold", "0.1234567890123"),
        ("monitor", "s.csv", "--threshold", "0.1234567890123"),
    ],
)
def test_no_number_for_people_has_more_than_ten_digits(run: Run, asked: tuple[str, ...]) -> None:
    generator, labels = np.random.default_rng(5), np.repeat([1, 0], [400, 1600])
    scores = 1 / (1 + np.exp(-generator.normal(size=(2, 2000)) - 2 * labels))
    frame = pd.DataFrame({"y": labels, "s": scores[0], "t": scores[1], "g": np.arange(2000) % 2})
    frame.to_csv("s.csv", index=False)
    _, out, error = run(*asked, "--label", "y", "--score", "s")
    assert error == ""
    assert "0." in out
    assert re.findall(r"\d*\.\d{11,}", out) == []


def test_a_threshold_that_is_typed_as_it_is_printed_keeps_the_promises() -> None:
    generator, labels = np.random.default_rng(5), np.repeat([1, 0], [400, 1600])
    scores = 1 / (1 + np.exp(-generator.normal(size=2000) - 2 * labels))
    for asked in ({"tpr": 0.9}, {"fpr": 0.2}, {"tpr": 0.8, "fpr": 0.5}, {"precision": 0.4}):
        found = certify_promises(labels, scores, **asked)  # type: ignore[call-overload]
        typed = float(promised_threshold(found))
        assert len(promised_threshold(found)) <= 12
        if "tpr" in asked:
            assert typed <= found.threshold
        if found.lowest < found.highest:
            assert found.lowest <= typed <= found.highest
