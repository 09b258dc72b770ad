"""Karpenter's node pools: from none, or those that always run, to the most that their limits allow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from gpufleet.plan.karpenter import node_size
from gpufleet.pricing.book import Owner
from gpufleet.pricing.cost import Sizes
from gpufleet.pricing.disks import Disk
from gpufleet.pricing.nodes import (
    IN_RESERVATION,
    ON_DEMAND,
    SPOT,
    SPOT_OR_ON_DEMAND,
    Choice,
    Market,
    PricedGroup,
    price_group,
)
from gpufleet.pricing.of_stack.context import Pricing, priced_resource
from gpufleet.pricing.of_stack.inputs import held, whole
from gpufleet.pricing.of_stack.reservations import block_hours, price_existing_block, take
from gpufleet.pricing.of_stack.templates import reservation_named
from gpufleet.pricing.rates import MONTH, Prices, UnpricedError
from gpufleet.resources.node_pools import (
    CAPACITY_KEY,
    RESERVATION_KEY,
    RESERVATION_TERMS,
    TYPE_KEY,
    Pool,
    read_pool,
    root_volumes,
)
from gpufleet.resources.resource import UNKNOWN, Resource, is_unknown, shown
from gpufleet.resources.types import CAPACITY_BLOCK

_SIZE = re.compile(r"(\d+)(Gi|Ti)")


def price_node_pool(pricing: Pricing, resource: Resource) -> None:
    """Price a node pool. Raises `UnpricedError` if its types, purchase options or limits are not known."""
    held(resource, "spec")
    pool = read_pool(pricing.stack, resource)
    if not pool.types:
        raise UnpricedError(f"Karpenter chooses its types: no requirement lists values of {TYPE_KEY}")
    node_class = pool.node_class
    if node_class is None:
        raise UnpricedError("its EC2NodeClass is not in this stack")
    held(node_class, "spec")
    if pool.region is None:
        raise UnpricedError("its region is not known: no requirement lists its zones")
    owner = pricing.owners.of(resource, replace(node_class, props={"tags": pool.tags}))
    prices, sizes = Prices(pricing.catalog, pool.region), _sizes(pricing, pool)
    reserved = pool.capacity_types == ("reserved",)
    group = PricedGroup(
        [Choice(name) for name in pool.types],
        IN_RESERVATION if reserved else _market(pool),
        sizes,
        sizes,
        lambda: [_disk(path, each) for path, each in _mapped(node_class)],
        _addresses(node_class),
    )
    if reserved:
        group = _in_reservation(pricing, pool, node_class, group, owner, prices)
    price_group(pricing.book, priced_resource(resource, owner), prices, group)


def _in_reservation(
    pricing: Pricing, pool: Pool, node_class: Resource, group: PricedGroup, owner: Owner, prices: Prices
) -> PricedGroup:
    """Return what nodes of a pool cost whose reservation or block is paid for, used or not.

    One of the stack has a line of its own.
    """
    terms = list(node_class.items(RESERVATION_TERMS))
    term = terms[0][1] if len(terms) == 1 else None
    if not isinstance(term, Mapping) or set(term) != {"id"}:
        raise UnpricedError(f"{RESERVATION_TERMS} does not name one reservation by its id")
    named = term["id"] if isinstance(term["id"], str) else None
    found = reservation_named(pricing, node_class, "spec", named)
    if found is not None and found.type == CAPACITY_BLOCK:
        return replace(group, running=None, hours=block_hours(pricing, found))
    if found is not None:
        take(pricing, found, set(pool.types or ()), group.existing)
        return replace(group, running=None)
    if pool.reservation_types == ("capacity-block",):
        hours = price_existing_block(pricing, pool.resource, named, owner, prices)
        return replace(group, running=None, hours=min(MONTH, hours))
    if pool.reservation_types != ("default",):
        raise UnpricedError(
            f"no requirement limits {RESERVATION_KEY}: the reservation may be a Capacity Block"
        )
    return replace(group, running=Sizes.fixed(group.existing.maximum))


def _sizes(pricing: Pricing, pool: Pool) -> Sizes:
    most = 0
    for name in pool.types or ():
        instance = pricing.catalog.instances.get(name)
        if instance is None:
            raise UnpricedError(f"{name} is not in the catalog")
        nodes = pool.most(node_size(instance))
        if nodes is UNKNOWN:
            raise UnpricedError(
                f"spec.limits has no known limit of cpu or devices for {name}: Karpenter launches as many"
                " nodes as pods request"
            )
        most = max(most, nodes)
    return Sizes(0, 0, most) if pool.replicas is None else Sizes.fixed(most)


def _market(pool: Pool) -> Market:
    kinds = set(pool.capacity_types or ())
    if not kinds or "reserved" in kinds:
        raise UnpricedError(
            f"no requirement limits {CAPACITY_KEY} to spot and on-demand, or to reserved, so nodes may start"
            " in reservations"
        )
    if kinds == {"spot"}:
        return SPOT
    return SPOT_OR_ON_DEMAND if "spot" in kinds else ON_DEMAND


def _addresses(node_class: Resource) -> int:
    public = node_class.get("spec.associatePublicIPAddress")
    if is_unknown(public):
        raise UnpricedError("spec.associatePublicIPAddress is not known yet")
    return int(public is True)


def _mapped(node_class: Resource) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    for path, each in root_volumes(node_class):
        ebs = each.get("ebs") if isinstance(each, Mapping) else UNKNOWN
        if not isinstance(ebs, Mapping):
            raise UnpricedError(f"{path}.ebs is {shown(ebs)}")
        found.append((f"{path}.ebs", ebs))
    if not found:
        raise UnpricedError(
            "no entry of spec.blockDeviceMappings: the size of the root volume is not declared"
        )
    return found


def _disk(path: str, ebs: Mapping[str, Any]) -> Disk:
    match = _SIZE.fullmatch(str(ebs.get("volumeSize")))
    if match is None:
        raise UnpricedError(f"{path}.volumeSize is {shown(ebs.get('volumeSize'))}, not GiB or TiB")
    gib = int(match[1]) * (1024 if match[2] == "Ti" else 1)
    fast = {
        each: None if ebs.get(each) is None else whole(ebs[each], f"{path}.{each}")
        for each in ("iops", "throughput")
    }
    kind = ebs.get("volumeType")
    if not isinstance(kind, str):
        raise UnpricedError(f"{path}.volumeType is {shown(kind)}")
    return Disk(kind, gib, fast["iops"], fast["throughput"])
