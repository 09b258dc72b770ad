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


def test_a_node_group_is_found_by_its_component(locator: Locator) -> None:
    assert locator.at(template.urn) == (FILE, BURST)
    assert (locator.place(template.urn).site, locator.place(template.urn).owner) == ("use1", "burst")


def test_a_node_group_and_a_storage_are_found_by_their_tags(locator: Locator) -> None:
    assert locator.at(tagged.urn) == (FILE, BURST)
    assert locator.at(stored.urn) == (FILE, DATA)


def test_what_belongs_to_a_site_points_at_the_site(locator: Locator) -> None:
    assert locator.at(sited.urn) == (FILE, line_of("site: use1"))


def test_a_cluster_and_a_network_point_at_their_part_of_the_site(locator: Locator) -> None:
    assert locator.at(role.urn) == (FILE, line_of("kubernetes: {"))
    assert locator.at(vpc.urn) == (FILE, line_of("network: { cidr"))


def test_the_whole_stack_and_strangers_point_at_the_environment(locator: Locator) -> None:
    for urn in ("", stranger.urn, unknown_tags.urn, gone.urn, "urn:of:nothing"):
        assert locator.at(urn) == (FILE, line_of("environment: prod"))


def test_a_field_of_the_file_wins_and_comes_from_the_file_it_is_written_in(locator: Locator) -> None:
    number = next(n for n, line in enumerate(BASE.splitlines(), 1) if "monthly" in line)
    assert locator.at("", "budget.monthly") == ("stacks/base.yaml", number)
    assert locator.at(template.urn, "budget.monthly") == ("stacks/base.yaml", number)
    assert locator.at(budget.urn) == ("stacks/base.yaml", number)


def test_a_field_of_the_node_group_is_found_below_it(locator: Locator) -> None:
    assert locator.at(template.urn, "instance_types") == (FILE, line_of("instance_types"))
    assert locator.at(template.urn, "capacity.on_demand.max") == (FILE, line_of("on_demand"))


def test_a_field_that_the_group_does_not_write_points_at_the_group(locator: Locator) -> None:
    assert locator.at(template.urn, "volume.size") == (FILE, BURST)


def test_a_field_above_the_place_is_less_than_the_place(locator: Locator) -> None:
    assert locator.at(template.urn, "cloud") == (FILE, BURST)
    assert locator.at("", "cloud") == (FILE, line_of("cloud:"))


def test_a_field_that_is_no_path_is_passed_over(locator: Locator) -> None:
    assert locator.at(template.urn, "[[") == (FILE, BURST)
