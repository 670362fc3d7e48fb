"""Help ends with examples, for every command, and the examples can be typed as they stand."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

from rankreg.cli import app
from rankreg_bench.cli import app as bench_app
from tests.conftest import Run
from tests.own_data import write_images

HOME = Path(__file__).parents[2]
QUICK = {  # options added to examples that would train for minutes; a later option wins
    "fit": ("--learner", "logistic", "--folds", "2"),
    "fit lesions": ("--epochs", "1", "--learner", "network", "--folds", "2", "--size", "16", "--tpr", "0.4"),
    "tune": ("--trials", "1", "--epochs", "1", "--splits", "1", "--workers", "1"),
}
ONLY_PARSED = {"bench run", "bench verify", "data get", "demo"}  # they train for long, or need a network


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command below a group, with its path, e.g. "data list"."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = {path: command for path, command in commands(get_command(app)) if path not in ("bench", "demo")}
COMMANDS |= {f"bench {path}": command for path, command in commands(get_command(bench_app)) if path != "demo"}
COMMANDS["demo"] = get_command(bench_app).commands["demo"]  # type: ignore[attr-defined]


def examples(path: str) -> list[str]:
    heading, *lines = (COMMANDS[path].epilog or "").split("\n\n")
    assert heading == "Examples:", f"the docstring of `rankreg {path}` has no examples"
    return lines


@pytest.mark.parametrize("path", COMMANDS)
def test_help_shows_examples_on_lines_of_their_own_in_80_columns(
    run: Run, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, shown, _ = run(*path.split(), "--help")
    assert status == 0
    lines = [line.strip() for line in shown.splitlines()]
    assert max(map(len, shown.splitlines())) <= 80
    for example in examples(path):
        assert example.startswith(f"rankreg {path}")
        assert example in lines


@pytest.mark.parametrize("path", COMMANDS)
def test_paragraphs_of_help_fill_their_lines(run: Run, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line ends where the next word does not fit, not where the source code was broken."""
    monkeypatch.setenv("COLUMNS", "80")
    _, shown, _ = run(*path.split(), "--help")
    lines = [line.strip() for line in re.split(r"[╭╰]", shown)[0].splitlines()]
    for line, following in pairwise(lines):
        if line and following:
            assert len(line) + 1 + len(following.split()[0]) > 78


def write_files(folder: Path) -> None:
    """Small files of the names that examples use."""
    generator = np.random.default_rng(0)
    rows = 600
    fraud = np.arange(rows) % 5 == 0
    claims = pd.DataFrame({"amount": generator.standard_normal(rows) + 4 * fraud, "customer": np.arange(rows) // 2})
    claims["fraud"] = np.where(fraud, "yes", "no")
    for name in ("claims.csv", "labelled.csv", "new.csv"):
        claims.drop(columns=["fraud"] if name == "new.csv" else []).to_csv(folder / name, index=False)
    labels = np.repeat([1, 0], [300, 1500])
    for name in ("scores", "old", "newer", "all", "earlier"):
        scores = pd.DataFrame({"y": labels, "s": generator.standard_normal(1800) + 2 * labels})
        scores["patient"], scores["day"] = np.arange(1800) // 2, "2025-01-31"
        scores["site"] = np.where(np.arange(1800) % 2, "north", "south")
        scores = scores.sample(frac=1, random_state=0)  # positives come at any time
        scores.to_csv(folder / f"{name}.csv", index=False)
    scores[scores.y == 1].to_csv(folder / "confirmed.csv", index=False)


def type_example(run: Run, path: str, example: str) -> None:
    """Type it, shortened where it would train for long."""
    words = shlex.split(example)[1:]
    goes_to = words[words.index(">") + 1] if ">" in words else None
    words = words[: words.index(">")] if goes_to else words
    more = QUICK.get(" ".join(words[:2]), QUICK.get(path, ()))
    if path in ONLY_PARSED:
        rest = words[len(path.split()) :]
        with COMMANDS[path].make_context(path, rest) as context:
            assert context.params
        return
    status, said, error = run(*words, *more)
    alarm = path == "monitor" and "model" in words  # these scores are not of that model
    assert status == int(alarm), (words, error)
    if goes_to:
        Path(goes_to).write_text(said)


@pytest.fixture
def files(run: Run, tmp_path: Path) -> Path:
    write_files(tmp_path)
    (tmp_path / "records").symlink_to(HOME / "records")
    return tmp_path


SCORES = ("certify", "compare", "report", "recertify", "monitor")
TABLE = ("fit", "predict", "evaluate", "export")
BENCH = tuple(path for path in COMMANDS if path.startswith("bench"))


def test_examples_about_scores_can_be_typed(run: Run, files: Path) -> None:
    scores = (files / "scores.csv").read_bytes()
    (files / "new.csv").write_bytes(scores)  # here, the scores of a new model
    fit = ("fit", "claims.csv", "--target", "fraud", "--positive", "yes", "--out", "model")
    assert run(*fit, *QUICK["fit"])[0] == 0
    for path in SCORES:
        for example in examples(path):
            type_example(run, path, example)


def test_examples_about_tables_and_images_can_be_typed(run: Run, files: Path) -> None:
    pytest.importorskip("onnx")
    write_images(files / "lesions")
    (files / "lesions/bad").rename(files / "lesions/melanoma")
    for example in examples("fit"):
        images = "lesions" in example
        type_example(run, "fit", example.replace("--out model", "--out images") if images else example)
    for path in ("evaluate", "predict", "export"):
        for example in examples(path):
            photos = "photos" in example
            words = example.replace("model photos", f"images {files / 'lesions/good'}")
            type_example(run, path, words if photos else example)


def test_the_examples_of_data_and_demo_can_be_typed(run: Run, files: Path) -> None:
    for path in ("data list", "data get", "demo"):
        for example in examples(path):
            type_example(run, path, example)


@pytest.mark.slow
@pytest.mark.parametrize("path", BENCH)
def test_the_examples_of_the_bench_can_be_typed(run: Run, files: Path, path: str) -> None:
    for example in examples(path):
        type_example(run, path, example)


@pytest.mark.slow
def test_the_examples_of_a_search_can_be_typed(run: Run, files: Path) -> None:
    pytest.importorskip("optuna")
    for number, example in enumerate(examples("tune")):
        type_example(run, "tune", example.replace("--out search", f"--out search-{number}"))


def test_no_command_is_left_out() -> None:
    assert {*SCORES, *TABLE, *BENCH, "data list", "data get", "demo", "tune"} == set(COMMANDS)
