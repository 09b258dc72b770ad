"""Servers of a Slurm in the cloud as the roles of racks see them: a site without GPU nodes."""

from __future__ import annotations

from gpufleet.catalog import Catalog
from gpufleet.plan.marks import site_tags
from gpufleet.plan.models import CloudSitePlan, FabricPlan, HostPlan, MountPlan, OnPremSitePlan, TeamPlan
from gpufleet.plan.rack import plan_backup_target, plan_people
from gpufleet.plan.rack_models import RackPlan, SlurmPlan
from gpufleet.plan.rack_slurm import plan_accounts, plan_qos
from gpufleet.plan.rack_software import plan_slurm_software
from gpufleet.plan.slurm_models import SlurmServersPlan
from gpufleet.spec.models import CloudSite, FleetSpec, SlurmServers

TIME_SERVER = "169.254.169.123"
"""The Amazon Time Sync Service (EC2 User Guide, "Set the time reference")."""

REBOOT_S = 600
NO_FABRIC = FabricPlan("none", "", "fat-tree")


def plan_server_hosts(
    spec: FleetSpec, site: CloudSite, plan: CloudSitePlan, catalog: Catalog
) -> OnPremSitePlan | None:
    """The hosts of a site's servers; None for a site without a Slurm of its own."""
    declared = site.slurm.servers if site.slurm is not None else None
    servers = plan.slurm.servers if plan.slurm is not None else None
    if declared is None or servers is None:
        return None
    rack = _rack(site, declared, servers)
    return OnPremSitePlan(
        site=site.site,
        system="",
        gpu="",
        gpus_per_node=0,
        hosts=tuple(HostPlan(each.name, site.site, each.role, each.address) for each in servers.servers),
        fabric=NO_FABRIC,
        scheduler="slurm",
        ssh_user=servers.ssh_user,
        ssh_port=22,
        # Its address is known once the stack has made it.
        mounts=(MountPlan("nfs", "", servers.shared),) if servers.shared else (),
        teams=tuple(TeamPlan(team.name, team.gpus, team.priority) for team in declared.teams),
        power_kw_per_node=None,
        power=None,
        ownership=None,
        running_costs={},
        tags=site_tags(spec, site.site),
        rack=rack,
        software=plan_slurm_software(rack, catalog.lock(spec.software.channel)),
    )


def _rack(site: CloudSite, declared: SlurmServers, servers: SlurmServersPlan) -> RackPlan:
    return RackPlan(
        network=site.network.cidr,
        link_gbps=0,
        rails=(),
        interfaces=(),
        ipoib=False,
        subnet_managers=(),
        partitions=(),
        root_guids=(),
        roce_priority=0,
        roce_dscp=0,
        roce_mtu=0,
        roce_ecn=False,
        slurm=_slurm(site, declared),
        kubernetes=None,
        groups={group.name: group.gid for group in declared.groups},
        people=plan_people(declared.users),
        local_nvme=None,
        local_nvme_cache=None,
        local_nvme_drives=None,
        time_servers=(TIME_SERVER,),
        package_mirror=declared.package_mirror,
        image_mirror=None,
        doca_repository=None,
        doca_key=None,
        doca_key_fingerprint=None,
        host_addresses={each.name: each.address for each in servers.servers},
        reboot_batch=1,
        reboot_timeout_s=REBOOT_S,
        fingerprints={},
        backups=plan_backup_target(declared.backups),
    )


def _slurm(site: CloudSite, declared: SlurmServers) -> SlurmPlan:
    """Slurm without nodes of its own: each node group brings nodes and a partition."""
    return SlurmPlan(
        cluster=site.site,
        state=None,
        partitions=(),
        qos_settings=plan_qos(declared.qos, preempts=declared.preemption != "none"),
        accounts=plan_accounts(declared.teams, declared.users),
        switches=(),
        preemption=declared.preemption,
        billing_gpu=declared.billing.gpu,
        billing_cpu=declared.billing.cpu,
        billing_memory_gib=declared.billing.memory_gib,
        health_check=True,
        ssh_requires_job=True,
        reserved_cpus=0,
        reserved_memory_mib=0,
    )
