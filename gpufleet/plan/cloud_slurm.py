"""Cloud nodes that the Slurm of a rack site launches: whose they are, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gpufleet.plan.names import parameters_path
from gpufleet.plan.rack_slurm import declared_partitions
from gpufleet.spec.models import CloudSite, CloudSlurm, FleetSpec, OnPremSite

CONTROLLER_PORT = 6817
"""The port of slurmctld (slurm.conf, SlurmctldPort)."""


@dataclass(frozen=True, slots=True)
class BurstPlan:
    """Which waiting jobs of the racks may use cloud nodes: those of `teams` in `partitions` that waited
    `after_s`, on nodes of `groups`, whose jobs may cost `monthly` USD in a month.
    """

    teams: tuple[str, ...]
    partitions: tuple[str, ...]
    groups: tuple[str, ...]
    after_s: int
    monthly: Decimal


@dataclass(frozen=True, slots=True)
class CloudSlurmPlan:
    """Who launches the nodes of a cloud site, and what the nodes need to join.

    `controllers` is the rack site, `addresses` those of its controllers with their port, `network` its
    addresses (CIDR). `identity` is the ARN of the controllers' own credentials, `munge_parameter` the name of
    the SSM parameter with the cluster's munge key.
    """

    controllers: str
    addresses: tuple[str, ...]
    network: str
    identity: str
    munge_parameter: str
    suspend_s: int
    resume_s: int
    retry_s: int
    burst: BurstPlan | None


def plan_cloud_slurm(spec: FleetSpec, site: CloudSite) -> CloudSlurmPlan | None:
    """The Slurm that launches a site's nodes.

    None if the fleet file names none, or a rack site that it lacks; `gpufleet.checks` says so with a line.
    """
    wanted = site.slurm
    rack = next((each for each in spec.onprem if wanted and each.site == wanted.controllers), None)
    if wanted is None or rack is None:
        return None
    hosts = rack.controllers.hosts if rack.controllers is not None else ()
    return CloudSlurmPlan(
        controllers=rack.site,
        addresses=tuple(f"{rack.address_of(host)}:{CONTROLLER_PORT}" for host in hosts),
        network=rack.network or "",
        identity=wanted.identity,
        munge_parameter=f"{parameters_path(spec.fleet, spec.environment)}/{site.site}/munge-key",
        suspend_s=int(wanted.suspend_after.delta.total_seconds()),
        resume_s=int(wanted.resume_within.delta.total_seconds()),
        retry_s=int(wanted.retry_after.delta.total_seconds()),
        burst=_burst(site, wanted, rack),
    )


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
