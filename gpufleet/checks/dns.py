"""DNS between a cloud site and the racks: domains, servers, and the connection between them."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from gpufleet.checks.connections import connected_networks
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.plan.dns import connected
from gpufleet.spec.models import CloudDns, CloudSite

OF_AWS = ("amazonaws.com", "compute.internal", "ec2.internal", "amazonaws.com.cn", "api.aws")
"""Domains that AWS answers inside of a VPC: its APIs and endpoints, and the names of instances."""

MOST_RULES = 60
"""Inbound, and outbound, rules of a security group unless the quota is raised (Amazon VPC quotas)."""

_PROTOCOLS = 2


@check("dns-connection")
def dns_connection(fleet: Fleet) -> Iterator[FieldFinding]:
    """DNS queries take the connection between the site and the racks, and security groups allow them from and
    to its networks only."""
    for path, site, dns in _declared(fleet):
        where = (*path, "network", "dns")
        if not dns.forward and not dns.inbound:
            yield FieldFinding(
                where,
                f"`dns` of site {site.site!r} has neither domains to forward nor an inbound endpoint",
                "write 'forward: [{domain: corp.example, servers: [10.60.0.53]}]', 'inbound: true', or both;"
                " or remove it",
                value="none",
            )
        elif site.network.vpn is None and site.network.direct_connect is None:
            yield FieldFinding(
                where,
                f"site {site.site!r} has no connection to the racks for DNS queries",
                "add `network.vpn` or `network.direct_connect`, or remove `dns`",
                value="none",
            )


@check("dns-domain")
def dns_domain(fleet: Fleet) -> Iterator[FieldFinding]:
    """A VPC has one rule for a domain, and a rule covers all names below it (Route 53 Developer Guide, "How
    VPC Resolver determines whether the domain name in a query matches any rules")."""
    for path, _, dns in _declared(fleet):
        seen: list[str] = []
        for index, each in enumerate(dns.forward):
            domain, where = each.domain.lower(), (*path, "network", "dns", "forward", index, "domain")
            if domain in seen:
                yield FieldFinding(
                    where,
                    f"domain {domain} is forwarded twice",
                    "list it once, with all its servers",
                    value=each.domain,
                )
            seen.append(domain)
            own = next((of for of in OF_AWS if domain == of or domain.endswith(f".{of}")), None)
            if own is not None:
                yield FieldFinding(
                    where,
                    f"{domain} is a domain of AWS: nodes would ask the racks for the names of AWS's services"
                    " and of each other",
                    "forward the domains of the racks only",
                    value=each.domain,
                )


@check("dns-servers")
def dns_servers(fleet: Fleet) -> Iterator[FieldFinding]:
    """Queries reach a DNS server over the connection if its address is in one of the networks behind it."""
    for path, site, dns in _declared(fleet):
        networks = connected_networks(fleet, site)
        for index, each in enumerate(dns.forward):
            for number, text in enumerate(each.servers):
                where = (*path, "network", "dns", "forward", index, "servers", number)
                try:
                    address = IPv4Address(text)
                except ValueError:
                    yield FieldFinding(
                        where, f"{text!r} is no IPv4 address", "write the address of a DNS server", value=text
                    )
                    continue
                if text in each.servers[:number]:
                    yield FieldFinding(where, f"{text} is listed twice", "list it once", value=text)
                elif networks and not any(address in network for network in networks):
                    listed = ", ".join(map(str, networks))
                    yield FieldFinding(
                        where,
                        f"no connection of site {site.site!r} leads to DNS server {address}: it leads to"
                        f" {listed}",
                        "use a server in one of these networks, or add its network to `networks` of the"
                        " connection",
                        value=text,
                    )


@check("dns-rules")
def dns_rules(fleet: Fleet) -> Iterator[FieldFinding]:
    """Each network that may ask, and each server that is asked, takes two rules of a security group: for UDP
    and TCP."""
    most = MOST_RULES // _PROTOCOLS
    for path, site, dns in _declared(fleet):
        where = (*path, "network", "dns")
        networks = connected(fleet.spec, site) if dns.inbound else ()
        if len(networks) > most:
            yield FieldFinding(
                (*where, "inbound"),
                f"{len(networks)} networks behind the connections of site {site.site!r} need"
                f" {_PROTOCOLS * len(networks)} rules of a security group, which takes {MOST_RULES}",
                f"write at most {most} networks: larger ones that contain them",
                value=dns.inbound,
            )
        servers = {server for each in dns.forward for server in each.servers}
        if len(servers) > most:
            yield FieldFinding(
                (*where, "forward"),
                f"{len(servers)} DNS servers need {_PROTOCOLS * len(servers)} rules of a security group,"
                f" which takes {MOST_RULES}",
                f"use at most {most} different servers",
                value=len(servers),
            )


def _declared(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, CloudDns]]:
    for path, site in fleet.cloud():
        if site.network.dns is not None:
            yield path, site, site.network.dns


CHECKS = (dns_connection, dns_domain, dns_servers, dns_rules)
