"""Solar cells: ELPV."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rankreg.datasets import load
from rankreg.datasets.image_sets import elpv

PROBABILITIES = ("0.0", "0.3333333333333333", "0.6666666666666666", "1.0")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layout of the package: 100 grey images, a quarter of each probability."""
    home = tmp_path_factory.mktemp("solar")
    (home / "elpv" / "images").mkdir(parents=True)
    lines = []
    for k in range(100):
        Image.new("L", (30, 30), 2 * k).save(home / "elpv" / "images" / f"cell{k:04}.png")
        lines.append(f"images/cell{k:04}.png  {PROBABILITIES[k % 4]}    {'mono' if k < 50 else 'poly'}\n")
    (home / "elpv" / "labels.csv").write_text("".join(lines))
    return home


def test_cells_that_experts_think_defective_are_positive(cells: Path, tmp_path: Path) -> None:
    splits = elpv(cells, ratio=None, size=16, cache=tmp_path)
    assert {name: len(part) for name, part in splits.parts.items()} == {"train": 60, "validation": 10, "test": 30}
    for part in splits.parts.values():
        numbers = np.array([int(name[4:8]) for name in part.ids])
        np.testing.assert_array_equal(part.labels, numbers % 4 >= 2)
        np.testing.assert_array_equal(part.inputs()[:, 0, 0, 0], 2 * numbers)
        assert part.inputs().shape[1:] == (16, 16, 3)


def test_a_split_draws_the_training_positives_and_nothing_else(cells: Path, tmp_path: Path) -> None:
    first, second = (elpv(cells, ratio=10, seed=seed, size=16, cache=tmp_path) for seed in (0, 1))
    for name in ("validation", "test"):
        np.testing.assert_array_equal(first[name].ids, second[name].ids)
    drawn = [set(splits["train"].ids[splits["train"].labels == 1]) for splits in (first, second)]
    assert [len(ids) for ids in drawn] == [3, 3]
    assert drawn[0] != drawn[1]
    kept = [splits["train"].ids[splits["train"].labels == 0].tolist() for splits in (first, second)]
    assert kept[0] == kept[1]


def test_an_installed_package_is_read_without_running_its_code(
    cells: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "elpv_dataset"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('its code was run')")
    (package / "data").symlink_to(cells / "elpv")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    splits = load("elpv", tmp_path / "nothing", ratio=10, size=16, cache=tmp_path / "decoded")
    assert len(splits["test"]) == 30
    assert "elpv_dataset" not in sys.modules


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("images/a.png 1.0 mono\n../../a.png 0.0 mono\n", "line 2: expected"),
        ("images/a.png 1.0 mono\nimages/b.png high mono\n", "line 2: expected"),
        ("images/a.png nan mono\n", "line 1: expected"),
        ("images/a.png 1.0\n", "line 1: expected"),
        ("images/a.png 1.0 mono\n", "no sound cell"),
        ("", "no defective cell"),
    ],
)
def test_damaged_labels_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(ValueError, match=fault):
        elpv(tmp_path)


def test_missing_cells_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankreg.datasets.catalog.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install elpv-dataset"):
        elpv(tmp_path)
