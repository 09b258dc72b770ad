"""Every field of the fleet file has an effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.changes.fields import fleet_fields
from gpufleet.changes.reference import changes_reference
from gpufleet.changes.table import CLOUD, is_rack
from gpufleet.plan import build_plan
from gpufleet.spec.load import load_fleet
from gpufleet.spec.schema import fleet_schema

ROOT = Path(__file__).resolve().parents[3]


def cloud_fields() -> set[str]:
    """The fields that need an entry in `CLOUD`: neither groups of fields nor fixed nor a rack's."""
    return {
        each.path for each in fleet_fields() if not each.group and not each.only and not is_rack(each.path)
    }


def test_every_field_of_the_fleet_file_is_in_the_table() -> None:
    assert cloud_fields() - set(CLOUD) == set()


def test_table_has_no_unknown_field() -> None:
    assert set(CLOUD) - cloud_fields() == set()


def test_fields_match_the_json_schema() -> None:
    definitions = fleet_schema()["$defs"]
    named = {
        name
        for key, each in definitions.items()
        if not key.startswith("Partial")
        for name in each.get("properties", ())
    }
    found = {part.removesuffix("[]") for each in fleet_fields() for part in each.path.split(".")}
    assert named - found == set()


def test_each_way_to_change_a_field_is_listed_once() -> None:
    for path, changes in CLOUD.items():
        assert len({each.how for each in changes}) == len(changes) > 0, path


def test_page_lists_every_field() -> None:
    page = changes_reference()
    assert [each.path for each in fleet_fields() if f"`{each.path}`" not in page and not each.group] == []


def test_committed_page_is_current() -> None:
    written = (ROOT / "docs" / "reference" / "changes.md").read_text(encoding="utf-8")
    assert written == changes_reference(), "run `make docs`"


@pytest.mark.parametrize("environment", ["sandbox", "dev", "prod"])
def test_software_channel_change_has_no_effect_on_the_stack_inputs(environment: str) -> None:
    spec, catalog = load_fleet(environment, root=ROOT).spec, load_catalog()
    plans = [
        build_plan(
            spec.model_copy(update={"software": spec.software.model_copy(update={"channel": channel})}),
            catalog,
        )
        for channel in catalog.locks
    ]
    assert len(plans) > 1
    assert all(plan.cloud == plans[0].cloud and plan.tags == plans[0].tags for plan in plans)
    programs = [
        path.read_text() for folder in ("stacks", "components") for path in (ROOT / folder).glob("*.py")
    ]
    assert not any("software_channel" in text for text in programs)


def test_rack_fields_are_recognized() -> None:
    assert is_rack("onprem[]")
    assert is_rack("onprem[].slurm.qos[].name")
    assert not is_rack("cloud[].site")
