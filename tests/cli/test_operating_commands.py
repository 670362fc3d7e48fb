"""Scores in, operating points out, through `main()` as users meet it: what is printed, what is refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankreg.notation import number, rounded_threshold
from rankreg.operating import certify, compare, drift, monitor, positives_until_alarm, recertify
from tests.conftest import Run


def result_of(out: str) -> dict[str, object]:
    """What a command found, without how it read the labels; nothing was wrong with the scores."""
    found: dict[str, object] = json.loads(out)
    assert found.pop("labels")
    assert found.pop("findings") == []
    return found


COLUMNS = ("--label", "truth", "--score", "model output")


def test_certify_prints_what_the_function_returns(run: Run, table: pd.DataFrame) -> None:
    status, out, _ = run("certify", "scores.csv", *COLUMNS, "--prevalence", "0.006", "--json")
    expected = certify(table["truth"], table["model output"], prevalence=0.006)
    assert status == 0
    assert result_of(out) == expected.to_dict()


def test_certify_speaks_plainly(run: Run, table: pd.DataFrame) -> None:
    point = certify(table["truth"], table["model output"], prevalence=0.006)
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--prevalence", "0.006")
    assert f"alarm when score ≥ {rounded_threshold(point.threshold)}" in out
    lines = out.splitlines()
    assert re.findall(r"[\d.]+ %", lines[0]) == ["95 %", "95 %"]
    assert f"{number(1000 * (1 - 0.006) * point.fpr)} false alarms per 1,000 samples" in lines[1]
    assert "0.6 %" in lines[1]
    assert "--prevalence" in run("certify", "scores.csv", *COLUMNS)[1]


def test_certify_by_group_and_for_several_targets(run: Run, table: pd.DataFrame) -> None:
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--group", "sex", "--tpr", "0.95", "--json")
    found = json.loads(out)
    assert list(found["points"]) == ["f", "m"]
    assert found["everyone"]["threshold"] == min(point["threshold"] for point in found["points"].values())
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--group", "sex", "--tpr", "0.95")
    assert rounded_threshold(found["points"]["f"]["threshold"]) in out
    assert "in every group" in out
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--tpr", "0.9", "--tpr", "0.98", "--json")
    assert [point["tpr"] for point in json.loads(out)["points"]] == [0.98, 0.9]


@pytest.mark.parametrize(("odd", "positive"), [("Yes ", "yes"), ("YES", "yes"), ("1.0", "1"), (" 1", "1")])
def test_labels_that_look_like_the_positive_one_are_not_taken_for_negatives(
    run: Run, odd: str, positive: str
) -> None:
    rows = f"{positive},1\n" * 200 + f"{odd},2\n" + "no,0\n" * 9
    status, out, error = run(
        "certify", write("y,s\n" + rows), "--label", "y", "--score", "s", "--positive", positive
    )
    assert (status, out) == (2, "")
    assert f"{odd!r} beside {positive!r}" in error


@pytest.mark.parametrize(("column", "value"), [("answer", "yes"), ("class", "2"), ("class", "2.0"), ("truth", "1")])
def test_labels_are_mapped_as_told(run: Run, table: pd.DataFrame, column: str, value: str) -> None:
    arguments = (
        "certify",
        "scores.csv",
        "--score",
        "model output",
        "--json",
        "--label",
        column,
        "--positive",
        value,
    )
    assert json.loads(run(*arguments)[1])["threshold"] == certify(table["truth"], table["model output"]).threshold


@pytest.mark.parametrize("column", ["answer", "class"])
def test_labels_are_never_guessed(run: Run, table: pd.DataFrame, column: str) -> None:
    status, out, error = run("certify", "scores.csv", "--score", "model output", "--label", column)
    assert (status, out) == (2, "")
    assert "--positive" in error


def test_parquet_and_compressed_files_read_alike(run: Run, table: pd.DataFrame) -> None:
    table.to_parquet("scores.parquet")
    table.to_csv("scores.csv.gz", index=False)
    answers = {
        run("certify", name, *COLUMNS, "--json")[1] for name in ("scores.csv", "scores.parquet", "scores.csv.gz")
    }
    assert len(answers) == 1


def test_the_cheapest_threshold(run: Run, table: pd.DataFrame) -> None:
    _, out, _ = run("certify", "scores.csv", *COLUMNS, "--cost-miss", "500", "--cost-alarm", "1")
    assert "the least possible with this recall" in out
    status, _, error = run("certify", "scores.csv", *COLUMNS, "--cost-miss", "500")
    assert (status, "give both" in error) == (2, True)


def test_compare_matches_by_id(run: Run, table: pd.DataFrame) -> None:
    noise = np.random.default_rng(24).standard_normal(2000)
    other = table.assign(other=noise + table["truth"]).sample(frac=1, random_state=1)
    other.to_csv("other.csv", index=False)
    arguments = ("compare", "scores.csv", "other.csv", *COLUMNS, "--score-b", "other", "--tpr", "0.9")
    _, out, _ = run(*arguments, "--id", "sample no", "--json")
    matched = other.set_index("sample no").loc[table["sample no"], "other"]
    assert result_of(out) == compare(table["truth"], table["model output"], matched, tpr=0.9).to_dict()
    _, out, _ = run(*arguments, "--id", "sample no")
    assert "By FPR at 90 % TPR, scores.csv is better than other.csv" in out
    assert "By AUC, scores.csv is better than other.csv (scores.csv − other.csv: +" in out
    assert out.count("scores.csv − other.csv: ") == 4  # which minus which, in both verdicts and both rows
    assert "Beware" not in out
    status, _, error = run(*arguments)
    assert (status, "--id" in error) == (2, True)


def test_compare_refuses_equal_scores(run: Run, table: pd.DataFrame) -> None:
    table.assign(same=0.5).to_csv("same.csv", index=False)
    status, out, error = run("compare", "scores.csv", "same.csv", *COLUMNS, "--score-b", "same")
    assert (status, out) == (2, "")
    assert "second model: all 2000 scores equal 0.5" in error


def test_compare_refuses_other_samples(run: Run, table: pd.DataFrame) -> None:
    table.iloc[:-1].to_csv("fewer.csv", index=False)
    for arguments, message in (
        ((), "2,000 and 1,999 samples"),
        (("--id", "sample no"), "only in the first"),
    ):
        status, _, error = run("compare", "scores.csv", "fewer.csv", *COLUMNS, *arguments)
        assert (status, message in error) == (2, True)


@pytest.mark.parametrize(("separator", "typed"), [(";", ";"), ("\t", "tab"), ("\t", "\\t")])
def test_other_separators_read_alike(run: Run, table: pd.DataFrame, separator: str, typed: str) -> None:
    table.to_csv("other.csv", index=False, sep=separator)
    expected = run("certify", "scores.csv", *COLUMNS, "--json")[1]
    assert run("certify", "other.csv", *COLUMNS, "--json", "--separator", typed)[1] == expected


def test_monitor_follows_time_and_warns(run: Run, table: pd.DataFrame) -> None:
    arguments = ("monitor", "scores.csv", *COLUMNS, "--threshold", "1.0", "--time", "when")
    in_order = table[table["truth"] == 1].sort_values("when")
    watch = monitor(in_order["model output"], threshold=1.0, times=in_order["when"])
    found = {"drop_to": 0.85, "positives_until_alarm": 0.0}
    assert result_of(run(*arguments, "--json")[1]) == watch.to_dict() | found
    _, out, _ = run(*arguments)
    assert re.search(rf"ALARM.+95 %.+positive {watch.alarm_at}\b", out)
    assert "rarely confirmed" in " ".join(out.split())


def test_a_saved_point_is_monitored_and_recertified(run: Run, table: pd.DataFrame) -> None:
    Path("point.json").write_text(run("certify", "scores.csv", *COLUMNS, "--tpr", "0.9", "--json")[1])
    _, out, _ = run("monitor", "scores.csv", *COLUMNS, "--point", "point.json", "--json")
    assert (json.loads(out)["tpr"], json.loads(out)["alarm_at"]) == (0.9, None)
    _, out, _ = run("recertify", "scores.csv", *COLUMNS, "--point", "point.json", "--json")
    found = json.loads(out)
    assert found["point"] == result_of(Path("point.json").read_text())
    assert found["recall"]["estimate"] == found["point"]["recall"]
    _, out, _ = run("recertify", "scores.csv", *COLUMNS, "--point", "point.json")
    assert "Verdict" in out


def test_one_of_several_targets_is_picked_and_groups_say_what_to_type(run: Run, table: pd.DataFrame) -> None:
    asked = ("scores.csv", *COLUMNS)
    Path("targets.json").write_text(run("certify", *asked, "--tpr", "0.9", "--tpr", "0.95", "--json")[1])
    points = {one["tpr"]: one["threshold"] for one in json.loads(Path("targets.json").read_text())["points"]}
    for tpr, threshold in points.items():
        picked = ("--point", "targets.json", "--tpr", str(tpr), "--json")
        assert json.loads(run("monitor", *asked, *picked)[1])["threshold"] == threshold
        assert json.loads(run("recertify", *asked, *picked)[1])["deployed_threshold"] == threshold
    for wrong in ((), ("--tpr", "0.8")):
        status, out, error = run("monitor", *asked, "--point", "targets.json", *wrong)
        assert (status, out) == (2, "")
        assert "--tpr 0.95 or --tpr 0.9" in error
    other = {"threshold": 0.25, "tpr": None, "confidence": 0.95}  # e.g. a promise of the FPR alone
    review = {"review_from": 0.25, "alarm_from": 2.0, "tpr": 0.9, "confidence": 0.95}  # reviewed is not missed
    for content, options in ((other, ("--tpr", "0.9")), (review, ())):
        Path("point.json").write_text(json.dumps(content))
        found = json.loads(run("monitor", *asked, "--point", "point.json", *options, "--json")[1])
        assert (found["threshold"], found["tpr"]) == (0.25, 0.9)
    Path("point.json").write_text(json.dumps(other))
    status, _, error = run("monitor", *asked, "--point", "point.json")
    assert (status, "--tpr" in error) == (2, True)
    Path("groups.json").write_text(run("certify", *asked, "--group", "sex", "--json")[1])
    found = json.loads(Path("groups.json").read_text())
    status, _, error = run("monitor", *asked, "--point", "groups.json")
    assert status == 2
    for point in (*found["points"].values(), found["everyone"]):
        assert f"--threshold {point['threshold']!r} --tpr 0.95" in error


@pytest.fixture
def dated(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a date for each row, later rows with lower scores, in dated.csv."""
    days = pd.Timestamp("2025-01-01") + pd.to_timedelta(table["when"] // 20, unit="D")
    frame = table.assign(day=days.dt.strftime("%Y-%m-%d")).sort_values("when")
    frame["model output"] -= np.where(frame["when"] > 1800, 2.0, 0.0)  # positives come last, from row 1,600 on
    frame.to_csv("dated.csv", index=False)
    return frame


def test_monitor_speaks_in_dates(run: Run, dated: pd.DataFrame) -> None:
    arguments = ("monitor", "dated.csv", *COLUMNS, "--time", "day")
    confirmed = dated[dated["truth"] == 1]
    watch = monitor(
        confirmed["model output"], threshold=0.0, times=confirmed["day"].to_numpy(dtype="datetime64[D]")
    )
    status, out, _ = run(*arguments, "--threshold", "0.0")
    assert status == 1  # a scheduled job can tell
    assert f"known since {watch.alarm_time} (confirmed positive {watch.alarm_at})" in out
    assert f"from {watch.first_time} to {watch.last_time}" in out
    status, out, _ = run(*arguments, "--threshold", "-4", "--drop-to", "0.8")
    quiet = " ".join(out.split())
    assert status == 0
    assert "no sign that the recall fell below 95 %" in quiet
    assert re.search(
        r"after about [\d,]+ more confirmed positives a drop to 80 % would be noticed, around 2025-", quiet
    )
    dated.assign(day=dated["day"].where(dated["when"] != 7, "31/12/2025")).to_csv("dated.csv", index=False)
    status, out, error = run(*arguments, "--threshold", "0.0")
    assert (status, out) == (2, "")
    assert "'31/12/2025' in row 8 (line 9)" in error


def test_a_file_without_labels_is_watched_for_drift(run: Run, dated: pd.DataFrame) -> None:
    reference = pd.DataFrame({"model output": dated["model output"].sample(frac=1, random_state=0)})
    reference.to_csv("reference.csv", index=False)
    arguments = ("monitor", "dated.csv", "--score", "model output", "--time", "day", "--reference", "reference.csv")
    status, out, _ = run(*arguments, "--json")
    found = json.loads(out)
    expected = drift(
        reference["model output"], dated["model output"], times=dated["day"].to_numpy(dtype="datetime64[D]")
    )
    assert status == 1
    assert found == {"labels": None, "findings": [], "drift": expected.to_dict() | {"alarm_shares": None}}
    _, out, _ = run(*arguments)
    assert f"known since {expected.alarm_time}" in out
    assert "confirmed positive" not in out
    _, out, _ = run(*arguments, "--label", "truth", "--threshold", "0.5", "--json")
    both = json.loads(out)
    assert (both["positives"], both["threshold"]) == (400, 0.5)
    shares = [float(np.mean(one["model output"] >= 0.5)) for one in (reference, dated)]
    assert both["drift"] == expected.to_dict() | {"alarm_shares": shares}


def test_drift_counts_each_unit_once(run: Run, patients: pd.DataFrame) -> None:
    for name, part in (("old", "0"), ("new", "1")):
        patients[patients["patient"].str[0] == "0"].sample(frac=1, random_state=int(part)).to_csv(f"{name}.csv")
    arguments = ("monitor", "new.csv", "--score", "model output", "--reference", "old.csv", "--unit", "patient")
    found = json.loads(run(*arguments, "--json")[1])["drift"]
    assert (found["reference"], found["scores"]) == (400, 400)


@pytest.mark.slow
def test_the_evidence_is_drawn_the_same_each_time(run: Run, dated: pd.DataFrame) -> None:
    options = (*COLUMNS, "--threshold", "0", "--time", "day", "--reference", "scores.csv", "--plot")
    pictures = {}
    for name in ("one.svg", "two.svg", "one.png"):
        status, _, error = run("monitor", "dated.csv", *options, name)
        assert (status, error) == (1, "")  # the recall has fallen
        pictures[name] = Path(name).read_bytes()
    assert pictures["one.svg"] == pictures["two.svg"]
    assert b"<svg" in pictures["one.svg"]
    assert pictures["one.png"].startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_drawn_is_refused_before_anything_is_read(run: Run) -> None:
    for plot, message in (("evidence.docx", ".png or .svg"), ("nowhere/evidence.png", "is not a folder")):
        status, out, error = run("monitor", "absent.csv", "--score", "s", "--threshold", "0", "--plot", plot)
        assert (status, out) == (2, "")
        assert message in error


def test_monitor_says_first_that_the_threshold_alarms_on_everything(run: Run, table: pd.DataFrame) -> None:
    _, out, _ = run("monitor", "scores.csv", *COLUMNS, "--threshold", "-9")
    assert out.startswith("Beware")
    assert "Alarms on every sample" in out


def write(text: str) -> str:
    Path("bad.csv").write_text(text)
    return "bad.csv"


BAD = {
    "one class": ("y,s\n1,1\n1,2\n", "undefined without negatives"),
    "no score": ("y,s\n1,1\n0,NaN\n0,\n", "no score (NaN) in 2 rows, first in row 2 (line 3)"),
    "text for a score": ("y,s\n1,1\n0,high\n", "holds 'high' in row 2 (line 3)"),
    "truth for a score": ("y,s\n1,True\n0,False\n", "scores are numbers"),
    "equal scores": ("y,s\n" + "1,3\n" * 200 + "0,3\n" * 9, "all 209 scores equal 3.0"),
    "no label": ("y,s\n1,1\n,2\n", "column 'y' is empty in 1 rows, first in row 2 (line 3)"),
    "no such column": ("Y,s\n1,1\n", "no column 'y'"),
    "no rows": ("y,s\n", "no rows"),
    "empty": ("", "is not a table in CSV"),
    "shifted": ("y,s\n1,1,1\n0,2,3\n", "row 1 (line 2) has 3 fields instead of 2"),
    "ragged": ("y,s\n1,1\n0,2,3,4\n", "row 2 (line 3) has 4 fields instead of 2"),
    "cut in mid-line": ("y,s,z\n1,1,5\n0,2,5\n0,3\n", "row 3 (line 4) has 2 fields instead of 3"),
    "infinite score": ("y,s\n1,1\n0,2\n1,-inf\n", "an infinite score in 1 rows, first in row 3 (line 4)"),
    "two unused columns": ("y,s,z,z\n1,1,5,5\n0,2,5,5\n", "2 columns named 'z': rename all but one"),
    "a third label": ("y,s\n1,1\n0,2\n2,3\n", "'1' (1), '0' (1), '2' (1)"),
    "semicolons": ("y;s\n1;1\n0;0\n", "looks separated by ';': add --separator ';'"),
    "semicolons and decimal commas": ("y;s\n1;1,5\n0;0,5\n", "looks separated by ';': add --separator ';'"),
    "tabs": ("y\ts\tt\n1\t1\t1\n", "looks separated by tab: add --separator tab"),
    "decimal commas": ('y,s\n1,"1,5"\n0,"0,5"\n', "write 0.5, not 0,5"),
    "two score columns": ("y,s,s\n1,1,2\n0,0,1\n", "2 columns named 's': rename all but one"),
    "too few positives": ("y,s\n1,1\n0,0\n", "59 are needed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_a_message_and_status_two(run: Run, name: str) -> None:
    text, message = BAD[name]
    status, out, error = run("certify", write(text), "--label", "y", "--score", "s")
    assert (status, out) == (2, "")
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("certify", "absent.csv", *COLUMNS), "absent.csv"),
        (("certify", "scores.csv", *COLUMNS, "--tpr", "98"), "tpr must lie"),
        (("certify", "scores.csv", *COLUMNS, "--positive", "3"), "none of them is the positive value '3'"),
        (
            ("certify", "scores.csv", *COLUMNS, "--group", "sex", "--tpr", "0.9", "--tpr", "0.8"),
            "--group goes with one --tpr",
        ),
        (("certify", "scores.csv", "--label", "truth", "--score", "model_output"), "did you mean 'model output'?"),
        (("certify", "scores.csv", "--label", "truth", "--score", "truth"), "both the label and the score"),
        (("certify", "scores.csv", *COLUMNS, "--separator", "::"), "one character or tab"),
        (("monitor", "scores.csv", "--score", "model output"), "either --threshold or --point"),
        (("monitor", "scores.csv", "--score", "model output", "--point", "scores.csv"), "not an operating point"),
        (("monitor", "scores.csv", "--score", "model output", "--threshold", "0", "--time", "sex"), "2025-01-31"),
    ],
)
def test_bad_requests_are_a_message_and_status_two(
    run: Run, table: pd.DataFrame, arguments: tuple[str, ...], message: str
) -> None:
    status, out, error = run(*arguments)
    assert (status, out) == (2, "")
    assert message in error


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (("--help",), ["torch", "scipy", "pandas", "numpy"]),
        (("certify", "--help"), ["torch", "scipy", "pandas", "numpy"]),
        (("certify", "scores.csv", *COLUMNS), ["torch", "sklearn", "scipy.stats"]),
        (("compare", "scores.csv", "scores.csv", *COLUMNS), ["torch", "sklearn", "scipy.stats"]),
        (("monitor", "scores.csv", *COLUMNS, "--threshold", "0"), ["torch", "sklearn", "scipy.stats"]),
    ],
)
def test_commands_start_without_what_they_do_not_need(
    table: pd.DataFrame, tmp_path: Path, arguments: tuple[str, ...], unwanted: list[str]
) -> None:
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('loaded', [name for name in {unwanted!r} if name in sys.modules]))\n"
        "from rankreg.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("loaded []\n")


