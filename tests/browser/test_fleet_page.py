"""The report page in a real browser: at both widths, light and dark, on paper; judged by axe-core too."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from gpufleet.report.fleet_html import fleet_page
from tests.browser.conftest import OpenPage
from tests.browser.pages import CUT, LOW_CONTRAST, OVERLAPPING, TOO_WIDE
from tests.unit.report.fleets import racks_only, verdict_on
from tests.unit.verdict.conftest import rule, verdict, violated

pytestmark = pytest.mark.xdist_group("browser")

NAMES = ("sandbox", "dev", "prod", "racks", "large")
WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each environment, of one hall, and of one with a thousand systems; with rules of each kind,
    changes, and names that do not end."""
    folder = tmp_path_factory.mktemp("pages")
    rules = (
        rule("closed-buckets", violated("open to everybody " * 5 + "x" * 200)),
        rule("price-age", violated(effect="advisory"), status="advisory"),
        rule("encrypted", violated(effect="exempted"), status="exempted"),
        rule("tagged"),
        rule("step", status="disabled", note="judged against a --base only"),
    )
    hall, large = folder / "hall", folder / "large"
    hall.mkdir()
    large.mkdir()
    targets = {"sandbox": "sandbox", "dev": "dev", "prod": "prod", "racks": str(racks_only(hall))}
    targets["large"] = str(racks_only(large, "dgx[0001-1000]"))
    example = verdict()
    found = {}
    for name, target in targets.items():
        changes = {"base": example.base, "changes": example.changes, "racks": example.racks}
        made = verdict_on(target, *rules, **(changes if name == "sandbox" else {}))
        found[name] = folder / f"{name}.html"
        found[name].write_text(fleet_page(made), encoding="utf-8")
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_off_or_overlaps_at_any_width(
    pages: dict[str, Path], open_page: OpenPage, name: str, width: int
) -> None:
    page = open_page(pages[name], width)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(CUT) == []
    assert page.evaluate(OVERLAPPING) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ("sandbox", "racks"))
def test_axe_finds_no_violations_in_either_color_scheme(
    pages: dict[str, Path], open_page: OpenPage, name: str, scheme: str
) -> None:
    page = open_page(pages[name], 390, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = Axe().run(page).response
    assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
    assert any(each["id"] == "color-contrast" for each in found["passes"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_marks_of_pictures_are_visible_in_either_color_scheme(
    pages: dict[str, Path], open_page: OpenPage, scheme: str
) -> None:
    assert open_page(pages["prod"], scheme=scheme).evaluate(LOW_CONTRAST, 3) == []


@pytest.mark.fresh
def test_color_schemes_differ(pages: dict[str, Path], open_page: OpenPage) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = (open_page(pages["dev"], scheme=scheme).evaluate(ground) for scheme in SCHEMES)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(13, 17, 23)")


def test_the_page_works_without_javascript(pages: dict[str, Path], open_page: OpenPage) -> None:
    page = open_page(pages["dev"], java_script_enabled=False)
    page.get_by_text("1 rule passed", exact=True).click()
    assert page.get_by_text("tagged: Buckets are closed").is_visible()


def test_phone_shows_monthly_cost_and_verdict_on_the_first_screen(
    pages: dict[str, Path], open_page: OpenPage
) -> None:
    page = open_page(pages["prod"], 390)
    for text in (page.get_by_role("heading", level=1), page.get_by_text("FAIL", exact=True)):
        box = text.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 400


def test_print_view_is_unfolded_on_white_and_fits_the_sheet(
    pages: dict[str, Path], open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(pages["sandbox"], 794, "dark")  # A4 at 96 dots an inch
    assert not page.get_by_text("tagged: Buckets are closed").is_visible()
    page.emulate_media(media="print")
    assert page.get_by_text("tagged: Buckets are closed").is_visible()
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    made = page.pdf(format="A4", path=tmp_path / "page.pdf")
    assert made.startswith(b"%PDF-")
    assert made.count(b"/Type /Page\n") + made.count(b"/Type /Page ") >= 3
