"""Variables of the fabric roles: rdma, roce, subnet_manager."""

from __future__ import annotations

from typing import Any

from gpufleet.plan.json import plan_to_json
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
    return [plan_to_json(item) for item in context.site.rack.partitions]


FABRIC_VARIABLES = (
    Variable("rdma", "kind", "str", "site", "`infiniband` or `roce`.", lambda c: c.site.fabric.kind),
    Variable("rdma", "doca_version", "str", "fleet", "Version of DOCA-OFED.", lambda c: c.lock.doca_ofed),
    Variable(
        "rdma", "link_gbps", "int", "site", "Speed of a port, in Gb/s.", lambda c: c.site.rack.link_gbps
    ),
    Variable(
        "rdma",
        "adapters",
        "int",
        "site",
        "Compute adapters of a node; left out where nobody published it.",
        lambda c: c.system.compute_nics,
    ),
    Variable(
        "rdma",
        "devices",
        "list",
        "site",
        "RDMA devices by rail; empty: all that are there.",
        lambda c: list(c.site.rack.rails),
    ),
    Variable(
        "rdma", "ipoib", "bool", "site", "Whether nodes get IP over InfiniBand.", lambda c: c.site.rack.ipoib
    ),
    Variable(
        "roce",
        "devices",
        "list",
        "site",
        "RDMA devices by rail; empty: all that are there.",
        lambda c: list(c.site.rack.rails),
    ),
    Variable(
        "roce",
        "interfaces",
        "list",
        "site",
        "Network interfaces of the rails; empty: those of the RDMA devices.",
        lambda c: list(c.site.rack.interfaces),
    ),
    Variable(
        "roce",
        "priority",
        "int",
        "site",
        "The priority with flow control (PFC).",
        lambda c: c.site.rack.roce_priority,
    ),
    Variable(
        "roce", "dscp", "int", "site", "The DSCP that RDMA traffic carries.", lambda c: c.site.rack.roce_dscp
    ),
    Variable("roce", "mtu", "int", "site", "MTU of the interfaces.", lambda c: c.site.rack.roce_mtu),
    Variable(
        "roce",
        "ecn",
        "bool",
        "site",
        "Congestion notification on that priority.",
        lambda c: c.site.rack.roce_ecn,
    ),
    Variable(
        "subnet_manager",
        "hosts",
        "list",
        "site",
        "`{name, priority}` of the hosts that run opensm, the master first.",
        lambda c: [{"name": item.host, "priority": item.priority} for item in c.site.rack.subnet_managers],
    ),
    Variable("subnet_manager", "priority", "int", "host", "This host's priority.", _priority),
    Variable("subnet_manager", "port_guid", "str", "host", "The port that it manages through.", _port_guid),
    Variable(
        "subnet_manager",
        "topology",
        "str",
        "site",
        "`rail-optimized` or `fat-tree`.",
        lambda c: c.site.fabric.topology,
    ),
    Variable(
        "subnet_manager",
        "root_guids",
        "list",
        "site",
        "GUIDs of the switches of the highest tier; empty: opensm finds them.",
        lambda c: list(c.site.rack.root_guids),
    ),
    Variable(
        "subnet_manager",
        "partitions",
        "list",
        "site",
        "`{name, pkey, ipoib, port_guids}`; without `port_guids` all ports are full members.",
        _partitions,
    ),
)
