"""Reserved capacity of a plan: its groups, shares and extensions reach the resources of the stack."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    ExistingBlockPlan,
    ReservationGroupPlan,
    ReservationPlan,
)
from tests.unit.stacks.test_wiring import built, plan, with_capacity

POOL = "arn:aws:resource-groups:us-east-1:111122223333:group/training"
DAY = timedelta(days=1)


def test_nodes_of_a_resource_group_launch_in_all_of_its_zones() -> None:
    prod = plan("prod")
    zones = prod.cloud[0].zones
    pooled = ReservationGroupPlan(2, POOL, zones, "packed")
    made = built(with_capacity(prod, "serve-base", placement_group=False, capacity=pooled))
    assert made.of("CapacityReservation") == []
    (group,) = [each for each in made.of("NodeGroup") if each.name.endswith("-serve-base") and each.custom]
    assert len(group.inputs["subnetIds"]) == len(zones)
    (template,) = [each for each in made.of("LaunchTemplate") if each.name.endswith("-serve-base")]
    target = template.inputs["capacityReservationSpecification"]["capacityReservationTarget"]
    assert target == {"capacityReservationResourceGroupArn": POOL}
    assert template.inputs["placement"] == {"groupName": "packed"}


def test_shared_reservation_holds_more_than_its_own_nodes() -> None:
    prod = plan("prod")
    zone = prod.cloud[0].zones[0]
    shared = ReservationPlan(2, zone, 3, ("222233334444",), share_outside_organization=True)
    made = built(with_capacity(prod, "serve-base", placement_group=False, capacity=shared))
    assert made.one("CapacityReservation").inputs["instanceCount"] == 5
    (group,) = [each for each in made.of("NodeGroup") if each.name.endswith("-serve-base") and each.custom]
    assert group.inputs["scalingConfig"]["maxSize"] == 2
    assert made.one("ResourceShare").inputs["allowExternalPrincipals"] is True
    assert made.one("PrincipalAssociation").inputs["principal"] == "222233334444"


def test_extension_of_a_bought_block_moves_the_stop_of_its_nodes(programs: Path) -> None:
    prod = plan("prod")
    (group,) = [each for each in prod.cloud[0].node_groups if each.name == "pretrain"]
    assert isinstance(group.capacity, CapacityBlockPlan)
    before = built(with_capacity(prod, "pretrain", placement_group=False))
    assert before.of("CapacityBlockExtension") == []
    assert "extended_to" not in before.one("CapacityBlockSchedule").inputs
    extended = replace(group.capacity, extensions=(DAY, 7 * DAY))
    made = built(with_capacity(prod, "pretrain", placement_group=False, capacity=extended))
    first, second = made.of("CapacityBlockExtension")
    assert (first.inputs["hours"], second.inputs["hours"]) == (24, 168)
    assert second.inputs["count"] == group.capacity.nodes
    assert first.protect
    schedule = made.one("CapacityBlockSchedule")
    assert schedule.inputs["extended_to"] == "2030-02-05T11:30:00Z"
    assert second.urn in schedule.dependencies


def test_existing_block_is_extended_too(programs: Path) -> None:
    prod = plan("prod")
    zone = prod.cloud[0].zones[0]
    held = ExistingBlockPlan(2, "cr-0123456789abcdef0", zone, duration=2 * DAY, extensions=(DAY,))
    made = built(with_capacity(prod, "pretrain", placement_group=False, capacity=held))
    extension = made.one("CapacityBlockExtension")
    assert extension.inputs["reservation_id"] == "cr-0123456789abcdef0"
    assert (extension.inputs["hours"], extension.inputs["hours_before"]) == (24, 48)
    assert made.of("CapacityBlockReservation") == []
