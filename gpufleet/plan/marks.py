"""Tags, labels and taints of a fleet's resources."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpufleet.kinds import NODE_GROUP_TAG, CapacityKind
from gpufleet.plan.accelerators import AcceleratorPlan
from gpufleet.plan.gpu_sharing import GpuSharingPlan, sharing_labels
from gpufleet.plan.models import TaintPlan
from gpufleet.spec.models import CloudSite, FleetSpec, NodeGroup

TAG_PREFIX = "gpufleet:"
_LASTING = frozenset({*(f"{TAG_PREFIX}{name}" for name in ("fleet", "environment", "site")), NODE_GROUP_TAG})
LABEL_PREFIX = "gpufleet.io/"


def fleet_tags(spec: FleetSpec) -> dict[str, str]:
    """Return the tags of all resources: the user's own, fleet and environment.

    AWS Budgets and cost allocation filter by them. They include the expiry date (ISO 8601) of a temporary
    environment.
    """
    tags = {
        **spec.tags,
        f"{TAG_PREFIX}environment": spec.environment,
        f"{TAG_PREFIX}fleet": spec.fleet,
    }
    if spec.expires is not None:
        tags[f"{TAG_PREFIX}expires"] = spec.expires.isoformat()
    return tags


def site_tags(spec: FleetSpec, site: str) -> dict[str, str]:
    """Tags of everything in one site."""
    return {**fleet_tags(spec), f"{TAG_PREFIX}site": site}


def lasting_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Those of a resource's tags that say where it belongs, which no other setting changes."""
    return {key: value for key, value in tags.items() if key in _LASTING}


def group_tags(spec: FleetSpec, site: str, group: NodeGroup) -> dict[str, str]:
    """Tags of a node group; a team's group also carries whose it is, so that cost follows teams."""
    tags = {**site_tags(spec, site), NODE_GROUP_TAG: group.name}
    if group.team is not None:
        tags[f"{TAG_PREFIX}team"] = group.team
    return tags


def storage_tags(spec: FleetSpec, site: str, name: str) -> dict[str, str]:
    """Tags of one storage of a site."""
    return {**site_tags(spec, site), f"{TAG_PREFIX}storage": name}


def label_value(text: str) -> str:
    """Text as a Kubernetes label value: lower case, at most 63 of `[a-z0-9._-]`, alphanumeric ends."""
    cleaned = re.sub(r"[^a-z0-9._-]+", "-", text.lower())[:63]
    return cleaned.strip("-._")


def group_labels(
    spec: FleetSpec,
    site: CloudSite,
    group: NodeGroup,
    accelerator: AcceleratorPlan | None,
    capacity: CapacityKind | None,
    sharing: GpuSharingPlan | None,
) -> dict[str, str]:
    """Labels of a node group's nodes: what a workload selects by. The user's own come on top.

    `gpufleet.io/gpu` or `gpufleet.io/neuron` has the accelerator's name, and its device plugin runs there.
    """
    labels = {
        f"{LABEL_PREFIX}fleet": spec.fleet,
        f"{LABEL_PREFIX}environment": spec.environment,
        f"{LABEL_PREFIX}site": site.site,
        f"{LABEL_PREFIX}node-group": group.name,
        f"{LABEL_PREFIX}workload": group.workload,
    }
    if capacity is not None:
        labels[f"{LABEL_PREFIX}capacity"] = capacity
    if accelerator is not None:
        labels[f"{LABEL_PREFIX}{accelerator.kind}"] = label_value(accelerator.name)
    if group.team is not None:
        labels[f"{LABEL_PREFIX}team"] = group.team
    if sharing is not None:
        stack = site.kubernetes.gpu_stack if site.kubernetes is not None else "device-plugin"
        labels |= sharing_labels(sharing, stack)
    return {**labels, **group.labels}


def group_taints(group: NodeGroup, accelerator: AcceleratorPlan | None) -> tuple[TaintPlan, ...]:
    """Taints of a node group: the user's, and on accelerator nodes the one that its device plugin
    tolerates, so that nothing without an accelerator request lands on them.

    A taint of the same key in the fleet file takes the default's place.
    """
    own = tuple(TaintPlan(taint.key, taint.value, taint.effect) for taint in group.taints)
    key = accelerator.resource if accelerator is not None else ""
    if not key or any(taint.key == key for taint in own):
        return own
    return (TaintPlan(key, "present", "NoSchedule"), *own)
