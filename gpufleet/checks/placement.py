"""Cluster placement groups: where AWS refuses one, and where one silently costs the capacity."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.plan.capacity import group_zones
from gpufleet.spec.models import CapacityBlock


@check("placement-group-with-capacity-block")
def placement_with_block(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS places the instances of a Capacity Block next to each other by itself and refuses a placement
    group for them (EC2 User Guide, "Capacity Blocks for ML")."""
    for each, _ in fleet.blocks():
        if each.group.placement == "cluster":
            yield FieldFinding(
                (*each.path, "placement"),
                f"{each.name} is bought as a Capacity Block, which cannot be launched into a placement group",
                "write 'placement: auto' (or leave it out): a block's nodes are next to each other anyway",
            )


@check("placement-group-over-zones")
def placement_over_zones(fleet: Fleet) -> Iterator[FieldFinding]:
    """A cluster placement group lies in one zone (EC2 User Guide, "Placement strategies")."""
    for each in fleet.groups():
        zones = group_zones(each.group, each.site)
        block = isinstance(each.option, CapacityBlock)
        if each.group.placement == "cluster" and len(zones) > 1 and not block:
            written = each.group.zones
            yield FieldFinding(
                (*each.path, "zones") if written else (*each.path, "placement"),
                f"{each.name} wants one cluster placement group over {len(zones)} zones ({listed(zones)}),"
                " and such a group lies in one",
                f"name one zone, such as 'zones: [{zones[0]}]'",
            )


@check("placement-group-on-reservation")
def placement_on_reservation(fleet: Fleet) -> Iterator[FieldFinding]:
    """Capacity that was reserved outside of a placement group cannot be used from inside one, nor the
    other way round: instances then start elsewhere or not at all, while the reservation is paid for
    (eksctl#7949, terraform-aws-eks#3730)."""
    for each, odcr in fleet.reservations():
        if odcr.id is None and odcr.placement_group is not None:
            yield FieldFinding(
                (*each.option_path, "placement_group"),
                "only an existing reservation (with `id`) was made in a placement group of its own",
                "leave `placement_group` out; `placement: cluster` of the node group makes a new one",
            )
        elif odcr.id is not None and odcr.placement_group is None and each.group.placement == "cluster":
            yield FieldFinding(
                (*each.path, "placement"),
                f"reservation {odcr.id} was made outside of a placement group: its capacity is lost to nodes"
                " inside of one",
                "write 'placement: none', or name the group that the reservation was made in"
                " (`placement_group`)",
            )
        elif odcr.id is not None and odcr.placement_group is not None and each.group.placement == "none":
            yield FieldFinding(
                (*each.path, "placement"),
                f"reservation {odcr.id} was made in placement group {odcr.placement_group}: its capacity is"
                " lost to nodes outside of it",
                "write 'placement: auto' (or leave it out)",
            )


@check("placement-group-unsupported")
def placement_unsupported(fleet: Fleet) -> Iterator[FieldFinding]:
    """Some types cannot be launched into a cluster placement group."""
    for each in fleet.groups():
        if each.group.placement != "cluster":
            continue
        without = [
            item.name for item in fleet.types(each.group) if "cluster" not in item.placement_strategies
        ]
        if without:
            yield FieldFinding(
                (*each.path, "placement"),
                f"{listed(without)} cannot be launched into a cluster placement group",
                "write 'placement: none'",
            )


CHECKS = (placement_with_block, placement_over_zones, placement_on_reservation, placement_unsupported)
