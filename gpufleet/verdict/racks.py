"""Changes to rack sites: nodes, GPUs, power and racks, from plan, fleet file and catalog."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan
from gpufleet.spec.models import FleetSpec, OnPremSite
from gpufleet.verdict.models import RackDifference, RackFigures

LICENCES = (
    "no product of the software channel is licensed per GPU or host; both counts are listed for your own "
    "licensed products"
)


def rack_differences(
    before: tuple[FleetSpec, FleetPlan] | None, after: tuple[FleetSpec, FleetPlan], catalog: Catalog
) -> tuple[RackDifference, ...]:
    """Return all rack sites before and after the change, in the order of the fleet file, removed ones
    last."""
    old = _figures(*before, catalog) if before is not None else {}
    new = _figures(*after, catalog)
    return tuple(RackDifference(site, old.get(site), new.get(site)) for site in dict.fromkeys([*new, *old]))


def _figures(spec: FleetSpec, plan: FleetPlan, catalog: Catalog) -> dict[str, RackFigures]:
    declared = {site.site: site for site in spec.onprem}
    found: dict[str, RackFigures] = {}
    for site in plan.onprem:
        nodes = sum(1 for host in site.hosts if host.role == "gpu")
        each = site.power_kw_per_node
        units = catalog.system(site.system).rack_units
        power = None if each is None else each * nodes
        pue = _pue(declared[site.site])
        found[site.site] = RackFigures(
            nodes=nodes,
            gpus=nodes * site.gpus_per_node,
            hosts=len(site.hosts),
            power_kw=power,
            facility_kw=None if power is None or pue is None else power * pue,
            rack_units=None if units is None else units * nodes,
            racks=_racks(declared[site.site], each, nodes),
        )
    return found


def _pue(site: OnPremSite) -> Decimal | None:
    return None if site.power is None else Decimal(str(site.power.pue))


def _racks(site: OnPremSite, kw_per_node: Decimal | None, nodes: int) -> int | None:
    """Return the number of racks at the power per rack, None if it is unknown or too low for one node."""
    in_one = nodes_in_a_rack(site, kw_per_node)
    return -(-nodes // in_one) if in_one else None


def nodes_in_a_rack(site: OnPremSite, kw_per_node: Decimal | None) -> int | None:
    """Return the number of nodes that a rack can supply, None if unknown."""
    if site.power is None or not kw_per_node:
        return None
    return int(site.power.per_rack.kw // kw_per_node)
