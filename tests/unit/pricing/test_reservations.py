"""Reservations cost money used or not, their nodes are not paid twice, and blocks are paid upfront."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import BLOCK_OFFERING as OFFERING
from gpufleet.resources.types import BLOCK_SCHEDULE as SCHEDULE
from gpufleet.resources.types import CAPACITY_BLOCK, CAPACITY_RESERVATION
from gpufleet.spec.models import FleetSpec
from tests.unit.pricing.stacks import (
    CATALOG,
    DISK,
    MONTH,
    NODE,
    TYPE,
    amounts,
    cost,
    node_group,
    scaling_group,
    template,
    why_unknown,
)

H100 = "p5.48xlarge"
BLOCK_HOUR = CATALOG.capacity_block(H100, "us-east-1").amount or Decimal(0)
TARGET = {"capacityReservationTarget": {"capacityReservationId": UNKNOWN}}


def reservation(count: Any = 2, **props: Any) -> dict[str, Any]:
    given = {"instanceType": TYPE, "instanceCount": count, "instancePlatform": "Linux/UNIX", **props}
    return {"type": CAPACITY_RESERVATION, "name": "reserved", "props": given}


def in_reservation(**props: Any) -> dict[str, Any]:
    return template(capacityReservationSpecification=TARGET, **props) | {
        "depends": {"capacityReservationSpecification": ["reserved"]}
    }


def test_reservation_costs_the_on_demand_price_used_or_not() -> None:
    found = cost(reservation())
    assert amounts(found) == (2 * NODE, 2 * NODE, 2 * NODE)
    assert [line.bought for line in found.lines] == ["odcr"]


def test_nodes_in_a_reservation_are_not_paid_twice() -> None:
    found = cost(reservation(), in_reservation(), scaling_group())
    assert {line.bought for line in found.lines} == {"odcr", "on-demand", ""}
    # One to four nodes, two of which the reservation pays for.
    assert amounts(found) == (2 * NODE, 2 * NODE, 4 * NODE)
    assert amounts(found, "storage")[2] == 4 * DISK


def test_two_groups_share_the_capacity_of_one_reservation() -> None:
    second = scaling_group() | {"name": "second"}
    found = cost(reservation(4), in_reservation(), scaling_group(), second)
    assert amounts(found)[2] == 8 * NODE


def test_nodes_of_another_type_do_not_run_in_the_reservation() -> None:
    found = cost(reservation(instanceType="g6.8xlarge"), in_reservation(), scaling_group())
    reserved = CATALOG.on_demand("g6.8xlarge", "us-east-1").amount
    assert reserved is not None
    assert amounts(found)[1] == 2 * MONTH * reserved + 2 * NODE


def test_spot_nodes_do_not_run_in_a_reservation() -> None:
    found = cost(reservation(), in_reservation(), node_group(capacityType="SPOT"))
    assert amounts(found)[2] > 2 * NODE


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (reservation(UNKNOWN), "instanceCount"),
        (reservation(instanceType=UNKNOWN), "instanceType"),
        (reservation(instancePlatform="Windows"), "Windows"),
        (reservation(tenancy="dedicated"), "dedicated"),
        (reservation() | {"options": {"ignoreChanges": ["instanceCount"]}}, "are ignored"),
    ],
)
def test_unknown_reservation_has_an_unknown_cost(described: dict[str, Any], reason: str) -> None:
    assert reason in why_unknown(cost(described))


def block(**props: Any) -> dict[str, Any]:
    return {
        "type": CAPACITY_BLOCK,
        "name": "reserved",
        "props": {"capacityBlockOfferingId": UNKNOWN, "instancePlatform": "Linux/UNIX", **props},
        "depends": {"capacityBlockOfferingId": ["offering"]},
    }


def offering(**props: Any) -> dict[str, Any]:
    given = {"instance_type": H100, "count": 2, "duration_hours": 24, "start": "in 14 d", **props}
    return {"type": OFFERING, "name": "offering", "props": given}


def test_block_to_be_bought_is_paid_upfront_as_requested() -> None:
    found = cost(offering(), block())
    assert found.upfront == 2 * 24 * BLOCK_HOUR
    assert amounts(found)[1] == 2 * 24 * BLOCK_HOUR


def test_long_block_counts_with_its_monthly_share() -> None:
    found = cost(offering(duration_hours=24 * 56), block())
    assert found.upfront == 2 * 24 * 56 * BLOCK_HOUR
    assert amounts(found)[1] == 2 * MONTH * BLOCK_HOUR


def test_bought_block_costs_what_aws_reports() -> None:
    dates = {"startDate": "2031-05-01T11:30:00Z", "endDate": "2031-05-08T11:30:00Z"}
    bought = block(instanceType=H100, instanceCount=4, **dates)
    assert cost(offering(), bought).upfront == 4 * 168 * BLOCK_HOUR
    fee = cost(offering(upfront_fee="9999.50"), bought)
    assert fee.upfront == Decimal("9999.50")
    assert amounts(fee)[1] == Decimal("9999.50")


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ((block() | {"depends": {}},), "does not look up its offering"),
        ((offering(count=UNKNOWN), block()), "number of nodes"),
        ((offering(duration_hours=0), block()), "duration"),
        ((offering(instance_type=TYPE), block()), "Capacity Block price"),
        ((offering(upfront_fee="0"), block()), "invalid"),
        ((offering() | {"region": "us-east-1"}, block(region=UNKNOWN)), "region"),
    ],
)
def test_unknown_block_has_an_unknown_cost_and_no_upfront_payment(described: Any, reason: str) -> None:
    found = cost(*described)
    assert reason in why_unknown(found)
    assert found.upfront == 0


def test_nodes_in_a_block_cost_only_their_volumes() -> None:
    launch = in_reservation(instanceType=H100, instanceMarketOptions={"marketType": "capacity-block"})
    group = node_group(
        capacityType="CAPACITY_BLOCK",
        instanceTypes=None,
        scalingConfig={"minSize": 0, "desiredSize": 0, "maxSize": 2},
    )
    schedule = {
        "type": SCHEDULE,
        "name": "schedule",
        "props": {"group_name": UNKNOWN, "reservation_id": UNKNOWN, "nodes": 2},
        "depends": {"group_name": ["group"]},
    }
    found = cost(offering(), block(), launch, group, schedule)
    assert amounts(found)[1] == 2 * 24 * BLOCK_HOUR
    once = (DISK * 24 / MONTH).quantize(Decimal("0.000001"))
    assert amounts(found, "storage") == (2 * once, 2 * once, 2 * once)


FLEET: dict[str, Any] = {
    "apiVersion": "gpufleet/v1",
    "fleet": "atlas",
    "environment": "prod",
    "budget": {"monthly": "1000 USD"},
    "tags": {"team": "ml"},
    "software": {"channel": "2026.11"},
    "cloud": [
        {
            "site": "use1",
            "region": "us-east-1",
            "zones": ["us-east-1a"],
            "network": {"cidr": "10.0.0.0/16"},
            "scheduler": "slurm",
            "node_groups": [
                {
                    "name": "pretrain",
                    "instance_types": [H100],
                    "capacity": {
                        "reserved": {"capacity_block": {"nodes": 2, "duration": "1 d", "id": "cr-0abc"}}
                    },
                }
            ],
        }
    ],
}


def existing(reservation_id: str, name: str = "atlas-prod-use1-pretrain") -> tuple[dict[str, Any], ...]:
    launch = template(
        instanceType=H100,
        instanceMarketOptions={"marketType": "capacity-block"},
        capacityReservationSpecification={
            "capacityReservationTarget": {"capacityReservationId": reservation_id}
        },
    )
    return launch, scaling_group(minSize=0, desiredCapacity=0, maxSize=2) | {"name": name}


def test_existing_block_is_priced_by_the_fleet_file_and_not_paid_again() -> None:
    plan = build_plan(FleetSpec.model_validate(FLEET), CATALOG)
    found = cost(*existing("cr-0abc"), plan=plan)
    assert amounts(found)[1] == 2 * 24 * BLOCK_HOUR
    assert found.upfront == 0


def test_foreign_block_missing_in_the_fleet_file_has_an_unknown_cost() -> None:
    plan = build_plan(FleetSpec.model_validate(FLEET), CATALOG)
    assert "not in this stack" in why_unknown(cost(*existing("cr-0other"), plan=plan))
    assert "not in this stack" in why_unknown(cost(*existing("cr-0abc", name="other"), plan=plan))
    assert "not in this stack" in why_unknown(cost(*existing("cr-0abc")))
