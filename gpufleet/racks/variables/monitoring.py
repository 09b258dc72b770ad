"""Variables of monitoring's roles: prometheus, alertmanager, grafana, and what the firewall opens for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from gpufleet.plan.rack_models import MonitoringPlan, RackKubernetesPlan
from gpufleet.racks.variables.kubernetes import members_of, of_kubernetes
from gpufleet.racks.variables.variable import Context, Variable


def _of(read: Callable[[Context, MonitoringPlan], Any]) -> Callable[[Context], Any]:
    """A value that exists on sites with monitoring only."""

    def value(context: Context) -> Any:
        monitoring = context.site.rack.monitoring_settings
        return None if monitoring is None else read(context, monitoring)

    return value


def _of_kubernetes(read: Callable[[Context, RackKubernetesPlan], Any]) -> Callable[[Context], Any]:
    """A value that exists on Kubernetes sites with monitoring only."""
    value = of_kubernetes(read)
    return _of(lambda context, _: value(context))


def _dns(kubernetes: RackKubernetesPlan) -> str:
    """The address of the service kube-dns: the tenth of the network (kubeadm, GetDNSIP)."""
    return str(ipaddress.ip_network(kubernetes.service_network)[10])


def _targets(context: Context, monitoring: MonitoringPlan) -> list[dict[str, str]]:
    racks = {node: name for name, nodes in monitoring.racks.items() for node in nodes}
    return [
        {"name": host.name, "address": host.address, "role": host.role, "rack": racks.get(host.name, "")}
        for host in context.site.hosts
    ]


def _infiniband(context: Context) -> bool:
    return context.site.fabric.kind == "infiniband"


def _mounts(context: Context, _monitoring: MonitoringPlan) -> list[str]:
    return [item.mount for item in context.site.mounts]


def _accounts(context: Context, _monitoring: MonitoringPlan) -> list[dict[str, Any]]:
    slurm = context.site.rack.slurm
    return [{"name": item.name, "gpus": item.gpus} for item in slurm.accounts] if slurm is not None else []


def _node_base_w(context: Context, _monitoring: MonitoringPlan) -> float | None:
    """W of a node beside its GPUs: the system's most less the GPUs' most; None where either is unknown."""
    system = context.system
    if system.power_kw_max is None or system.gpu_tdp_w is None:
        return None
    return max(0.0, float(system.power_kw_max) * 1000 - system.gpus * system.gpu_tdp_w)


def _dashboards(context: Context, _monitoring: MonitoringPlan) -> list[str]:
    return ["jobs"] if context.site.rack.kubernetes is None else ["kubernetes"]


def _open(context: Context) -> list[dict[str, Any]] | None:
    monitoring = context.site.rack.monitoring_settings
    if monitoring is None or not monitoring.open_to or context.host.name != monitoring.host:
        return None
    return [{"port": "3000", "protocol": "tcp", "networks": list(monitoring.open_to)}]


MONITORING_VARIABLES = (
    Variable("prometheus", "targets", "site", _of(_targets)),
    Variable("prometheus", "interval_s", "site", _of(lambda _, m: m.interval_s)),
    Variable("prometheus", "retention_s", "site", _of(lambda _, m: m.retention_s)),
    Variable("prometheus", "retention_gib", "site", _of(lambda _, m: m.retention_gib)),
    Variable("prometheus", "remote_write_url", "site", _of(lambda _, m: m.remote_write_url)),
    Variable("prometheus", "remote_write_user", "site", _of(lambda _, m: m.remote_write_user)),
    Variable("prometheus", "slurm", "site", _of(lambda c, _: c.site.rack.slurm is not None)),
    Variable("prometheus", "grafana", "site", _of(lambda _, m: m.grafana)),
    Variable("prometheus", "kubernetes_members", "site", _of_kubernetes(members_of)),
    Variable("prometheus", "kubernetes_dns", "site", _of_kubernetes(lambda _, k: _dns(k))),
    Variable("prometheus", "kubernetes_port", "site", _of_kubernetes(lambda _, k: k.port)),
    Variable("prometheus", "gpus", "site", _of(lambda c, _: c.site.gpus_per_node)),
    Variable(
        "prometheus",
        "ports",
        "site",
        _of(lambda c, _: (len(c.site.rack.rails) or c.system.compute_nics) if _infiniband(c) else None),
    ),
    Variable(
        "prometheus",
        "devices",
        "site",
        _of(lambda c, _: [rail.partition(":")[0] for rail in c.site.rack.rails]),
    ),
    Variable("prometheus", "link_gbps", "site", _of(lambda c, _: c.site.rack.link_gbps)),
    Variable("prometheus", "mounts", "site", _of(_mounts)),
    Variable("prometheus", "accounts", "site", _of(_accounts)),
    Variable("prometheus", "node_base_w", "site", _of(_node_base_w)),
    Variable(
        "prometheus",
        "rack_w",
        "site",
        _of(lambda _, m: None if m.rack_kw is None else float(m.rack_kw) * 1000),
    ),
    Variable("prometheus", "pue", "site", _of(lambda _, m: m.pue)),
    Variable(
        "prometheus",
        "energy_price",
        "site",
        _of(lambda _, m: None if m.energy_price is None else float(m.energy_price)),
    ),
    Variable(
        "prometheus",
        "node_hour_cost",
        "site",
        _of(lambda _, m: None if m.node_hour_cost is None else round(float(m.node_hour_cost), 6)),
    ),
    Variable("grafana", "dashboards", "site", _of(_dashboards)),
    Variable("alertmanager", "webhook_url", "site", _of(lambda _, m: m.webhook_url)),
    Variable("alertmanager", "slack_channel", "site", _of(lambda _, m: m.slack_channel)),
    Variable("alertmanager", "email_to", "site", _of(lambda _, m: list(m.email_to) or None)),
    Variable("alertmanager", "email_sender", "site", _of(lambda _, m: m.email_sender)),
    Variable("alertmanager", "email_server", "site", _of(lambda _, m: m.email_server)),
    Variable("alertmanager", "email_user", "site", _of(lambda _, m: m.email_user)),
    Variable("firewall", "open", "host", _open),
)
