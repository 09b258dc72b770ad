"""EFA: supported by the instance type, one layout per node group, one zone, enabled for training."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog import efa_layout
from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.plan.capacity import group_zones
from gpufleet.spec.models import OnDemand, Spot


@check("efa-unsupported")
def efa_unsupported(fleet: Fleet) -> Iterator[FieldFinding]:
    """EC2 rejects a launch template with an EFA interface for a type without EFA."""
    for each in fleet.groups():
        if each.group.network != "efa":
            continue
        without = [item.name for item in fleet.types(each.group) if not item.efa]
        if without:
            names = {item.accelerator.name for item in fleet.types(each.group) if item.accelerator}
            others = [
                item.name
                for name in sorted(names)
                for item in fleet.catalog.find_instances(gpu=name, efa=True)
            ]
            yield FieldFinding(
                (*each.path, "network"),
                f"{listed(without)} does not support EFA",
                "write 'network: ena'"
                + (f", or use a type with EFA ({listed(others, 6)})" if others else ""),
            )


@check("efa-layout")
def efa_same_layout(fleet: Fleet) -> Iterator[FieldFinding]:
    """The types of a group share one launch template and its interfaces. A type with fewer network cards
    cannot start; a type with more leaves bandwidth unused."""
    for each in fleet.groups():
        if each.group.network != "efa":
            continue
        types = [item for item in fleet.types(each.group) if item.efa]
        for other in types[1:]:
            mine, theirs = efa_layout(types[0]), efa_layout(other)
            if mine != theirs:
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(other.name)),
                    f"{other.name} has {len(theirs) - 1} EFA interfaces and {types[0].name} has"
                    f" {len(mine) - 1}: one launch template cannot serve both",
                    f"move {other.name} to a separate node group",
                )


@check("efa-off-in-training")
def efa_off_in_training(fleet: Fleet) -> Iterator[FieldFinding]:
    """Without EFA, training on several nodes uses TCP at a fraction of the type's bandwidth."""
    for each in fleet.groups():
        if each.group.network == "efa" or each.group.workload != "training":
            continue
        able = [item for item in fleet.types(each.group) if item.efa]
        if len(able) == len(each.group.instance_types):
            yield FieldFinding(
                (*each.path, "network"),
                f"{each.name} is for training, but EFA is off: {able[0].name} has"
                f" {able[0].max_efa_interfaces} EFA"
                f" interface{'s' if able[0].max_efa_interfaces != 1 else ''}",
                "write 'network: efa'",
                "warning",
                each.group.network,
            )


@check("efa-over-zones")
def efa_over_zones(fleet: Fleet) -> Iterator[FieldFinding]:
    """EFA traffic cannot leave its zone (EC2 User Guide, "Elastic Fabric Adapter", limitations). Nodes of a
    group in several zones cannot use EFA between zones and get no placement group."""
    for each in fleet.groups():
        zones = group_zones(each.group, each.site)
        if (
            each.group.network == "efa"
            and len(zones) > 1
            and isinstance(each.option, OnDemand | Spot)
            and each.group.placement != "cluster"
        ):
            yield FieldFinding(
                (*each.path, "zones"),
                f"{each.name} has EFA and can use {listed(zones)}, but EFA does not cross zones",
                f"write one zone, such as 'zones: [{zones[0]}]'; the nodes then also get a placement group",
                "warning",
                listed(zones),
            )


CHECKS = (efa_unsupported, efa_same_layout, efa_off_in_training, efa_over_zones)
