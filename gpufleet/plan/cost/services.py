"""What a cloud site costs besides its node groups and storage: NAT, control plane, system nodes."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog import Catalog
from gpufleet.plan.cost.compute import instance_rate
from gpufleet.plan.cost.ledger import MONTH, Ledger, Rate, fixed, missing, number
from gpufleet.plan.cost.volumes import Volumes, price_volumes
from gpufleet.plan.models import CloudSitePlan, CostLine, CostRange, KubernetesPlan, UnknownCost, VolumePlan
from gpufleet.spec.models import Volume

NETWORK = "network"
CONTROL_PLANE = "control-plane"
SYSTEM = "system"
OWNERS = (NETWORK, CONTROL_PLANE, SYSTEM)
"""Owners of cost lines that are neither a node group nor a storage; no group may take these names."""


_DEFAULT = Volume()
SYSTEM_VOLUME = VolumePlan(int(_DEFAULT.size.gib), _DEFAULT.iops, _DEFAULT.throughput)
"""The root volume of a system node, which no fleet file declares: the one of any node."""


def price_site_services(site: CloudSitePlan, catalog: Catalog, ledger: Ledger) -> None:
    """Add what the site needs to exist at all."""
    gateways = {"none": 0, "single": 1, "per-zone": len(site.zones)}[site.nat]
    if gateways:
        _add_hourly(site, NETWORK, "network", "nat-gateway-hour", gateways, "NAT gateway", catalog, ledger)
        data = catalog.service_price("nat-gateway-gb", site.region).amount
        each = f" ({number(data)} USD per GB)" if data is not None else ""
        ledger.leave_out(f"{site.site}: data through NAT gateways{each}, and their public IPv4 addresses")
    else:
        ledger.unknown.append(
            UnknownCost(
                site.site,
                NETWORK,
                "VPC interface endpoints, which stand in for NAT",
                "no price of interface endpoints was read",
            )
        )
    ledger.leave_out("keys (KMS), logs (CloudWatch) and requests")
    ledger.leave_out("data transfer between zones, between regions and to the internet")
    if site.kubernetes is not None:
        _add_hourly(
            site, CONTROL_PLANE, "control-plane", "eks-control-plane", 1, "EKS control plane", catalog, ledger
        )
        _price_system_nodes(site, site.kubernetes, catalog, ledger)


def _add_hourly(
    site: CloudSitePlan,
    owner: str,
    kind: str,
    key: str,
    count: int,
    what: str,
    catalog: Catalog,
    ledger: Ledger,
) -> None:
    price = catalog.service_price(key, site.region)
    rate = Rate.of(price)
    named = what if count == 1 else f"{count} {what}s"
    if rate is None:
        ledger.unknown.append(UnknownCost(site.site, owner, named, missing(price)))
        return
    ledger.lines.append(
        CostLine(
            site=site.site,
            owner=owner,
            kind="network" if kind == "network" else "control-plane",
            what=named,
            monthly=fixed(count * MONTH * rate.expected),
            basis=f"{count} x 730 h x {number(rate.expected)} USD/h",
            source=rate.source,
            date=rate.date,
            tags=site.tags,
            note=rate.note,
        )
    )


def _price_system_nodes(
    site: CloudSitePlan, kubernetes: KubernetesPlan, catalog: Catalog, ledger: Ledger
) -> None:
    """On-demand nodes without GPUs, at their minimum until something needs more."""
    name = kubernetes.system_instance_types[0]
    low, high = kubernetes.system_min, kubernetes.system_max
    price_volumes(
        Volumes(site.site, SYSTEM, SYSTEM_VOLUME, low, low, high, site.tags), site.region, catalog, ledger
    )
    known = name in catalog.instances
    rate = instance_rate(catalog, name, site.region, "on-demand") if known else None
    if rate is None:
        reason = missing(catalog.on_demand(name, site.region)) if known else f"{name} is not in the catalog"
        ledger.unknown.append(UnknownCost(site.site, SYSTEM, f"{low} to {high} x {name}", reason))
        return
    each = MONTH * rate.expected
    ledger.lines.append(
        CostLine(
            site=site.site,
            owner=SYSTEM,
            kind="compute",
            what=f"{low} x {name}, on-demand",
            monthly=CostRange(Decimal(low) * each, Decimal(low) * each, Decimal(high) * each),
            basis=f"{low} x {name} x 730 h x {number(rate.expected)} USD/h",
            source=rate.source,
            date=rate.date,
            tags=site.tags,
            note=rate.note,
        )
    )