@pytest.fixture
def patients(tmp_path: Path) -> pd.DataFrame:
    """Four hundred patients, half of them positive, with five rows each, in patients.csv."""
    generator = np.random.default_rng(31)
    patient = np.repeat(np.arange(400), 5)
    labels = patient % 2
    scores = generator.standard_normal(400)[patient] + generator.standard_normal(2000) + 3 * labels
    frame = pd.DataFrame({"truth": labels, "model output": scores, "patient": [f"{n:04d}" for n in patient]})
    frame = frame.assign(when=np.arange(2000)).sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "patients.csv", index=False)
    return frame


def test_every_command_takes_units(run: Run, patients: pd.DataFrame) -> None:
    truth, scores, units = patients["truth"], patients["model output"], patients["patient"]
    asked = (*COLUMNS, "--unit", "patient", "--tpr", "0.9", "--json")
    for per in ("row", "unit"):
        _, out, _ = run("certify", "patients.csv", *asked, "--per", per)
        assert result_of(out) == certify(truth, scores, tpr=0.9, units=units, per=per).to_dict()
        Path("point.json").write_text(out)
        _, out, _ = run("recertify", "patients.csv", *asked, "--point", "point.json")
        threshold = json.loads(Path("point.json").read_text())["threshold"]
        assert (
            result_of(out) == recertify(truth, scores, threshold=threshold, tpr=0.9, units=units, per=per).to_dict()
        )
        _, out, _ = run("monitor", "patients.csv", *asked, "--point", "point.json", "--time", "when")
        confirmed = patients[truth == 1].sort_values("when")
        watch = monitor(
            confirmed["model output"],
            threshold=threshold,
            tpr=0.9,
            units=confirmed["patient"],
            per=per,
            times=confirmed["when"],
        )
        found = {"drop_to": 0.7, "positives_until_alarm": positives_until_alarm(watch, recall=0.7)}
        assert result_of(out) == watch.to_dict() | found
    other = scores + 2 * np.random.default_rng(32).standard_normal(len(scores))
    patients.assign(other=other).to_csv("both.csv", index=False)
    _, out, _ = run("compare", "both.csv", "both.csv", *asked, "--score-b", "other")
    assert result_of(out) == compare(truth, scores, other, tpr=0.9, units=units).to_dict()


