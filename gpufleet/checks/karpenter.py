"""What Karpenter cannot do for a node group, or cannot limit."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.autoscaler import reserved_pools, scaled_groups
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, listed
from gpufleet.plan.gpu_sharing import plan_gpu_sharing
from gpufleet.plan.karpenter import has_karpenter
from gpufleet.spec.models import CloudSite, NodeGroup, OnDemand, Spot

MOST_STOPPED = 10
"""Managed policies of an IAM role (IAM User Guide, "IAM and AWS STS quotas"; the quota can be raised). One of
them stops the growth of one group."""

_BY_GROUPS = "or write `kind: cluster-autoscaler`"


@check("karpenter-shared-gpus")
def karpenter_shared_gpus(fleet: Fleet) -> Iterator[FieldFinding]:
    """Karpenter computes what a node will have from the instance type. It knows whole GPUs and Neuron
    devices, and starts no node for pods that request a share of a GPU or a MIG device."""
    bought = [
        (path, group, "give the group a `min` equal to its `max`") for path, _, group, _ in _pools(fleet)
    ]
    reserved = [
        ((*path, "node_groups", index), group, "write `reserved_nodes: node-groups`")
        for path, site in fleet.cloud()
        for index, group in reserved_pools(fleet, site)
    ]
    for path, group, remedy in (*bought, *reserved):
        first = fleet.catalog.instances.get(group.instance_types[0])
        sharing = plan_gpu_sharing(first, group.gpu_sharing, group.mig_profile) if first else None
        if sharing is not None:
            yield FieldFinding(
                (*path, "mig_profile" if group.mig_profile is not None else "gpu_sharing"),
                f"node group {group.name!r} has {sharing.resource}, for which Karpenter starts no nodes",
                f"{remedy}, {_BY_GROUPS}",
                value=group.name,
            )


@check("karpenter-type-sizes")
def karpenter_type_sizes(fleet: Fleet) -> Iterator[FieldFinding]:
    """Karpenter limits the devices and vCPUs of a pool reliably, but not its nodes: those of one batch of
    pods are not counted. All types of a group have as many devices (`instance-types-alike`), and so their
    limit is one of nodes. Without devices, the limit of vCPUs is."""
    for path, _, group, _ in _pools(fleet):
        types = [fleet.catalog.instances.get(name) for name in group.instance_types]
        known = [each for each in types if each is not None and each.accelerator is None]
        if len({each.vcpus for each in known}) > 1:
            has = ", ".join(f"{each.name} {each.vcpus}" for each in known)
            yield FieldFinding(
                (*path, "instance_types"),
                f"the types of node group {group.name!r} differ in their vCPUs ({has}), so Karpenter cannot"
                " keep to its `max`",
                f"make a group of each size, {_BY_GROUPS}",
                value=group.name,
            )


@check("karpenter-desired")
def karpenter_desired(fleet: Fleet) -> Iterator[FieldFinding]:
    """Nodes of a pool start for pods, and `min` of them always run: there is no initial size."""
    for path, _, group, option in _pools(fleet):
        if option.desired is not None and option.desired != option.min:
            yield FieldFinding(
                (*path, "capacity", *option.path, "desired"),
                f"node group {group.name!r} starts with {option.desired} nodes, and Karpenter ends those that"
                " no pod needs",
                "remove it, or raise `min`",
            )


@check("karpenter-budget", "budget")
def karpenter_budget(fleet: Fleet) -> Iterator[FieldFinding]:
    """A spent budget stops Karpenter by policies that deny launches, one for each group. It drains spot nodes
    by their Auto Scaling groups, which nodes of Karpenter do not have."""
    wanted = fleet.spec.budget.on_breach
    for _, site in fleet.cloud():
        pools = list(scaled_groups(fleet, site)) if has_karpenter(site) else []
        spot = [group.name for _, group, option in pools if isinstance(option, Spot)]
        if wanted == "drain-spot" and spot:
            yield FieldFinding(
                ("budget", "on_breach"),
                f"on_breach: drain-spot cannot drain {listed(spot)} of {site.site}: Karpenter launches their"
                " nodes",
                f"write `on_breach: stop-scale-out`, {_BY_GROUPS} at {site.site}",
                value=wanted,
            )
        if wanted != "notify" and len(pools) > MOST_STOPPED:
            yield FieldFinding(
                ("budget", "on_breach"),
                f"on_breach: {wanted} stops {len(pools)} groups of {site.site} by a policy each, and IAM"
                f" attaches {MOST_STOPPED} to a role",
                f"write `on_breach: notify`, fewer groups, {_BY_GROUPS} at {site.site}",
                value=wanted,
            )


def _pools(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, NodeGroup, OnDemand | Spot]]:
    """Yield the groups that Karpenter scales, with their paths."""
    for path, site in fleet.cloud():
        if has_karpenter(site):
            for index, group, option in scaled_groups(fleet, site):
                yield (*path, "node_groups", index), site, group, option


CHECKS = (karpenter_shared_gpus, karpenter_type_sizes, karpenter_desired, karpenter_budget)
