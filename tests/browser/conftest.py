"""A real Chromium without a window: one for all tests of a process, a fresh profile for each page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.pages import FLAGS
from tests.programs import find_chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium of the distribution, driven by Playwright."""
    # Nothing of it lies in the home of whoever runs the tests.
    home = {"HOME": str(tmp_path_factory.mktemp("home"))}
    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=find_chromium(), args=FLAGS, env=os.environ | home)
        yield made
        made.close()


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """`open_page(file, width, scheme)`: the page in a profile of its own. At the end nothing may have been
    asked for but the file, and no console may have a word."""
    contexts: list[Any] = []
    said: list[str] = []

    def show(file: Path, width: int = 1280, scheme: str = "light", **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        own = file.as_uri()
        page.on("request", lambda request: said.append(request.url) if request.url != own else None)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(own)
        return page

    yield show
    for context in contexts:
        context.close()
    assert said == []
