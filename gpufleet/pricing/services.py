"""What is paid by the hour or month, used or not: control planes, gateways, addresses, keys; and Lustre."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.catalog import Catalog
from gpufleet.errors import InputError
from gpufleet.plan.cost.ledger import MONTH, Rate, missing, number
from gpufleet.plan.cost.services import CONTROL_PLANE, NETWORK
from gpufleet.pricing.context import Cost, Pricing, steady
from gpufleet.pricing.inputs import UnpricedError, count, declared, flag, text
from gpufleet.pricing.models import Kind
from gpufleet.resources.resource import UNKNOWN, Resource, shown


def price_cluster(pricing: Pricing, resource: Resource) -> None:
    """An EKS control plane: dearer in extended support, which a cluster enters unless it says STANDARD."""
    owner = pricing.owners.of(resource, default=CONTROL_PLANE)
    if flag(resource, "computeConfig.enabled"):
        pricing.unknown(
            resource, "nodes of EKS Auto Mode", "compute", "EKS Auto Mode launches what pods ask for", owner
        )
    tier = text(resource, "controlPlaneScalingConfig.tier")
    if tier not in (None, "standard"):
        raise UnpricedError(f"no price of a control plane of tier {tier} was read")
    region = pricing.region(resource)
    rate = pricing.service_rate("eks-control-plane", region)
    low = MONTH * rate.expected
    basis = f"1 x 730 h x {number(rate.expected)} USD/h"
    if text(resource, "upgradePolicy.supportType") == "STANDARD":
        pricing.add(resource, "EKS control plane", "control-plane", steady(low, basis, rate), owner)
        return
    extended = pricing.service_rate("eks-control-plane-extended", region)
    high = MONTH * extended.expected
    old = _is_old(text(resource, "version"), pricing.catalog)
    cost = Cost(
        high if old else low,
        high if old else low,
        high,
        f"{basis}; {number(extended.expected)} USD/h in extended support",
        (rate, extended),
    )
    pricing.add(resource, "EKS control plane, extended support allowed", "control-plane", cost, owner)


def _is_old(version: str | None, catalog: Catalog) -> bool:
    """Whether a Kubernetes version is older than all that the catalog's software channels name."""
    known = [_minor(each) for lock in catalog.locks.values() for each in lock.kubernetes]
    return version is not None and bool(known) and _minor(version) < min(known)


def _minor(version: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version.removeprefix("v").split(".")[:2])
    except ValueError:
        raise UnpricedError(f"version is {shown(version)}") from None


def price_nat_gateway(pricing: Pricing, resource: Resource) -> None:
    """A NAT gateway by the hour. One over a region's zones is charged by the zone, whose number varies."""
    if text(resource, "availabilityMode") == "regional":
        raise UnpricedError("a regional NAT gateway is charged by the zone that it grows into")
    _hourly(pricing, resource, "nat-gateway-hour", 1, "NAT gateway", "network", NETWORK)
    pricing.leave_out("data through NAT gateways")


def price_address(pricing: Pricing, resource: Resource) -> None:
    """A public IPv4 address; one of the account's own pool costs nothing."""
    pool = declared(resource, "publicIpv4Pool")
    if isinstance(pool, str) and pool not in ("", "amazon"):
        return
    _hourly(pricing, resource, "public-ipv4-hour", 1, "public IPv4 address", "network", NETWORK)


def price_endpoint(pricing: Pricing, resource: Resource) -> None:
    """A VPC endpoint: gateways are free, interfaces are charged in each zone that they have a subnet in."""
    kind = text(resource, "vpcEndpointType") or "Gateway"
    if kind == "Gateway":
        return
    if kind != "Interface":
        raise UnpricedError(f"no price of a {kind} endpoint was read")
    subnets = declared(resource, "subnetIds")
    if subnets is None:
        subnets = declared(resource, "subnetConfigurations")
    if subnets is UNKNOWN or not isinstance(subnets, Sequence):
        raise UnpricedError(f"in how many zones it is, is not known: subnetIds is {shown(subnets)}")
    what = f"VPC interface endpoint in {len(subnets)} zones"
    _hourly(pricing, resource, "vpc-endpoint-interface-hour", len(subnets), what, "network", NETWORK)
    pricing.leave_out("data through VPC endpoints")


