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


def test_the_way_of_a_csv_row_has_as_many_files_as_the_page_says() -> None:
    way = PAGE.read_text().split("## The way of a CSV row")[1].split("## The way of a batch")[0]
    steps = re.findall(r"^\d+\. (.*)$", way, re.MULTILINE)
    files = [name for step in steps for name in re.findall(r"`((?:\w+/)?\w+\.py)`", step)]
    assert len(files) == len(set(files)) == int(re.search(r"^(\d+) files", way, re.MULTILINE)[1])  # type: ignore[index]
    assert len(files) <= 25


def test_no_two_source_files_share_a_name() -> None:
    names = Counter(file.name for file in FILES if file.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_the_house_stays_within_its_size() -> None:
    library = [file for file in FILES if file.is_relative_to(ROOT / "src" / "rankreg")]
    bench = [file for file in FILES if Path("rankreg_bench") in [file.parent.relative_to(ROOT / "src")]]
    assert len(library) <= 114
    assert len(bench) <= 15
    assert max(len(file.read_text().splitlines()) for file in FILES) <= 470
