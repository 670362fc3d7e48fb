"""Tables as they come: sentinels, absurd numbers, dates and stray labels, from the file to the prediction."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankreg.bundle import load_bundle
from rankreg.fit import Fitted, Source, fit
from tests.own_data import CommandLine, write_table

LEARNERS = ("logistic", "logistic-normal", "boosting", "forest")


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


def learnable(rows: int = 700, seed: int = 0) -> pd.DataFrame:
    """Four columns that each know something of the label."""
    rng = np.random.default_rng(seed)
    sick = (rng.random(rows) < 0.15).astype(int)
    columns = {name: np.round(rng.normal(size=rows) + 2 * sick, 5) for name in "abcd"}
    return pd.DataFrame(columns | {"sick": sick})


def corrupted(table: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """3 % of the numbers are −999999, 1 % are 1e37."""
    rng, dirty = np.random.default_rng(seed), table.copy()
    for name in "abcd":
        chance = rng.random(len(table))
        dirty.loc[chance < 0.03, name] = -999999
        dirty.loc[chance > 0.99, name] = 1e37
    return dirty


@pytest.mark.slow
def test_sentinels_and_absurd_numbers_do_not_ruin_the_model(rankreg: CommandLine, tmp_path: Path) -> None:
    clean, found = learnable(), dict[str, Fitted]()
    for name, table in {"clean": clean, "dirty": corrupted(clean)}.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        source = Source(tmp_path / f"{name}.csv", target="sick")
        fitted = fit(source, tmp_path / name, learners=LEARNERS, progress=False)
        assert fitted is not None
        found[name] = fitted
    rates = {name: one.judged.fpr_at_tpr["95"].estimate for name, one in found.items()}
    assert rates["dirty"] < rates["clean"] + 0.08
    corrupted(learnable(300, seed=7), seed=8).to_csv(tmp_path / "new.csv", index=False)
    assert rankreg("predict", tmp_path / "dirty", tmp_path / "new.csv", "--out", tmp_path / "scores.csv")[0] == 0
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert np.isfinite(scores.score).all()
    assert np.isfinite(pd.read_csv(tmp_path / "dirty/out-of-fold-scores.csv").score).all()


def test_a_label_that_was_not_named_is_an_error(rankreg: CommandLine, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    table = pd.read_csv(write_table(data))
    table["sick"] = table.sick.map({0: "no", 1: "yes"})
    table.loc[7, "sick"] = "maybe"
    table.to_csv(data, index=False)
    named = ("--positive", "yes", "--negative", "no")
    status, _, error = rankreg("fit", data, "--target", "sick", *named, "--out", tmp_path / "out")
    assert status == 2
    assert "'maybe'" in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("with_out", [False, True])
def test_describe_says_how_columns_are_read_and_stops(
    rankreg: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_out: bool
) -> None:
    data = write_table(tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    out = ("--out", tmp_path / "out") if with_out else ()
    status, said, error = rankreg("fit", data, "--target", "sick", "--describe", *out)
    assert (status, error) == (0, "")
    readings = {words[0]: words[1:] for line in said.splitlines() if (words := line.split())}
    assert readings["size"][0] == readings["weight"][0] == "number"
    assert readings["colour"][:3] == ["category", "2", "values,"]
    assert readings["name"][:3] == ["left", "out", "identifier:"]
    missing = pd.read_csv(data).weight.isna().sum()
    assert f"{missing} missing" in " ".join(readings["weight"])
    assert sorted(tmp_path.iterdir()) == [data]


def test_without_a_folder_there_is_no_fit(rankreg: CommandLine, tmp_path: Path) -> None:
    status, _, error = rankreg("fit", write_table(tmp_path / "data.csv"), "--target", "sick")
    assert status == 2
    assert "--out" in error
    assert "--describe" in error


def write_days(path: Path, rows: int, seed: int) -> pd.DataFrame:
    """A table whose positives fall on weekends; nothing else is known but a date."""
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.random.default_rng(seed).integers(0, 700, rows), "D")
    table = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "late": (days.day_of_week >= 5).astype(int)})
    table.to_csv(path, index=False, quoting=csv.QUOTE_MINIMAL)
    return table


def test_a_date_is_learned_from_and_predicted_with(rankreg: CommandLine, tmp_path: Path) -> None:
    write_days(tmp_path / "days.csv", 400, 0)
    options = ("--target", "late", "--learner", "forest", "--learner", "boosting", "--split-copies")
    status, said, _ = rankreg("fit", tmp_path / "days.csv", *options, "--out", tmp_path / "out")
    assert status == 0
    assert "date" in said
    new = write_days(tmp_path / "new.csv", 200, 1)
    assert rankreg("predict", tmp_path / "out", tmp_path / "new.csv", "--out", tmp_path / "scores.csv")[0] == 0
    alarms = pd.read_csv(tmp_path / "scores.csv").alarm
    threshold = load_bundle(tmp_path / "out").card.threshold
    assert alarms[new.late == 1].mean() >= threshold.tpr
    assert alarms[new.late == 0].mean() <= 0.05
    assert rankreg("evaluate", tmp_path / "out", tmp_path / "new.csv")[0] == 0

    new.loc[3, "day"] = "the day after"
    new.to_csv(tmp_path / "new.csv", index=False)
    assert rankreg("predict", tmp_path / "out", tmp_path / "new.csv", "--out", tmp_path / "scores.csv")[0] == 1
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert scores.alarm[3]
    assert np.isnan(scores.score[3])
    assert "day" in scores.problem[3]
    assert scores.score.drop(3).notna().all()
