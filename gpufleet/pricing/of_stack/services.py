"""Services with an hourly or monthly charge: control planes, gateways, addresses, keys, Lustre."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.catalog import Catalog
from gpufleet.plan.names import CONTROL_PLANE, NETWORK
from gpufleet.pricing import lustre, services
from gpufleet.pricing.of_stack.context import Pricing
from gpufleet.pricing.of_stack.inputs import count, declared, flag, held, text
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.lustre import DEFAULT_DEPLOYMENT
from gpufleet.resources.resource import Resource, shown


def price_cluster(pricing: Pricing, resource: Resource) -> None:
    """Price an EKS control plane. A cluster enters extended support unless its support type is STANDARD."""
    owner = pricing.owners.of(resource, default=CONTROL_PLANE)
    if flag(resource, "computeConfig.enabled"):
        pricing.unknown(
            resource,
            "nodes of EKS Auto Mode",
            "compute",
            "EKS Auto Mode launches nodes as pods request them",
            owner,
        )
    tier = text(resource, "controlPlaneScalingConfig.tier")
    if tier not in (None, "standard"):
        raise UnpricedError(f"no price is known for a control plane of tier {tier}")
    prices = pricing.prices(resource)
    extended = text(resource, "upgradePolicy.supportType") != "STANDARD"
    old = extended and _is_old(text(resource, "version"), pricing.catalog)
    pricing.price(resource, lambda: services.price_control_plane(prices, extended=extended, old=old), owner)


def _is_old(version: str | None, catalog: Catalog) -> bool:
    """Return whether a Kubernetes version is older than all in the catalog's software channels."""
    known = [_minor(each) for lock in catalog.locks.values() for each in lock.kubernetes]
    return version is not None and bool(known) and _minor(version) < min(known)


def _minor(version: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version.removeprefix("v").split(".")[:2])
    except ValueError:
        raise UnpricedError(f"version is {shown(version)}") from None


def price_nat_gateway(pricing: Pricing, resource: Resource) -> None:
    """Price a NAT gateway. A regional one is charged per zone, and its number of zones varies."""
    if text(resource, "availabilityMode") == "regional":
        raise UnpricedError("a regional NAT gateway is charged per zone, and its number of zones varies")
    prices, owner = pricing.prices(resource), pricing.owners.of(resource, default=NETWORK)
    pricing.price(resource, lambda: services.price_nat_gateway(prices), owner)


def price_address(pricing: Pricing, resource: Resource) -> None:
    """Price a public IPv4 address. Addresses of the account's own pool are free."""
    pool = declared(resource, "publicIpv4Pool")
    if isinstance(pool, str) and pool not in ("", "amazon"):
        return
    prices, owner = pricing.prices(resource), pricing.owners.of(resource, default=NETWORK)
    pricing.price(resource, lambda: services.price_address(prices), owner)


def price_vpn_connection(pricing: Pricing, resource: Resource) -> None:
    """Price a VPN connection of two tunnels. An accelerated one also uses Global Accelerator."""
    if declared(resource, "enableAcceleration") not in (None, False):
        raise UnpricedError("no price is known for an accelerated VPN connection")
    prices, owner = pricing.prices(resource), pricing.owners.of(resource, default=NETWORK)
    pricing.price(resource, lambda: services.price_vpn_connection(prices), owner)


def price_resolver_endpoint(pricing: Pricing, resource: Resource) -> None:
    """Price an endpoint of Route 53 Resolver, charged per address."""
    addresses = declared(resource, "ipAddresses")
    if not isinstance(addresses, Sequence):
        raise UnpricedError(f"the number of its addresses is not known: ipAddresses is {shown(addresses)}")
    prices, owner = pricing.prices(resource), pricing.owners.of(resource, default=NETWORK)
    pricing.price(resource, lambda: services.price_resolver_endpoint(prices, len(addresses)), owner)


def price_endpoint(pricing: Pricing, resource: Resource) -> None:
    """Price a VPC endpoint. Gateways are free, interfaces are charged per zone with a subnet."""
    kind = text(resource, "vpcEndpointType") or "Gateway"
    if kind == "Gateway":
        return
    if kind != "Interface":
        raise UnpricedError(f"no price is known for a {kind} endpoint")
    subnets = declared(resource, "subnetIds")
    if subnets is None:
        subnets = declared(resource, "subnetConfigurations")
    if not isinstance(subnets, Sequence):
        raise UnpricedError(f"the number of its zones is not known: subnetIds is {shown(subnets)}")
    prices, owner = pricing.prices(resource), pricing.owners.of(resource, default=NETWORK)
    pricing.price(resource, lambda: services.price_endpoint(prices, len(subnets)), owner)


def price_key(pricing: Pricing, resource: Resource) -> None:
    """Price a customer managed KMS key."""
    prices = pricing.prices(resource)
    pricing.price(resource, lambda: services.price_key(prices), pricing.owners.of(resource))


def price_addon(pricing: Pricing, resource: Resource) -> None:
    """Price an EKS add-on: free, unless sold in the AWS Marketplace (with the vendor in the name)."""
    name = text(resource, "addonName")
    if name is None or "_" in name:
        raise UnpricedError(
            f"the add-on {shown(name)} is sold in the AWS Marketplace: its vendor sets the price"
        )


def price_lustre(pricing: Pricing, resource: Resource) -> None:
    """Price an FSx for Lustre file system and its provisioned metadata IOPS."""
    held(resource, "storageCapacity", "perUnitStorageThroughput", "deploymentType")
    if text(resource, "storageType") not in (None, "SSD"):
        raise UnpricedError(f"no price is known for storage type {text(resource, 'storageType')}")
    if any(
        declared(resource, each) not in (None, 0)
        for each in ("dataReadCacheConfiguration", "throughputCapacity")
    ):
        raise UnpricedError("no price is known for a read cache or throughput capacity")
    owner, prices = pricing.owners.of(resource), pricing.prices(resource)
    deployment = text(resource, "deploymentType") or DEFAULT_DEPLOYMENT
    gib = count(resource, "storageCapacity")
    throughput = count(resource, "perUnitStorageThroughput", default=0) or None
    pricing.price(resource, lambda: lustre.price_lustre(prices, deployment, gib, throughput), owner)
    path = "metadataConfiguration.iops"
    chosen = text(resource, "metadataConfiguration.mode") != "AUTOMATIC"
    iops = count(resource, path) if chosen and declared(resource, path) is not None else 0
    if paid := lustre.paid_metadata_iops(iops, gib):
        pricing.price(resource, lambda: lustre.price_metadata_iops(prices, paid), owner)
    if declared(resource, "automaticBackupRetentionDays") not in (None, 0):
        pricing.book.leave_out(lustre.BACKUPS)
