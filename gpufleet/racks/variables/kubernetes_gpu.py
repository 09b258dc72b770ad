"""Variables of the role kubernetes_gpu: operators, shared GPUs, teams and their guarantees, topology."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from gpufleet.plan.gpu_quotas import GpuPool
from gpufleet.plan.gpu_sharing import config_name, config_text, resource_name
from gpufleet.plan.kueue import Devices, Flavor, kueue_objects, kueue_values, priority_policy
from gpufleet.plan.marks import LABEL_PREFIX
from gpufleet.plan.models import OnPremSitePlan
from gpufleet.plan.rack_models import KubernetesGroupPlan, RackKubernetesPlan
from gpufleet.racks.variables.kubernetes import charts_of, members_of, of_kubernetes, taints_of
from gpufleet.racks.variables.variable import Context, Variable

HOSTNAME = "kubernetes.io/hostname"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def _pool(context: Context, group: KubernetesGroupPlan) -> GpuPool:
    return GpuPool(
        name=group.name,
        resource=resource_name(mig_profile=group.mig_profile, shared=group.sharing != "none"),
        per_gpu=group.mig_devices * group.replicas,
        gpus=group.nodes * context.site.gpus_per_node,
    )


def _pools(context: Context, kubernetes: RackKubernetesPlan) -> list[dict[str, Any]]:
    return [
        {
            "name": group.name,
            "nodes": list(group.hosts),
            "taints": taints_of(group),
            "sharing": group.sharing,
            "replicas": group.replicas,
            "mig_profile": group.mig_profile or "",
            "config": {
                "name": config_name(group.sharing, group.replicas, group.mig_profile),
                "text": config_text(group.sharing, group.replicas, group.mig_profile),
            },
            "resource": pool.resource,
            "per_gpu": pool.per_gpu,
            "gpus": pool.gpus,
        }
        for group, pool in ((group, _pool(context, group)) for group in kubernetes.node_groups)
    ]


def _teams(context: Context, kubernetes: RackKubernetesPlan) -> list[dict[str, Any]]:
    return [
        {
            "name": team.name,
            "gpus": team.gpus,
            "priority": team.priority,
            "host_network": team.name in kubernetes.host_network,
        }
        for team in context.site.teams
    ]


def _network(context: Context, kubernetes: RackKubernetesPlan) -> dict[str, Any]:
    """Input of network policies. Hosts with a name only are not known to them; pods reach these."""
    if not kubernetes.network_policies:
        return {}
    members = [member["address"] for member in members_of(context, kubernetes)]
    api = [place for place in (*members, kubernetes.endpoint) if place is not None]
    hosts = [place for host in context.site.hosts for place in (host.address, host.bmc) if place is not None]
    return {
        "pod_network": kubernetes.pod_network,
        "hosts": _networks([*hosts, *api]),
        "api": _networks(api),
        "port": kubernetes.port,
    }


def _networks(places: Iterable[str]) -> list[str]:
    """The fewest networks that have exactly the addresses among these places."""
    found = []
    for place in places:
        with contextlib.suppress(ValueError):
            found.append(ipaddress.IPv4Network(place))
    return [str(network) for network in ipaddress.collapse_addresses(found)]


def _devices(context: Context, kubernetes: RackKubernetesPlan) -> list[Devices]:
    topology = context.site.site if topology_levels(kubernetes.node_labels) else ""
    flavors = tuple(
        Flavor(_pool(context, group), {f"{LABEL_PREFIX}node-group": group.name}, group.taints, topology)
        for group in kubernetes.node_groups
    )
    return [Devices(flavors, {team.name: team.gpus for team in context.site.teams})]


def _kueue_values(context: Context, kubernetes: RackKubernetesPlan) -> dict[str, Any]:
    """The manager runs on the control plane, twice with more than one member."""
    return kueue_values(
        _devices(context, kubernetes),
        context.lock.kueue,
        replicas=min(len(members_of(context, kubernetes)), 2),
        node_selector={CONTROL_PLANE: ""},
        tolerations=[{"key": CONTROL_PLANE, "operator": "Exists"}],
    )


def _queues(context: Context, kubernetes: RackKubernetesPlan) -> list[dict[str, Any]]:
    levels, site = topology_levels(kubernetes.node_labels), context.site
    return kueue_objects(
        site.site,
        [team.name for team in site.teams],
        _devices(context, kubernetes),
        {site.site: levels} if levels else {},
    )


def topology_levels(labels: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Labels from the widest to the narrowest domain, the host last; empty where only hosts are known.

    A level needs its label on every node, and each of its domains inside one of the level above: Kueue makes
    a tree of them. Leaves come first where racks are inside them, as in a SuperPOD, and else the racks do.
    """
    nodes = list(labels.values())
    full = [
        name
        for name in (f"{LABEL_PREFIX}leaf", f"{LABEL_PREFIX}rack")
        if nodes and all(name in node for node in nodes)
    ]
    full.sort(key=lambda name: len({node[name] for node in nodes}))
    if len(full) == 2:
        wide, narrow = full
        pairs = {(node[wide], node[narrow]) for node in nodes}
        if len(pairs) != len({node[narrow] for node in nodes}):
            full = [wide]
    return [*full, HOSTNAME] if full else []


