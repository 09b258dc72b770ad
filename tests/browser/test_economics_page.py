"""Pages of the calculators in a real browser: at both widths, light and dark, on paper; judged by axe."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import OpenPage
from tests.browser.pages import OVERLAPPING, TOO_WIDE
from tests.unit.report.economics_results import COMMANDS, write_page

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("economics")
    return {name: write_page(name, folder) for name in COMMANDS}


@pytest.mark.parametrize("width", (390, 1280))
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_cut_off_or_overlaps_at_any_width(
    pages: dict[str, Path], open_page: OpenPage, name: str, width: int
) -> None:
    page = open_page(pages[name], width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(OVERLAPPING) == []
    broken = "[...document.images].filter(each => !each.complete || !each.naturalWidth).length"
    assert page.evaluate(broken) == 0, "each plot is drawn"


@pytest.mark.parametrize("scheme", ("light", "dark"))
@pytest.mark.parametrize("name", COMMANDS)
def test_axe_finds_no_violations_in_either_color_scheme(
    pages: dict[str, Path], open_page: OpenPage, name: str, scheme: str
) -> None:
    page = open_page(pages[name], 390, scheme)
    found = Axe().run(page).response
    assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
    assert any(each["id"] == "color-contrast" for each in found["passes"])


def test_page_prints_with_all_rows(pages: dict[str, Path], open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(pages["usage"])
    content = page.pdf(path=str(tmp_path / "usage.pdf"))
    assert content.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("[...document.querySelectorAll('tr')].every(each => each.checkVisibility())")
