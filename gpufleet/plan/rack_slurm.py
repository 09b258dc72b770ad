"""Slurm of a rack site: what its fleet file says, and defaults that follow from its teams and switches."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from gpufleet.plan.rack_models import (
    SlurmAccountPlan,
    SlurmPartitionPlan,
    SlurmPlan,
    SlurmQosPlan,
    SlurmSwitchPlan,
)
from gpufleet.spec.models import FabricSwitch, OnPremSite, SlurmPartition, SlurmQos, Team, User
from gpufleet.spec.quantity import Duration

DEFAULT_PARTITION = "gpu"
PRIORITIES = {"low": 0, "normal": 100, "high": 1000}
"""The QOS for team priorities and their weights, gpufleet's own choice: the gaps exceed the age and
fair-share factors."""


def plan_slurm(site: OnPremSite) -> SlurmPlan | None:
    """Slurm of the site, None where another scheduler places its jobs."""
    if site.scheduler != "slurm":
        return None
    slurm = site.slurm
    return SlurmPlan(
        cluster=slurm.cluster or site.site,
        state=state_export(site),
        partitions=_partitions(site),
        qos_settings=plan_qos(slurm.qos, preempts=slurm.preemption != "none"),
        accounts=plan_accounts(site.teams, site.users),
        switches=plan_switches(site.fabric.switches, site.nodes.hosts),
        preemption=slurm.preemption,
        billing_gpu=slurm.billing.gpu,
        billing_cpu=slurm.billing.cpu,
        billing_memory_gib=slurm.billing.memory_gib,
        health_check=slurm.health_check,
        ssh_requires_job=slurm.ssh_requires_job,
        reserved_cpus=slurm.reserved_cpus,
        reserved_memory_mib=slurm.reserved_memory_gib * 1024,
    )


def state_export(site: OnPremSite) -> str | None:
    """Where the controllers keep their state: declared, or where several have to share it, on the site's
    first NFS file system. None where there is one controller, or nothing that several could share."""
    if site.slurm.state is not None:
        return site.slurm.state
    if site.controllers is None or len(site.controllers.hosts) < 2:
        return None
    return next((item.source for item in site.storage if item.kind == "nfs"), None)


def declared_partitions(site: OnPremSite) -> tuple[SlurmPartition, ...]:
    """The partitions of a rack site; one of all nodes where the fleet file declares none."""
    return site.slurm.partitions or (SlurmPartition(name=DEFAULT_PARTITION),)


def _partitions(site: OnPremSite) -> tuple[SlurmPartitionPlan, ...]:
    declared = declared_partitions(site)
    # Slurm needs a default partition: the first, if none is declared as default.
    chosen = next((item.name for item in declared if item.default), declared[0].name)
    return tuple(
        SlurmPartitionPlan(
            name=item.name,
            hosts=item.nodes.hosts if item.nodes is not None else site.nodes.hosts,
            default=item.name == chosen,
            max_minutes=_minutes(item.max_time),
            priority=item.priority,
            accounts=item.teams,
        )
        for item in declared
    )


def plan_accounts(teams: Iterable[Team], users: Iterable[User]) -> tuple[SlurmAccountPlan, ...]:
    """An account for each team, with its users."""
    people = tuple(users)
    return tuple(
        SlurmAccountPlan(
            team.name,
            team.gpus,
            team.priority,
            tuple(user.name for user in people if team.name in user.teams),
        )
        for team in teams
    )


def plan_qos(qos: Iterable[SlurmQos], *, preempts: bool) -> tuple[SlurmQosPlan, ...]:
    """Low, normal and high, then the site's own, which replace those of the same name."""
    names = list(PRIORITIES)
    ours = {
        name: SlurmQosPlan(name, priority, None, None, tuple(names[:index]) if preempts else ())
        for index, (name, priority) in enumerate(PRIORITIES.items())
    }
    declared = {
        item.name: SlurmQosPlan(
            item.name, item.priority, item.max_gpus_per_user, _minutes(item.max_time), item.preempts
        )
        for item in qos
    }
    return tuple((ours | declared).values())


def plan_switches(switches: Iterable[FabricSwitch], nodes: tuple[str, ...]) -> tuple[SlurmSwitchPlan, ...]:
    """The tree for topology.conf, empty where no leaf is declared with its nodes.

    Slurm wants each node below one switch. On a rail-optimized fabric a node is below a leaf of
    every rail: nodes with the same leaves then form one unit, named after the first of them. Nodes
    that no leaf names form a unit of their own, and one switch joins all units.
    """
    leaves: dict[str, list[str]] = {node: [] for node in nodes}
    for switch in switches:
        for node in switch.nodes.hosts if switch.nodes is not None else ():
            if node in leaves:
                leaves[node].append(switch.name)
    if not any(leaves.values()):
        return ()
    units: dict[tuple[str, ...], list[str]] = {}
    for node, names in leaves.items():
        units.setdefault(tuple(sorted(names)), []).append(node)
    lines = tuple(
        SlurmSwitchPlan(_unit_name(names), hosts=tuple(members)) for names, members in units.items()
    )
    if len(lines) == 1:
        return lines
    return (*lines, SlurmSwitchPlan("fabric", switches=tuple(line.name for line in lines)))


def _unit_name(leaves: tuple[str, ...]) -> str:
    if not leaves:
        return "unit-unknown"
    return leaves[0] if len(leaves) == 1 else f"unit-{leaves[0]}"


def _minutes(length: Duration | None) -> int | None:
    """Slurm counts in minutes: a part of one counts whole."""
    return None if length is None else -(-length.delta // timedelta(minutes=1))
