"""Pages of the calculators: self-contained, with the figures of the terminal, their sources and dates."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpufleet.cli.main import main
from tests.unit.report.economics_results import COMMANDS, write_page


class Tags(HTMLParser):
    """Names of elements, and attributes that load something."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]


@pytest.mark.parametrize("name", COMMANDS)
def test_page_loads_nothing_and_has_no_scripts(tmp_path: Path, name: str) -> None:
    text = write_page(name, tmp_path).read_text(encoding="utf-8")
    found = Tags()
    found.feed(text)
    assert "script" not in found.names
    assert all(each.startswith("data:image/svg+xml;base64,") for each in found.loaded)
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert re.search(r"<style>.+</style>", text, re.DOTALL)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "tco",
            ("1024 x H100: rented or owned", "SemiAnalysis", "2023-05-31", "no source: --spread sets it"),
        ),
        (
            "cost",
            ("atlas/prod: what it costs", "use1/pretrain", "Not counted", "2026-", "Compared with"),
        ),
        ("spot", ("spot with on-demand", "skypilot-catalog", "2026-07-20", "GPU-hours per failure")),
        ("usage", ("(idle)", "USD per month (ownership, power)", "notebook", "2026-10-05")),
        ("training", ("usw2/overflow", "15,000 USD", "data must stay in us-east-1, us-west-2")),
        ("serving", ("use1/serve-peak", "not measured on H100")),
        ("edge", ("plant", "Jetson AGX Orin", "job file")),
    ],
)
def test_page_has_the_figures_of_the_terminal_with_sources_and_dates(
    tmp_path: Path, name: str, texts: tuple[str, ...]
) -> None:
    page = write_page(name, tmp_path).read_text(encoding="utf-8")
    assert [text for text in texts if text not in page] == []
    assert "Sources and assumptions" in page


def test_same_input_gives_the_same_page(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    first, again = write_page("tco", tmp_path), write_page("tco", tmp_path / "again")
    assert first.read_bytes() == again.read_bytes()


def test_other_file_of_the_user_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "thesis.html"
    path.write_text("mine", encoding="utf-8")
    assert main([*COMMANDS["tco"], "--html", str(path)]) == 2
    assert "is not a report of gpufleet" in " ".join(capsys.readouterr().err.split())
    assert path.read_text(encoding="utf-8") == "mine"
