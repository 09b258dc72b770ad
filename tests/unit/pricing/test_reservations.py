"""Reservations cost money used or not, their nodes are not paid twice, and blocks are paid upfront."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import BLOCK_EXTENSION as EXTENSION
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
    mixed,
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


def test_nodes_that_all_run_in_a_reservation_have_no_line_of_their_own() -> None:
    found = cost(reservation(4), in_reservation(), scaling_group())
    assert [line.bought for line in found.lines if line.kind == "compute"] == ["odcr"]


@pytest.mark.parametrize(
    ("target", "bought"),
    [
        ({"capacityReservationId": "cr-1"}, 0),
        ({"capacityReservationIds": ["cr-1"]}, 0),
        ({"capacityReservationIds": ["cr-1", "cr-2"]}, 4),
        ({"capacityReservationIds": UNKNOWN}, 4),
        ({"capacityReservationId": "cr-2"}, 2),
        ({"capacityReservationId": "cr-2", "capacityReservationIds": ["cr-1"]}, 2),
        ({"capacityReservationIds": ["cr-2"]}, 2),
        ({"capacityReservationId": "cr-elsewhere"}, 4),
    ],
)
def test_reservation_is_found_by_its_id(target: dict[str, Any], bought: int) -> None:
    reserved = [
        reservation(4, id="cr-1"),
        reservation(2, id="cr-2") | {"name": "second"},
    ]
    launch = template(capacityReservationSpecification={"capacityReservationTarget": target})
    found = cost(*reserved, launch, scaling_group())
    outside = [line for line in found.lines if line.kind == "compute" and line.name == "group"]
    assert [line.maximum for line in outside] == [bought * NODE] * bool(bought)


def test_target_that_is_not_known_is_no_reservation_of_the_stack() -> None:
    for target, depends in ((UNKNOWN, []), (TARGET["capacityReservationTarget"], ["reserved", "second"])):
        launch = template(capacityReservationSpecification={"capacityReservationTarget": target})
        launch["depends"] = {"capacityReservationSpecification": depends}
        found = cost(reservation(), reservation() | {"name": "second"}, launch, scaling_group())
        (line,) = (line for line in found.lines if line.kind == "compute" and line.name == "group")
        assert (line.bought, line.maximum) == ("odcr", 4 * NODE)


def test_group_can_target_a_reservation_itself() -> None:
    for group in (
        scaling_group(capacityReservationSpecification=TARGET),
        scaling_group(
            capacityReservationSpecification=TARGET, launchTemplate=None, mixedInstancesPolicy=mixed(TYPE)
        ),
    ):
        group["depends"]["capacityReservationSpecification"] = ["reserved"]
        assert amounts(cost(reservation(), template(), group)) == (2 * NODE, 2 * NODE, 4 * NODE)
    policy = scaling_group(launchTemplate=None, mixedInstancesPolicy=mixed(TYPE))
    assert amounts(cost(reservation(), in_reservation(), policy)) == (2 * NODE, 2 * NODE, 4 * NODE)


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
        (reservation(instanceType=None), "instanceType is not set"),
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


def test_bought_block_overrides_its_offering() -> None:
    bought = block(instanceType=H100, instanceCount=4)
    assert cost(offering(instance_type="p4d.24xlarge"), bought).upfront == 4 * 24 * BLOCK_HOUR


@pytest.mark.parametrize(
    "dates", [{"startDate": "2031-05-01T11:30:00Z"}, {"endDate": "2031-05-08T11:30:00Z"}]
)
def test_block_with_one_known_date_has_the_hours_of_its_offering(dates: dict[str, str]) -> None:
    assert cost(offering(), block(**dates)).upfront == 2 * 24 * BLOCK_HOUR


def test_bought_block_needs_no_offering() -> None:
    dates = {"startDate": "2031-05-01T11:30:00Z", "endDate": "2031-05-08T11:30:00Z"}
    bought = block(instanceType=H100, instanceCount=4, **dates) | {"depends": {}}
    assert cost(bought).upfront == 4 * 168 * BLOCK_HOUR
    undated = block(instanceType=H100, instanceCount=4) | {"depends": {}}
    assert "duration" in why_unknown(cost(undated))


def test_offering_of_a_block_is_found_by_its_id() -> None:
    known = block(capacityBlockOfferingId="cb-2") | {"depends": {}}
    offers = [offering(offering_id="cb-1", count=7), offering(offering_id="cb-2") | {"name": "second"}]
    assert cost(*offers, known).upfront == 2 * 24 * BLOCK_HOUR
    unset = block(capacityBlockOfferingId=None) | {"depends": {}}
    assert "does not look up its offering" in why_unknown(cost(offering(), unset))


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ((block() | {"depends": {}},), "does not look up its offering"),
        ((offering(count=UNKNOWN), block()), "number of nodes"),
        ((offering(duration_hours=0), block()), "duration"),
        ((offering(instance_type=TYPE), block()), "Capacity Block price"),
        ((offering(upfront_fee="0"), block()), "invalid"),
        ((offering(upfront_fee="inf"), block()), "invalid"),
        ((offering(upfront_fee="nan"), block()), "invalid"),
        ((offering(upfront_fee="much"), block()), "not an amount"),
        ((offering(instance_type=None), block()), "content of the block is not known"),
        ((offering(count=None), block()), "content of the block is not known"),
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


@pytest.mark.parametrize(
    ("market", "reserved", "reason"),
    [
        ({}, (offering(), block()), "it targets a Capacity Block but uses another purchase option"),
        ({"marketType": "capacity-block"}, (reservation(),), "the Capacity Block is not in this stack"),
    ],
)
def test_target_of_another_purchase_option_is_unknown(market: Any, reserved: Any, reason: str) -> None:
    launch = in_reservation(instanceType=H100, instanceMarketOptions=market)
    (line,) = (line for line in cost(*reserved, launch, scaling_group()).unknown if line.name == "group")
    assert line.reason.startswith(reason)


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


def test_existing_block_without_a_duration_is_unknown_and_its_volumes_count_all_month() -> None:
    fleet = copy.deepcopy(FLEET)
    del fleet["cloud"][0]["node_groups"][0]["capacity"]["reserved"]["capacity_block"]["duration"]
    launch, group = existing("cr-0abc")
    group["props"]["desiredCapacity"] = 1
    found = cost(launch, group, plan=build_plan(FleetSpec.model_validate(fleet), CATALOG))
    assert why_unknown(found) == "the `duration` of the block is not declared"
    assert amounts(found, "storage")[1] == DISK


def test_planned_group_without_a_block_has_no_known_one() -> None:
    fleet = copy.deepcopy(FLEET)
    fleet["cloud"][0]["node_groups"][0]["capacity"] = {"on_demand": {"max": 2}}
    plan = build_plan(FleetSpec.model_validate(fleet), CATALOG)
    assert "not in this stack" in why_unknown(cost(*existing("cr-0abc"), plan=plan))


def test_foreign_block_missing_in_the_fleet_file_has_an_unknown_cost() -> None:
    plan = build_plan(FleetSpec.model_validate(FLEET), CATALOG)
    assert "not in this stack" in why_unknown(cost(*existing("cr-0other"), plan=plan))
    assert "not in this stack" in why_unknown(cost(*existing("cr-0abc", name="other"), plan=plan))
    assert "not in this stack" in why_unknown(cost(*existing("cr-0abc")))


def extension(hours: int = 168, before: int = 336, **more: Any) -> dict[str, Any]:
    props = {"instance_type": H100, "count": 2, "hours": hours, "hours_before": before, "region": "us-east-1"}
    return {
        "type": EXTENSION,
        "name": "block-extension-1",
        "props": {**props, **more},
    }


def test_extension_is_paid_upfront_at_the_rate_of_blocks_until_its_fee_is_known() -> None:
    (line,) = cost(extension()).lines
    assert line.upfront == 2 * 168 * BLOCK_HOUR
    assert line.expected == 2 * 168 * BLOCK_HOUR
    assert line.bought == "capacity-block"
    (line,) = cost(extension(upfront_fee="5000.50")).lines
    assert line.upfront == Decimal("5000.50")


def test_month_has_no_more_hours_than_730_for_a_block_and_its_extension() -> None:
    (line,) = cost(extension(336, 672)).lines
    assert line.upfront == 2 * 336 * BLOCK_HOUR
    assert line.expected == 2 * 58 * BLOCK_HOUR
    (line,) = cost(extension(168, 4000)).lines
    assert (line.upfront, line.expected) == (2 * 168 * BLOCK_HOUR, 0)


def test_extension_without_a_known_price_is_unknown() -> None:
    name = next(
        each for each in sorted(CATALOG.instances) if not CATALOG.capacity_block(each, "us-east-1").known
    )
    for instance, reason in ((name, "Capacity Block price"), (None, "instance_type is not set")):
        found = cost(extension(instance_type=instance))
        assert reason in why_unknown(found)
        assert found.upfront == 0


def test_extended_block_costs_its_fee_and_not_its_dates() -> None:
    dates = {"startDate": "2031-05-01T11:30:00Z", "endDate": "2031-05-03T11:30:00Z"}
    extended = extension(24, 24) | {"depends": {"reservation_id": ["reserved"]}}
    found = cost(offering(upfront_fee="100.00"), block(instanceType=H100, instanceCount=2, **dates), extended)
    assert [line.expected for line in found.lines] == [Decimal("100.00"), 2 * 24 * BLOCK_HOUR]
    assert found.lines[0].basis == "24 of 24 h of the fee of 100 USD"
    foreign = extension(24, 24, reservation_id="cr-elsewhere")
    found = cost(offering(), block(**dates), foreign)
    assert found.lines[0].upfront == 2 * 48 * BLOCK_HOUR


def test_volumes_of_nodes_in_an_extended_block_exist_until_its_new_end() -> None:
    launch = in_reservation(instanceType=H100, instanceMarketOptions={"marketType": "capacity-block"})
    extended = extension(24, 24) | {"depends": {"reservation_id": ["reserved"]}}
    found = cost(offering(), block(), extended, launch, scaling_group())
    assert amounts(found, "storage")[0] == (DISK * 48 / MONTH).quantize(Decimal("0.000001"))
