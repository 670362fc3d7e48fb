"""What a search leaves out, and the fits that it prints to compare its winner with the baseline."""

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rankreg.fit import Source, load_source, read_source
from rankreg.fit.sources import cut_parts
from rankreg.tune.search_data import SourceData
from tests.own_data import write_images, write_table


def few(folder: Path) -> Source:
    return Source(write_table(folder / "few.csv"), target="sick", id_column="name")


def many(folder: Path) -> Source:
    return Source(write_table(folder / "many.csv", rows=2000, positives=600), target="sick", id_column="name")


def grouped(folder: Path) -> Source:
    table = pd.read_csv(write_table(folder / "data.csv", rows=900, positives=200))
    patients = np.random.default_rng(0).integers(300, size=len(table))
    table.assign(patient=[f"p{patient}" for patient in patients]).to_csv(folder / "grouped.csv", index=False)
    return Source(folder / "grouped.csv", target="sick", id_column="name", group="patient")


def copied(folder: Path) -> Source:
    table = pd.read_csv(write_table(folder / "data.csv")).drop(columns="name")
    pd.concat([table, table[:40]]).to_csv(folder / "copied.csv", index=False)
    return Source(folder / "copied.csv", target="sick")


def folders(folder: Path) -> Source:
    """Class folders of two kinds of negatives."""
    images = write_images(folder / "images", negatives=90, positives=60)
    (images / "fine").mkdir()
    for place in sorted((images / "good").iterdir())[:30]:
        place.rename(images / "fine" / place.name)
    return Source(images, positive="bad", rest_negative=True, size=16)


@pytest.mark.parametrize("make", [few, many, grouped, copied, folders])
@pytest.mark.parametrize("calibration", [None, 0.3])
def test_the_fit_that_a_search_names_tests_on_samples_that_the_search_has_not_seen(
    tmp_path: Path, make: Callable[[Path], Source], calibration: float | None
) -> None:
    source = make(tmp_path)
    words = shlex.split(SourceData(source, tmp_path).train_command(Path("best.toml"), Path("out"), 0.8))
    share = float(words[words.index("--test") + 1])
    left_out = load_source(source, tmp_path / "cache")["test"].ids
    data = read_source(source, tmp_path / "cache")
    for threshold in ("auto", "cross-fitted"):
        parts = cut_parts(data, 0.8, 0.9, "row", threshold, calibration or 0.2, share, source.seed)
        assert sorted(data.ids[parts["test"]]) == sorted(left_out)
    again = load_source(Source(**{**vars(source), "member": 3}), tmp_path / "cache")
    assert sorted(again["test"].ids) == sorted(left_out)


def test_a_search_of_images_names_a_fit_of_the_network_alone(tmp_path: Path) -> None:
    for source, alone in ((folders(tmp_path), True), (few(tmp_path), False)):  # a table's --config says it already
        words = shlex.split(SourceData(source, tmp_path).train_command(Path("best.toml"), Path("out"), 0.9))
        assert ("--learner network" in shlex.join(words)) == alone
