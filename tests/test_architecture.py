"""The plan of the house is true: every file is on the page, every file that the page names is there."""

import re
from collections import Counter
from pathlib import Path

from docs.tree import PAGE, ROOT, page, sentence

FILES = sorted((ROOT / "src").rglob("*.py"))


def test_the_page_lists_every_file_with_the_first_sentence_of_its_docstring() -> None:
    assert PAGE.read_text() == page(), "run `make tree`"
    assert all(sentence(file) for file in FILES)


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(
        r"^(?:\d+\.|\|).*?`((?:\w+/)?\w+\.py)`", PAGE.read_text().split("## The tree")[0], re.MULTILINE
    )
    assert len(named) > 40
    homes = (ROOT / "src" / "rankreg", ROOT / "src")
    assert [name for name in named if not any((home / name).exists() for home in homes)] == []


def test_no_two_source_files_share_a_name() -> None:
    names = Counter(file.name for file in FILES if file.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_the_house_stays_within_its_size() -> None:
    library = [file for file in FILES if file.is_relative_to(ROOT / "src" / "rankreg")]
    bench = [file for file in FILES if Path("rankreg_bench") in [file.parent.relative_to(ROOT / "src")]]
    assert len(library) <= 120
    assert len(bench) <= 15
    assert max(len(file.read_text().splitlines()) for file in FILES) <= 470
