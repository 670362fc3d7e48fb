"""Small data of one's own: a table and a folder of images that can be learned in a second, and the command line."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

COLUMNS = ("name", "size", "colour", "weight", "sick")


def write_table(path: Path, rows: int = 400, positives: int = 80, seed: int = 0) -> Path:
    """A CSV file whose positives are larger; some weights are missing; names are unique."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(rows) < positives)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for k, label in enumerate(labels):
            weight = f"{rng.normal():.4f}" if rng.random() > 0.1 else ""
            colour = rng.choice(["red", "blue"])
            writer.writerow((f"row-{k:04d}", f"{rng.normal() + 2 * label:.5f}", colour, weight, int(label)))
    return path


def write_images(folder: Path, negatives: int = 40, positives: int = 24, seed: int = 0) -> Path:
    """PNG files of noise in folders `good` and `bad`; bad ones have a bright square."""
    rng = np.random.default_rng(seed)
    for name, number, bright in (("good", negatives, 0), ("bad", positives, 90)):
        (folder / name).mkdir(parents=True)
        for k in range(number):
            pixels = rng.integers(0, 120, (16, 16, 3), dtype=np.uint8)
            pixels[4:12, 4:12] += np.uint8(bright)
            Image.fromarray(pixels).save(folder / name / f"{k:03d}.png")
    return folder


def shared_data() -> Path:
    """The folder of real data sets: $RANKREG_SHARED_DATA, else ../shared/data; without one the test is skipped."""
    place = Path(os.environ.get("RANKREG_SHARED_DATA") or Path(__file__).parents[2] / "shared/data")
    if not place.is_dir():
        pytest.skip("no shared data: set RANKREG_SHARED_DATA to their folder")
    return place


class CommandLine:
    """`rankreg …` in this process: exit status, standard output, standard error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        from rankreg.cli import main

        self.monkeypatch.setattr(sys, "argv", ["rankreg", *map(str, arguments)])
        self.monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as left:
            main()
        said = self.capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err


def command(*arguments: object) -> list[str]:
    """The same as a process of its own."""
    return [sys.executable, "-m", "rankreg", *map(str, arguments)]


def run_command(*arguments: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run it with one thread and return what it said."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment, cwd=cwd, check=False, timeout=300
    )
