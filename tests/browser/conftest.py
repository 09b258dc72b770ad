"""A real Chromium without a window: one for the tests of a module, a fresh profile for each page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.pages import chromium


@pytest.fixture(scope="module")  # not longer: other tests start event loops
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium of the distribution."""
    with chromium(tmp_path_factory.mktemp("home")) as made:
        yield made


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """`open_page(file, width, scheme)`: the page in a fresh profile. At the end, no other file may have been
    requested, and the console must be empty."""
    contexts: list[Any] = []
    reported: list[str] = []

    def show(file: Path, width: int = 1280, scheme: str = "light", **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        own = file.as_uri()
        page.on("request", lambda request: reported.append(request.url) if request.url != own else None)
        page.on("console", lambda message: reported.append(message.text))
        page.on("pageerror", lambda error: reported.append(str(error)))
        page.goto(own)
        return page

    yield show
    for context in contexts:
        context.close()
    assert reported == []
