"""The tables in docs/tables and the pages on results say what the records say."""

import re
from pathlib import Path

import pytest
from docs.render import FOLDER, TABLES
from docs.results_pages import DOCS, PAGES, page
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


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_number_on_a_page_of_results_is_its_records(name: str) -> None:
    assert page(name) == (DOCS / name).read_text(), "the records or the template have changed: run `make tables`"


def test_the_readme_repeats_the_differences_of_the_pages_of_results() -> None:
    pages = " ".join((DOCS / name).read_text() for name in PAGES)
    section = (DOCS.parent / "README.md").read_text().partition("## Does it help?")[2].partition("\n## ")[0]
    differences = re.findall(r"[+−]\d+\.\d+ \(−?\d+\.?\d* to −?\d+\.?\d*\)", section)
    assert differences
    assert [one for one in differences if one not in pages] == []
