"""The tables in docs/tables say what the records say."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rankreg.cli import app

HOME = Path(__file__).parents[2]
TABLES = sorted((HOME / "docs/tables").glob("*.md"))
COMPARISONS = {"rankreg-against-buffer": ("rankreg", "buffer")}
LOSSES = {"cifar10-200": ("--only", "bce"), "cifar100-200": ("--only", "bce")}  # whose other losses were not run


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_make_tables_would_change_nothing(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOME)  # where `make tables` runs
    arms = COMPARISONS.get(table.stem)
    command = ["compare", *arms] if arms else ["table", table.stem, *LOSSES.get(table.stem, ())]
    fresh = tmp_path / table.name
    result = CliRunner().invoke(app, ["bench", *command, "--out", str(fresh)])
    assert result.exit_code == 0, result.output
    assert fresh.read_text() == table.read_text(), "the records have changed: run `make tables`"
