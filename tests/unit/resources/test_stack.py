"""The resources of a stack and how they refer to each other."""

from __future__ import annotations

from msgspec.structs import replace

from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.stack import Stack
from tests.unit.policy.samples import box

VPC, SUBNET = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet"


def test_reference_is_resolved_while_ids_are_unknown() -> None:
    vpc = box("vpc", VPC, id=UNKNOWN)
    subnet = replace(box("subnet", SUBNET, vpcId=UNKNOWN), property_dependencies={"vpcId": (vpc.urn,)})
    other = box("other", VPC, id=UNKNOWN)
    stack = Stack([vpc, subnet, other])
    assert stack.refers(subnet, "vpcId", vpc)
    assert not stack.refers(subnet, "vpcId", other)
    assert list(stack.referrers(vpc, "vpcId", SUBNET)) == [subnet]
    assert list(stack.referrers(other, "vpcId", SUBNET)) == []
    assert stack.references(subnet, "vpcId") == [vpc]
    assert stack.references(subnet, "vpcId", types=[SUBNET]) == []


def test_equal_known_ids_are_a_reference() -> None:
    vpc, other = box("vpc", VPC, id="vpc-1"), box("other", VPC, id="vpc-2")
    subnet = box("subnet", SUBNET, vpcId="vpc-1")
    listed = box("listed", SUBNET, vpcId=["vpc-2", "vpc-3"])
    stack = Stack([vpc, other, subnet, listed])
    assert stack.refers(subnet, "vpcId", vpc)
    assert not stack.refers(subnet, "vpcId", other)
    assert stack.refers(listed, "vpcId", other)


def test_two_unknown_ids_are_not_equal() -> None:
    vpc, subnet = box("vpc", VPC, id=UNKNOWN), box("subnet", SUBNET, vpcId=UNKNOWN)
    assert not Stack([vpc, subnet]).refers(subnet, "vpcId", vpc)
    assert not Stack([vpc, subnet]).refers(subnet, "missing", box("none", VPC))


def test_reference_to_a_resource_outside_the_stack_is_left_out() -> None:
    subnet = replace(box("subnet", SUBNET), property_dependencies={"vpcId": ("urn:gone",)})
    assert Stack([subnet]).references(subnet, "vpcId") == []


def test_ancestors_are_ordered_nearest_first() -> None:
    root = box("root", "pulumi:pulumi:Stack")
    site = replace(box("site", "gpufleet:x:Site"), parent=root.urn)
    vpc = replace(box("vpc", VPC), parent=site.urn)
    assert [each.name for each in Stack([vpc, site, root]).ancestors(vpc)] == ["site", "root"]


def test_types_are_returned_in_the_requested_order() -> None:
    stack = Stack([box("a", SUBNET), box("b", VPC), box("c", SUBNET)])
    assert [each.name for each in stack.of_type(VPC, SUBNET)] == ["b", "a", "c"]
    assert stack.of_type("aws:none:None") == []
    assert len(stack) == 3
