"""Samples to report on, and a real browser where there is one."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from rankreg.report import Model

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
Open = Callable[..., Page]


def made_model(
    name: str, positives: int, negatives: int, *, seed: int = 0, gap: float = 2.5, ties: int = 0
) -> Model:
    """Normal scores, shuffled; with `ties` rounded to that many steps per unit."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat([1, 0], [positives, negatives]))
    scores = np.random.default_rng([seed, 1]).standard_normal(positives + negatives) + gap * labels
    return Model(name, labels, np.round(scores * ties) / ties if ties else scores)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or the one that CHROMIUM names."""
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no chromium found: apt-get install chromium, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a file; in the end nothing may have left the page, and nothing may have gone wrong on it."""
    contexts, troubles = [], list[str]()

    def note_request(request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            troubles.append(f"request to {request.url}")

    def note_message(message: Any) -> None:
        if message.type in ("error", "warning"):
            troubles.append(f"console: {message.text}")

    def open_file(path: Path, width: int = 1400, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.on("request", note_request)
        context.on("console", note_message)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.goto(path.as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert troubles == []
