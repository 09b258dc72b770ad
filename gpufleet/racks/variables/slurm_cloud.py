"""Variables of cloud nodes that a rack site's Slurm launches: nodes, partitions, and how they are bought."""

from __future__ import annotations

from typing import Any

from gpufleet.catalog import InstanceType
from gpufleet.errors import InputError
from gpufleet.plan.cloud_slurm import node_prefix, partition_name
from gpufleet.plan.models import NodeGroupPlan
from gpufleet.plan.slurm_models import CloudSlurmPlan
from gpufleet.racks.variables.variable import Context, LaunchedSite, Variable

MEMORY_PART = 0.95
"""The part of a type's memory that Slurm may count on: the kernel and the hypervisor keep some of it."""

RETRY_S = 600


def _groups(context: Context) -> list[dict[str, Any]] | None:
    if context.site.rack.slurm is None:
        return None
    found = [
        _group(group, slurm, context.catalog.instance(group.instance_type))
        for each in context.launched
        if (slurm := each.plan.slurm) is not None
        for group in each.plan.node_groups
    ]
    if found and not context.site.rack.slurm.partitions:
        # Jobs that name no partition need one.
        found[0]["default"] = True
    return found


def _group(group: NodeGroupPlan, slurm: CloudSlurmPlan, instance: InstanceType) -> dict[str, Any]:
    """Return a node group as nodes and a partition.

    Slurm takes a node with more than slurm.conf has, so sockets count as one, and x86 types have two threads
    a core (EC2 User Guide, "CPU options"; those with one thread have as many cores as Slurm counts threads).
    """
    threads = 1 if instance.arm64 or instance.vcpus == 1 else 2
    accelerator = group.accelerator
    return {
        "nodes": f"{node_prefix(group.site, group.name)}[1-{group.capacity.max}]",
        "partition": partition_name(group.site, group.name),
        "cpus": instance.vcpus,
        "sockets": 1,
        "cores_per_socket": instance.vcpus // threads,
        "threads_per_core": threads,
        "memory_mib": int(instance.memory_gib * 1024 * MEMORY_PART),
        "gpu_type": group.gpu.lower(),
        "gpus": 0 if accelerator is None else group.gpus_per_node,
        "accounts": [] if group.team is None else [group.team],
        "max_minutes": 0,
        "suspend_s": slurm.suspend_s,
        "resume_s": slurm.resume_s,
    }


def _sites(context: Context) -> list[dict[str, Any]] | None:
    if context.site.rack.slurm is None:
        return None
    return [{**each.launches, **_burst(context, each)} for each in context.launched]


def _burst(context: Context, launched: LaunchedSite) -> dict[str, Any]:
    """Return the rules of bursts into a site, with what a node of each group has and costs."""
    slurm = launched.plan.slurm
    burst = slurm.burst if slurm is not None else None
    if slurm is None or burst is None:
        return {}
    # Those that `up` has made: the others cannot be launched yet.
    made = {each["prefix"] for each in launched.launches["groups"]}
    groups = [
        group
        for group in launched.plan.node_groups
        if group.name in burst.groups and node_prefix(group.site, group.name) in made
    ]
    return {
        "burst": {
            "accounts": list(burst.teams),
            "partitions": list(burst.partitions),
            "after_s": burst.after_s,
            "boot_s": slurm.resume_s,
            "idle_s": slurm.suspend_s,
            "monthly_usd": f"{burst.monthly:f}",
            "groups": [_burst_group(context, launched, group, slurm) for group in groups],
        }
    }


def _burst_group(
    context: Context, launched: LaunchedSite, group: NodeGroupPlan, slurm: CloudSlurmPlan
) -> dict[str, Any]:
    price = launched.node_hours[group.name]
    if price is None:
        raise InputError(
            f"no price of node group {group.name!r} of site {group.site!r} is known, so"
            " `slurm.burst.monthly` cannot be kept",
            remedy="state one under `budget.assume`, or leave the group out of `slurm.burst.groups`",
        )
    node = _group(group, slurm, context.catalog.instance(group.instance_type))
    shape = {key: node[key] for key in ("partition", "cpus", "memory_mib", "gpus", "gpu_type")}
    return {**shape, "nodes": group.capacity.max, "usd_per_hour": f"{price:f}"}


def _retry(context: Context) -> int | None:
    waits = [each.plan.slurm.retry_s for each in context.launched if each.plan.slurm is not None]
    return min(waits, default=RETRY_S) if context.site.rack.slurm is not None else None


SLURM_CLOUD_VARIABLES = (
    Variable("slurm_controller", "cloud_groups", "site", _groups),
    Variable("slurm_cloud", "sites", "site", _sites),
    Variable("slurm_cloud", "retry_s", "site", _retry),
)
