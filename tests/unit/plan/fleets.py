"""Fleets for the tests of the plan, built without a file."""

from __future__ import annotations

import copy
from typing import Any

from gpufleet.catalog import load_catalog
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan, NodeGroupPlan
from gpufleet.pricing import CostLine, FleetCost, price_plan
from gpufleet.spec.models import FleetSpec

CATALOG = load_catalog()

BASE: dict[str, Any] = {
    "apiVersion": "gpufleet/v1",
    "fleet": "atlas",
    "environment": "test",
    "budget": {"monthly": "100000 USD"},
    "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
    "software": {"channel": "2026.11"},
}


def spec(**changes: Any) -> FleetSpec:
    """A fleet with nothing in it, and `changes` to its top fields."""
    return FleetSpec.model_validate(copy.deepcopy(BASE) | changes)


def cloud_site(*groups: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A Slurm site in us-east-1 without NAT (nothing but its groups costs money), and `changes`."""
    return {
        "site": "use1",
        "region": "us-east-1",
        "zones": ["us-east-1a", "us-east-1b"],
        "network": {"cidr": "10.40.0.0/16", "nat": "single"},
        "scheduler": "slurm",
        "node_groups": list(groups),
        **changes,
    }


def group(name: str, instance: str | list[str], capacity: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A node group."""
    types = [instance] if isinstance(instance, str) else instance
    return {"name": name, "instance_types": types, "capacity": capacity, **changes}


def on_demand(low: int, high: int, desired: int | None = None) -> dict[str, Any]:
    """On-demand capacity."""
    return {"on_demand": {"min": low, "max": high, "desired": desired}}


def spot(low: int, high: int, *shortage: str) -> dict[str, Any]:
    """Spot capacity."""
    return {"spot": {"min": low, "max": high, "on_shortage": list(shortage)}}


def block(nodes: int, **changes: Any) -> dict[str, Any]:
    """A Capacity Block."""
    return {
        "reserved": {"capacity_block": {"nodes": nodes, "duration": "14 d", "start": "in 14 d"} | changes}
    }


def odcr(nodes: int, **changes: Any) -> dict[str, Any]:
    """An On-Demand Capacity Reservation."""
    return {"reserved": {"odcr": {"nodes": nodes} | changes}}


def rack_site(**changes: Any) -> dict[str, Any]:
    """A rack site of 64 DGX H100."""
    return {
        "site": "dc1",
        "system": "dgx-h100",
        "nodes": "dgx[001-064]",
        "fabric": {"kind": "infiniband", "speed": "ndr"},
        "power": {"per_rack": "40 kW", "pue": 1.25, "price": "0.11 USD/kWh"},
        **changes,
    }


def plan_of(*groups: dict[str, Any], **site: Any) -> FleetPlan:
    """The plan of a fleet with one cloud site of these groups."""
    return build_plan(spec(cloud=[cloud_site(*groups, **site)]), CATALOG)


def first_group(*groups: dict[str, Any], **site: Any) -> NodeGroupPlan:
    """The first node group of such a fleet."""
    return plan_of(*groups, **site).node_groups[0]


def cost_of(plan: FleetPlan) -> FleetCost:
    """The cost of the plan."""
    return price_plan(plan, CATALOG)


def line(plan: FleetPlan, owner: str, kind: str) -> CostLine:
    """The one cost line of an owner and a kind."""
    found = [item for item in cost_of(plan).lines if (item.owner, item.kind) == (owner, kind)]
    assert len(found) == 1, [f"{item.owner} {item.kind} {item.what}" for item in found]
    return found[0]
