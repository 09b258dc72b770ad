"""The tags that everything of a fleet carries."""

from __future__ import annotations

from gpufleet.checks.tags import OURS
from gpufleet.plan import build_plan
from gpufleet.plan.marks import TAG_PREFIX, group_tags, lasting_tags, storage_tags
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, plan_of, spec


def test_last_day_of_a_temporary_environment_is_a_tag_of_everything() -> None:
    fleet = spec(expires="2031-06-30", cloud=[cloud_site(group("sweep", "p4d.24xlarge", on_demand(0, 4)))])
    plan = build_plan(fleet, CATALOG)
    (site,) = plan.cloud
    (nodes,) = plan.node_groups
    for tags in (plan.tags, site.tags, nodes.tags):
        assert tags["gpufleet:expires"] == "2031-06-30"


def test_permanent_environment_has_no_last_day() -> None:
    assert "gpufleet:expires" not in plan_of(group("sweep", "p4d.24xlarge", on_demand(0, 4))).tags


def test_tag_limit_leaves_room_for_all_gpufleet_tags() -> None:
    fleet = spec(
        expires="2031-06-30",
        cloud=[cloud_site(group("sweep", "p4d.24xlarge", on_demand(0, 4), team="research"))],
    )
    (nodes,) = fleet.cloud[0].node_groups
    on_nodes = {key for key in group_tags(fleet, "use1", nodes) if key.startswith(TAG_PREFIX)}
    on_storage = {key for key in storage_tags(fleet, "use1", "scratch") if key.startswith(TAG_PREFIX)}
    of_eks_and_the_name = 3
    assert max(len(on_nodes), len(on_storage)) + of_eks_and_the_name == OURS


def test_lasting_tags_say_only_where_a_resource_belongs() -> None:
    fleet = spec(
        expires="2031-06-30",
        cloud=[cloud_site(group("sweep", "p4d.24xlarge", on_demand(0, 4), team="research"))],
    )
    tags = group_tags(fleet, "use1", fleet.cloud[0].node_groups[0])
    assert lasting_tags(tags) == {
        "gpufleet:fleet": "atlas",
        "gpufleet:environment": "test",
        "gpufleet:site": "use1",
        "gpufleet:node-group": "sweep",
    }
