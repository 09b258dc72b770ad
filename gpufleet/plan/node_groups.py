"""Node groups as the stack builds them."""

from __future__ import annotations

from gpufleet.catalog import Catalog, InstanceType, NodeImage, efa_layout, ena_layout
from gpufleet.kinds import CapacityKind
from gpufleet.plan.accelerators import plan_accelerator
from gpufleet.plan.autoscaler import plan_autoscaled
from gpufleet.plan.capacity import group_zones, plan_capacity, wants_placement_group
from gpufleet.plan.capacity_models import CapacityPlan
from gpufleet.plan.gpu_sharing import plan_gpu_sharing
from gpufleet.plan.images import group_image
from gpufleet.plan.karpenter import plan_node_pool
from gpufleet.plan.marks import group_labels, group_tags, group_taints
from gpufleet.plan.models import NetworkInterface, NodeGroupPlan, NodePoolPlan, VolumePlan
from gpufleet.plan.queues import order_labels
from gpufleet.plan.storage import lustre_interfaces
from gpufleet.plan.user_data import plan_local_nvme, plan_user_data
from gpufleet.spec.models import CloudSite, FleetSpec, NodeGroup, Volume


def group_types(group: NodeGroup, catalog: Catalog) -> tuple[InstanceType, ...]:
    """The catalog's entries of a group's instance types, in the group's order.

    Raises InputError for a type that the catalog lacks; `gpufleet.checks` says so with a line first.
    """
    return tuple(catalog.instance(name) for name in group.instance_types)


def plan_node_group(
    spec: FleetSpec,
    site: CloudSite,
    group: NodeGroup,
    catalog: Catalog,
    locked: NodeImage,
    drawn: int | None,
) -> NodeGroupPlan:
    """One node group with everything that follows from its declaration.

    `locked` is the site's image, `drawn` what an order is expected to draw from the group.
    """
    types = group_types(group, catalog)
    first = types[0]
    zones = group_zones(group, site)
    capacity = plan_capacity(group, zones, drawn)
    accelerator = plan_accelerator(first, site.scheduler)
    image, kind, release, software = group_image(spec, site, group, first, locked, catalog)
    local_nvme = plan_local_nvme(site, group, types)
    interfaces = plan_interfaces(first, efa=group.network == "efa")
    sharing = plan_gpu_sharing(first, group.gpu_sharing, group.mig_profile)
    taints, volume = group_taints(group, accelerator), plan_volume(group.volume)
    pool = plan_node_pool(site, capacity, types, accelerator, drawn=drawn is not None)
    return NodeGroupPlan(
        site=site.site,
        name=group.name,
        instance_type=first.name,
        instance_types=group.instance_types,
        gpu=first.gpu or "",
        gpus_per_node=first.gpu_count,
        capacity=capacity,
        efa=group.network == "efa",
        network_interfaces=interfaces,
        zones=zones,
        placement_group=wants_placement_group(group, types, capacity, zones),
        workload=group.workload,
        labels={
            **order_labels(site, group.name),
            **group_labels(spec, site, group, accelerator, _bought(capacity, pool), sharing),
        },
        taints=taints,
        volume=volume,
        public_ip=group.public_ip,
        image=image,
        image_kind=kind,
        image_release=release,
        software=software,
        local_nvme=local_nvme,
        user_data=plan_user_data(
            group, local_nvme, lustre_interfaces(site, group, types, catalog.lustre_efa_clients)
        ),
        tags=group_tags(spec, site.site, group),
        team=group.team,
        accelerator=accelerator,
        autoscaled=plan_autoscaled(
            site, capacity, accelerator, interfaces, taints, volume.size_gib, sharing, drawn=drawn is not None
        ),
        gpu_sharing=sharing,
        node_pool=pool,
        ordered=drawn is not None,
    )


def _bought(capacity: CapacityPlan, pool: NodePoolPlan | None) -> CapacityKind | None:
    """How all nodes of a group are bought; None for a pool that buys spot or on-demand (Karpenter's own label
    of a node says which)."""
    return None if pool is not None and pool.falls_back else capacity.kind


def plan_volume(volume: Volume) -> VolumePlan:
    """The root volume of a node."""
    return VolumePlan(int(volume.size.gib), volume.iops, volume.throughput)


def plan_interfaces(instance: InstanceType, *, efa: bool) -> tuple[NetworkInterface, ...]:
    """Return a launch template's interfaces: all EFA interfaces of the type, or only the primary ENA.

    Raises InputError for EFA on a type without it.
    """
    layout = efa_layout(instance) if efa else ena_layout(instance)
    return tuple(
        NetworkInterface(item.network_card_index, item.device_index, item.interface_type) for item in layout
    )
