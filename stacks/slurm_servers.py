"""Servers of a Slurm in a cloud site."""

from __future__ import annotations

from typing import Any

import pulumi

from gpufleet.components.network import Network
from gpufleet.components.slurm_servers import ServerArgs, SlurmServers, SlurmServersArgs
from gpufleet.plan.models import CloudSitePlan
from gpufleet.plan.names import SERVERS_SUFFIX
from gpufleet.stacks.node_args import node_image
from gpufleet.stacks.settings import StackSettings


def build_servers(
    name: str, site: CloudSitePlan, network: Network, settings: StackSettings, opts: pulumi.ResourceOptions
) -> SlurmServers | None:
    """Create the controllers and login hosts of a site; None if it has no Slurm of its own."""
    plan = site.slurm.servers if site.slurm is not None else None
    if plan is None:
        return None
    return SlurmServers(
        f"{name}{SERVERS_SUFFIX}",
        SlurmServersArgs(
            vpc_id=network.vpc_id,
            subnet_ids=network.private_subnet_ids,
            reserved=plan.reserved,
            security_group_id=network.node_security_group_id,
            image=node_image(plan.image_kind, plan.image),
            servers=[
                ServerArgs(
                    name=each.label,
                    host=each.name,
                    role=each.role,
                    zone=each.zone,
                    address=each.address,
                    instance_type=each.instance_type,
                    volume_gib=each.volume_gib,
                )
                for each in plan.servers
            ],
            ssh_keys=plan.keys,
            file_systems=plan.file_systems,
            ready=network.nat_ready,
            protect=settings.protect,
            tags=site.tags,
        ),
        opts,
    )


def server_outputs(servers: SlurmServers | None) -> dict[str, Any] | None:
    """Return what the inventory needs of the servers: ids of instances, and sources of file systems."""
    if servers is None:
        return None
    return {"instances": dict(servers.instance_ids), **servers.exports}
