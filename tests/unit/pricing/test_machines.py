"""Single instances, EC2 Fleets and Spot Fleets."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import FLEET, INSTANCE, SPOT_FLEET, SPOT_INSTANCE_REQUEST
from tests.unit.pricing.stacks import CATALOG, DISK, MONTH, NODE, TYPE, amounts, cost, template, why_unknown
from tests.unit.pricing.test_reservations import TARGET, in_reservation, reservation

ROOT = {"volumeSize": 200, "volumeType": "gp3"}
SPOT = CATALOG.spot(TYPE, "us-east-1")


def instance(kind: str = INSTANCE, **props: Any) -> dict[str, Any]:
    given = {"instanceType": TYPE, "rootBlockDevice": ROOT, **props}
    return {"type": kind, "name": "one", "props": {k: v for k, v in given.items() if v is not None}}


def test_instance_costs_its_hours_and_volume() -> None:
    found = cost(instance())
    assert amounts(found) == (NODE, NODE, NODE)
    assert amounts(found, "storage") == (DISK, DISK, DISK)


@pytest.mark.parametrize(
    "described",
    [instance(SPOT_INSTANCE_REQUEST), instance(instanceMarketOptions={"marketType": "spot"})],
)
def test_spot_instance_has_spot_prices(described: dict[str, Any]) -> None:
    spot = CATALOG.spot(TYPE, "us-east-1")
    assert spot is not None
    assert amounts(cost(described)) == (MONTH * spot.low, MONTH * spot.median, MONTH * spot.high)


def test_instance_takes_missing_settings_from_its_launch_template() -> None:
    described = instance(instanceType=None, rootBlockDevice=None, launchTemplate={"id": "lt-template"})
    found = cost(template(), described)
    assert (amounts(found)[1], amounts(found, "storage")[1]) == (NODE, DISK)


@pytest.mark.parametrize(
    ("props", "reason"),
    [
        ({"instanceType": UNKNOWN}, "instanceType is not known yet"),
        ({"tenancy": "host"}, "tenancy host"),
        ({"launchTemplate": UNKNOWN}, "launchTemplate"),
        ({"instanceMarketOptions": {"marketType": "capacity-block"}}, "capacity-block"),
        ({"instanceType": None}, "no instance type is declared"),
    ],
)
def test_unknown_instance_has_an_unknown_cost(props: dict[str, Any], reason: str) -> None:
    assert reason in why_unknown(cost(instance(**props)))


def test_instance_of_a_spot_template_has_spot_prices() -> None:
    assert SPOT is not None
    launch = template(instanceMarketOptions={"marketType": "spot"})
    assert amounts(cost(launch, instance(launchTemplate={"id": "lt-template"})))[1] == MONTH * SPOT.median


def test_own_volume_of_an_instance_overrides_that_of_its_template() -> None:
    described = instance(rootBlockDevice=ROOT | {"volumeSize": 100}, launchTemplate={"id": "lt-template"})
    assert amounts(cost(template(), described), "storage")[1] == DISK / 2


TARGETED = {"capacityReservationSpecification": TARGET}
RESERVED = {"depends": {"capacityReservationSpecification": ["reserved"]}}


@pytest.mark.parametrize(
    "described",
    [
        [instance(**TARGETED) | RESERVED],
        [in_reservation(), instance(launchTemplate={"id": "lt-template"})],
    ],
    ids=["its own target", "its template's target"],
)
def test_instance_in_a_reservation_is_not_paid_twice(described: list[dict[str, Any]]) -> None:
    found = cost(reservation(1), *described)
    assert [line.bought for line in found.lines if line.kind == "compute"] == ["odcr"]
    assert amounts(found) == (NODE, NODE, NODE)
    assert amounts(found, "storage")[1] == DISK


def test_spot_instance_does_not_use_a_reservation() -> None:
    assert SPOT is not None
    spot = instance(instanceMarketOptions={"marketType": "spot"}, **TARGETED) | RESERVED
    assert amounts(cost(reservation(1), spot))[1] == NODE + MONTH * SPOT.median


def test_secret_instance_type_is_unknown_and_not_shown() -> None:
    described = instance() | {"secrets": ["instanceType"]}
    found = cost(described)
    assert why_unknown(found) == "instanceType is a secret"
    assert TYPE not in str(found)


def test_volume_defined_by_the_image_is_unknown() -> None:
    assert "image" in why_unknown(cost(instance(rootBlockDevice=None)))


def fleet(**target: Any) -> dict[str, Any]:
    return {
        "type": FLEET,
        "name": "fleet",
        "props": {
            "targetCapacitySpecification": {"totalTargetCapacity": 6, **target},
            "launchTemplateConfigs": [
                {
                    "launchTemplateSpecification": {"launchTemplateId": UNKNOWN, "version": UNKNOWN},
                    "overrides": [{"instanceType": TYPE}],
                }
            ],
        },
        "depends": {"launchTemplateConfigs": ["template"]},
    }


def test_ec2_fleet_costs_its_whole_target() -> None:
    found = cost(template(), fleet(defaultTargetCapacityType="on-demand"))
    assert amounts(found) == (6 * NODE, 6 * NODE, 6 * NODE)
    assert amounts(found, "storage")[1] == 6 * DISK


def test_on_demand_part_of_an_ec2_spot_fleet_has_the_on_demand_price() -> None:
    spot = CATALOG.spot(TYPE, "us-east-1")
    assert spot is not None
    found = cost(template(), fleet(defaultTargetCapacityType="spot", onDemandTargetCapacity=2))
    assert amounts(found)[1] == 2 * NODE + 4 * MONTH * spot.median


@pytest.mark.parametrize(
    ("target", "on_demand"),
    [
        ({}, 6),
        ({"defaultTargetCapacityType": "spot"}, 0),
        ({"defaultTargetCapacityType": "on-demand", "spotTargetCapacity": 2}, 4),
        ({"defaultTargetCapacityType": "on-demand", "onDemandTargetCapacity": 2}, 6),
        ({"defaultTargetCapacityType": "spot", "spotTargetCapacity": 2}, 4),
        ({"targetCapacityUnitType": "units"}, 6),
    ],
)
def test_rest_of_an_ec2_fleet_has_the_default_purchase_option(target: dict[str, Any], on_demand: int) -> None:
    assert SPOT is not None
    expected = on_demand * NODE + (6 - on_demand) * MONTH * SPOT.median
    assert amounts(cost(template(), fleet(**target)))[1] == expected


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ([], "no instance type is declared"),
        ([{"launchTemplateSpecification": UNKNOWN}], "launchTemplateSpecification is not known yet"),
        ([{"launchTemplateSpecification": [{}, {}]}], "launchTemplateSpecification is not known yet"),
        ([{"launchTemplateSpecification": []}], "launchTemplateSpecification is not known yet"),
        ([{"launchTemplateSpecification": [{"launchTemplateId": "lt-template"}]}], ""),
        ([{"launchTemplateSpecification": {"launchTemplateId": "lt-template"}}], ""),
    ],
)
def test_launch_templates_of_a_fleet_are_resolved(configs: list[Any], reason: str) -> None:
    described = fleet()
    described["props"]["launchTemplateConfigs"] = configs
    found = cost(template(), described)
    assert [line.reason.endswith(reason) for line in found.unknown] == [True] * bool(reason)


def test_ec2_fleet_of_an_unknown_size_is_unknown() -> None:
    described = fleet(defaultTargetCapacityType="spot", totalTargetCapacity=UNKNOWN)
    assert "totalTargetCapacity" in why_unknown(cost(template(), described))


def test_spot_fleet_with_specifications_costs_its_target() -> None:
    spot = CATALOG.spot(TYPE, "us-east-1")
    assert spot is not None
    found = cost(spot_fleet([SPECIFICATION]))
    assert amounts(found)[1] == 3 * MONTH * spot.median
    assert amounts(found, "storage")[1] == 3 * DISK


def test_spot_fleet_costs_the_most_expensive_volumes_of_its_specifications() -> None:
    fast = {"volumeSize": 150, "volumeType": "io2", "iops": 50}
    both = [SPECIFICATION | {"rootBlockDevices": [fast]}, SPECIFICATION]
    gib, iops = (CATALOG.service_price(key, "us-east-1").amount for key in ("ebs-io2", "ebs-io2-iops"))
    assert amounts(cost(spot_fleet(both)), "storage")[1] == 3 * (150 * gib + 50 * iops) > 3 * DISK
    assert cost(spot_fleet(both[::-1])).total == cost(spot_fleet(both)).total


SPECIFICATION = {"instanceType": TYPE, "ami": "ami-1", "rootBlockDevices": [ROOT]}


def spot_fleet(specifications: Any, **props: Any) -> dict[str, Any]:
    given = {"targetCapacity": 3, "launchSpecifications": specifications, **props}
    return {"type": SPOT_FLEET, "name": "fleet", "props": given}


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (spot_fleet([SPECIFICATION], targetCapacityUnitType="vcpu"), "not nodes"),
        (spot_fleet([SPECIFICATION | {"placementTenancy": "dedicated"}]), "tenancy 'dedicated'"),
        (spot_fleet([{"rootBlockDevices": [ROOT]}]), "launchSpecifications.instanceType is"),
        (fleet(targetCapacityUnitType="memory-mib"), "not nodes"),
    ],
)
def test_fleet_of_unknown_nodes_is_unknown(described: dict[str, Any], reason: str) -> None:
    assert reason in why_unknown(cost(template(), described))


def test_spot_fleet_with_launch_templates_costs_its_target() -> None:
    assert SPOT is not None
    described = spot_fleet(None, onDemandTargetCapacity=1) | {"depends": fleet()["depends"]}
    described["props"]["launchTemplateConfigs"] = fleet()["props"]["launchTemplateConfigs"]
    assert amounts(cost(template(), described))[1] == NODE + 2 * MONTH * SPOT.median


ADDRESS = MONTH * Decimal("0.005")
PUBLIC = {"networkInterfaces": [{"associatePublicIpAddress": "true"}]}


def addressed(*described: dict[str, Any]) -> Decimal:
    """The expected cost of the public addresses."""
    return sum((line.expected or 0 for line in cost(*described).lines if line.kind == "network"), Decimal(0))


def test_public_address_of_an_instance_is_its_own_setting_or_the_templates() -> None:
    launched = {"launchTemplate": {"id": "lt-template"}}
    assert addressed(instance()) == addressed(instance(associatePublicIpAddress=False)) == 0
    for kind in (INSTANCE, SPOT_INSTANCE_REQUEST):
        assert addressed(instance(kind, associatePublicIpAddress=True)) == ADDRESS
    assert addressed(template(**PUBLIC), instance(**launched)) == ADDRESS
    assert addressed(template(**PUBLIC), instance(**launched, associatePublicIpAddress=False)) == 0
    assert addressed(template(), instance(**launched, associatePublicIpAddress=True)) == ADDRESS
    reason = why_unknown(cost(instance(associatePublicIpAddress=UNKNOWN)))
    assert "associatePublicIpAddress is not known yet" in reason


def test_nodes_of_fleets_pay_for_public_addresses() -> None:
    by_template = {
        "launchTemplateConfigs": [{"launchTemplateSpecification": {"launchTemplateId": "lt-template"}}]
    }
    capacity = {
        "targetCapacitySpecification": {"totalTargetCapacity": 3, "defaultTargetCapacityType": "spot"}
    }
    request = {"type": FLEET, "name": "fleet", "props": {**capacity, **by_template}}
    assert (addressed(template(**PUBLIC), request), addressed(template(), request)) == (3 * ADDRESS, 0)
    private = {"instanceType": TYPE, "rootBlockDevices": [ROOT]}
    for shown, count in ((True, 2), ("true", 2), (False, 0), (None, 0)):
        public = {**private, "associatePublicIpAddress": shown}
        # The more expensive launch option counts, as for volumes.
        props = {"targetCapacity": 2, "launchSpecifications": [private, public]}
        assert addressed({"type": SPOT_FLEET, "name": "spot", "props": props}) == count * ADDRESS
    props = {
        "targetCapacity": 2,
        "launchSpecifications": [{**private, "associatePublicIpAddress": UNKNOWN}],
    }
    reason = why_unknown(cost({"type": SPOT_FLEET, "name": "spot", "props": props}))
    assert "associatePublicIpAddress is not known yet" in reason
