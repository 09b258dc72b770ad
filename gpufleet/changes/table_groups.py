"""The effect of the fields of node groups.

In a Kubernetes site EKS applies a change to running nodes; an Auto Scaling group of a Slurm site applies it
to the nodes that it launches afterwards, and stops none.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.changes.change import NO_ONE, Approval, FieldChange, in_place, nothing
from gpufleet.changes.observe import Effect

_G = "cloud[].node_groups[]"
_ODCR = f"{_G}.capacity.reserved.odcr"
_BLOCK = f"{_G}.capacity.reserved.capacity_block"

_NODE_BY_NODE = "running jobs of the group, node by node; Slurm: no one, new nodes use it"
_MAXIMUM = (
    "no one; run `gpufleet refresh` first where an autoscaler sets the size: that of the state is sent, too"
)
_LIMITS = f"no one; nodes are terminated or launched{_MAXIMUM.removeprefix('no one')}"
_ALL_AT_ONCE = "running jobs of the group: its nodes are terminated; Slurm: no one, new nodes use it"
_START = "no one: it is the initial size; an autoscaler or scheduler sets it afterwards"
_SHARES = (
    "new pods of the group: they request another resource, and may get GPUs that other pods still hold;"
    " drain the nodes first"
)
_AGAIN = "the budget: another block is bought and the first stays paid for; its group moves"


def _rolls(how: str) -> tuple[FieldChange, ...]:
    return (FieldChange(how, Effect.ROLLING, _NODE_BY_NODE, slurm=Effect.IN_PLACE),)


def _replaces(how: str) -> tuple[FieldChange, ...]:
    return (FieldChange(how, Effect.REPLACEMENT, _ALL_AT_ONCE, slurm=Effect.IN_PLACE),)


def _on_nodes(how: str, affects: str) -> tuple[FieldChange, ...]:
    """Return the entry of a field that only Kubernetes uses."""
    return (FieldChange(how, Effect.IN_PLACE, affects, slurm=Effect.NOTHING),)


def _registers(how: str) -> tuple[FieldChange, ...]:
    """Return the entry of a field with which the nodes of a cluster register."""
    affects = "running jobs of the group, node by node: nodes register with their taints"
    return (FieldChange(how, Effect.ROLLING, affects, slurm=Effect.NOTHING),)


def _buys_again(how: str) -> tuple[FieldChange, ...]:
    return (FieldChange(how, Effect.REPLACEMENT, _AGAIN, Approval.RESERVATION),)


NODE_GROUPS: Mapping[str, tuple[FieldChange, ...]] = {
    _G: (
        FieldChange("add an entry", Effect.IN_PLACE, NO_ONE),
        FieldChange(
            "remove an entry", Effect.REPLACEMENT, "running jobs of the group: its nodes are deleted"
        ),
    ),
    f"{_G}.name": (
        FieldChange(
            "another name",
            Effect.REPLACEMENT,
            "running jobs of the group: it is replaced by a new group with new nodes",
        ),
        FieldChange(
            "another name, with a reservation of its own",
            Effect.REPLACEMENT,
            "running jobs of the group: the reservation is released and another is requested",
            Approval.RESERVATION,
        ),
    ),
    f"{_G}.instance_types": (*_replaces("another type"), *_replaces("a further type")),
    f"{_G}.capacity.on_demand": _replaces("another kind instead"),
    f"{_G}.capacity.on_demand.min": in_place("another number", _LIMITS),
    f"{_G}.capacity.on_demand.max": in_place("another number", _MAXIMUM),
    f"{_G}.capacity.on_demand.desired": nothing("another number", _START),
    f"{_G}.capacity.spot": _replaces("another kind instead"),
    f"{_G}.capacity.spot.min": in_place("another number", _LIMITS),
    f"{_G}.capacity.spot.max": in_place("another number", _MAXIMUM),
    f"{_G}.capacity.spot.desired": nothing("another number", _START),
    f"{_G}.capacity.spot.on_shortage": (
        FieldChange(
            "on-demand added",
            Effect.IN_PLACE,
            "no one: a second group is created, which starts at zero nodes",
        ),
        FieldChange("anything else", Effect.NOTHING, NO_ONE),
    ),
    f"{_G}.capacity.spot.max_price": in_place("another price", "no one; Slurm sites only"),
    f"{_G}.capacity.reserved": (
        FieldChange(
            "another kind instead",
            Effect.REPLACEMENT,
            "running jobs of the group: its reservation is released (a block stays paid for)",
        ),
    ),
    f"{_BLOCK}": (
        FieldChange(
            "an On-Demand Capacity Reservation instead",
            Effect.REPLACEMENT,
            "the budget: the block stays paid for, and nothing uses it; the group gets other nodes",
        ),
    ),
    f"{_BLOCK}.nodes": _buys_again("another number"),
    f"{_BLOCK}.duration": _buys_again("another length"),
    f"{_BLOCK}.start": _buys_again("another day"),
    f"{_BLOCK}.min": nothing("written or left out"),
    f"{_BLOCK}.max": nothing("written or left out"),
    f"{_BLOCK}.id": _rolls("another block"),
    f"{_BLOCK}.instance_type": _rolls("another type, of another block"),
    f"{_BLOCK}.zone": _replaces("another zone, of another block"),
    f"{_BLOCK}.instances": nothing("another number"),
    f"{_BLOCK}.extensions": (
        FieldChange("add an entry", Effect.IN_PLACE, "the budget: the extension is paid at once"),
        FieldChange("remove the last entry", Effect.IN_PLACE, "no one: a bought extension stays"),
        FieldChange(
            "another length",
            Effect.IN_PLACE,
            "no one: AWS takes no extension back, and `up` refuses to buy another one in its place",
            Approval.RESERVATION,
        ),
    ),
    f"{_BLOCK}.remind_before": nothing("another time"),
    f"{_ODCR}": (
        FieldChange(
            "a Capacity Block instead",
            Effect.REPLACEMENT,
            "running jobs of the group: the reservation is released",
        ),
    ),
    f"{_ODCR}.nodes": (
        FieldChange("more", Effect.IN_PLACE, NO_ONE),
        FieldChange(
            "fewer", Effect.IN_PLACE, "running jobs on the removed nodes; their capacity is released"
        ),
    ),
    f"{_ODCR}.id": _rolls("another reservation"),
    f"{_ODCR}.group": _rolls("another group"),
    f"{_ODCR}.instance_type": _replaces("another type, of another reservation"),
    f"{_ODCR}.zone": (
        FieldChange(
            "another zone",
            Effect.REPLACEMENT,
            "running jobs of the group: the reservation is released and another is requested",
            Approval.RESERVATION,
        ),
        *_replaces("another zone, of another reservation"),
    ),
    f"{_ODCR}.instances": nothing("another number"),
    f"{_ODCR}.share_with": (
        FieldChange("add an entry", Effect.IN_PLACE, NO_ONE),
        FieldChange(
            "remove an entry",
            Effect.IN_PLACE,
            "the other account: its instances run on outside of the reservation, and no more launch into it",
        ),
    ),
    f"{_ODCR}.shared_nodes": in_place("another number"),
    f"{_ODCR}.share_outside_organization": in_place("on or off"),
    f"{_ODCR}.placement_group": _rolls("another group"),
    f"{_G}.network": _rolls("efa on or off"),
    f"{_G}.placement": _rolls("a placement group more or less"),
    f"{_G}.workload": _on_nodes("another one", "the scheduler: a label of the nodes; running pods stay"),
    f"{_G}.zones": _replaces("another zone"),
    f"{_G}.team": _rolls("another team"),
    f"{_G}.labels.<name>": _on_nodes("another value", "the scheduler; running pods stay"),
    f"{_G}.taints[]": _registers("add or remove an entry"),
    f"{_G}.taints[].key": _registers("another key"),
    f"{_G}.taints[].value": _registers("another value"),
    f"{_G}.taints[].effect": _registers("another effect"),
    f"{_G}.volume.size": _rolls("another size"),
    f"{_G}.volume.iops": _rolls("another number"),
    f"{_G}.volume.throughput": _rolls("another number"),
    f"{_G}.public_ip": _replaces("on or off"),
    f"{_G}.local_nvme.use": _rolls("used or not"),
    f"{_G}.local_nvme.mount": in_place("another folder", "no one; Slurm sites only, new nodes use it"),
    f"{_G}.gpu_sharing.time_slicing": in_place("on or off", _SHARES),
    f"{_G}.gpu_sharing.time_slicing.replicas": in_place("another number", _SHARES),
    f"{_G}.gpu_sharing.mps": in_place("on or off", _SHARES),
    f"{_G}.gpu_sharing.mps.replicas": in_place("another number", _SHARES),
    f"{_G}.mig_profile": in_place(
        "another one, or none",
        "running jobs of the group: the MIG manager stops GPU services, divides the GPUs again, and may"
        " reboot nodes; drain them first",
    ),
    f"{_G}.image": (*_rolls("your own instead of AWS's, or back"), *_rolls("another of your own")),
    f"{_G}.user_data": _rolls("another text"),
}
