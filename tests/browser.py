"""A real browser where there is one, and pages that must be quiet."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Debian's Chromium, or the one that CHROMIUM names."""
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no chromium found: apt-get install chromium, or set CHROMIUM to its path")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with driver.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Open]:
    """Open a file or a local address; in the end nothing may have left the machine or gone wrong on the page."""
    contexts, troubles = [], list[str]()

    def note_request(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "http://127.0.0.1:")):
            troubles.append(f"request to {request.url}")

    def note_message(message: Any) -> None:
        if message.type in ("error", "warning"):
            troubles.append(f"console: {message.text}")

    def open_file(path: Path | str, width: int = 1400, **options: Any) -> "Page":
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.on("request", note_request)
        context.on("console", note_message)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.goto(path.as_uri() if isinstance(path, Path) else path)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert troubles == []
