"""The tables in docs/tables say what the records say."""

from pathlib import Path

import pytest
from docs.render import FOLDER, TABLES
from typer.testing import CliRunner

from rankreg.cli import app


def test_every_table_is_rendered_and_none_is_left_over() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(TABLES)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_make_tables_would_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER.parents[1])  # where `make tables` runs
    fresh = tmp_path / f"{name}.md"
    result = CliRunner().invoke(app, ["bench", *TABLES[name], "--out", str(fresh)])
    assert result.exit_code == 0, result.output
    assert fresh.read_text() == (FOLDER / fresh.name).read_text(), "the records have changed: run `make tables`"
