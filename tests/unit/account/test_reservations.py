"""Reservations that a fleet file names: state, type, zone, count and end."""

from __future__ import annotations

import datetime as dt
from typing import Any

import boto3
import pytest

from gpufleet.plan.models import FleetPlan

from .conftest import NOW, OWN_TAGS, REGION, Account, check, fleet, group, only

KIND, ZONE, IDENTITY = "p5.48xlarge", "us-east-1a", "cr-0123456789abcdef0"


def reserved(kind: str = "odcr", nodes: int = 2, identity: str = IDENTITY) -> FleetPlan:
    held = {"nodes": nodes, "id": identity, "instance_type": KIND, "zone": ZONE}
    return fleet(group(KIND, zones=[ZONE], capacity={"reserved": {kind: held}}))


def holds(account: Account, **more: Any) -> None:
    """Let the account hold a reservation."""
    found = {
        "CapacityReservationId": IDENTITY,
        "InstanceType": KIND,
        "AvailabilityZone": ZONE,
        "AvailabilityZoneId": "use1-az6",
        "State": "active",
        "TotalInstanceCount": 2,
        "AvailableInstanceCount": 2,
        "ReservationType": "default",
        **more,
    }
    account.answers["ec2:DescribeCapacityReservations"] = lambda _: {"CapacityReservations": [found]}


def test_active_reservation_that_fits_passes(account: Account) -> None:
    holds(account)
    found = account.preflight(reserved())
    assert found.status == "pass"
    (fact,) = check(found, "reservations").facts
    assert (fact["id"], fact["state"], fact["zone_id"]) == (IDENTITY, "active", "use1-az6")


def test_reservation_that_does_not_exist_is_an_error(account: Account) -> None:
    found = only(account.preflight(reserved()), "reservation-id")
    assert found.path == ("cloud", 0, "node_groups", 0, "capacity", "reserved", "odcr", "id")
    assert IDENTITY in found.message
    assert found.severity == "error"


def test_reservation_of_the_account_is_read(account: Account) -> None:
    made = boto3.client("ec2", region_name=REGION).create_capacity_reservation(
        InstanceType=KIND, InstancePlatform="Linux/UNIX", AvailabilityZone=ZONE, InstanceCount=2
    )["CapacityReservation"]["CapacityReservationId"]
    assert account.preflight(reserved(identity=made)).status == "pass"
    found = only(account.preflight(reserved(identity=made, nodes=3)), "reservation-nodes")
    assert "holds 2 instances, and the group has 3 nodes" in found.message


@pytest.mark.parametrize("state", ["cancelled", "expired", "pending", "payment-failed", "scheduled"])
def test_reservation_that_is_not_active_is_an_error(account: Account, state: str) -> None:
    holds(account, State=state)
    assert only(account.preflight(reserved()), "reservation-state").value == state


def test_block_that_is_scheduled_passes_and_one_that_has_ended_does_not(account: Account) -> None:
    block = {"ReservationType": "capacity-block", "EndDate": NOW + dt.timedelta(days=8)}
    for state in ("scheduled", "active"):
        holds(account, State=state, **block)
        assert account.preflight(reserved("capacity_block")).status == "pass"
    holds(account, **block)
    found = account.preflight(reserved("capacity_block"), NOW + dt.timedelta(days=8))
    assert only(found, "reservation-state").severity == "error"


@pytest.mark.parametrize(
    ("more", "rule", "reported"),
    [
        (
            {"InstanceType": "p4d.24xlarge"},
            "reservation-instance_type",
            "holds p4d.24xlarge, not p5",
        ),
        ({"AvailabilityZone": "us-east-1b"}, "reservation-zone", "is in us-east-1b (use1-az6)"),
        ({"TotalInstanceCount": 1}, "reservation-nodes", "holds 1 instances"),
        ({"ReservationType": "capacity-block"}, "reservation-id", "is no On-Demand Capacity Reservation"),
    ],
)
def test_reservation_of_another_kind_or_place_is_an_error(
    account: Account, more: dict[str, Any], rule: str, reported: str
) -> None:
    holds(account, **more)
    found = only(account.preflight(reserved()), rule)
    assert reported in found.message
    assert found.severity == "error"


def test_reservation_that_is_no_block_is_an_error(account: Account) -> None:
    holds(account)
    assert (
        "is no Capacity Block"
        in only(account.preflight(reserved("capacity_block")), "reservation-id").message
    )


def test_instances_of_others_in_the_reservation_are_an_error_and_those_of_the_fleet_are_not(
    account: Account,
) -> None:
    def running(tags: list[dict[str, str]]) -> None:
        instance = {"InstanceType": KIND, "CapacityReservationId": IDENTITY, "Tags": tags}
        account.answers["ec2:DescribeInstances"] = lambda _: {"Reservations": [{"Instances": [instance] * 2}]}

    holds(account, AvailableInstanceCount=0)
    running(OWN_TAGS)
    assert account.preflight(reserved()).status == "pass"
    running([])
    assert "0 of 2 instances" in only(account.preflight(reserved()), "reservation-nodes").message


def test_reservation_that_ends_soon_is_a_warning_with_its_request(account: Account) -> None:
    holds(account, EndDate=NOW + dt.timedelta(days=6))
    found = only(account.preflight(reserved()), "reservation-end")
    assert found.severity == "warning"
    assert f"--capacity-reservation-id {IDENTITY} --end-date-type unlimited" in found.request
    holds(account, EndDate=NOW + dt.timedelta(days=8))
    assert account.preflight(reserved()).status == "pass"


def test_refused_description_is_not_checked(account: Account) -> None:
    account.refused = {"ec2:DescribeCapacityReservations": "UnauthorizedOperation"}
    assert check(account.preflight(reserved()), "reservations").status == "not-checked"


def test_block_that_ends_soon_is_a_warning_with_its_extension(account: Account) -> None:
    holds(account, ReservationType="capacity-block", EndDate=NOW + dt.timedelta(days=6))
    found = only(account.preflight(reserved("capacity_block")), "reservation-end")
    assert found.severity == "warning"
    assert "append an entry to `extensions`" in found.remedy
