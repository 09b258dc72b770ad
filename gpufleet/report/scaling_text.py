"""What sets the sizes of a Kubernetes site's node groups and what finds their faults, for `gpufleet plan`."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.plan.autoscaler import AutoscalerPlan, can_scale
from gpufleet.plan.karpenter import KarpenterPlan
from gpufleet.plan.models import CloudSitePlan, KubernetesPlan, NodeGroupPlan
from gpufleet.plan.names import SYSTEM


def scaling_lines(site: CloudSitePlan, cluster: KubernetesPlan) -> Iterator[str]:
    """Yield `Cluster Autoscaler v1.35.2 (...) adds nodes for pods that wait, ...: sweep 0-16`, or what is not
    scaled."""
    open_ended = [
        f"{group.name} {least_nodes(group)}-{group.capacity.max}"
        for group in site.node_groups
        if group.node_pool is not None or (not group.ordered and can_scale(group.capacity))
    ]
    if cluster.karpenter is not None:
        yield f"{_karpenter(site, cluster.karpenter)}: {', '.join(open_ended) or 'no group'}"
        return
    if cluster.autoscaler is None:
        if open_ended:
            yield f"no autoscaler sets the size of {', '.join(open_ended)} (kubernetes.autoscaler)"
        return
    system = cluster.system_nodes
    groups = [f"{SYSTEM} {system.min}-{system.max}"] * cluster.scales_system_nodes + open_ended
    yield f"{_how(cluster.autoscaler)}: {', '.join(groups) or 'no group'}"


def least_nodes(group: NodeGroupPlan) -> int:
    """Return the nodes of a group that run without work; Karpenter starts those in a reservation for pods."""
    return group.node_pool.always if group.node_pool is not None else group.capacity.min


def sharing_lines(site: CloudSitePlan) -> Iterator[str]:
    """Yield `notebooks: 4 pods share a GPU in turns; pods request nvidia.com/gpu.shared, 32 a node`."""
    for group in site.node_groups:
        plan = group.gpu_sharing
        if plan is None:
            continue
        part = f"a GPU is {plan.mig_devices} x {plan.mig_profile}" if plan.mig_profile else ""
        device = "a MIG device" if part else "a GPU"
        how = {"none": "", "time_slicing": " in turns", "mps": " at once (MPS)"}[plan.kind]
        shared = f"{plan.replicas} pods share {device}{how}" if how else ""
        each = max(group.gpus_per_node, 1) * plan.per_gpu
        words = ", ".join(filter(None, (part, shared)))
        yield f"{group.name}: {words}; pods request {plan.resource}, {each} a node"


def repair_lines(cluster: KubernetesPlan) -> Iterator[str]:
    """Yield `NVSentinel v1.14.0 finds faulty GPUs and cordons their nodes`."""
    plan = cluster.fault_repair
    if plan is None:
        return
    does = {
        "detect": ", and acts on none",
        "quarantine": " and cordons their nodes",
        "drain": f", cordons their nodes, and deletes their pods after {plan.drain_after_min} min",
    }
    yield f"NVSentinel {plan.version} finds faulty GPUs{does[plan.action]}"


def _how(plan: AutoscalerPlan) -> str:
    version = plan.image.rpartition(":")[2]
    ends = (
        f"ends nodes after {_minutes(plan.scale_down_after_s)} without work"
        if plan.scale_down
        else ("ends no nodes")
    )
    return f"Cluster Autoscaler {version} ({plan.expander}) adds nodes for pods that wait, {ends}"


def _karpenter(site: CloudSitePlan, plan: KarpenterPlan) -> str:
    pools = [group.node_pool for group in site.node_groups if group.node_pool is not None]
    after = pools[0].ends_after_s if pools else None
    ends = f"ends nodes after {_minutes(after)} without work" if after is not None else "ends no nodes"
    kept = ", keeps the minimum of each group" if plan.static_capacity else ""
    return f"Karpenter v{plan.version} adds nodes for pods that wait{kept}, {ends}"


def _minutes(seconds: int) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds} s"
