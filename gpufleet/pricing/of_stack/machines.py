"""Single instances, EC2 Fleets and Spot Fleets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from gpufleet.pricing.cost import ONE, Sizes
from gpufleet.pricing.disks import Disk, disks_amount
from gpufleet.pricing.nodes import ON_DEMAND, SPOT, Choice, Market, PricedGroup, price_launched
from gpufleet.pricing.of_stack.context import Pricing, priced_resource
from gpufleet.pricing.of_stack.disks import instance_disks, template_disks
from gpufleet.pricing.of_stack.groups import read_choices
from gpufleet.pricing.of_stack.inputs import count, declared, entries, flag, held, is_true, text, whole
from gpufleet.pricing.of_stack.reservations import take
from gpufleet.pricing.of_stack.templates import (
    market_type,
    public_addresses,
    reservation_of,
    shared_hardware,
    template_of,
)
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import Resource, shown
from gpufleet.resources.types import INSTANCE

_PUBLIC = "associatePublicIpAddress"


class _Source(Struct, frozen=True):
    """Volumes and number of public IPv4 addresses of a node by one launch option of a fleet."""

    disks: Callable[[], list[Disk]]
    addresses: int


def price_instance(pricing: Pricing, resource: Resource) -> None:
    """Price an instance or a spot request, with or without a launch template."""
    held(resource, "instanceType", "launchTemplate")
    reference = declared(resource, "launchTemplate")
    if reference is not None and not isinstance(reference, Mapping):
        raise UnpricedError("launchTemplate is not known yet")
    template = template_of(pricing, resource, "launchTemplate", reference) if reference is not None else None
    shared_hardware(resource, "tenancy")
    instance = text(resource, "instanceType") or (text(template, "instanceType") if template else None)
    if instance is None:
        raise UnpricedError("no instance type is declared")
    owner = pricing.owners.of(resource, template)
    prices = pricing.prices(resource)
    market = SPOT
    sizes = ONE
    if resource.type == INSTANCE:
        kind = text(resource, "instanceMarketOptions.marketType") or (
            market_type(template) if template is not None else "on-demand"
        )
        if kind not in ("on-demand", "spot"):
            raise UnpricedError(f"a single instance in a {kind} is not priced")
        market = SPOT if kind == "spot" else ON_DEMAND
        reservation = reservation_of(pricing, resource) or (
            reservation_of(pricing, template) if template is not None else None
        )
        if reservation is not None and market == ON_DEMAND:
            sizes = sizes.without(take(pricing, reservation, {instance}, sizes))
    if template is not None and declared(resource, _PUBLIC) is None:
        addresses = public_addresses(template)
    else:
        addresses = int(flag(resource, _PUBLIC))
    running = sizes if sizes.maximum else None
    group = PricedGroup(
        [Choice(instance)], market, running, ONE, partial(_disks, resource, template), addresses
    )
    price_launched(pricing.book, priced_resource(resource, owner), prices, group)


def _disks(resource: Resource, template: Resource | None) -> list[Disk]:
    own = {each: declared(resource, each) for each in ("rootBlockDevice", "ebsBlockDevices")}
    if template is not None and own["rootBlockDevice"] is None:
        return template_disks(template)
    return instance_disks(own)


def price_fleet_request(pricing: Pricing, resource: Resource) -> None:
    """Price an EC2 Fleet with on-demand and spot capacity."""
    held(resource, "targetCapacitySpecification", "launchTemplateConfigs")
    path = "targetCapacitySpecification"
    if text(resource, f"{path}.targetCapacityUnitType") not in (None, "units"):
        raise UnpricedError("its capacity counts vCPUs or memory, not nodes")
    total = count(resource, f"{path}.totalTargetCapacity")
    kind = text(resource, f"{path}.defaultTargetCapacityType")
    asked = declared(resource, f"{path}.onDemandTargetCapacity")
    spot = declared(resource, f"{path}.spotTargetCapacity")
    if asked is not None:
        base = whole(asked, f"{path}.onDemandTargetCapacity")
    elif spot is not None:
        base = max(0, total - whole(spot, f"{path}.spotTargetCapacity"))
    else:
        base = 0
    # The rest uses the default purchase option.
    percent = 0 if kind == "spot" or spot is not None else 100
    _price_configs(pricing, resource, Sizes(total, total, total), Market(base, percent))


def price_spot_fleet(pricing: Pricing, resource: Resource) -> None:
    """Price a Spot Fleet, which may have an on-demand part."""
    held(resource, "targetCapacity", "launchSpecifications", "launchTemplateConfigs")
    if text(resource, "targetCapacityUnitType") not in (None, "units"):
        raise UnpricedError("its capacity counts vCPUs or memory, not nodes")
    total = count(resource, "targetCapacity")
    sizes = Sizes(total, total, total)
    market = Market(count(resource, "onDemandTargetCapacity", default=0), 0)
    specifications = list(entries(resource, "launchSpecifications"))
    if not specifications:
        _price_configs(pricing, resource, sizes, market)
        return
    choices: list[Choice] = []
    for each in specifications:
        if each.get("placementTenancy") not in (None, "default"):
            raise UnpricedError(f"no price is known for tenancy {shown(each['placementTenancy'])}")
        choices += read_choices([each], "launchSpecifications", None)
    sources = [_specified(each) for each in specifications]
    _price_requested(pricing, resource, sizes, market, choices, sources)


def _specified(specification: Mapping[str, Any]) -> _Source:
    root = specification.get("rootBlockDevices")
    addresses = int(is_true(specification.get(_PUBLIC), _PUBLIC))
    return _Source(lambda: instance_disks({**specification, "rootBlockDevice": root}), addresses)


def _price_configs(pricing: Pricing, resource: Resource, sizes: Sizes, market: Market) -> None:
    choices: list[Choice] = []
    sources: list[_Source] = []
    for config in entries(resource, "launchTemplateConfigs"):
        reference = config.get("launchTemplateSpecification")
        if isinstance(reference, list) and len(reference) == 1:
            reference = reference[0]
        if not isinstance(reference, Mapping):
            raise UnpricedError("launchTemplateConfigs.launchTemplateSpecification is not known yet")
        template = template_of(pricing, resource, "launchTemplateConfigs", reference)
        shared_hardware(template, "placement.tenancy")
        choices += read_choices(config.get("overrides"), "launchTemplateConfigs.overrides", template)
        sources.append(_Source(partial(template_disks, template), public_addresses(template)))
    _price_requested(pricing, resource, sizes, market, choices, sources)


def _price_requested(
    pricing: Pricing,
    resource: Resource,
    sizes: Sizes,
    market: Market,
    choices: list[Choice],
    sources: list[_Source],
) -> None:
    prices = pricing.prices(resource)
    if not choices:
        raise UnpricedError("no instance type is declared")

    def disks() -> Sequence[Disk]:
        """Return the most expensive volumes of the launch options."""
        found = [source.disks() for source in sources]
        return max(found, key=lambda each: disks_amount(prices, each), default=[])

    addresses = max((source.addresses for source in sources), default=0)
    group = PricedGroup(choices, market, sizes, sizes, disks, addresses)
    price_launched(pricing.book, priced_resource(resource, pricing.owners.of(resource)), prices, group)
