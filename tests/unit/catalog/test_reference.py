"""docs/reference/catalog.md is current."""

from __future__ import annotations

from pathlib import Path

from gpufleet.catalog import load_catalog
from gpufleet.catalog.reference import reference_text

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "catalog.md"


def test_page_matches_the_data_files() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_text(load_catalog()), (
        "run `python -m gpufleet.catalog.reference > docs/reference/catalog.md`"
    )


def test_every_name_for_a_fleet_file_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    catalog = load_catalog()
    for name in (*catalog.instances, *catalog.systems, *catalog.services):
        assert f"`{name}`" in text, name
    for channel in catalog.locks:
        assert channel in text
