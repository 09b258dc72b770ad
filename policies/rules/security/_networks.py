"""CIDR blocks: which of them, separately or together, cover the internet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

WIDEST = {4: 8, 6: 16}
"""The shortest prefix by IP version that one organisation can have: registries allocate no larger block."""

_EMBEDDED = tuple(ipaddress.IPv6Network(each) for each in ("64:ff9b::/96", "::ffff:0:0/96"))
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


def world(networks: Iterable[Network]) -> Network | None:
    """Return the widest block that the networks form together, if it is wider than any organisation's.

    `0.0.0.0/1` and `128.0.0.0/1` cover the internet as `0.0.0.0/0` does, and so does each half of it.
    Private address space does not count.
    """
    found = [each for each in map(_plain, networks) if not _own(each)]
    for version in (4, 6):
        same = [each for each in found if each.version == version]
        for block in ipaddress.collapse_addresses(same):  # type: ignore[type-var]
            if block.prefixlen < WIDEST[version]:
                return block
    return None


@lru_cache(maxsize=4096)
def _plain(block: Network) -> Network:
    """Return the IPv4 block that an IPv6 block embeds; else the block itself."""
    for prefix in _EMBEDDED:
        if isinstance(block, ipaddress.IPv6Network) and block.subnet_of(prefix):
            first = int(block.network_address) & 0xFFFFFFFF
            return ipaddress.IPv4Network((first, block.prefixlen - prefix.prefixlen))
    return block


@lru_cache(maxsize=4096)
def _own(block: Network) -> bool:
    return any(
        block.version == own.version and block.subnet_of(own)  # type: ignore[arg-type]
        for own in _OWN
    )
