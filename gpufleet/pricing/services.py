"""Services with an hourly or monthly charge: gateways, addresses, endpoints, control planes, keys."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from gpufleet.pricing import by_use
from gpufleet.pricing.cost import Cost, Sizes, steady
from gpufleet.pricing.models import Kind
from gpufleet.pricing.rates import MONTH, Prices, UnpricedError, number, pricing_of

VPN_TUNNELS = 2
"""Tunnels of each VPN connection (Site-to-Site VPN User Guide)."""


def price_nat_gateway(prices: Prices) -> Cost:
    """A NAT gateway."""
    data = f"data through NAT gateways{_each(prices, 'nat-gateway-gb', 'GB')}"
    return _hourly(prices, "NAT gateway", "network", "nat-gateway-hour", left_out=data)


def price_address(prices: Prices) -> Cost:
    """Return the cost of a public IPv4 address, used or idle."""
    return _hourly(prices, "public IPv4 address", "network", "public-ipv4-hour")


def price_node_addresses(prices: Prices, each: int, sizes: Sizes, hours: Decimal = MONTH) -> Cost:
    """Return the cost of public IPv4 addresses, `each` per node, for `hours` per month."""
    what = f"{sizes.expected * each} public IPv4 addresses"
    with pricing_of(what, "network"):
        rate = prices.service("public-ipv4-hour")
    one = each * hours
    basis = f"{sizes.expected} x {each} x {number(hours)} h x {number(rate.expected)} USD/h"
    return Cost(
        what,
        "network",
        sizes.minimum * one * rate.low,
        sizes.expected * one * rate.expected,
        sizes.maximum * one * rate.high,
        basis + sizes.span("nodes"),
        (rate,),
    )


def price_endpoint(prices: Prices, zones: int) -> Cost:
    """Return the cost of a VPC interface endpoint, charged per zone with a subnet."""
    what = f"VPC interface endpoint in {zones} zone{'s' if zones != 1 else ''}"
    left_out = "data through VPC endpoints"
    return _hourly(prices, what, "network", "vpc-endpoint-interface-hour", zones, left_out)


def price_vpn_connection(prices: Prices) -> Cost:
    """Return the cost of a site-to-site VPN connection and of the public IPv4 address of each of its two
    tunnels (Amazon VPC pricing, "Public IPv4 address": in-use addresses of Site-to-Site VPN tunnels)."""
    what = "site-to-site VPN connection"
    cost = _hourly(prices, what, "network", "vpn-connection-hour", left_out=by_use.VPN_TRAFFIC)
    addresses = _hourly(prices, what, "network", "public-ipv4-hour", VPN_TUNNELS)
    return replace(
        cost,
        minimum=cost.minimum + addresses.minimum,
        expected=cost.expected + addresses.expected,
        maximum=cost.maximum + addresses.maximum,
        basis=f"{cost.basis} + addresses of tunnels {addresses.basis}",
        rates=(*cost.rates, *addresses.rates),
    )


def price_resolver_endpoint(prices: Prices, addresses: int) -> Cost:
    """Return the cost of an endpoint of Route 53 Resolver, charged per address (Route 53 pricing, "Resolver
    endpoints": per elastic network interface)."""
    what = f"Route 53 Resolver endpoint with {addresses} addresses"
    return _hourly(prices, what, "network", "resolver-endpoint-hour", addresses, by_use.DNS)


def price_control_plane(prices: Prices, *, extended: bool = False, old: bool = False) -> Cost:
    """Return the cost of an EKS control plane. With `extended` support it costs more after the end of
    standard support, which has passed if `old`."""
    what = "EKS control plane" + (", extended support allowed" if extended else "")
    cost = _hourly(prices, what, "control-plane", "eks-control-plane")
    if not extended:
        return cost
    with pricing_of(what, "control-plane"):
        later = prices.service("eks-control-plane-extended")
    extra = steady(what, "control-plane", MONTH, cost.basis, later)
    low, usual = (extra.minimum, extra.expected) if old else (cost.minimum, cost.expected)
    basis = f"{cost.basis}; {number(later.expected)} USD/h in extended support"
    return Cost(what, "control-plane", low, usual, extra.maximum, basis, (*cost.rates, later))


def price_key(prices: Prices) -> Cost:
    """Return the cost of a customer managed KMS key. Kept rotations cost the same again and are not
    counted."""
    with pricing_of("KMS key", "service"):
        rate = prices.service("kms-key-month")
    left_out = "requests to KMS keys, and kept rotations of them"
    basis = f"1 x {number(rate.expected)} USD a month"
    return steady("KMS key", "service", Decimal(1), basis, rate, left_out=left_out)


def _hourly(prices: Prices, what: str, kind: Kind, key: str, count: int = 1, left_out: str = "") -> Cost:
    with pricing_of(what, kind):
        rate = prices.service(key)
    basis = f"{count} x 730 h x {number(rate.expected)} USD/h"
    return steady(what, kind, count * MONTH, basis, rate, left_out=left_out)


def _each(prices: Prices, key: str, unit: str) -> str:
    try:
        return f" ({number(prices.service(key).expected)} USD per {unit} in {prices.region})"
    except UnpricedError:
        return ""
