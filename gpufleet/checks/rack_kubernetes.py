"""Kubernetes of rack sites: control plane members, networks and backups."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import timedelta

from gpufleet.checks.networks import parse_network
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.spec.models import OnPremSite

MEMBERS = (1, 3)
"""Supported numbers of control plane members. etcd needs more than half of them (etcd's FAQ): with two, one
fault stops both; five are not worth their cost on a rack site."""

PODS_PER_NODE_PREFIX = 24
"""Each node uses a /24 of the pod network: the default of kube-controller-manager's --node-cidr-mask-size."""

SERVICE_PREFIXES = range(12, 29)
"""kube-apiserver allows at most 20 bits for services, kubeadm requires at least 10 addresses
(cmd/kube-apiserver options, kubeadm's MinimumAddressesInServiceSubnet)."""

_POLICIES = ("calico", "cilium")
_GOES_WITH_IT = ("/var/lib/etcd/", "/etc/kubernetes/", "/dev/shm/", "/run/")  # noqa: S108 - refused


def kubernetes_sites(fleet: Fleet) -> Iterator[tuple[SpecPath, OnPremSite]]:
    """Return the rack sites with Kubernetes, with their paths."""
    for path, site in fleet.onprem():
        if site.scheduler == "kubernetes":
            yield path, site


@check("kubernetes-unused", "scheduler")
def kubernetes_unused(fleet: Fleet) -> Iterator[FieldFinding]:
    """Settings of a scheduler that the site does not run have no effect."""
    for path, site in fleet.onprem():
        if site.scheduler != "kubernetes" and "kubernetes" in site.model_fields_set:
            yield FieldFinding(
                (*path, "kubernetes"),
                f"site {site.site!r} has `kubernetes` settings but its scheduler is {site.scheduler}",
                "remove them, or set the `scheduler` of the site to kubernetes",
                value=site.scheduler,
            )


@check("kubernetes-members")
def kubernetes_members(fleet: Fleet) -> Iterator[FieldFinding]:
    """etcd needs more than half of its members. With two, one fault stops both, which is worse than a single
    member (etcd's FAQ, "Why an odd number of cluster members?")."""
    for path, site in kubernetes_sites(fleet):
        members = site.controllers.hosts if site.controllers is not None else ()
        if len(members) in MEMBERS:
            continue
        problem = f"has {len(members)} controllers" if members else "has no host for its control plane"
        why = (
            "" if not members or len(members) % 2 else ": an even number stops when half of its members fail"
        )
        yield FieldFinding(
            (*path, "controllers"),
            f"site {site.site!r} runs Kubernetes but {problem}{why}",
            "declare one host, or three such as `controllers: ctl[01-03]`, that are not GPU nodes",
            value=site.controllers.text if site.controllers is not None else site.site,
        )


@check("kubernetes-endpoint", "network")
def kubernetes_endpoint(fleet: Fleet) -> Iterator[FieldFinding]:
    """Nodes reach the API at one virtual address, which moves between the members. It is in their network and
    belongs to no host (keepalived's virtual_ipaddress)."""
    for path, site in kubernetes_sites(fleet):
        where = (*path, "kubernetes", "endpoint")
        members = site.controllers.hosts if site.controllers is not None else ()
        endpoint = site.kubernetes.endpoint
        if endpoint is None:
            if len(members) > 1:
                yield FieldFinding(
                    where,
                    f"site {site.site!r} has {len(members)} controllers but no virtual address: nodes would"
                    " reach only one of them",
                    _free_endpoint(site),
                    value=site.site,
                )
            continue
        address = _address(endpoint)
        if address is None:
            yield FieldFinding(
                where, f"'{endpoint}' is not an IPv4 address", "write an address such as 10.60.0.10"
            )
            continue
        yield from _endpoint_in_network(path, site, address)
        for host, other in site.addresses.items():
            if other == endpoint:
                yield FieldFinding(
                    where,
                    f"{endpoint} is already the address of {host!r}",
                    "use a free address of the site's network",
                )
        offered = _free_addresses(site)
        for host in members:
            if _address(site.addresses.get(host, "")) is None:
                free = next(offered, None)
                yield FieldFinding(
                    (*path, "addresses", host),
                    f"controller {host!r} has no IPv4 address in the fleet file: members of a virtual address"
                    " need it to find each other",
                    f"write '{free}', or its actual address" if free is not None else "write its address",
                    value=host,
                )


def _free_addresses(site: OnPremSite) -> Iterator[str]:
    """Yield the free addresses of the site's network."""
    network = parse_network(site.network)
    taken = {*site.addresses.values(), site.kubernetes.endpoint}
    hosts = network.hosts() if network is not None else iter(())
    return (str(address) for address in hosts if str(address) not in taken)


def _free_endpoint(site: OnPremSite) -> str:
    free = next(_free_addresses(site), None)
    return f"use a free address of the site's network, such as {free}" if free else "declare its `network`"


def _endpoint_in_network(
    path: SpecPath, site: OnPremSite, address: ipaddress.IPv4Address
) -> Iterator[FieldFinding]:
    where = (*path, "kubernetes", "endpoint")
    network = parse_network(site.network)
    if site.network is None:
        yield FieldFinding(
            where,
            f"site {site.site!r} has a virtual address but no `network`",
            "declare the site's `network`, such as 10.60.0.0/22",
        )
    elif network is not None and address not in network:
        yield FieldFinding(
            where,
            f"{address} is not in the site's network {network}: no member can use it",
            "use a free address of that network",
        )
    elif network is not None and address in (network.network_address, network.broadcast_address):
        yield FieldFinding(
            where, f"{address} is the first or last address of {network}", "use another free address"
        )


def _address(text: str) -> ipaddress.IPv4Address | None:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        return None


@check("kubernetes-networks")
def kubernetes_networks(fleet: Fleet) -> Iterator[FieldFinding]:
    """The networks of hosts, pods and services must not overlap, since packets would reach the wrong one.
    Each node uses a /24 of the pod network."""
    for path, site in kubernetes_sites(fleet):
        kubernetes = site.kubernetes
        here = (*path, "kubernetes")
        named: list[tuple[SpecPath, str, str]] = [
            ((*here, "pod_network"), "pod network", kubernetes.pod_network),
            ((*here, "service_network"), "service network", kubernetes.service_network),
        ]
        others: list[tuple[str, str | None]] = [("the site's network", site.network)]
        for where, what, text in named:
            network = parse_network(text)
            if network is None:
                yield FieldFinding(
                    where, f"{what} '{text}' is not an IPv4 CIDR", "write a network, such as 10.244.0.0/16"
                )
                continue
            for other, its in others:
                known = parse_network(its)
                if known is not None and network.overlaps(known):
                    yield FieldFinding(
                        where, f"{what} {text} overlaps {other} {its}", "use a network that overlaps no other"
                    )
            others.append((f"the {what}", text))
        yield from _sizes(here, site)


def _sizes(here: SpecPath, site: OnPremSite) -> Iterator[FieldFinding]:
    pods, services = (
        parse_network(site.kubernetes.pod_network),
        parse_network(site.kubernetes.service_network),
    )
    nodes = len(site.nodes.hosts) + (len(site.controllers.hosts) if site.controllers is not None else 0)
    if pods is not None and (room := 2 ** max(0, PODS_PER_NODE_PREFIX - pods.prefixlen)) < nodes:
        yield FieldFinding(
            (*here, "pod_network"),
            f"pod network {pods} has room for {room} nodes (a /{PODS_PER_NODE_PREFIX} each), but site"
            f" {site.site!r} has {nodes}",
            f"use a /{PODS_PER_NODE_PREFIX - (nodes - 1).bit_length()} or larger",
        )
    if services is not None and services.prefixlen not in SERVICE_PREFIXES:
        yield FieldFinding(
            (*here, "service_network"),
            f"service network {services} is a /{services.prefixlen}; kube-apiserver allows"
            f" /{SERVICE_PREFIXES.start} to /{SERVICE_PREFIXES.stop - 1}",
            "use a /16",
        )


@check("kubernetes-release")
def kubernetes_release(fleet: Fleet) -> Iterator[FieldFinding]:
    """A channel contains releases of certain minor versions only."""
    lock = fleet.catalog.locks.get(fleet.spec.software.channel)
    for path, site in kubernetes_sites(fleet):
        version = site.kubernetes.version
        if lock is not None and version not in lock.kubernetes_releases:
            yield FieldFinding(
                (*path, "kubernetes", "version"),
                f"Kubernetes {version} is not a version for racks in channel {lock.channel}",
                f"write one of {listed(list(lock.kubernetes_releases))}",
                value=version,
            )


@check("kubernetes-cni")
def kubernetes_cni(fleet: Fleet) -> Iterator[FieldFinding]:
    """The API accepts network policies, but the CNI enforces them. Flannel does not, without a warning (its
    README: "focused on networking")."""
    for path, site in kubernetes_sites(fleet):
        kubernetes = site.kubernetes
        if kubernetes.network_policies and kubernetes.cni not in _POLICIES:
            yield FieldFinding(
                (*path, "kubernetes", "cni"),
                f"{kubernetes.cni} does not enforce network policies: every pod could reach every other",
                f"use {listed(_POLICIES)}, or write 'network_policies: false'",
                value=kubernetes.cni,
            )


@check("kubernetes-host-network", "teams", "name")
def kubernetes_host_network(fleet: Fleet) -> Iterator[FieldFinding]:
    """Only teams of the site can have pods on the network of their node."""
    for path, site in kubernetes_sites(fleet):
        teams = [team.name for team in site.teams]
        for place, name in enumerate(site.kubernetes.host_network):
            if name not in teams:
                yield FieldFinding(
                    (*path, "kubernetes", "host_network", place),
                    f"{name!r} is not a team of site {site.site!r}",
                    did_you_mean(nearest(name, teams), "declare it under `teams` of the site"),
                    value=name,
                )


@check("kubernetes-backup")
def kubernetes_backup(fleet: Fleet) -> Iterator[FieldFinding]:
    """If the disks fail, changes after the last snapshot are lost; a snapshot every few seconds overloads
    etcd's disk (the bounds are gpufleet's own). Snapshots must not be in etcd's data folder."""
    for path, site in kubernetes_sites(fleet):
        backup = site.kubernetes.backup
        where = (*path, "kubernetes", "backup")
        if not timedelta(minutes=10) <= backup.every.delta <= timedelta(days=7):
            yield FieldFinding(
                (*where, "every"), f"a snapshot every {backup.every} is not supported", "write 10 min to 7 d"
            )
        if f"{backup.folder}/".startswith(_GOES_WITH_IT):
            yield FieldFinding(
                (*where, "folder"),
                f"{backup.folder} is deleted with the cluster or when the host restarts",
                "use a folder such as /var/backups/gpufleet/etcd, preferably on a separate file system",
            )


CHECKS = (
    kubernetes_unused,
    kubernetes_members,
    kubernetes_endpoint,
    kubernetes_networks,
    kubernetes_release,
    kubernetes_cni,
    kubernetes_host_network,
    kubernetes_backup,
)
