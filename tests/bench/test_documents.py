"""The tables in docs/tables say what the records say."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rankreg.cli import app

HOME = Path(__file__).parents[2]
TABLES = sorted((HOME / "docs/tables").glob("*.md"))
ONLY_BCE = ("--only", "bce")  # other losses were not run
COMMANDS = {
    "cifar10-200": ("table", "cifar10-200", *ONLY_BCE),
    "cifar100-200": ("table", "cifar100-200", *ONLY_BCE),
    "rankreg-against-buffer": ("compare", "rankreg", "buffer", "--brief"),
    "rankreg-against-buffer-by-loss": (
        *("compare", "rankreg", "buffer"),
        *("--data", "cifar10-100", "--data", "cifar100-100"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_make_tables_would_change_nothing(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOME)  # where `make tables` runs
    command = COMMANDS.get(table.stem, ("table", table.stem))
    fresh = tmp_path / table.name
    result = CliRunner().invoke(app, ["bench", *command, "--out", str(fresh)])
    assert result.exit_code == 0, result.output
    assert fresh.read_text() == table.read_text(), "the records have changed: run `make tables`"