def test_groups_and_units_combine(run: Run, patients: pd.DataFrame) -> None:
    patients.assign(site=patients["patient"].str[-1] < "5").to_csv("sites.csv", index=False)
    arguments = ("certify", "sites.csv", *COLUMNS, "--group", "site", "--unit", "patient", "--tpr", "0.9")
    found = json.loads(run(*arguments, "--json")[1])
    assert {name: point["units"] for name, point in found["points"].items()} == {"False": 120, "True": 80}
    assert " units " in run(*arguments)[1]


def test_every_promise_of_recall_names_its_assumption_once(run: Run, patients: pd.DataFrame) -> None:
    def said(*arguments: str) -> str:
        status, out, _ = run(*arguments)
        assert status == 0
        assert out.count("This holds if new positives come like these") == 1
        return " ".join(out.split())

    deployed = ("--threshold", "0.5", "--tpr", "0.9")
    for command, more in (
        ("certify", ("--tpr", "0.9")),
        ("certify", ("--tpr", "0.9", "--tpr", "0.8")),
        ("recertify", deployed),
        ("recertify", ("--threshold", "0.5", "--tpr", "0.999")),  # too few to certify
        ("monitor", deployed),
    ):
        arguments = (command, "patients.csv", *COLUMNS, *more)
        assert "the 1,000 positives are independent of each other" in said(*arguments)
        assert "the 200 units are independent of each other" in said(*arguments, "--unit", "patient")
        if len(more) < 4 or command != "certify":
            by_unit = said(*arguments, "--unit", "patient", "--per", "unit")
            assert "the 200 units are independent of each other" in by_unit


