"""Putting the plan together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpufleet.catalog import Catalog, NodeImage
from gpufleet.catalog.images import eks_image_name
from gpufleet.catalog.models import SoftwareLock
from gpufleet.kinds import (
    BUCKET_ADDON,
    CONTROL_PLANE_LOGS,
    EKS_ADDONS,
    KUBE_SCHEDULER,
    LUSTRE_ADDON,
)
from gpufleet.plan.access import access_port, kubernetes_access
from gpufleet.plan.autoscaler import plan_autoscaler
from gpufleet.plan.budget import plan_budget
from gpufleet.plan.cloud_slurm import plan_cloud_slurm
from gpufleet.plan.direct_connect import plan_direct_connect
from gpufleet.plan.dns import plan_dns
from gpufleet.plan.fault_repair import plan_fault_repair
from gpufleet.plan.images import locked_image, system_architecture
from gpufleet.plan.interruptions import plan_interruptions
from gpufleet.plan.karpenter import plan_karpenter
from gpufleet.plan.kubernetes_models import TeamFileSystemPlan
from gpufleet.plan.marks import fleet_tags, site_tags
from gpufleet.plan.models import (
    CloudSitePlan,
    FleetPlan,
    KeyPlan,
    KubernetesPlan,
    NeuronPlan,
    NodeGroupPlan,
    SystemNodesPlan,
    TeamBucketPlan,
    TeamPlan,
)
from gpufleet.plan.names import BUDGET_SUFFIX, environment_resource_name, site_resource_name
from gpufleet.plan.node_groups import plan_node_group, plan_volume
from gpufleet.plan.onprem import plan_onprem_site
from gpufleet.plan.ordered_capacity import drawn_nodes, plan_orders
from gpufleet.plan.queues import plan_queues
from gpufleet.plan.server_hosts import plan_server_hosts
from gpufleet.plan.site_needs import (
    cluster_logs,
    drain_logs,
    flow_logs,
    interface_endpoints,
    site_keys,
    stop_logs,
    vpn_logs,
)
from gpufleet.plan.storage import plan_bucket, plan_lustre
from gpufleet.plan.subnets import plan_subnets
from gpufleet.plan.vpn import plan_vpn
from gpufleet.spec.models import CloudSite, FleetSpec, Kubernetes, KubernetesTeam, Volume


def build_plan(spec: FleetSpec, catalog: Catalog) -> FleetPlan:
    """Everything that follows from a fleet file. Pure: the same spec and catalog give an equal plan.

    Expects a spec that `gpufleet.checks` has no error for. Of what it cannot plan at all (an unknown
    instance type or system) it raises InputError.
    """
    drawn = drawn_nodes(spec)
    cloud = tuple(_plan_site(spec, site, catalog, drawn) for site in spec.cloud)
    onprem = tuple(plan_onprem_site(spec, site, catalog) for site in spec.onprem)
    hosts = (
        plan_server_hosts(spec, site, plan, catalog) for site, plan in zip(spec.cloud, cloud, strict=True)
    )
    name = environment_resource_name(spec.fleet, spec.environment)
    budget = plan_budget(spec, cloud)
    return FleetPlan(
        fleet=spec.fleet,
        environment=spec.environment,
        tags=fleet_tags(spec),
        cloud=cloud,
        onprem=onprem,
        budget=budget,
        software_channel=spec.software.channel,
        keys=(KeyPlan(f"{name}{BUDGET_SUFFIX}", ""),) if cloud else (),
        log_groups=(
            *([stop_logs(f"{name}{BUDGET_SUFFIX}")] if budget.stops_growth else []),
            *([drain_logs(f"{name}{BUDGET_SUFFIX}")] if budget.drains_spot else []),
        ),
        server_hosts=tuple(each for each in hosts if each is not None),
    )


def _plan_site(
    spec: FleetSpec, site: CloudSite, catalog: Catalog, drawn: Mapping[tuple[str, str], int]
) -> CloudSitePlan:
    name = site_resource_name(spec.fleet, spec.environment, site.site)
    lustre = tuple(
        plan_lustre(spec, site, item, item.lustre) for item in site.storage if item.lustre is not None
    )
    buckets = tuple(
        plan_bucket(spec, site, item, item.bucket) for item in site.storage if item.bucket is not None
    )
    locked, orders = locked_image(spec, site, catalog), plan_orders(spec, site)
    groups = tuple(
        plan_node_group(spec, site, group, catalog, locked, drawn.get((site.site, group.name)))
        for group in site.node_groups
    )
    slurm = plan_cloud_slurm(spec, site)
    servers = slurm.servers if slurm is not None else None
    return CloudSitePlan(
        site=site.site,
        provider=site.provider,
        region=site.region,
        zones=site.zones,
        cidr=site.network.cidr,
        nat=site.network.nat,
        vpn=plan_vpn(spec, site),
        direct_connect=plan_direct_connect(spec, site),
        dns=plan_dns(spec, site),
        subnets=plan_subnets(site.network.cidr, site.zones),
        scheduler=site.scheduler,
        kubernetes=_plan_kubernetes(spec, site, catalog, locked, groups),
        slurm=slurm,
        interruptions=plan_interruptions(name, site),
        node_groups=groups,
        ordered_capacity=orders,
        lustre=lustre,
        buckets=buckets,
        interface_endpoints=interface_endpoints(site),
        flow_logs=flow_logs(name),
        cluster_logs=cluster_logs(name, site),
        keys=site_keys(name, site, lustre, buckets, servers.file_systems if servers is not None else ()),
        tags=site_tags(spec, site.site),
        vpn_logs=vpn_logs(name, site),
    )


def _plan_kubernetes(
    spec: FleetSpec,
    site: CloudSite,
    catalog: Catalog,
    locked: NodeImage,
    groups: Sequence[NodeGroupPlan],
) -> KubernetesPlan | None:
    """A Kubernetes site's settings, with the defaults where the fleet file says nothing of them."""
    if site.scheduler != "kubernetes":
        return None
    settings = site.kubernetes or Kubernetes()
    lock = catalog.lock(spec.software.channel)
    addons = (*EKS_ADDONS, *_storage_addons(site, settings))
    system_types = settings.system_nodes.instance_types
    architecture = system_architecture(system_types, catalog)
    locked_addons = catalog.addon_versions(spec.software.channel, settings.version)
    prefix = site_resource_name(spec.fleet, spec.environment, site.site)
    teams = tuple(_plan_team(team) for team in settings.teams)
    return KubernetesPlan(
        version=settings.version,
        private_cidrs=settings.private_cidrs,
        public_cidrs=settings.public_cidrs,
        access=kubernetes_access(settings),
        access_port=access_port(prefix, settings),
        admins=settings.admins,
        viewers=settings.viewers,
        gpu_stack=settings.gpu_stack,
        device_plugin_version=f"v{lock.device_plugin}",
        gpu_operator_version=f"v{lock.gpu_operator}",
        system_nodes=SystemNodesPlan(
            instance_types=system_types,
            min=settings.system_nodes.min,
            max=settings.system_nodes.max,
            volume=plan_volume(Volume()),
            image=eks_image_name("standard", locked.kubernetes, locked.release, architecture),
            image_release=locked.version,
            architecture=architecture,
        ),
        support_type="STANDARD",
        log_types=CONTROL_PLANE_LOGS,
        addons=addons,
        addon_versions={name: locked_addons.versions[name] for name in addons},
        unverified_addons=tuple(name for name in addons if name in locked_addons.unverified),
        teams=teams,
        neuron=_plan_neuron(site, settings, catalog, lock),
        autoscaler=plan_autoscaler(settings, lock),
        karpenter=plan_karpenter(settings, lock, groups),
        queues=plan_queues(site, settings, lock, teams, groups, plan_orders(spec, site)),
        fault_repair=plan_fault_repair(settings, lock),
    )


