"""Node counts: consistent bounds, and groups that cannot have a node."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check
from gpufleet.spec.models import CapacityBlock, OnDemand, OnDemandReservation, Spot


@check("node-bounds")
def bounds_in_order(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS rejects an Auto Scaling group unless min <= desired <= max."""
    for each in fleet.groups():
        scaled, path = each.option, each.option_path
        if not isinstance(scaled, OnDemand | Spot):
            continue
        if scaled.max < scaled.min:
            yield FieldFinding(
                (*path, "max"),
                f"max {scaled.max} is below min {scaled.min}",
                f"write 'max: {scaled.min}' or more",
                value=scaled.max,
            )
        elif scaled.desired is not None and not scaled.min <= scaled.desired <= scaled.max:
            yield FieldFinding(
                (*path, "desired"),
                f"desired {scaled.desired} is not between min {scaled.min} and max {scaled.max}",
                f"write a number from {scaled.min} to {scaled.max}, or remove it",
                value=scaled.desired,
            )
    for path, site in fleet.cloud():
        nodes = site.kubernetes.system_nodes if site.kubernetes is not None else None
        where = (*path, "kubernetes", "system_nodes")
        if nodes is not None and nodes.max < nodes.min:
            yield FieldFinding(
                (*where, "max"),
                f"max {nodes.max} is below min {nodes.min}",
                f"write 'max: {nodes.min}' or more",
                value=nodes.max,
            )
        elif nodes is not None and nodes.max == 0:
            yield FieldFinding(
                (*where, "max"),
                "a cluster without system nodes cannot run its own services",
                "write 'max: 2' or more",
            )


@check("node-group-empty")
def group_never_has_nodes(fleet: Fleet) -> Iterator[FieldFinding]:
    """A group with a maximum of 0 cannot have a node. EKS rejects it (`maxSize` is at least 1), and EC2
    rejects an empty reservation."""
    for each in fleet.groups():
        match each.option:
            case CapacityBlock(nodes=0) | OnDemandReservation(nodes=0):
                yield FieldFinding(
                    (*each.option_path, "nodes"),
                    f"{each.name} reserves 0 nodes",
                    "write 1 or more, or remove the group",
                )
            case OnDemand(min=0, max=0) | Spot(min=0, max=0):
                kubernetes = each.site.scheduler == "kubernetes"
                yield FieldFinding(
                    (*each.option_path, "max"),
                    f"{each.name} cannot have a node"
                    + (": EKS requires a maximum of 1 or more" if kubernetes else ""),
                    "write 'max: 1' (with 'min: 0' it costs nothing until it is used), or remove the group",
                    "error" if kubernetes else "warning",
                )


CHECKS = (bounds_in_order, group_never_has_nodes)
