"""A folder's run is never handed out for other data than it was trained on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rankreg.datasets.splits import Splits, image_preprocessing
from rankreg.train import train
from rankreg.train.folder import fingerprint
from tests.train.test_resume import Killer, config_of, crash


def with_source(splits: Splits, source: NDArray[Any], **changes: Any) -> Splits:
    """The same ids and labels with other inputs."""
    parts = {name: replace(part, source=source) for name, part in splits.parts.items()}
    return replace(splits, parts=parts, **changes)


def test_a_single_changed_value_is_another_run(rows: Splits, tmp_path: Path) -> None:
    train(rows, config_of(epochs=1), tmp_path)
    for part in rows.parts:
        changed = rows[part].source.copy()
        changed[rows[part].rows[-1], -1] += 1
        with pytest.raises(ValueError, match=r"differs in inputs \(data.json\)"):
            train(with_source(rows, changed), config_of(epochs=1), tmp_path)


def test_an_interrupted_run_does_not_go_on_with_other_values(
    rows: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Killer(monkeypatch, 23, crash)
    with pytest.raises(RuntimeError, match="power cut"):
        train(rows, config_of(), tmp_path)
    with pytest.raises(ValueError, match=r"differs in inputs \(data.json\)"):
        train(with_source(rows, rows["train"].source * 2), config_of(), tmp_path)


def test_inputs_that_changed_places_are_another_run(rows: Splits) -> None:
    part = rows["test"]
    swapped = replace(part, rows=part.rows[np.r_[1, 0, 2 : len(part)]])
    other = replace(rows, parts={**rows.parts, "test": swapped})
    assert fingerprint(rows)["inputs"]["test"] != fingerprint(other)["inputs"]["test"]


def test_other_preprocessing_is_another_run_and_the_order_of_its_keys_is_not(rows: Splits, tmp_path: Path) -> None:
    prepared = replace(rows, preprocessing={"kind": "table", "target": "sick"})
    train(prepared, config_of(epochs=1), tmp_path)
    train(replace(rows, preprocessing={"target": "sick", "kind": "table"}), config_of(epochs=1), tmp_path)
    with pytest.raises(ValueError, match=r"differs in preprocessing \(data.json\)"):
        train(replace(rows, preprocessing={"kind": "table", "target": "ill"}), config_of(epochs=1), tmp_path)


def test_images_of_another_size_are_another_run(images: Splits, tmp_path: Path) -> None:
    config = config_of(epochs=1, model={"name": "resnet10", "width": 0.0625})
    sized = replace(images, preprocessing=image_preprocessing((8, 8)))
    train(sized, config, tmp_path)
    larger = images["train"].source.repeat(2, axis=1).repeat(2, axis=2)
    with pytest.raises(ValueError, match=r"differs in inputs, preprocessing \(data.json\)"):
        train(with_source(images, larger, preprocessing=image_preprocessing((16, 16))), config, tmp_path)


def test_mapped_images_are_the_same_data_as_those_in_memory(
    images: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "images.npy", images["train"].source)
    monkeypatch.setattr("rankreg.train.folder.CHUNK", 1000)  # five images
    mapped = with_source(images, np.load(tmp_path / "images.npy", mmap_mode="r"))
    in_chunks = fingerprint(mapped)
    monkeypatch.undo()
    assert in_chunks == fingerprint(images)


@pytest.mark.parametrize("missing", ["preprocessing", "inputs"])
def test_a_run_that_does_not_say_what_its_inputs_were_is_refused(
    rows: Splits, tmp_path: Path, missing: str
) -> None:
    train(rows, config_of(epochs=1), tmp_path)
    held = json.loads((tmp_path / "data.json").read_text())
    del held[missing]
    (tmp_path / "data.json").write_text(json.dumps(held))
    with pytest.raises(ValueError, match=r"older rankreg.*choose another folder"):
        train(rows, config_of(epochs=1), tmp_path)
