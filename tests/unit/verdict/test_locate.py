"""From resources to lines of the fleet file."""

from __future__ import annotations

import pytest

from gpufleet.resources.stack import Stack
from gpufleet.spec.load import LoadedFleet
from gpufleet.verdict.locate import Locator
from tests.unit.verdict.conftest import BASE, line_of, resource

FILE = "stacks/prod/fleet.yaml"
BURST = line_of("name: burst")
DATA = line_of("name: data")

cluster = resource("gpufleet:cluster:EksCluster", "atlas-prod-use1")
role = resource("aws:iam/role:Role", "atlas-prod-use1-node", parent=cluster)
network = resource("gpufleet:network:Network", "atlas-prod-use1")
vpc = resource("aws:ec2/vpc:Vpc", "atlas-prod-use1-vpc", parent=network)
group = resource("gpufleet:node_group:NodeGroup", "atlas-prod-use1-burst", parent=cluster)
template = resource("aws:ec2/launchTemplate:LaunchTemplate", "anything", parent=group)
tagged = resource(
    "aws:ec2/volume:Volume", "stray", tags={"gpufleet:site": "use1", "gpufleet:node-group": "burst"}
)
stored = resource("aws:kms/key:Key", "k", tags={"gpufleet:site": "use1", "gpufleet:storage": "data"})
sited = resource("aws:ec2/eip:Eip", "e", tags={"gpufleet:site": "use1"})
gone = resource("aws:ec2/eip:Eip", "x", tags={"gpufleet:site": "eu1", "gpufleet:node-group": "y"})
budget = resource("aws:budgets/budget:Budget", "atlas-prod-budget")
unknown_tags = resource("aws:sns/topic:Topic", "t", tags={"gpufleet:site": 3})
stranger = resource("aws:sns/topic:Topic", "alarm")
EVERYTHING = Stack(
    [
        cluster,
        role,
        network,
        vpc,
        group,
        template,
        tagged,
        stored,
        sited,
        gone,
        budget,
        unknown_tags,
        stranger,
    ]
)


@pytest.fixture
def locator(loaded: LoadedFleet) -> Locator:
    return Locator(loaded.spec, loaded.source, (EVERYTHING,))


def test_node_group_is_found_by_its_component(locator: Locator) -> None:
    assert locator.at(template.urn) == (FILE, BURST)
    assert (locator.place(template.urn).site, locator.place(template.urn).owner) == ("use1", "burst")


def test_node_group_and_storage_are_found_by_their_tags(locator: Locator) -> None:
    assert locator.at(tagged.urn) == (FILE, BURST)
    assert locator.at(stored.urn) == (FILE, DATA)


def test_resource_of_a_site_points_to_the_site(locator: Locator) -> None:
    assert locator.at(sited.urn) == (FILE, line_of("site: use1"))


def test_cluster_and_network_point_to_their_section_of_the_site(locator: Locator) -> None:
    assert locator.at(role.urn) == (FILE, line_of("kubernetes: {"))
    assert locator.at(vpc.urn) == (FILE, line_of("network: { cidr"))


def test_stack_and_unknown_resources_point_to_the_environment(locator: Locator) -> None:
    for urn in ("", stranger.urn, unknown_tags.urn, gone.urn, "urn:of:nothing"):
        assert locator.at(urn) == (FILE, line_of("environment: prod"))


def test_field_of_the_file_has_precedence_with_its_own_file(locator: Locator) -> None:
    number = next(n for n, line in enumerate(BASE.splitlines(), 1) if "monthly" in line)
    assert locator.at("", "budget.monthly") == ("stacks/base.yaml", number)
    assert locator.at(template.urn, "budget.monthly") == ("stacks/base.yaml", number)
    assert locator.at(budget.urn) == ("stacks/base.yaml", number)


def test_field_of_the_node_group_is_found_below_it(locator: Locator) -> None:
    assert locator.at(template.urn, "instance_types") == (FILE, line_of("instance_types"))
    assert locator.at(template.urn, "capacity.on_demand.max") == (FILE, line_of("on_demand"))


def test_field_not_written_in_the_group_points_to_the_group(locator: Locator) -> None:
    assert locator.at(template.urn, "volume.size") == (FILE, BURST)


def test_place_of_a_resource_overrides_a_field_above_it(locator: Locator) -> None:
    assert locator.at(template.urn, "cloud") == (FILE, BURST)
    assert locator.at("", "cloud") == (FILE, line_of("cloud:"))


def test_invalid_field_path_is_skipped(locator: Locator) -> None:
    assert locator.at(template.urn, "[[") == (FILE, BURST)