def _plan_team(team: KubernetesTeam) -> TeamPlan:
    return TeamPlan(
        team.name,
        team.gpus,
        team.priority,
        tuple(TeamBucketPlan(each.storage, each.access == "read-write", each.mount) for each in team.buckets),
        team.neuron_devices,
        tuple(TeamFileSystemPlan(each.storage, each.access == "read-write") for each in team.file_systems),
        team.gpu_shares,
    )


def _storage_addons(site: CloudSite, settings: Kubernetes) -> tuple[str, ...]:
    """Return the drivers of what pods mount."""
    lustre = any(each.lustre for each in site.storage)
    buckets = any(each.mount for team in settings.teams for each in team.buckets)
    return (*([LUSTRE_ADDON] if lustre else []), *([BUCKET_ADDON] if buckets else []))


def _plan_neuron(
    site: CloudSite, settings: Kubernetes, catalog: Catalog, lock: SoftwareLock
) -> NeuronPlan | None:
    """Return what the cluster runs for Neuron devices; None without a node group that has some."""
    if not any(catalog.instance(group.instance_types[0]).neuron for group in site.node_groups):
        return None
    release = lock.kubernetes_releases[settings.version] if settings.neuron_scheduler else ""
    return NeuronPlan(lock.neuron, f"{KUBE_SCHEDULER}:v{release}" if release else "")
