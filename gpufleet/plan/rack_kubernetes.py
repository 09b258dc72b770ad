"""Kubernetes of a rack site: what its fleet file says, and labels that follow from its switches and racks."""

from __future__ import annotations

import ipaddress
import math

from gpufleet.plan.gpu_sharing import sharing_of
from gpufleet.plan.marks import LABEL_PREFIX, label_value
from gpufleet.plan.rack_models import KubernetesGroupPlan, RackKubernetesPlan, TaintPlan
from gpufleet.plan.rack_slurm import plan_switches
from gpufleet.spec.models import OnPremSite, RackNodeGroup

DEFAULT_GROUP = "gpu"


def plan_kubernetes(site: OnPremSite) -> RackKubernetesPlan | None:
    """Kubernetes of the site, None where another scheduler places its jobs."""
    if site.scheduler != "kubernetes":
        return None
    kubernetes = site.kubernetes
    groups = plan_groups(site)
    return RackKubernetesPlan(
        version=kubernetes.version,
        endpoint=kubernetes.endpoint,
        port=kubernetes.port,
        router_id=_router_id(kubernetes.endpoint),
        members=site.controllers.hosts if site.controllers is not None else (),
        pod_network=kubernetes.pod_network,
        service_network=kubernetes.service_network,
        cni=kubernetes.cni,
        network_policies=kubernetes.network_policies,
        pod_security=kubernetes.pod_security,
        host_network=kubernetes.host_network,
        node_groups=groups,
        node_labels=_labels(site, groups),
        kueue=kubernetes.kueue,
        gpu_operator=kubernetes.operators.gpu_operator,
        network_operator=kubernetes.operators.network_operator,
        backup_folder=kubernetes.backup.folder,
        backup_keep=kubernetes.backup.keep,
        backup_every_s=math.ceil(kubernetes.backup.every.delta.total_seconds()),
        reserved_cpus=kubernetes.reserved_cpus,
        reserved_memory_mib=kubernetes.reserved_memory_gib * 1024,
    )


def plan_groups(site: OnPremSite) -> tuple[KubernetesGroupPlan, ...]:
    """The declared groups, and `gpu` of all nodes that none of them names."""
    declared = site.kubernetes.node_groups
    named = {host for group in declared for host in group.nodes.hosts}
    left = tuple(host for host in site.nodes.hosts if host not in named)
    groups = tuple(_group(site, group) for group in declared)
    if left:
        groups += (KubernetesGroupPlan(DEFAULT_GROUP, left, {}, (), "none", 1, *_divided(site, left)),)
    return groups


def _group(site: OnPremSite, group: RackNodeGroup) -> KubernetesGroupPlan:
    sharing, replicas = sharing_of(group.gpu_sharing)
    profile, devices = _divided(site, group.nodes.hosts)
    return KubernetesGroupPlan(
        name=group.name,
        hosts=group.nodes.hosts,
        labels=group.labels,
        taints=tuple(TaintPlan(taint.key, taint.value, taint.effect) for taint in group.taints),
        sharing=sharing,
        replicas=replicas,
        mig_profile=profile,
        mig_devices=devices,
    )


def _divided(site: OnPremSite, nodes: tuple[str, ...]) -> tuple[str | None, int]:
    """The MIG profile into which nodes' GPUs are divided, and how many of it each GPU has; (None, 1) where
    they are whole. A check refuses layouts that are not the same for a whole group."""
    for layout in site.mig or ():
        if nodes[0] in layout.nodes.hosts and layout.profiles:
            return next(iter(layout.profiles.items()))
    return None, 1


def _labels(site: OnPremSite, groups: tuple[KubernetesGroupPlan, ...]) -> dict[str, dict[str, str]]:
    """Every GPU node's labels: system, group, rack, unit of the topology, and the leaf of each rail."""
    labels = {
        host: {f"{LABEL_PREFIX}site": site.site, f"{LABEL_PREFIX}system": label_value(site.system)}
        for host in site.nodes.hosts
    }
    for rack in site.racks:
        for host in rack.nodes.hosts:
            labels.get(host, {})[f"{LABEL_PREFIX}rack"] = rack.name
    for unit in plan_switches(site.fabric.switches, site.nodes.hosts):
        for host in unit.hosts:
            labels[host][f"{LABEL_PREFIX}leaf"] = unit.name
    for switch in site.fabric.switches:
        if switch.rail is None or switch.nodes is None:
            continue
        for host in switch.nodes.hosts:
            labels.get(host, {})[f"{LABEL_PREFIX}rail-{switch.rail}"] = switch.name
    for group in groups:
        for host in group.hosts:
            if host in labels:
                labels[host] |= {f"{LABEL_PREFIX}node-group": group.name, **dict(group.labels)}
    return {host: dict(sorted(own.items())) for host, own in labels.items()}


def _router_id(endpoint: str | None) -> int:
    """A number from 1 to 255 that differs between neighbouring virtual addresses of one network."""
    try:
        return int(ipaddress.IPv4Address(endpoint or "")) % 255 + 1
    except ValueError:
        return 1
