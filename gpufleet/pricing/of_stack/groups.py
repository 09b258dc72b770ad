"""Auto Scaling groups and EKS node groups, at minimum, desired and maximum size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from gpufleet.pricing.book import Owner
from gpufleet.pricing.capacity import BLOCK
from gpufleet.pricing.cost import Sizes
from gpufleet.pricing.disks import Disk
from gpufleet.pricing.nodes import IN_RESERVATION, ON_DEMAND, SPOT, Choice, Market, PricedGroup, price_group
from gpufleet.pricing.of_stack.context import Pricing, priced_resource
from gpufleet.pricing.of_stack.disks import instance_disks, template_disks
from gpufleet.pricing.of_stack.inputs import count, declared, flag, held, price, text, whole
from gpufleet.pricing.of_stack.reservations import block_hours, price_existing_block, take
from gpufleet.pricing.of_stack.scaling import raised, with_warm_pool
from gpufleet.pricing.of_stack.templates import (
    configuration_of,
    market_type,
    named_reservation,
    public_addresses,
    reservation_of,
    shared_hardware,
    targets_reservation,
    template_of,
)
from gpufleet.pricing.rates import MONTH, UnpricedError
from gpufleet.resources.launch_inputs import EKS_DEFAULT_TYPE
from gpufleet.resources.resource import UNKNOWN, Resource, shown
from gpufleet.resources.types import CAPACITY_BLOCK


class _Launch(Struct, frozen=True):
    """The launch settings of a group: types, purchase options, and sources of volumes, addresses and
    reservations.

    `block` is True if the nodes run in a Capacity Block.
    """

    choices: tuple[Choice, ...]
    market: Market
    source: Resource | None
    targets: Resource | None
    block: bool = False
    configuration: bool = False

    def disks(self) -> list[Disk]:
        """Return the volumes per node. Raises `UnpricedError`."""
        if self.source is None:
            raise UnpricedError("without a launch template, EKS chooses the volumes")
        return instance_disks(self.source.props) if self.configuration else template_disks(self.source)


def price_auto_scaling_group(pricing: Pricing, resource: Resource) -> None:
    """Price an Auto Scaling group with launch template, mixed instances policy or launch configuration."""
    held(resource, "maxSize", "launchTemplate", "mixedInstancesPolicy", "launchConfiguration", "warmPool")
    if text(resource, "desiredCapacityType") not in (None, "units"):
        raise UnpricedError("its sizes count vCPUs or memory, not nodes")
    least = count(resource, "minSize")
    sizes = Sizes(least, count(resource, "desiredCapacity", default=least), count(resource, "maxSize"))
    _price(pricing, resource, _auto_scaling_launch(pricing, resource), sizes, "warmPool")


def price_node_group(pricing: Pricing, resource: Resource) -> None:
    """Price an EKS managed node group, for which EKS creates an Auto Scaling group."""
    held(
        resource, "scalingConfig.maxSize", "capacityType", "instanceTypes", "launchTemplate", "warmPoolConfig"
    )
    least = count(resource, "scalingConfig.minSize")
    sizes = Sizes(
        least,
        count(resource, "scalingConfig.desiredSize", default=least),
        count(resource, "scalingConfig.maxSize"),
    )
    _price(pricing, resource, _eks_launch(pricing, resource), sizes, "warmPoolConfig")


def price_launched_nodes(pricing: Pricing, resource: Resource) -> None:
    """Price nodes that Slurm launches from a launch template: from none to the most that there may be."""
    reference = {"id": resource.get("launch_template_id")}
    template = template_of(pricing, resource, "launch_template_id", reference)
    spot = Market(0, 0, price(resource, "max_price")) if resource.get("spot") else ON_DEMAND
    launch = _Launch(
        tuple(Choice(str(each)) for each in resource.get("instance_types")),
        spot,
        template,
        template,
        market_type(template) == BLOCK,
    )
    _price(pricing, resource, launch, Sizes(0, 0, count(resource, "most")), "")


# -- how groups launch


def _auto_scaling_launch(pricing: Pricing, resource: Resource) -> _Launch:
    policy = declared(resource, "mixedInstancesPolicy")
    if policy is not None:
        return _mixed(pricing, resource)
    reference = declared(resource, "launchTemplate")
    if reference is UNKNOWN:
        raise UnpricedError("launchTemplate is not known yet")
    if isinstance(reference, Mapping):
        template = template_of(pricing, resource, "launchTemplate", reference)
        market = market_type(template)
        return _Launch(
            (Choice(_type_of(template)),),
            SPOT if market == "spot" else ON_DEMAND,
            template,
            template if targets_reservation(template) else resource,
            market == BLOCK,
        )
    configuration = configuration_of(pricing, resource)
    spot = declared(configuration, "spotPrice") is not None
    shared_hardware(configuration, "placementTenancy")
    return _Launch(
        (Choice(_type_of(configuration)),),
        SPOT if spot else ON_DEMAND,
        configuration,
        resource,
        configuration=True,
    )


def _mixed(pricing: Pricing, resource: Resource) -> _Launch:
    base = "mixedInstancesPolicy.launchTemplate"
    reference = declared(resource, f"{base}.launchTemplateSpecification")
    if not isinstance(reference, Mapping):
        raise UnpricedError(f"{base}.launchTemplateSpecification is {shown(reference)}")
    template = template_of(pricing, resource, "mixedInstancesPolicy", reference)
    choices = read_choices(declared(resource, f"{base}.overrides"), f"{base}.overrides", template)
    distribution = "mixedInstancesPolicy.instancesDistribution"
    market = Market(
        count(resource, f"{distribution}.onDemandBaseCapacity", default=0),
        # AWS's default: all on demand.
        count(resource, f"{distribution}.onDemandPercentageAboveBaseCapacity", default=100),
        price(resource, f"{distribution}.spotMaxPrice"),
    )
    if market.percent > 100:
        raise UnpricedError(f"{distribution}.onDemandPercentageAboveBaseCapacity is {market.percent}")
    targets = template if targets_reservation(template) else resource
    return _Launch(choices, market, template, targets, market_type(template) == BLOCK)


def read_choices(overrides: Any, path: str, template: Resource | None) -> tuple[Choice, ...]:
    """Return the instance types of overrides with their weights, or those of the template if there are
    none."""
    if overrides is UNKNOWN:
        raise UnpricedError(f"{path} is not known yet")
    found: list[Choice] = []
    for each in overrides if isinstance(overrides, Sequence) else [overrides] if overrides else []:
        if not isinstance(each, Mapping):
            raise UnpricedError(f"{path} is {shown(each)}")
        if each.get("launchTemplateSpecification") is not None:
            raise UnpricedError(f"{path} uses other launch templates, whose nodes are not known")
        if each.get("instanceRequirements") is not None:
            raise UnpricedError(f"{path}.instanceRequirements leaves the instance type to AWS")
        name = each.get("instanceType")
        if name is None and template is not None:
            name = _type_of(template)
        if not isinstance(name, str):
            raise UnpricedError(f"{path}.instanceType is {shown(name)}")
        weight = each.get("weightedCapacity")
        found.append(
            Choice(name, 1 if weight is None else whole(weight, f"{path}.weightedCapacity", least=1))
        )
    if not found and template is not None:
        found.append(Choice(_type_of(template)))
    return tuple(found)


def _type_of(template: Resource) -> str:
    found = text(template, "instanceType")
    if found is None:
        raise UnpricedError("no instance type is declared")
    return found


def _eks_launch(pricing: Pricing, resource: Resource) -> _Launch:
    reference = declared(resource, "launchTemplate")
    if reference is UNKNOWN:
        raise UnpricedError("launchTemplate is not known yet")
    template = (
        template_of(pricing, resource, "launchTemplate", reference)
        if isinstance(reference, Mapping)
        else None
    )
    types = declared(resource, "instanceTypes")
    if types is UNKNOWN or any(not isinstance(each, str) for each in types or ()):
        raise UnpricedError(f"instanceTypes is {shown(types)}")
    names = list(types or ())
    if not names:
        names = [(text(template, "instanceType") if template is not None else None) or EKS_DEFAULT_TYPE]
    capacity = text(resource, "capacityType") or "ON_DEMAND"
    if capacity not in ("ON_DEMAND", "SPOT", "CAPACITY_BLOCK"):
        raise UnpricedError(f"capacityType is {capacity}")
    return _Launch(
        tuple(Choice(name) for name in names),
        SPOT if capacity == "SPOT" else ON_DEMAND,
        template,
        template,
        capacity == "CAPACITY_BLOCK",
    )


# -- what they cost


def _price(pricing: Pricing, resource: Resource, launch: _Launch, sizes: Sizes, warm: str) -> None:
    source = launch.source
    owner = pricing.owners.of(resource, source)
    prices = pricing.prices(resource)
    addresses = 0
    if launch.configuration and source is not None:
        addresses = int(flag(source, "associatePublicIpAddress"))
    elif source is not None:
        shared_hardware(source, "placement.tenancy")
        addresses = public_addresses(source)
    sizes = raised(pricing, resource, sizes)
    running, existing = with_warm_pool(resource, sizes, warm)
    market, hours = launch.market, MONTH
    bought: Sizes | None = None
    if launch.block:
        hours = _block_hours(pricing, resource, launch, owner)
    else:
        market, bought = _outside_of_reservation(pricing, launch, running)
    group = PricedGroup(launch.choices, market, bought, existing, launch.disks, addresses, hours)
    price_group(pricing.book, priced_resource(resource, owner), prices, group)


def _outside_of_reservation(pricing: Pricing, launch: _Launch, sizes: Sizes) -> tuple[Market, Sizes | None]:
    """Return purchase options and number of the nodes outside of reservations of the stack, which have their
    own lines. The number is None if there are none."""
    targets = launch.targets
    if targets is None or launch.market != ON_DEMAND:
        return launch.market, sizes
    reservation = reservation_of(pricing, targets)
    if reservation is None:
        return (IN_RESERVATION if targets_reservation(targets) else ON_DEMAND), sizes
    if reservation.type == CAPACITY_BLOCK:
        raise UnpricedError("it targets a Capacity Block but uses another purchase option")
    sizes = sizes.without(take(pricing, reservation, {choice.instance for choice in launch.choices}, sizes))
    return ON_DEMAND, sizes if sizes.maximum else None


def _block_hours(pricing: Pricing, resource: Resource, launch: _Launch, owner: Owner) -> Decimal:
    """Return the hours per month in which nodes of a block can run. They cost only the block."""
    if launch.targets is None:
        raise UnpricedError("no Capacity Block is set")
    block = reservation_of(pricing, launch.targets)
    if block is not None and block.type == CAPACITY_BLOCK:
        return block_hours(pricing, block)
    named, prices = named_reservation(launch.targets), pricing.prices(resource)
    return min(MONTH, price_existing_block(pricing, resource, named, owner, prices))
