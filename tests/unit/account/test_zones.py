"""Zones by id: unknown ones, those without EKS, and where types are offered."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from .conftest import REGION, Account, check, fleet, group, only


def offer(account: Account, *places: tuple[str, str]) -> None:
    """Offer only these types in these zones, by id."""

    def answer(parameters: dict[str, Any]) -> dict[str, Any]:
        assert parameters["LocationType"] == "availability-zone-id"
        return {"InstanceTypeOfferings": [{"InstanceType": kind, "Location": zone} for kind, zone in places]}

    account.answers["ec2:DescribeInstanceTypeOfferings"] = answer


def zone_ids() -> dict[str, str]:
    zones = boto3.client("ec2", region_name=REGION).describe_availability_zones()["AvailabilityZones"]
    return {zone["ZoneName"]: zone["ZoneId"] for zone in zones}


def test_zone_ids_of_the_account_are_facts(account: Account) -> None:
    facts = check(account.preflight(fleet(group())), "zones").facts
    assert {fact["zone"]: fact["zone_id"] for fact in facts} == zone_ids()


def test_zone_that_the_account_lacks_is_an_error(account: Account) -> None:
    plan = fleet(group(zones=["us-east-1a"]), zones=["us-east-1a", "us-east-1z"])
    found = only(account.preflight(plan), "zone-unknown")
    assert found.path == ("cloud", 0, "zones", 1)
    assert found.value == "us-east-1z"
    assert "us-east-1b" in found.remedy


@pytest.mark.parametrize(("scheduler", "count"), [("kubernetes", 1), ("slurm", 0)])
def test_zone_without_eks_is_found_by_its_id(account: Account, scheduler: str, count: int) -> None:
    (name,) = [zone for zone, identity in zone_ids().items() if identity == "use1-az3"]
    found = account.preflight(
        fleet(group(zones=["us-east-1a"]), scheduler=scheduler, zones=["us-east-1a", name])
    )
    unsupported = [each for each in found.findings if each.rule == "eks-zone"]
    assert len(unsupported) == count
    for each in unsupported:
        assert f"{name} is use1-az3" in each.message
        assert name not in each.remedy
        assert each.severity == "error"


def test_type_that_no_zone_of_the_group_offers_is_an_error_with_other_zones(account: Account) -> None:
    ids = zone_ids()
    offer(account, ("g6.xlarge", ids["us-east-1c"]))
    found = only(account.preflight(fleet(group())), "type-offered")
    assert found.severity == "error"
    assert f"g6.xlarge is not offered in us-east-1a ({ids['us-east-1a']})" in found.message
    assert "g6.xlarge is offered in us-east-1c" in found.remedy
    assert found.path == ("cloud", 0, "node_groups", 0, "instance_types")


def test_type_that_one_of_two_zones_offers_is_a_warning(account: Account) -> None:
    offer(account, ("g6.xlarge", zone_ids()["us-east-1b"]))
    found = only(account.preflight(fleet(group())), "type-offered")
    assert found.severity == "warning"
    assert "us-east-1b" not in found.message


def test_second_type_of_a_group_is_checked_too(account: Account) -> None:
    ids = zone_ids()
    offer(account, *(("g6.xlarge", ids[zone]) for zone in ("us-east-1a", "us-east-1b")))
    found = only(account.preflight(fleet(group(instance_types=["g6.xlarge", "g6.2xlarge"]))), "type-offered")
    assert found.value == "g6.2xlarge"
    assert found.severity == "warning"


def test_group_is_checked_in_its_own_zones(account: Account) -> None:
    offer(account, ("g6.xlarge", zone_ids()["us-east-1b"]))
    assert account.preflight(fleet(group(zones=["us-east-1b"]))).status == "pass"


def test_system_nodes_of_a_cluster_are_checked(account: Account) -> None:
    ids = zone_ids()
    offer(account, *(("g6.xlarge", ids[zone]) for zone in ("us-east-1a", "us-east-1b")))
    found = only(account.preflight(fleet(group(), scheduler="kubernetes")), "type-offered")
    assert "use1/system" in found.message
