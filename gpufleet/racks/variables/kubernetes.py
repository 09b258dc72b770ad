"""Variables of the Kubernetes roles: container runtime, virtual address, control plane, nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.plan.json import model_to_json
from gpufleet.plan.models import OnPremSitePlan
from gpufleet.plan.rack_models import KubernetesGroupPlan, RackKubernetesPlan
from gpufleet.racks.variables.variable import Context, Variable, named


def of_kubernetes(read: Callable[[Context, RackKubernetesPlan], Any]) -> Callable[[Context], Any]:
    """A value that exists on Kubernetes sites only."""

    def value(context: Context) -> Any:
        kubernetes = context.site.rack.kubernetes
        return None if kubernetes is None else read(context, kubernetes)

    return value


def _release(context: Context, kubernetes: RackKubernetesPlan) -> str | None:
    """The release of the site's minor; None where the channel has none, which a check refuses."""
    return context.lock.kubernetes_releases.get(kubernetes.version)


def _pause(context: Context, kubernetes: RackKubernetesPlan) -> str | None:
    """The pause image of the site's release; None where the catalog has no such release."""
    found = context.catalog.images.get(("kubernetes", _release(context, kubernetes) or ""))
    return None if found is None else next(name for name in found.images if "/pause:" in name)


def members_of(context: Context, kubernetes: RackKubernetesPlan) -> list[dict[str, str]]:
    """`{name, address}` of the control plane's members, the first one first."""
    return named([host for host in context.hosts("controller") if host.name in kubernetes.members])


def _kubelets(context: Context, kubernetes: RackKubernetesPlan) -> list[dict[str, str]]:
    """`{name, address}` of all hosts with a kubelet."""
    nodes = [host for host in context.hosts("gpu") if host.name in kubernetes.node_labels]
    return members_of(context, kubernetes) + named(nodes)


def _endpoint(context: Context, kubernetes: RackKubernetesPlan) -> str | None:
    """The address for all clients: the virtual address, or that of the only member."""
    members = members_of(context, kubernetes)
    address = kubernetes.endpoint or (members[0]["address"] if members else None)
    return None if address is None else f"{address}:{kubernetes.port}"


def charts_of(context: Context, _kubernetes: RackKubernetesPlan) -> str | None:
    """Where a mirror has charts, beside its packages."""
    return chart_folder(context.site)


def chart_folder(site: OnPremSitePlan) -> str | None:
    """The web address of the charts in a site's mirror of packages; None without a mirror."""
    mirror = site.rack.package_mirror
    return None if mirror is None else f"{mirror.rstrip('/')}/charts"


def _node_labels(_context: Context, kubernetes: RackKubernetesPlan) -> dict[str, dict[str, str]]:
    return {host: dict(labels) for host, labels in kubernetes.node_labels.items()}


def _node_taints(_context: Context, kubernetes: RackKubernetesPlan) -> dict[str, list[dict[str, str]]]:
    return {host: taints_of(group) for group in kubernetes.node_groups for host in group.hosts}


def taints_of(group: KubernetesGroupPlan) -> list[dict[str, str]]:
    """Taints of a group's nodes, as `{key, value, effect}`."""
    return [model_to_json(taint) for taint in group.taints]


def _version(role: str) -> Variable:
    return Variable(role, "version", "site", of_kubernetes(_release))


KUBERNETES_VARIABLES = (
    _version("kubernetes_base"),
    Variable("kubernetes_base", "containerd_version", "site", of_kubernetes(lambda c, _: c.lock.containerd)),
    Variable("kubernetes_base", "pause_image", "site", of_kubernetes(_pause)),
    Variable("kubernetes_base", "image_mirror", "site", of_kubernetes(lambda c, _: c.site.rack.image_mirror)),
    Variable("kubernetes_base", "nvidia_runtime", "host", of_kubernetes(lambda c, _: c.host.role == "gpu")),
    # The role kubernetes_base owns containerd's configuration.
    Variable("container_toolkit", "runtimes", "site", of_kubernetes(lambda _, __: ["docker"])),
    Variable("container_toolkit", "environment_needs_privileges", "site", of_kubernetes(lambda _, __: True)),
    Variable("kubernetes_endpoint", "address", "site", of_kubernetes(lambda _, k: k.endpoint)),
    Variable("kubernetes_endpoint", "port", "site", of_kubernetes(lambda _, k: k.port)),
    Variable("kubernetes_endpoint", "router_id", "site", of_kubernetes(lambda _, k: k.router_id)),
    Variable("kubernetes_endpoint", "members", "site", of_kubernetes(members_of)),
    _version("kubernetes_control_plane"),
    Variable("kubernetes_control_plane", "cluster", "site", of_kubernetes(lambda c, _: c.site.site)),
    Variable("kubernetes_control_plane", "members", "site", of_kubernetes(members_of)),
    Variable("kubernetes_control_plane", "kubelets", "site", of_kubernetes(_kubelets)),
    Variable("kubernetes_control_plane", "endpoint", "site", of_kubernetes(_endpoint)),
    Variable("kubernetes_control_plane", "pod_network", "site", of_kubernetes(lambda _, k: k.pod_network)),
    Variable(
        "kubernetes_control_plane", "service_network", "site", of_kubernetes(lambda _, k: k.service_network)
    ),
    Variable("kubernetes_control_plane", "cni", "site", of_kubernetes(lambda _, k: k.cni)),
    Variable(
        "kubernetes_control_plane", "cni_version", "site", of_kubernetes(lambda c, k: c.lock.cni[k.cni])
    ),
    Variable("kubernetes_control_plane", "helm_version", "site", of_kubernetes(lambda c, _: c.lock.helm)),
    Variable("kubernetes_control_plane", "chart_mirror", "site", of_kubernetes(charts_of)),
    Variable("kubernetes_control_plane", "pod_security", "site", of_kubernetes(lambda _, k: k.pod_security)),
    Variable(
        "kubernetes_control_plane", "backup_folder", "site", of_kubernetes(lambda _, k: k.backup_folder)
    ),
    Variable("kubernetes_control_plane", "backup_keep", "site", of_kubernetes(lambda _, k: k.backup_keep)),
    Variable(
        "kubernetes_control_plane", "backup_every_s", "site", of_kubernetes(lambda _, k: k.backup_every_s)
    ),
    Variable(
        "kubernetes_control_plane",
        "metrics",
        "site",
        of_kubernetes(lambda c, _: c.site.rack.monitoring_settings is not None),
    ),
    Variable("kubernetes_control_plane", "node_labels", "site", of_kubernetes(_node_labels)),
    Variable("kubernetes_control_plane", "node_taints", "site", of_kubernetes(_node_taints)),
    _version("kubernetes_node"),
    Variable("kubernetes_node", "endpoint", "site", of_kubernetes(_endpoint)),
    Variable(
        "kubernetes_node", "first_member", "site", of_kubernetes(lambda _, k: next(iter(k.members), None))
    ),
    Variable("kubernetes_node", "reserved_cpus", "site", of_kubernetes(lambda _, k: k.reserved_cpus)),
    Variable(
        "kubernetes_node", "reserved_memory_mib", "site", of_kubernetes(lambda _, k: k.reserved_memory_mib)
    ),
)