def test_a_recall_of_units_needs_their_column(run: Run, patients: pd.DataFrame) -> None:
    arguments = ("certify", "patients.csv", *COLUMNS, "--tpr", "0.9", "--per", "unit", "--json")
    status, out, error = run(*arguments)
    assert (status, out, "--unit" in error) == (2, "", True)
    Path("point.json").write_text(run(*arguments, "--unit", "patient")[1])
    for command in ("monitor", "recertify"):
        status, out, error = run(command, "patients.csv", *COLUMNS, "--point", "point.json")
        assert (status, out, "--unit" in error) == (2, "", True)
    status, _, error = run("certify", "patients.csv", *COLUMNS, "--unit", "truth")
    assert (status, "cannot name the units" in error) == (2, True)
    status, _, error = run("certify", "patients.csv", *COLUMNS, "--unit", "patients")
    assert (status, "did you mean 'patient'?" in error) == (2, True)


def test_too_few_units_say_how_many_it_takes(run: Run, patients: pd.DataFrame) -> None:
    status, out, error = run("certify", "patients.csv", *COLUMNS, "--unit", "patient", "--tpr", "0.99")
    assert (status, out) == (2, "")
    assert "200 units with 1000 positives are too few" in error
    assert "299 units like these (99 more) are needed" in error


def test_points_written_before_there_were_units_are_still_read(run: Run, patients: pd.DataFrame) -> None:
    point = json.loads(run("certify", "patients.csv", *COLUMNS, "--tpr", "0.9", "--json")[1])
    old = {name: value for name, value in point.items() if name not in ("units", "per")}
    for content, status in ((old, 0), (point | {"per": "patient"}, 2)):
        Path("point.json").write_text(json.dumps(content))
        assert run("monitor", "patients.csv", *COLUMNS, "--point", "point.json")[0] == status


def test_a_file_compared_with_itself_shows_no_difference(run: Run, patients: pd.DataFrame) -> None:
    _, out, _ = run("compare", "patients.csv", "patients.csv", *COLUMNS, "--json")
    found = json.loads(out)
    for measure in ("fpr", "auc"):
        assert [found[measure][name] for name in ("difference", "low", "high", "p_value")] == [0, 0, 0, 1]
    _, out, _ = run("compare", "patients.csv", "patients.csv", *COLUMNS)
    assert out.count("a and b are equal: they have the same scores") == 2
