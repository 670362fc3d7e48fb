"""The site: it is complete, its links lead somewhere, and it works in a browser without a network."""

import os
import re
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
from docs.reference_pages import commands, homes
from filelock import FileLock

from tests.browser import Open

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class Links(HTMLParser):
    """The addresses that a page links to or loads, and the places in it that links can lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.linked: set[str] = set()
        self.loaded: set[str] = set()
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.linked.add(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.add(given["href"])
        elif "src" in given:
            self.loaded.add(given["src"])


# What is cut off at the right: beyond the window, and in nothing that scrolls by itself, as tables and code do.
CUT_OFF = """[...document.querySelectorAll('article.bd-article *')].filter(one => {
  const box = one.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth + 1) return false;
  for (let at = one.parentElement; !at.matches('article.bd-article'); at = at.parentElement)
    if (['auto', 'scroll'].includes(getComputedStyle(at).overflowX)) return false;
  return true;
}).map(one => `${one.tagName} ${one.textContent.slice(0, 40)}`)"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once for all workers, with warnings as errors; the tutorials are shown and not run."""
    shared = tmp_path_factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else None
    folder = (shared or tmp_path_factory.mktemp("built")) / "site"
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "index.html").is_file():
            options = ["-q", "-W", "--keep-going", "-D", "plot_gallery=0", "-d", str(folder.with_name("doctrees"))]
            command = [sys.executable, "-m", "sphinx", *options, "-b", "html", "docs", str(folder)]
            built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert built.returncode == 0, built.stderr
    return folder


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    places = {place for page in (site / "reference" / "api").glob("*.html") for place in Links(page).places}
    assert len(homes()) > 100
    assert sorted({home for home in homes().values() if home not in places}) == []


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    pages = [Links(page) for page in (site / "reference" / "commands").glob("*.html")]
    places = {place for page in pages for place in page.places}
    expected = {typed.replace(" ", "-") for typed in commands()} | {
        f"cmdoption-{typed.replace(' ', '-')}-{option.lstrip('-')}"
        for typed, command in commands().items()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-")
    }
    assert len(commands()) > 15
    assert len(expected) > 150
    assert sorted(expected - places) == []


def test_the_index_of_the_reference_leads_to_every_page_of_it(site: Path) -> None:
    folder = site / "reference"
    pages = {
        page.relative_to(folder).as_posix() for kind in ("api", "commands") for page in (folder / kind).glob("*")
    }
    text = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8")
    assert {page.replace(".html", ".rst") for page in pages} == set(re.findall(r"\((\w+/[\w.-]+\.rst)\)", text))


def test_every_link_leads_to_a_page_and_a_place_of_the_site_and_nothing_is_loaded_from_elsewhere(
    site: Path,
) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html")}
    lost, foreign = [], []
    for page, found in pages.items():
        foreign += [f"{page.name}: {one}" for one in found.loaded if urlsplit(one).scheme not in ("", "data")]
        for link in found.linked:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            known = pages.get(target)
            is_there = target.is_file() and (
                not parts.fragment or known is None or unquote(parts.fragment) in known.places
            )
            lost += [] if is_there or link == "#" else [f"{page.relative_to(site)}: {link}"]
    assert len(pages) > 80
    assert foreign == []
    assert lost == []


def test_the_tutorials_can_be_downloaded_as_notebooks(site: Path) -> None:
    scripts = {script.stem for script in (ROOT / "docs" / "tutorials").glob("*.py")}
    assert len(scripts) == 4
    assert {notebook.stem for notebook in site.rglob("*.ipynb")} == scripts


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize(
    "page",
    [
        "index",
        "quick-start",
        "theory/rank-gradient",
        "coming-from/tuned-threshold",
        "results",
        "guide/operating-point",
        "reference/api/rankreg",
        "reference/api/rankreg.operating",
        "decisions/0060-scikit-learn",
        "gallery/own_table",
    ],
)
def test_a_page_is_as_wide_as_the_window(site: Path, open_page: Open, page: str, width: int) -> None:
    shown = open_page(site / f"{page}.html", width)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.evaluate(CUT_OFF) == []


def test_the_search_finds_the_page_of_a_public_name(site: Path, open_page: Open) -> None:
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:  # on file:// the search shows no excerpts
        Thread(target=server.serve_forever, daemon=True).start()
        shown = open_page(f"http://127.0.0.1:{server.server_port}/search.html?q=cross_fitted_threshold")
        shown.wait_for_selector("#search-results li a")
        shown.wait_for_load_state("networkidle")
        found = [link.get_attribute("href") or "" for link in shown.query_selector_all("#search-results li a")]
        shown.context.close()
        server.shutdown()
    assert any("rankreg.operating" in link for link in found)
