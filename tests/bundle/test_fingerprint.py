"""The fingerprint of the rows of a fit: `evaluate` says first that it was given the data of the fit."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankreg.bundle import Bundle, evaluate, load_bundle
from rankreg.bundle.card import Fingerprint, Recogniser
from rankreg.fit import Source, fit
from tests.own_data import CommandLine, write_images, write_table


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data.csv and a model that was fitted on it, with a test part."""
    home = tmp_path_factory.mktemp("fitted")
    source = Source(write_table(home / "data.csv"), target="sick", drop=("name",))
    assert fit(source, home / "model", learners=["logistic"], test=0.2, progress=False) is not None
    return home


def names(bundle: Bundle, data: Path) -> list[str]:
    """What `evaluate` finds."""
    return [one.name for one in evaluate(bundle, data).evaluation.findings]


def test_the_data_of_the_fit_are_recognised_first(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said, _ = CommandLine(monkeypatch, capsys)("evaluate", home / "model", home / "data.csv", "--json")
    assert status == 0
    assert json.loads(said)["findings"][0]["name"] == "training-data"


def test_they_are_recognised_in_another_order_and_format_and_with_rows_after_them(
    home: Path, tmp_path: Path
) -> None:
    table, bundle = pd.read_csv(home / "data.csv"), load_bundle(home / "model")
    table.sample(frac=1, random_state=0).to_parquet(tmp_path / "shuffled.parquet")
    assert names(bundle, tmp_path / "shuffled.parquet") == ["training-data"]
    more = pd.read_csv(write_table(tmp_path / "more.csv", rows=40, positives=10, seed=1))
    pd.concat([table, more]).to_csv(tmp_path / "longer.csv", index=False)
    assert names(bundle, tmp_path / "longer.csv") == ["training-data"]


def test_other_rows_are_not_taken_for_them(home: Path, tmp_path: Path) -> None:
    table, bundle = pd.read_csv(home / "data.csv"), load_bundle(home / "model")
    table.iloc[1:].to_csv(tmp_path / "shorter.csv", index=False)
    table.assign(sick=1 - table["sick"]).to_csv(tmp_path / "labels.csv", index=False)
    sizes = table["size"].to_numpy() + (np.arange(len(table)) == 0)
    table.assign(size=sizes).to_csv(tmp_path / "value.csv", index=False)
    write_table(tmp_path / "other.csv", seed=1)
    for name in ("shorter", "labels", "value", "other"):
        assert "training-data" not in names(bundle, tmp_path / f"{name}.csv")


def test_a_bundle_without_a_fingerprint_finds_nothing(home: Path) -> None:
    bundle = load_bundle(home / "model")
    older = replace(bundle, card=bundle.card.model_copy(update={"fitted_on": None}))
    assert names(older, home / "data.csv") == []


def test_images_of_the_fit_are_recognised(tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", 16, 12)
    source = Source(images, positive="bad", size=16)
    assert fit(source, tmp_path / "model", backbone="none", folds=2, progress=False) is not None
    assert "training-data" in names(load_bundle(tmp_path / "model"), images)
    assert "training-data" not in names(
        load_bundle(tmp_path / "model"), write_images(tmp_path / "others", 16, 12, seed=1)
    )


def test_the_parts_in_which_rows_come_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(100, 3)).astype(np.float32), rng.integers(0, 2, 100)
    known = Fingerprint.of(rows, labels)
    for cuts in ([], [50], [1, 2, 99]):
        seen = Recogniser(known)
        for part in np.split(np.arange(100), cuts):
            assert not seen.found
            seen.add(rows[part], labels[part])
        assert seen.found


def test_a_row_that_is_there_twice_is_not_another_row_that_is() -> None:
    rows, labels = np.eye(3, dtype=np.float32), np.zeros(3, dtype=np.int64)
    twice = [Fingerprint.of(rows[[0, k, k]], labels) for k in (1, 2)]
    assert twice[0] != twice[1]
    assert twice[0] != Fingerprint.of(rows[[0, 1]], labels[:2])
