"""CIDR blocks: which of them, separately or together, cover the internet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

WIDEST = {4: 8, 6: 16}
"""The shortest prefix by IP version that one organisation can have: registries allocate no larger block."""

BITS = {4: 32, 6: 128}
MANY = 2
"""Blocks of that size that a list can add up to; more are of many organisations, however they are split."""

_EMBEDDED = tuple(ipaddress.IPv6Network(each) for each in ("64:ff9b::/96", "::ffff:0:0/96", "2002::/16"))
"""IPv6 prefixes that embed IPv4 addresses: with the first, a VPC's NAT64 reaches all of IPv4."""

_OWN = tuple(
    ipaddress.ip_network(each)
    for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10")
)


@lru_cache(maxsize=4096)
def network(cidr: str) -> Network | None:
    """Parse a block; None if the text is not one."""
    try:
        return ipaddress.ip_network(cidr.strip(), strict=False)
    except ValueError:
        return None


def world(networks: Iterable[Network]) -> str | None:
    """Return the widest block that the networks form together, if it is wider than any organisation's; or
    their share of all addresses, if it is larger than `MANY` organisations have.

    `0.0.0.0/1` and `128.0.0.0/1` cover the internet as `0.0.0.0/0` does, so does each half of it, and so does
    every second block of 8 bits. Private address space does not count.
    """
    found = [each for each in map(_plain, networks) if not _own(each)]
    for version in (4, 6):
        same = [each for each in found if each.version == version]
        blocks = list(ipaddress.collapse_addresses(same))  # type: ignore[type-var]
        for block in blocks:
            if block.prefixlen < WIDEST[version]:
                return str(block)
        addresses = sum(block.num_addresses for block in blocks)
        if addresses > MANY << (BITS[version] - WIDEST[version]):
            part = addresses / (1 << BITS[version])
            return f"{len(blocks)} networks with {part:.2%} of all IPv{version} addresses"
    return None


@lru_cache(maxsize=4096)
def _plain(block: Network) -> Network:
    """Return the IPv4 block that an IPv6 block embeds; else the block itself."""
    for prefix in _EMBEDDED:
        if isinstance(block, ipaddress.IPv6Network) and block.subnet_of(prefix):
            first = int(block.network_address) >> (96 - prefix.prefixlen) & 0xFFFFFFFF
            return ipaddress.IPv4Network((first, min(32, block.prefixlen - prefix.prefixlen)), strict=False)
    return block


@lru_cache(maxsize=4096)
def _own(block: Network) -> bool:
    return any(
        block.version == own.version and block.subnet_of(own)  # type: ignore[arg-type]
        for own in _OWN
    )
