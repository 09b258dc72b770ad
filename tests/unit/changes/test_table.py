"""Every field of the fleet file has an effect."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from gpufleet.catalog import load_catalog
from gpufleet.changes.fields import fleet_fields
from gpufleet.changes.reference import changes_reference
from gpufleet.changes.table import CLOUD, is_rack, is_server_setting
from gpufleet.plan import build_plan
from gpufleet.plan.models import CloudSitePlan
from gpufleet.spec.load import load_fleet
from gpufleet.spec.schema import fleet_schema

ROOT = Path(__file__).resolve().parents[3]


def cloud_fields() -> set[str]:
    """The fields that need an entry in `CLOUD`: neither groups of fields nor fixed nor a rack's."""
    return {
        each.path
        for each in fleet_fields()
        if not each.group and not each.only and not is_rack(each.path) and not is_server_setting(each.path)
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
def test_software_channel_changes_only_images_and_add_ons_of_the_cloud(environment: str) -> None:
    spec, catalog = load_fleet(environment, root=ROOT).spec, load_catalog()
    other = catalog.locks["2026.08"].model_copy(update={"eks_image": "20260625"})
    catalog = structs.replace(catalog, locks={**catalog.locks, "2026.08": other})
    before, after = (
        build_plan(
            spec.model_copy(update={"software": spec.software.model_copy(update={"channel": channel})}),
            catalog,
        )
        for channel in ("2026.11", "2026.08")
    )
    assert before.tags == after.tags
    assert [without_locked(site) for site in before.cloud] == [without_locked(site) for site in after.cloud]
    assert [group.image_release for group in before.node_groups] != [
        group.image_release for group in after.node_groups
    ]
    programs = [
        path.read_text() for folder in ("stacks", "components") for path in (ROOT / folder).glob("*.py")
    ]
    assert not any("software_channel" in text for text in programs)


def without_locked(site: CloudSitePlan) -> CloudSitePlan:
    """A site without what the software channel says of its images and add-ons."""
    cluster = site.kubernetes
    return structs.replace(
        site,
        node_groups=tuple(
            structs.replace(group, image="", image_release="", software=None) for group in site.node_groups
        ),
        kubernetes=None
        if cluster is None
        else structs.replace(
            cluster,
            addon_versions={},
            unverified_addons=(),
            system_nodes=structs.replace(cluster.system_nodes, image="", image_release=""),
        ),
    )


def test_rack_fields_are_recognized() -> None:
    assert is_rack("onprem[]")
    assert is_rack("onprem[].slurm.qos[].name")
    assert not is_rack("cloud[].site")
