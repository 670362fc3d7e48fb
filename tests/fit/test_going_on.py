"""A folder that holds a fit already: finished learners are kept, other data refused, damage is made good."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rankreg.fit import LEARNERS, Source, fit
from tests.own_data import CommandLine, write_table

NAMES = ("logistic", "forest")


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small table."""
    return write_table(tmp_path / "data.csv")


def fitted(data: Path, out: Path) -> dict[str, bytes]:
    """The files of the bundle of a quick fit."""
    source = Source(data, target="sick", id_column="name")
    assert fit(source, out, learners=NAMES, folds=3, progress=False) is not None
    return {file.name: file.read_bytes() for file in (out / "bundle").iterdir()}


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the learners that are trained from now on."""
    trained: list[str] = []

    def watched(name: str, train: Any) -> Any:
        def noted(*given: Any) -> Any:
            trained.append(name)
            return train(*given)

        return noted

    for name in NAMES:
        monkeypatch.setitem(LEARNERS, name, replace(LEARNERS[name], train=watched(name, LEARNERS[name].train)))
    return trained


def test_finished_learners_are_not_trained_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = watch(monkeypatch)
    first = fitted(data, tmp_path / "out")
    assert trained == list(NAMES)
    assert fitted(data, tmp_path / "out") == first
    assert trained == list(NAMES)
    (kept,) = tmp_path.glob("out/run/*/forest.json")
    kept.unlink()  # it was stopped before the forest was whole
    assert fitted(data, tmp_path / "out") == first
    assert trained == [*NAMES, "forest"]


@pytest.mark.parametrize("file", ["logistic.json", "logistic.safetensors", "trees-forest-1.txt"])
def test_a_damaged_learner_is_trained_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    first = fitted(data, tmp_path / "out")
    (damaged,) = tmp_path.glob(f"out/run/*/{file}")
    damaged.write_bytes(damaged.read_bytes()[:100])
    trained = watch(monkeypatch)
    assert fitted(data, tmp_path / "out") == first
    assert trained == ["forest" if "forest" in file else "logistic"]


def test_other_settings_of_a_learner_train_it_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fitted(data, tmp_path / "out")
    trained = watch(monkeypatch)
    changed = replace(LEARNERS["logistic"], settings={"strength": 2.0, "balanced": True})
    monkeypatch.setitem(LEARNERS, "logistic", changed)
    assert fitted(data, tmp_path / "out").keys() == first.keys()
    assert trained == ["logistic"]


def test_the_fit_of_other_data_is_refused_and_nothing_is_lost(
    rankreg: CommandLine, data: Path, tmp_path: Path
) -> None:
    first = fitted(data, tmp_path / "out")
    kept = {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()}
    other = write_table(tmp_path / "other.csv", seed=1)
    status, _, error = rankreg("fit", other, "--target", "sick", "--id", "name", "--out", tmp_path / "out")
    assert status == 2
    assert "holds the fit of other data" in error
    assert "choose another --out" in error
    assert {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()} == kept
    assert fitted(data, tmp_path / "out") == first


def test_changed_features_of_the_same_rows_are_learned_anew(data: Path, tmp_path: Path) -> None:
    first = fitted(data, tmp_path / "out")
    table = pd.read_csv(data)
    table["size"] = table["size"].round(1)
    table.to_csv(data, index=False)
    again = fitted(data, tmp_path / "out")
    assert again["model.safetensors"] != first["model.safetensors"]
    assert again == fitted(data, tmp_path / "fresh")
