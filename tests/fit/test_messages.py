"""What the command line says of one's own data, of options and of data sets: faults in words, defaults shown."""

import errno
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from rankreg.bundle import load_bundle, storage
from rankreg.cli import app
from rankreg.datasets.catalog import CATALOG
from rankreg.fit import settings
from rankreg.fit.sources import SIZE
from tests.own_data import CommandLine, write_images, write_table


@pytest.fixture
def rankreg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process."""
    return CommandLine(monkeypatch, capsys)


def small(path: Path, **changes: Any) -> Path:
    """The small table with other targets."""
    table = pd.read_csv(write_table(path))
    table.assign(**changes).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, ("--target", "sikc"), "did you mean 'sick'"),
        ({}, (), "say which column is the target with --target"),
        ({"sick": 0}, ("--target", "sick"), "all 400 rows belong to one class"),
        ({"sick": [1, 1] + [0] * 398}, ("--target", "sick"), "only 2 independent positives"),
        ({}, ("--target", "sick", "--learner", "network", "--learner", "boostin"), "did you mean 'boosting'"),
        ({}, ("--target", "sick", "--learner", "logistic"), "are for networks: add --learner network"),
        ({}, ("--target", "sick", "--folds", "81"), "--folds must be at least 2 and at most 80"),
        ({}, ("--target", "sick", "--test", "0.9"), "the test share must lie between 0 and 0.5"),
        ({}, ("--target", "sick", "--backbone", "none"), "is a table, for which there is no --backbone"),
        ({"sick": ["yes", "no"] * 200}, ("--target", "sick"), "say which value is the positive one"),
        ({"sick": ["yes", "no"] * 200}, ("--target", "sick", "--positive", "ja"), "'ja'"),
        ({}, ("--target", "sick", "--size", "64"), "is a table, for which there is no --size"),
        ({}, ("--target", "sick", "--tpr", "98"), "tpr must lie strictly between 0 and 1, got 98"),
        ({}, ("--target", "sick", "--model", "resnet10"), "resnet10"),
        ({}, ("--target", "sick", "--method", "rankregg"), "unknown method 'rankregg': did you mean 'rankreg'"),
        ({}, ("--target", "sick", "--loss", "nope"), "rankreg: loss: unknown loss 'nope'"),
        ({}, ("--target", "sick", "--calibration", "0.9"), "calibration share"),
        ({}, ("--target", "sick", "--config", "absent.toml"), "settings in absent.toml: No such file"),
        ({}, ("--target", "sick", "--out", "/dev/null/x"), "/dev/null is a file"),
    ],
)
def test_what_the_user_can_mend_is_a_message_and_status_2(
    rankreg: CommandLine,
    tmp_path: Path,
    changes: dict[str, Any],
    options: tuple[str, ...],
    message: str,
) -> None:
    data = small(tmp_path / "data.csv", **changes)
    status, said, error = rankreg("fit", data, "--epochs", 1, "--out", tmp_path / "out", *options)
    assert status == 2
    assert "alarm when" not in said  # how the columns were read may be said, no result
    assert not (tmp_path / "out/bundle").exists()
    assert message in error
    assert "Traceback" not in error
    assert "[Errno" not in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "say which folder"),
        (("--positive", "baad"), "did you mean 'bad'"),
        (("--positive", "bad", "--target", "x"), "there is no --target; name the critical class with --positive"),
    ],
)
def test_image_folders_have_messages_of_their_own(
    rankreg: CommandLine, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    images = write_images(tmp_path / "images", 10, 10)
    status, _, error = rankreg("fit", images, *options, "--out", tmp_path / "out")
    assert status == 2
    assert message in error


def test_a_corrupt_training_image_is_named(rankreg: CommandLine, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", 10, 10)
    (images / "good/torn.png").write_bytes((images / "good/000.png").read_bytes()[:60])
    status, _, error = rankreg("fit", images, "--positive", "bad", "--size", 16, "--out", tmp_path / "out")
    assert status == 2
    assert "good/torn.png" in error
    assert "repair or remove" in error


def test_a_full_disk_at_the_bundle_loses_nothing(
    rankreg: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_table(tmp_path / "data.csv")
    learners = ("--learner", "network", "--learner", "logistic", "--epochs", 1, "--folds", 2)
    arguments = ("fit", data, "--target", "sick", "--drop", "name", *learners, "--out", tmp_path / "out")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_whole", full)
        status, _, error = rankreg(*arguments)
    assert status == 2
    assert "No space left on device" in error
    assert not (tmp_path / "out/bundle").exists()

    def trained() -> dict[Path, int]:
        files = [*tmp_path.glob("out/run/*/network/member-*/last.pt"), *tmp_path.glob("out/run/*/logistic.json")]
        return {file: file.stat().st_mtime_ns for file in files}

    before = trained()
    assert len(before) == 3  # a network for each of 2 folds, and the logistic regressions
    assert rankreg(*arguments)[0] == 0
    assert trained() == before  # nothing was trained again
    load_bundle(tmp_path / "out")


def test_another_run_in_the_same_folder_is_refused(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    arguments = ("fit", data, "--target", "sick", "--drop", "name", "--out", tmp_path / "out")
    assert rankreg(*arguments, "--epochs", 1)[0] == 0
    status, _, error = rankreg(*arguments, "--epochs", 2)
    assert status == 2
    assert "differs in epochs" in error


def test_help_needs_neither_torch_nor_pandas_nor_scipy() -> None:
    code = (
        "import sys; sys.argv = ['rankreg', 'fit', '--help']\n"
        "from rankreg.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'pandas', 'scipy', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert "--target" in done.stdout


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("size,sick\n", (), "holds no rows, only a header line"),
        (
            "size,sick\n1,2,3\n",
            ("--tpr", "98"),
            "tpr must lie strictly between 0 and 1, got 98",
        ),  # not a word about the broken table
        ("name,sick\n" + "".join(f"row-{k},{k % 2}\n" for k in range(40)), (), "no value occurs twice"),
    ],
)
def test_tables_that_cannot_be_learned_from_are_told_apart(
    rankreg: CommandLine, tmp_path: Path, content: str, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "data.csv").write_text(content)
    status, _, error = rankreg(
        "fit", tmp_path / "data.csv", "--target", "sick", "--out", tmp_path / "out", *options
    )
    assert status == 2
    assert message in error


def test_a_target_tpr_in_the_file_is_refused(rankreg: CommandLine, tmp_path: Path) -> None:
    data = write_table(tmp_path / "data.csv")
    (tmp_path / "own.toml").write_text("tpr = 0.9\n")
    status, _, error = rankreg(
        "fit", data, "--target", "sick", "--config", tmp_path / "own.toml", "--out", tmp_path / "out"
    )
    assert status == 2
    assert "the target is --tpr" in error


@pytest.mark.parametrize(
    ("option", "default"),
    [
        ("--loss", "bce"),
        ("--method", "buffer; images: none, half of each batch positives"),
        ("--model", "mlp; images resnet10"),
        ("--epochs", "40; images: up to 30, about 300 steps"),
        ("--seed", "0"),
        ("--size", "64"),
    ],
)
def test_help_shows_the_default(rankreg: CommandLine, option: str, default: str) -> None:
    said = rankreg("fit", "--help")[1]
    assert re.search(rf"{option} .*\(default: {default}\)", said)


def test_the_defaults_that_help_shows_are_those_of_the_settings() -> None:
    table, image = (settings(kind, 0.95, size=SIZE) for kind in ("table", "image"))
    assert [config.epochs for config in (table, image)] == [40, 30]
    assert [config.model.name for config in (table, image) if config.model is not None] == ["mlp", "resnet10"]
    learned = settings("image", 0.95, size=SIZE, samples=1000)
    assert table.method.name == "buffer"
    assert (learned.method.name, learned.sampling) == ("none", "balanced")
    assert (table.seed, SIZE) == (0, 64)


def test_what_comes_with_the_package_need_not_be_got(rankreg: CommandLine) -> None:
    status, said, _ = rankreg("data", "get", "digits")
    assert status == 0
    assert "nothing to get" in said


def test_addresses_are_whole_in_a_narrow_terminal(tmp_path: Path) -> None:
    done = CliRunner(env={"COLUMNS": "60"}).invoke(app, ["data", "list", "--data-dir", str(tmp_path)])
    for entry in CATALOG.values():
        if entry.url is None:
            for address in re.findall(r"https://[^ ,]+", entry.by_hand):
                assert address in done.stdout
