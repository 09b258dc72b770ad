"""Variables of the fabric roles: rdma, roce, subnet_manager."""

from __future__ import annotations

from typing import Any

from gpufleet.plan.json import model_to_json
from gpufleet.plan.rack_models import SubnetManagerPlan
from gpufleet.racks.variables.variable import Context, Variable


def _managed_here(context: Context) -> SubnetManagerPlan | None:
    return next((item for item in context.site.rack.subnet_managers if item.host == context.host.name), None)


def _priority(context: Context) -> int | None:
    found = _managed_here(context)
    return None if found is None else found.priority


def _port_guid(context: Context) -> str | None:
    found = _managed_here(context)
    return None if found is None else found.port_guid


def _partitions(context: Context) -> list[dict[str, Any]]:
    return [model_to_json(item) for item in context.site.rack.partitions]


FABRIC_VARIABLES = (
    Variable("rdma", "kind", "site", lambda c: c.site.fabric.kind),
    Variable("rdma", "doca_version", "fleet", lambda c: c.lock.doca_ofed),
    Variable("rdma", "link_gbps", "site", lambda c: c.site.rack.link_gbps),
    Variable("rdma", "adapters", "site", lambda c: c.system.compute_nics),
    Variable("rdma", "devices", "site", lambda c: list(c.site.rack.rails)),
    Variable("rdma", "ipoib", "site", lambda c: c.site.rack.ipoib),
    Variable("roce", "devices", "site", lambda c: list(c.site.rack.rails)),
    Variable("roce", "interfaces", "site", lambda c: list(c.site.rack.interfaces)),
    Variable("roce", "priority", "site", lambda c: c.site.rack.roce_priority),
    Variable("roce", "dscp", "site", lambda c: c.site.rack.roce_dscp),
    Variable("roce", "mtu", "site", lambda c: c.site.rack.roce_mtu),
    Variable("roce", "ecn", "site", lambda c: c.site.rack.roce_ecn),
    Variable(
        "subnet_manager",
        "hosts",
        "site",
        lambda c: [{"name": item.host, "priority": item.priority} for item in c.site.rack.subnet_managers],
    ),
    Variable("subnet_manager", "priority", "host", _priority),
    Variable("subnet_manager", "port_guid", "host", _port_guid),
    Variable("subnet_manager", "topology", "site", lambda c: c.site.fabric.topology),
    Variable("subnet_manager", "root_guids", "site", lambda c: list(c.site.rack.root_guids)),
    Variable("subnet_manager", "partitions", "site", _partitions),
)
