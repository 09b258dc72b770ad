"""Nodes of a cloud site that a Slurm launches: whose they are, and their names."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from gpufleet.plan.names import parameters_path
from gpufleet.plan.rack_slurm import declared_partitions
from gpufleet.plan.slurm_models import BurstPlan, CloudSlurmPlan
from gpufleet.plan.slurm_servers import plan_slurm_servers
from gpufleet.spec.models import CloudSite, CloudSlurm, FleetSpec, OnPremSite

CONTROLLER_PORT = 6817
"""The port of slurmctld (slurm.conf, SlurmctldPort)."""


def plan_cloud_slurm(spec: FleetSpec, site: CloudSite) -> CloudSlurmPlan | None:
    """The Slurm that launches a site's nodes.

    None if the fleet file names none, or a rack site that it lacks; `gpufleet.checks` says so with a line.
    """
    wanted = site.slurm
    if wanted is None:
        return None
    own = CloudSlurmPlan(
        controllers=site.site,
        addresses=(),
        network=site.network.cidr,
        identity=wanted.identity or "",
        munge_parameter=f"{parameters_path(spec.fleet, spec.environment)}/{site.site}/munge-key",
        suspend_s=int(wanted.suspend_after.delta.total_seconds()),
        resume_s=int(wanted.resume_within.delta.total_seconds()),
        retry_s=int(wanted.retry_after.delta.total_seconds()),
        burst=None,
        servers=None,
    )
    if wanted.servers is not None:
        servers = plan_slurm_servers(site, wanted.servers)
        hosts = (each.address for each in servers.servers if each.role == "controller")
        return replace(own, addresses=tuple(map(_with_port, hosts)), servers=servers)
    rack = next((each for each in spec.onprem if each.site == wanted.controllers), None)
    if rack is None:
        return None
    names = rack.controllers.hosts if rack.controllers is not None else ()
    return replace(
        own,
        controllers=rack.site,
        addresses=tuple(_with_port(rack.address_of(host)) for host in names),
        network=rack.network or "",
        burst=_burst(site, wanted, rack),
    )


def _with_port(address: str) -> str:
    return f"{address}:{CONTROLLER_PORT}"


def _burst(site: CloudSite, slurm: CloudSlurm, rack: OnPremSite) -> BurstPlan | None:
    wanted = slurm.burst
    if wanted is None:
        return None
    return BurstPlan(
        teams=wanted.teams,
        partitions=wanted.partitions or tuple(each.name for each in declared_partitions(rack)),
        groups=wanted.groups or tuple(group.name for group in site.node_groups),
        after_s=int(wanted.after.delta.total_seconds()),
        monthly=Decimal(wanted.monthly.amount),
    )


def partition_name(site: str, group: str) -> str:
    """The partition of a node group; its nodes are called after it, with a number from 1 on."""
    return f"{site}-{group}"


def node_prefix(site: str, group: str) -> str:
    """How the names of a group's nodes start, before their number."""
    return f"{partition_name(site, group)}-"
