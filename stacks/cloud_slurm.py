"""Nodes that a Slurm launches: what they need to join it, and what its controllers need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, assert_never

import pulumi

from gpufleet.components.identity import IamRoles
from gpufleet.components.slurm_launcher import SlurmLauncher, SlurmLauncherArgs
from gpufleet.components.slurm_servers import SlurmServers
from gpufleet.components.storage import SharedStorage
from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    ExistingBlockPlan,
    ExistingReservationPlan,
    OnDemandPlan,
    ReservationGroupPlan,
    ReservationPlan,
    SpotPlan,
)
from gpufleet.plan.cloud_slurm import node_prefix
from gpufleet.plan.interruptions import CHECKPOINT_S
from gpufleet.plan.marks import lasting_tags
from gpufleet.plan.models import CloudSitePlan, FleetPlan, NodeGroupPlan
from gpufleet.plan.names import (
    BUDGET_REGION,
    MUNGE_SUFFIX,
    drained_group_parameter,
    drained_groups_path,
    stopped_groups_parameter,
)
from gpufleet.plan.slurm_models import EFS_OPTIONS, SHARED, CloudSlurmPlan
from gpufleet.stacks.node_groups import NodeGroupOutputs

SETTINGS = "/etc/gpufleet/cloud-node.json"
"""Where nodes read what the user data says (role slurm_cloud_node)."""

LUSTRE_OPTIONS = "relatime,flock,_netdev"
"""Mount options of FSx for Lustre (FSx for Lustre User Guide, "Mounting your file system")."""


def join_user_data(
    site: CloudSitePlan,
    slurm: CloudSlurmPlan,
    storage: Mapping[str, SharedStorage],
    servers: SlurmServers | None = None,
) -> pulumi.Output[str]:
    """Return the part of the user data by which a node finds its controllers, key and file systems."""
    mounts = [
        {
            "kind": "lustre",
            "source": pulumi.Output.format(
                "{0}@tcp:/{1}", storage[item.name].dns_name, storage[item.name].mount_name
            ),
            "path": item.mount,
            "options": LUSTRE_OPTIONS,
        }
        for item in site.lustre
    ]
    shared = slurm.servers.shared if slurm.servers is not None else None
    if servers is not None and shared is not None:
        source = servers.exports[SHARED]
        mounts.append({"kind": "nfs", "source": source, "path": shared, "options": EFS_OPTIONS})
    settings = pulumi.Output.json_dumps(
        {
            "controllers": list(slurm.addresses),
            "region": site.region,
            "munge_parameter": slurm.munge_parameter,
            "mounts": mounts,
        }
    )
    # JSON is YAML.
    return settings.apply(
        lambda text: f"#cloud-config\n{json.dumps({'write_files': [{'path': SETTINGS, 'content': text}]})}\n"
    )


def build_launcher(
    name: str,
    plan: FleetPlan,
    site: CloudSitePlan,
    slurm: CloudSlurmPlan,
    groups: Mapping[str, NodeGroupOutputs],
    roles: IamRoles,
    security_group_id: pulumi.Output[str],
    servers: SlurmServers | None,
    opts: pulumi.ResourceOptions,
) -> dict[str, Any]:
    """Create what the controllers need, and return what they have to know, for the role slurm_cloud."""
    own = lasting_tags(site.tags)
    stopped = stopped_groups_parameter(plan.fleet, plan.environment) if plan.budget.stops_growth else ""
    drains = drained_groups_path(plan.fleet, plan.environment) if _drains(plan, site) else None
    launcher = SlurmLauncher(
        name,
        SlurmLauncherArgs(
            identity=slurm.identity if servers is None else None,
            identity_role_name=None if servers is None else servers.controller_role_name,
            # Servers of the site are members of the nodes' group.
            network=slurm.network if servers is None else None,
            launch_template_arns=[each.component.launch_template_arn for each in groups.values()],
            node_role_arn=roles.node_role_arn,
            node_role_name=roles.node_role_name,
            security_group_id=security_group_id,
            own_tags=own,
            spot=any(isinstance(group.capacity, SpotPlan) for group in site.node_groups),
            parameter=slurm.munge_parameter,
            key_name=f"{name}{MUNGE_SUFFIX}",
            stopped=stopped,
            stopped_region=BUDGET_REGION,
            drained=[] if drains is None else [f"{drains}/*"],
            tags=site.tags,
        ),
        opts,
    )
    return {
        "site": site.site,
        "region": site.region,
        "tags": own,
        "role": launcher.role_arn,
        "munge_parameter": slurm.munge_parameter,
        "munge_key_arn": launcher.munge_key_arn,
        "stopped_parameter": stopped,
        "stopped_region": BUDGET_REGION,
        **({} if drains is None else {"checkpoint_s": _checkpoint_s(site)}),
        "groups": [_group(name, group, groups[group.name], drains) for group in site.node_groups],
    }


def _drains(plan: FleetPlan, site: CloudSitePlan) -> bool:
    return plan.budget.drains_spot and any(isinstance(group.capacity, SpotPlan) for group in site.node_groups)


def _checkpoint_s(site: CloudSitePlan) -> int:
    """Return how long a job may take for a checkpoint: as at an interruption, if the site handles these."""
    return site.interruptions.checkpoint_s if site.interruptions is not None else CHECKPOINT_S


def _group(
    site_name: str, group: NodeGroupPlan, built: NodeGroupOutputs, drains: str | None
) -> dict[str, Any]:
    name = f"{site_name}-{group.name}"
    record = (
        {"drained_parameter": drained_group_parameter(drains, name)}
        if drains is not None and isinstance(group.capacity, SpotPlan)
        else {}
    )
    price = group.capacity.spot_max_price if isinstance(group.capacity, SpotPlan) else None
    return {
        "name": name,
        "prefix": node_prefix(group.site, group.name),
        "launch_template": built.component.launch_template_id,
        "version": built.component.launch_template_version,
        "instance_types": list(group.instance_types),
        "subnets": built.subnet_ids,
        "purchases": list(_purchases(group)),
        "max_price": "" if price is None else f"{price:f}",
        **record,
    }


def _purchases(group: NodeGroupPlan) -> tuple[str, ...]:
    """Return how CreateFleet is asked for nodes, in order."""
    match group.capacity:
        case SpotPlan(on_demand_fallback=fallback):
            return ("spot", "on-demand") if fallback else ("spot",)
        case CapacityBlockPlan() | ExistingBlockPlan():
            return ("capacity-block",)
        case OnDemandPlan() | ReservationPlan() | ExistingReservationPlan() | ReservationGroupPlan():
            return ("on-demand",)
        case other:
            assert_never(other)
