"""Resource groups of reservations that a fleet file names."""

from __future__ import annotations

import datetime as dt
from typing import Any

import boto3
import pytest

from gpufleet.lab.aws.backends import install
from gpufleet.plan.models import FleetPlan

from .conftest import NOW, OWN_TAGS, REGION, Account, check, fleet, group, only

KIND = "p4d.24xlarge"
ARN = f"arn:aws:resource-groups:{REGION}:123456789012:group/training"
PATH = ("cloud", 0, "node_groups", 0, "capacity", "reserved", "odcr")
POOL = {"Type": "AWS::EC2::CapacityReservationPool"}


def drawn(*nodes: int, zones: tuple[str, ...] = (f"{REGION}a", f"{REGION}b")) -> FleetPlan:
    """A fleet with a node group for each number of nodes, all from one resource group."""
    return fleet(
        *(
            {
                **group(KIND, zones=list(zones), capacity={"reserved": {"odcr": {"nodes": n, "group": ARN}}}),
                "name": f"nodes-{index}",
            }
            for index, n in enumerate(nodes)
        )
    )


@pytest.fixture
def pooled(account: Account) -> Account:
    install("resourcegroups")
    boto3.client("resource-groups", region_name=REGION).create_group(Name="training", Configuration=[POOL])
    return account


def reserve(count: int, zone: str = f"{REGION}a", kind: str = KIND, **more: Any) -> str:
    """Reserve instances, and add them to the resource group."""
    made = boto3.client("ec2", region_name=REGION).create_capacity_reservation(
        InstanceType=kind,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=zone,
        InstanceCount=count,
        **more,
    )["CapacityReservation"]
    answer = boto3.client("resource-groups", region_name=REGION).group_resources(
        Group=ARN, ResourceArns=[made["CapacityReservationArn"]]
    )
    assert answer["Failed"] == []
    return str(made["CapacityReservationId"])


def test_nodes_may_come_from_several_reservations_of_a_group(pooled: Account) -> None:
    made = {reserve(3), reserve(2, f"{REGION}b")}
    found = pooled.preflight(drawn(5))
    assert found.status == "pass"
    assert {fact["id"] for fact in check(found, "reservations").facts} == made


def test_reservations_of_other_types_and_zones_do_not_count(pooled: Account) -> None:
    reserve(4)
    reserve(8, kind="p5.48xlarge")
    reserve(8, f"{REGION}b")
    reserve(8, f"{REGION}c")
    found = only(pooled.preflight(drawn(5, zones=(f"{REGION}a",))), "reservation-nodes")
    assert (found.path, found.value, found.severity) == ((*PATH, "nodes"), 4, "error")
    assert f"holds 4 instances of {KIND} in {REGION}a, and the node group has 5 nodes" in found.message


def test_node_groups_with_one_type_share_what_a_group_holds(pooled: Account) -> None:
    reserve(5)
    assert pooled.preflight(drawn(3, 2)).status == "pass"
    found = only(pooled.preflight(drawn(3, 3)), "reservation-nodes")
    assert found.path[3] == 1
    assert "holds 2 instances" in found.message


def test_node_groups_in_other_zones_share_nothing(pooled: Account) -> None:
    reserve(3)
    reserve(3, f"{REGION}b")
    of = drawn(3, 3)
    first, second = of.cloud[0].node_groups
    assert first.capacity.reservation_zone is None  # type: ignore[union-attr]
    apart = fleet(
        *(
            {
                **group(KIND, zones=[zone], capacity={"reserved": {"odcr": {"nodes": 3, "group": ARN}}}),
                "name": each.name,
            }
            for each, zone in ((first, f"{REGION}a"), (second, f"{REGION}b"))
        )
    )
    assert pooled.preflight(apart).status == "pass"


def test_group_that_does_not_exist_is_an_error(account: Account) -> None:
    install("resourcegroups")
    found = only(account.preflight(drawn(1)), "reservation-group")
    assert (found.path, found.value) == ((*PATH, "group"), ARN)
    assert "the account has no resource group" in found.message


def test_group_that_launches_cannot_target_is_an_error(account: Account) -> None:
    install("resourcegroups")
    boto3.client("resource-groups", region_name=REGION).create_group(
        Name="training", Configuration=[{"Type": "AWS::ResourceGroups::Generic"}]
    )
    found = only(account.preflight(drawn(1)), "reservation-group")
    assert "AWS::EC2::CapacityReservationPool" in found.message


def test_empty_group_holds_nothing(pooled: Account) -> None:
    assert "holds 0 instances" in only(pooled.preflight(drawn(1)), "reservation-nodes").message


def test_instances_of_others_take_room_and_those_of_the_fleet_do_not(pooled: Account) -> None:
    identity = reserve(2)

    def running(tags: list[dict[str, str]]) -> None:
        instance = {"InstanceType": KIND, "CapacityReservationId": identity, "Tags": tags}
        pooled.answers["ec2:DescribeInstances"] = lambda _: {"Reservations": [{"Instances": [instance] * 2}]}

    held = {
        "CapacityReservationId": identity,
        "InstanceType": KIND,
        "AvailabilityZone": f"{REGION}a",
        "State": "active",
        "TotalInstanceCount": 2,
        "AvailableInstanceCount": 0,
    }
    pooled.answers["ec2:DescribeCapacityReservations"] = lambda _: {"CapacityReservations": [held]}
    running(OWN_TAGS)
    assert pooled.preflight(drawn(2)).status == "pass"
    running([])
    assert "0 of 2 instances" in only(pooled.preflight(drawn(2)), "reservation-nodes").message


def test_end_of_a_reservation_is_a_warning_where_the_rest_is_too_small(pooled: Account) -> None:
    soon = NOW + dt.timedelta(days=6)
    held = [
        {
            "CapacityReservationId": f"cr-0000000000000000{index}",
            "InstanceType": KIND,
            "AvailabilityZone": f"{REGION}a",
            "State": "active",
            "TotalInstanceCount": 2,
            "AvailableInstanceCount": 2,
            **more,
        }
        for index, more in enumerate(({}, {"EndDate": soon}))
    ]
    reserve(2)
    pooled.answers["ec2:DescribeCapacityReservations"] = lambda _: {"CapacityReservations": held}
    assert pooled.preflight(drawn(2)).status == "pass"
    found = only(pooled.preflight(drawn(3)), "reservation-end")
    assert found.severity == "warning"
    assert f"from {soon:%Y-%m-%d %H:%M} UTC on, and 2 instances" in found.message


@pytest.mark.parametrize(
    "action",
    [
        "resource-groups:GetGroupConfiguration",
        "resource-groups:ListGroupResources",
        "ec2:DescribeCapacityReservations",
    ],
)
def test_refused_call_is_not_checked(pooled: Account, action: str) -> None:
    reserve(1)
    for service in ("resource-groups",):
        pooled.client(service)
    pooled.refused = {action: "AccessDeniedException"}
    assert check(pooled.preflight(drawn(1)), "reservations").status == "not-checked"
