"""A folder that holds a fit already: finished learners are kept, other data refused, damage is made good."""

import json
from collections.abc import Callable
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


def fitted(data: Path, out: Path, **options: Any) -> dict[str, bytes]:
    """The files of the bundle of a quick fit."""
    source = Source(data, target="sick", id_column="name")
    assert fit(source, out, learners=NAMES, folds=3, progress=False, **options) is not None
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


def files_of(folder: Path) -> dict[Path, bytes]:
    """All files in it."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def other_rows(data: Path) -> None:
    """Another table, with other names, labels and values."""
    write_table(data, seed=1)


def other_values(data: Path) -> None:
    """The same names and labels, other values."""
    table = pd.read_csv(data)
    table["size"] = table["size"].round(1)
    table.to_csv(data, index=False)


@pytest.mark.parametrize("change", [other_rows, other_values])
def test_the_fit_of_other_data_is_replaced_only_by_force(
    rankreg: CommandLine, data: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    out = tmp_path / "out"
    first = fitted(data, out)
    kept = files_of(out)
    change(data)
    again = ("fit", data, "--target", "sick", "--id", "name", "--out", out, "--learner", "logistic", "--folds", 3)
    status, _, error = rankreg(*again)
    assert status == 2
    assert all(option in error for option in ("--out", "--force"))
    assert files_of(out) == kept
    assert rankreg(*again, "--force")[0] == 0
    assert (out / "bundle/model.safetensors").read_bytes() != first["model.safetensors"]
    assert rankreg(*again)[0] == 0  # now it is the fit of these data


def test_a_fit_by_force_is_the_fit_of_a_new_folder(data: Path, tmp_path: Path) -> None:
    fitted(data, tmp_path / "out")
    other_values(data)
    assert fitted(data, tmp_path / "out", force=True) == fitted(data, tmp_path / "fresh")


@pytest.mark.parametrize("name", ["bundle/bundle.json", "summary.json", "report.html"])
def test_files_of_unknown_data_are_not_replaced(data: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / "out" / name
    place.parent.mkdir(parents=True)
    place.write_text("{}")
    with pytest.raises(ValueError, match="--force"):
        fitted(data, tmp_path / "out")
    assert files_of(tmp_path / "out") == {place: b"{}"}


@pytest.mark.parametrize("force", [False, True])
def test_a_fit_does_not_go_into_a_bundle_which_would_hide_it(data: Path, tmp_path: Path, force: bool) -> None:
    fitted(data, tmp_path / "out")
    with pytest.raises(ValueError, match="--out"):
        fitted(data, tmp_path / "out/bundle", force=force)
    assert not (tmp_path / "out/bundle/run").exists()


def test_a_folder_of_an_older_version_goes_on(data: Path, tmp_path: Path) -> None:
    first = fitted(data, tmp_path / "out")
    place = tmp_path / "out/run/fit.json"
    known = json.loads(place.read_text())
    del known["features"]
    place.write_text(json.dumps(known))
    assert fitted(data, tmp_path / "out") == first


def test_another_fit_of_the_same_data_says_that_it_replaces_the_model(data: Path, tmp_path: Path) -> None:
    source, quick = Source(data, target="sick", id_column="name"), {"learners": ["logistic"], "progress": False}
    made = [
        fit(source, tmp_path / "out", tpr=tpr, test=test, **quick)  # type: ignore[arg-type]
        for tpr, test in ((0.95, 0.2), (0.95, 0.2), (0.9, 0.0))
    ]
    assert [one is not None and one.replaced for one in made] == [False, False, True]
    assert not (tmp_path / "out/test-scores.csv").exists()  # this fit has no test part
