"""Cluster placement groups: where AWS rejects one, and where one makes capacity unusable."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.plan.capacity import group_zones
from gpufleet.spec.models import CapacityBlock


@check("placement-group-with-capacity-block")
def placement_with_block(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS places the instances of a Capacity Block close together and rejects a placement group for them (EC2
    User Guide, "Capacity Blocks for ML")."""
    for each, _ in fleet.blocks():
        if each.group.placement == "cluster":
            yield FieldFinding(
                (*each.path, "placement"),
                f"{each.name} is bought as a Capacity Block, which cannot be launched into a placement group",
                "write 'placement: auto' (or remove it): AWS places a block's nodes close together",
            )


@check("placement-group-over-zones")
def placement_over_zones(fleet: Fleet) -> Iterator[FieldFinding]:
    """A cluster placement group is in one zone (EC2 User Guide, "Placement strategies")."""
    for each in fleet.groups():
        zones = group_zones(each.group, each.site)
        block = isinstance(each.option, CapacityBlock)
        if each.group.placement == "cluster" and len(zones) > 1 and not block:
            written = each.group.zones
            yield FieldFinding(
                (*each.path, "zones") if written else (*each.path, "placement"),
                f"{each.name} has 'placement: cluster' in {len(zones)} zones ({listed(zones)}), but a"
                " placement group is in one",
                f"write one zone, such as 'zones: [{zones[0]}]'",
            )


@check("placement-group-on-reservation")
def placement_on_reservation(fleet: Fleet) -> Iterator[FieldFinding]:
    """Instances use a reservation only in the placement group that it was made in, or without one if it was
    made without. Otherwise they start elsewhere or not at all, and the reservation is paid for unused
    (eksctl#7949, terraform-aws-eks#3730)."""
    for each, odcr in fleet.reservations():
        if odcr.existing is None and odcr.placement_group is not None:
            yield FieldFinding(
                (*each.option_path, "placement_group"),
                "`placement_group` applies only to an existing reservation (with `id` or `group`)",
                "remove `placement_group`; `placement: cluster` of the node group creates one",
            )
        elif odcr.existing is not None and odcr.placement_group is None and each.group.placement == "cluster":
            yield FieldFinding(
                (*each.path, "placement"),
                f"reservation {odcr.existing} was made without a placement group: nodes in a placement group"
                " cannot use it",
                "write 'placement: none', or the `placement_group` that the reservation was made in"
                " (`placement_group`)",
            )
        elif odcr.placement_group is not None and each.group.placement == "none":
            yield FieldFinding(
                (*each.path, "placement"),
                f"reservation {odcr.existing} was made in placement group {odcr.placement_group}: nodes"
                " outside of it cannot use it",
                "write 'placement: auto' (or remove it)",
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