def price_key(pricing: Pricing, resource: Resource) -> None:
    """A customer managed KMS key; kept rotations of it cost the same again, and are not counted."""
    rate = pricing.service_rate("kms-key-month", pricing.region(resource))
    cost = steady(rate.expected, f"1 x {number(rate.expected)} USD a month", rate)
    pricing.add(resource, "KMS key", "service", cost, pricing.owners.of(resource))
    pricing.leave_out("requests to KMS keys, and kept rotations of them")


def price_addon(pricing: Pricing, resource: Resource) -> None:
    """An EKS add-on is free, unless it is sold in the AWS Marketplace (those have the vendor in the name)."""
    name = text(resource, "addonName")
    if name is None or "_" in name:
        raise UnpricedError(f"the add-on {shown(name)} is not one of AWS's own: its vendor sets the price")


def price_lustre(pricing: Pricing, resource: Resource) -> None:
    """An FSx for Lustre file system by capacity and tier, and its provisioned metadata IOPS.

    AWS's "GB-month" of FSx is 2^30 bytes: GiB are counted as they are.
    """
    owner = pricing.owners.of(resource)
    metadata = declared(resource, "metadataConfiguration.iops")
    if metadata is not None and text(resource, "metadataConfiguration.mode") != "AUTOMATIC":
        pricing.unknown(
            resource,
            f"{shown(metadata)} metadata IOPS",
            "storage",
            "no price of provisioned metadata IOPS was read",
            owner,
        )
    if declared(resource, "automaticBackupRetentionDays") not in (None, 0):
        pricing.leave_out("backups of file systems, by the GB that changed")
    for path in ("storageCapacity", "perUnitStorageThroughput", "deploymentType"):
        if resource.ignores(path):
            raise UnpricedError(f"changes of {path} are ignored: what somebody sets it to stays")
    if text(resource, "storageType") not in (None, "SSD"):
        raise UnpricedError(f"no price of storage type {text(resource, 'storageType')} was read")
    if any(
        declared(resource, each) not in (None, 0)
        for each in ("dataReadCacheConfiguration", "throughputCapacity")
    ):
        raise UnpricedError("no price of a read cache or of throughput capacity was read")
    deployment = text(resource, "deploymentType") or "SCRATCH_1"
    gib = count(resource, "storageCapacity")
    throughput = count(resource, "perUnitStorageThroughput", default=0) or None
    try:
        tier = pricing.catalog.lustre_tier(deployment, throughput)
    except InputError as error:
        raise UnpricedError(error.message) from None
    price = pricing.catalog.lustre_price(tier, pricing.region(resource))
    rate = Rate.of(price)
    if rate is None:
        raise UnpricedError(missing(price))
    if not gib or rate.expected <= 0:
        raise UnpricedError("a capacity or a price of 0 cannot be")
    shown_speed = f" {throughput} MB/s/TiB" if throughput is not None else ""
    cost = steady(gib * rate.expected, f"{gib} GB-month x {number(rate.expected)} USD", rate)
    pricing.add(resource, f"FSx for Lustre {deployment}{shown_speed}, {gib:,} GiB", "storage", cost, owner)


def _hourly(
    pricing: Pricing, resource: Resource, key: str, each: int, what: str, kind: Kind, default: str
) -> None:
    rate = pricing.service_rate(key, pricing.region(resource))
    cost = steady(each * MONTH * rate.expected, f"{each} x 730 h x {number(rate.expected)} USD/h", rate)
    pricing.add(resource, what, kind, cost, pricing.owners.of(resource, default=default))
