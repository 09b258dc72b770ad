"""The effects of the fleet's own fields."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.changes.change import NO_ONE, Approval, FieldChange, in_place, nothing
from gpufleet.changes.observe import Effect

_JUDGED = "users of `preview`, `up` and `check`: policy rules use it"

FLEET: Mapping[str, tuple[FieldChange, ...]] = {
    "fleet": (
        FieldChange(
            "another name",
            Effect.REPLACEMENT,
            "all users: every resource is created again under the new name, and the old one is deleted",
            Approval.DATA,
        ),
    ),
    "environment": (
        FieldChange(
            "another name",
            Effect.IN_PLACE,
            "no one: a second stack is created; `destroy` deletes the old one",
        ),
    ),
    "budget.monthly": in_place("another amount", "recipients of budget alerts"),
    "budget.alerts": in_place("another list", "recipients of budget alerts"),
    "budget.notify": in_place(
        "another list", "new recipients confirm their address once; removed ones receive no more alerts"
    ),
    "budget.on_breach": in_place(
        "another value",
        "no one: the functions that stop growth and drain spot nodes are created or deleted; `budget resume`"
        " first",
    ),
    "budget.drain_spot_at": in_place("another share", "no one: spot nodes drain earlier or later"),
    "budget.anomalies.above": in_place("another amount", "recipients of budget alerts"),
    "budget.anomalies.monitor": (
        FieldChange(
            "another one",
            Effect.REPLACEMENT,
            "recipients of budget alerts: the stack's own monitor is deleted",
        ),
    ),
    "budget.upfront": nothing("another value", _JUDGED),
    "budget.max_increase": nothing("another value", _JUDGED),
    "budget.ends": nothing("another value", _JUDGED),
    "budget.sites.<name>": in_place("another value", "recipients of budget alerts; policy rules use it"),
    "budget.node_groups.<name>": nothing("another value", _JUDGED),
    "budget.teams.<name>": in_place("another value", "recipients of budget alerts; policy rules use it"),
    "tags.<name>": (
        FieldChange(
            "another value",
            Effect.ROLLING,
            "running jobs of every Kubernetes node group, node by node: tags are part of launch templates",
            slurm=Effect.IN_PLACE,
        ),
    ),
    "required_tags": nothing("another value", _JUDGED),
    "expires": (
        FieldChange(
            "another day",
            Effect.ROLLING,
            "running jobs of every Kubernetes node group, node by node: the day is a tag",
            slurm=Effect.IN_PLACE,
        ),
    ),
    "policies.<name>": nothing("another value", _JUDGED),
    "policies.<name>.enforcement": nothing("another value", _JUDGED),
    "policies.<name>.settings.<name>": nothing("another value", _JUDGED),
    "exemptions[]": nothing("add an entry", _JUDGED),
    "exemptions[].rule": nothing("another value", _JUDGED),
    "exemptions[].resource": nothing("another value", _JUDGED),
    "exemptions[].reason": nothing("another value", NO_ONE),
    "exemptions[].approver": nothing("another value", NO_ONE),
    "exemptions[].expires": nothing("another value", _JUDGED),
    "software.channel": (
        FieldChange(
            "another channel",
            Effect.ROLLING,
            "running jobs of every Kubernetes node group, node by node, if it locks another release of EKS's"
            " image; Slurm: no one, new nodes use its image; on racks `configure` installs the versions",
            slurm=Effect.IN_PLACE,
        ),
    ),
    "software.node_images.eks": (
        FieldChange(
            "another release",
            Effect.ROLLING,
            "running jobs of every Kubernetes node group, node by node",
        ),
    ),
    "software.node_images.slurm": in_place("another release", "no one: new nodes use it"),
}
