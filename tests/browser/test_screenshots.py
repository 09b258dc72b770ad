"""The pictures of README: all are there and small, the script makes them, and the plan's is not stale."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from gpufleet.report.fleet_html import fleet_page
from tests import screenshots
from tests.unit.report.fleets import verdict_on

pytestmark = pytest.mark.xdist_group("browser")

README = (screenshots.ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = re.findall(r"!\[([^\]]*)\]\((docs/images/[^)]+)\)", README)


def test_every_picture_of_the_readme_exists_is_small_and_has_alt_text() -> None:
    assert len(PICTURES) >= 5
    for words, path in PICTURES:
        assert len(words.split()) > 5, path
        assert 1000 < (screenshots.ROOT / path).stat().st_size < 300_000, path
    guides = (path.read_text(encoding="utf-8") for path in (screenshots.ROOT / "docs/guide").glob("*.md"))
    in_guides = {f"docs/{name}" for text in guides for name in re.findall(r"\]\(\.\./(images/[^)]+)\)", text)}
    shown = {path for _, path in PICTURES} | in_guides
    assert shown == {f"docs/images/{path.name}" for path in screenshots.IMAGES.iterdir()}


@pytest.mark.parametrize("name", screenshots.TERMINALS)
def test_terminal_pictures_load_nothing_from_elsewhere(name: str) -> None:
    svg = (screenshots.IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    assert "url(http" not in svg
    assert "@import" not in svg
    assert "<script" not in svg


def test_picture_of_the_plan_matches_the_current_output(tmp_path: Path) -> None:
    screenshots.main(["plan", "--to", str(tmp_path)])
    made, kept = (
        screenshots.svg_text((folder / "plan.svg").read_text(encoding="utf-8"))
        for folder in (tmp_path, screenshots.IMAGES)
    )
    assert any("pretrain" in line and "capacity block" in line for line in made)
    assert made == kept, "run `make screenshots`"


def test_report_is_captured_at_desktop_and_phone_width(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "sandbox.html"
    page.write_text(fleet_page(verdict_on("sandbox")), encoding="utf-8")
    screenshots.photograph(browser, page, tmp_path)
    sizes = {
        path.name: struct.unpack(">II", path.read_bytes()[16:24]) for path in sorted(tmp_path.glob("*.png"))
    }
    assert list(sizes) == ["report-fleet.png", "report-phone.png", "report-top.png"]
    assert sizes["report-phone.png"] == (390, 844)
    assert sizes["report-top.png"] == (1216, 640)
    assert sizes["report-fleet.png"][0] == 1216


def test_unknown_picture_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        screenshots.main(["nothing", "--to", str(tmp_path)])
    assert ended.value.code == 2
    assert "there is no picture 'nothing'" in capsys.readouterr().err
