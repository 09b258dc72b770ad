"""Reservations are used first, are large enough, and match the placement group of their nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    INSTANCE,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    PLACEMENT_GROUP,
    SUBNET,
)

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
FIRST = "reservations-used-first"
PLACEMENT = "placement-group-of-reservation"
KIND = "p5.48xlarge"
SPEC = "capacityReservationSpecification"


def held(count: Any = 2, **more: Any) -> Described:
    props = {
        "instanceType": KIND,
        "instanceCount": count,
        "availabilityZone": "us-east-1a",
        "instanceMatchCriteria": "targeted",
    }
    return {"type": CAPACITY_RESERVATION, "name": "held", "props": {**props, **more}}


def template(targets: bool = True, **more: Any) -> Described:
    spec = {SPEC: {"capacityReservationTarget": {"capacityReservationId": UNKNOWN}}} if targets else {}
    return {
        "type": LAUNCH_TEMPLATE,
        "name": "template" if targets else "plain",
        "props": {**spec, **more},
        "depends": {SPEC: ["held"]} if targets else {},
    }


def nodes(size: int = 2, name: str = "nodes", of: str = "template", **more: Any) -> Described:
    props = {"instanceTypes": [KIND], "scalingConfig": {"minSize": 0, "maxSize": size}}
    return {
        "type": NODE_GROUP,
        "name": name,
        "props": {**props, "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}, **more},
        "depends": {"launchTemplate": [of]},
    }


def test_reservation_used_by_its_group_passes(ask: Ask) -> None:
    assert ask(FIRST, held(), template(), nodes()) == []


def test_unused_reservation_or_block_is_found(ask: Ask) -> None:
    (found,) = ask(FIRST, held())
    assert found.urn.endswith("::held")
    (found,) = ask(FIRST, {"type": CAPACITY_BLOCK, "name": "block", "props": {"instanceType": KIND}})
    assert found.urn.endswith("::block")


@pytest.mark.parametrize("more", [{}, {"subnetIds": UNKNOWN}])
def test_group_that_does_not_use_a_matching_reservation_with_capacity_is_found(
    more: dict[str, Any], ask: Ask
) -> None:
    found = ask(FIRST, held(), template(), nodes(1), template(False), nodes(4, "more", "plain", **more))
    assert [each.urn.rpartition("::")[2] for each in found] == ["more"]


def test_group_beside_a_full_reservation_passes(ask: Ask) -> None:
    assert ask(FIRST, held(), template(), nodes(2), template(False), nodes(4, "peak", "plain")) == []


def test_group_of_another_type_or_zone_or_on_spot_passes(ask: Ask) -> None:
    base = (held(), template(), nodes(1), template(False))
    assert ask(FIRST, *base, nodes(4, "more", "plain", instanceTypes=["g6.xlarge"])) == []
    assert ask(FIRST, *base, nodes(4, "more", "plain", capacityType="SPOT")) == []
    subnet = {"type": SUBNET, "name": "subnet", "props": {"availabilityZone": "us-east-1b"}}
    away = nodes(4, "more", "plain", subnetIds=UNKNOWN)
    away["depends"]["subnetIds"] = ["subnet"]
    assert ask(FIRST, *base, subnet, away) == []


@pytest.mark.parametrize("preference", ["none", UNKNOWN])
def test_group_that_declines_an_open_reservation_is_found(preference: Any, ask: Ask) -> None:
    group = {
        "type": AUTO_SCALING_GROUP,
        "name": "nodes",
        "props": {
            "maxSize": 1,
            "mixedInstancesPolicy": {"launchTemplate": {"overrides": [{"instanceType": KIND}]}},
            SPEC: {"capacityReservationPreference": preference},
        },
    }
    found = ask(FIRST, held(instanceMatchCriteria="open"), group)
    assert f"{SPEC}.capacityReservationPreference" in [each.violation.prop for each in found]


def test_open_reservation_is_used_by_a_group_of_its_type_and_zone(ask: Ask) -> None:
    subnet = {"type": SUBNET, "name": "subnet", "props": {"availabilityZone": "us-east-1a"}}
    node = {"type": INSTANCE, "name": "node", "props": {"instanceType": KIND, "subnetId": UNKNOWN}}
    used = {**node, "depends": {"subnetId": ["subnet"]}}
    assert ask(FIRST, held(instanceMatchCriteria="open"), subnet, used) == []


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"instanceTypes": ["p5en.48xlarge"]}, "never start"),
        ({"capacityType": "SPOT"}, "spot"),
    ],
)
def test_group_that_cannot_start_in_the_reservation_is_found(
    more: dict[str, Any], text: str, ask: Ask
) -> None:
    (found,) = ask(FIRST, held(), template(), nodes(**more))
    assert text in found.message


def test_group_larger_than_its_reservation_is_found(ask: Ask) -> None:
    (found,) = ask(FIRST, held(), template(), nodes(3))
    assert "3 instances" in found.message
    (found,) = ask(FIRST, held(3), template(), nodes(2), nodes(2, "second"))
    assert "4 instances" in found.message


def test_group_in_another_zone_than_its_reservation_is_found(ask: Ask) -> None:
    subnet = {"type": SUBNET, "name": "subnet", "props": {"availabilityZone": "us-east-1b"}}
    away = nodes(subnetIds=UNKNOWN)
    away["depends"]["subnetIds"] = ["subnet"]
    (found,) = ask(FIRST, held(), template(), subnet, away)
    assert "us-east-1b" in found.message


CLOSE = {"type": PLACEMENT_GROUP, "name": "close", "props": {"strategy": "cluster", "arn": "arn:close"}}


def placed(value: Any = UNKNOWN) -> Described:
    made = template(placement={"groupName": value})
    made["depends"] = {**made["depends"], "placement": ["close"]}
    return made


def test_placement_group_forced_on_a_reservation_is_found(ask: Ask) -> None:
    (found,) = ask(PLACEMENT, CLOSE, held(), placed(), nodes())
    assert found.violation.prop == "placement.groupName"
    (found,) = ask(PLACEMENT, held(), template(placement={"groupName": "elsewhere"}), nodes())
    assert not found.violation.unknown


def test_nodes_and_reservation_in_one_placement_group_pass(ask: Ask) -> None:
    inside = {**held(placementGroupArn=UNKNOWN), "depends": {"placementGroupArn": ["close"]}}
    assert ask(PLACEMENT, CLOSE, inside, placed(), nodes()) == []
    known = held(placementGroupArn="arn:close")
    assert ask(PLACEMENT, CLOSE, known, placed(), nodes()) == []


def test_nodes_outside_the_placement_group_of_their_reservation_are_found(ask: Ask) -> None:
    inside = {**held(placementGroupArn=UNKNOWN), "depends": {"placementGroupArn": ["close"]}}
    (found,) = ask(PLACEMENT, CLOSE, inside, template(), nodes())
    assert "it has no placement group" in found.message


def test_foreign_reservation_may_be_in_any_placement_group(ask: Ask) -> None:
    spec = {"capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}}
    node = {"instanceType": KIND, "placementGroup": "close", SPEC: spec}
    (found,) = ask(PLACEMENT, {"type": INSTANCE, "props": node})
    assert found.violation.unknown
    assert ask(PLACEMENT, {"type": INSTANCE, "props": {"instanceType": KIND, SPEC: spec}}) == []


def test_fleet_file_gives_the_placement_group_of_an_existing_reservation(ask: Ask) -> None:
    odcr = {
        "nodes": 1,
        "id": "cr-0123456789abcdef0",
        "instance_type": KIND,
        "zone": "us-east-1a",
        "instances": 1,
        "placement_group": "close",
    }
    fleet = {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "prod",
        "budget": {"monthly": "1000 USD"},
        "tags": {"team": "ml", "cost-center": "c", "project": "p"},
        "software": {"channel": "2026.11"},
        "cloud": [
            {
                "site": "use1",
                "region": "us-east-1",
                "zones": ["us-east-1a"],
                "network": {"cidr": "10.0.0.0/16"},
                "scheduler": "slurm",
                "node_groups": [
                    {"name": "a", "instance_types": [KIND], "capacity": {"reserved": {"odcr": odcr}}}
                ],
            }
        ],
    }
    spec = {"capacityReservationTarget": {"capacityReservationId": odcr["id"]}}
    node = {"type": INSTANCE, "props": {"instanceType": KIND, "placementGroup": "close", SPEC: spec}}
    assert ask(PLACEMENT, node, fleet=fleet) == []
    other = {"type": INSTANCE, "props": {"instanceType": KIND, "placementGroup": "far", SPEC: spec}}
    assert len(ask(PLACEMENT, other, fleet=fleet)) == 1
    outside = {"type": INSTANCE, "props": {"instanceType": KIND, SPEC: spec}}
    assert len(ask(PLACEMENT, outside, fleet=fleet)) == 1


def test_nodes_of_a_resource_group_buy_nothing_besides_a_reservation_of_the_stack(ask: Ask) -> None:
    spec = {
        "capacityReservationPreference": "capacity-reservations-only",
        "capacityReservationTarget": {
            "capacityReservationResourceGroupArn": "arn:aws:resource-groups:us-east-1:111122223333:group/a"
        },
    }
    pooled = {"type": LAUNCH_TEMPLATE, "name": "pooled", "props": {SPEC: spec}}
    found = ask(FIRST, held(), template(), nodes(), pooled, nodes(name="more", of="pooled"))
    assert found == []
    assert ask(PLACEMENT, pooled, nodes(of="pooled")) == []


def test_room_of_a_shared_reservation_is_not_for_other_groups(ask: Ask) -> None:
    shared = {
        "type": "aws:ram/resourceAssociation:ResourceAssociation",
        "name": "shared",
        "props": {"resourceArn": UNKNOWN},
        "depends": {"resourceArn": ["held"]},
    }
    more = (template(targets=False), nodes(name="more", of="plain"))
    assert len(ask(FIRST, held(4), template(), nodes(), *more)) == 1
    assert ask(FIRST, held(4), shared, template(), nodes(), *more) == []
