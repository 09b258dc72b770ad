"""Single instances, EC2 Fleets and Spot Fleets."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import FLEET, INSTANCE, SPOT_FLEET, SPOT_INSTANCE_REQUEST
from tests.unit.pricing.stacks import CATALOG, DISK, MONTH, NODE, TYPE, amounts, cost, template, why_unknown

ROOT = {"volumeSize": 200, "volumeType": "gp3"}


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
    ],
)
def test_unknown_instance_has_an_unknown_cost(props: dict[str, Any], reason: str) -> None:
    assert reason in why_unknown(cost(instance(**props)))


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


def test_ec2_fleet_of_an_unknown_size_is_unknown() -> None:
    described = fleet(defaultTargetCapacityType="spot", totalTargetCapacity=UNKNOWN)
    assert "totalTargetCapacity" in why_unknown(cost(template(), described))


def test_spot_fleet_with_specifications_costs_its_target() -> None:
    spot = CATALOG.spot(TYPE, "us-east-1")
    assert spot is not None
    described = {
        "type": SPOT_FLEET,
        "name": "fleet",
        "props": {
            "targetCapacity": 3,
            "launchSpecifications": [{"instanceType": TYPE, "ami": "ami-1", "rootBlockDevices": [ROOT]}],
        },
    }
    found = cost(described)
    assert amounts(found)[1] == 3 * MONTH * spot.median
    assert amounts(found, "storage")[1] == 3 * DISK