def virtual_functions(site: OnPremSitePlan) -> int:
    """One for each GPU on RoCE with known interfaces: a rail serves one pod for every GPU of its node."""
    return site.gpus_per_node if site.fabric.kind == "roce" and site.rack.interfaces else 0


def _mtu(context: Context, _kubernetes: RackKubernetesPlan) -> int | None:
    return context.site.rack.roce_mtu if context.site.fabric.kind == "roce" else None


KUBERNETES_GPU_VARIABLES = (
    Variable("kubernetes_gpu", "helm_version", "fleet", lambda c: c.lock.helm),
    Variable("kubernetes_gpu", "gpu_operator_version", "fleet", lambda c: c.lock.gpu_operator),
    Variable("kubernetes_gpu", "network_operator_version", "fleet", lambda c: c.lock.network_operator),
    Variable("kubernetes_gpu", "kueue_version", "fleet", lambda c: c.lock.kueue),
    Variable("kubernetes_gpu", "site", "site", of_kubernetes(lambda c, _: c.site.site)),
    Variable("kubernetes_gpu", "gpu_operator", "site", of_kubernetes(lambda _, k: k.gpu_operator)),
    Variable("kubernetes_gpu", "network_operator", "site", of_kubernetes(lambda _, k: k.network_operator)),
    Variable("kubernetes_gpu", "kueue", "site", of_kubernetes(lambda _, k: k.kueue)),
    Variable("kubernetes_gpu", "chart_mirror", "site", of_kubernetes(charts_of)),
    Variable("kubernetes_gpu", "pools", "site", of_kubernetes(_pools)),
    Variable("kubernetes_gpu", "teams", "site", of_kubernetes(_teams)),
    Variable("kubernetes_gpu", "pod_security", "site", of_kubernetes(lambda _, k: k.pod_security)),
    Variable("kubernetes_gpu", "network", "site", of_kubernetes(_network)),
    Variable("kubernetes_gpu", "kueue_values", "site", of_kubernetes(_kueue_values)),
    Variable("kubernetes_gpu", "queues", "site", of_kubernetes(_queues)),
    Variable("kubernetes_gpu", "priority_policy", "site", of_kubernetes(lambda _, __: priority_policy())),
    Variable("kubernetes_gpu", "fabric_kind", "site", of_kubernetes(lambda c, _: c.site.fabric.kind)),
    Variable(
        "kubernetes_gpu", "interfaces", "site", of_kubernetes(lambda c, _: list(c.site.rack.interfaces))
    ),
    Variable(
        "kubernetes_gpu", "virtual_functions", "site", of_kubernetes(lambda c, _: virtual_functions(c.site))
    ),
    Variable("kubernetes_gpu", "mtu", "site", of_kubernetes(_mtu)),
)
