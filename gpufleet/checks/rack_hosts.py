"""Racks, people, drives and addresses of rack sites."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Protocol

from gpufleet.checks.networks import parse_network
from gpufleet.checks.rack_fabric import twice
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.spec.models import OnPremSite
from gpufleet.spec.quantity import HostRange

_SYSTEM_ACCOUNTS = frozenset(
    {"root", "daemon", "bin", "sys", "sync", "mail", "backup", "nobody", "sshd", "slurm", "munge", "mysql"}
)


def _hosts(site: OnPremSite) -> list[str]:
    parts = (site.nodes, site.controllers, site.login)
    return [host for part in parts if part is not None for host in part.hosts]


class _Nodes(Protocol):
    """An item with a name and GPU nodes."""

    @property
    def name(self) -> str: ...

    @property
    def nodes(self) -> HostRange: ...


def apart(where: SpecPath, site: OnPremSite, items: Sequence[_Nodes], what: str) -> Iterator[FieldFinding]:
    """Report duplicate names, nodes that are not GPU nodes of the site, and nodes in several of `items`."""
    yield from twice(where, [item.name for item in items], what, "name")
    owner: dict[str, str] = {}
    for index, item in enumerate(items):
        strange = [host for host in item.nodes.hosts if host not in site.nodes.hosts]
        if strange:
            yield FieldFinding(
                (*where, index, "nodes"),
                f"{what} {item.name!r} has {len(strange)} nodes that are not GPU nodes of site"
                f" {site.site!r} ({listed(strange, 3)})",
                f"use nodes of {site.nodes.text}",
            )
        taken = [host for host in item.nodes.hosts if owner.setdefault(host, item.name) != item.name]
        if taken:
            yield FieldFinding(
                (*where, index, "nodes"),
                f"{len(taken)} nodes of {what} {item.name!r} are also in {owner[taken[0]]!r}"
                f" ({listed(taken, 3)})",
                "list each node once",
            )


@check("rack-nodes")
def rack_nodes(fleet: Fleet) -> Iterator[FieldFinding]:
    """A node is in one rack. Power figures and job placement use it."""
    for path, site in fleet.onprem():
        yield from apart((*path, "racks"), site, site.racks, "rack")


@check("people-numbers")
def people_numbers(fleet: Fleet) -> Iterator[FieldFinding]:
    """Files on shared storage belong to UIDs and GIDs. Users with the same number can read each other's
    data."""
    for path, _, site in fleet.people():
        users, groups = (*path, "users"), (*path, "groups")
        yield from twice(users, [item.name for item in site.users], "user", "name")
        yield from twice(users, [item.uid for item in site.users], "uid", "uid")
        yield from twice(groups, [item.name for item in site.groups], "group", "name")
        yield from twice(groups, [item.gid for item in site.groups], "gid", "gid")
        taken = {item.gid: f"group {item.name!r}" for item in site.groups}
        for index, user in enumerate(site.users):
            gid = user.gid if user.gid is not None else user.uid
            owner = taken.setdefault(gid, f"user {user.name!r}")
            if owner != f"user {user.name!r}":
                yield FieldFinding(
                    (*users, index, "uid" if user.gid is None else "gid"),
                    f"the primary group of {user.name!r} has GID {gid}, which belongs to {owner}",
                    "use another number",
                )


@check("people-names", "teams", "groups", "name")
def people_names(fleet: Fleet) -> Iterator[FieldFinding]:
    """A user is not a system account, is in declared groups and teams, and has an SSH key, since password
    logins are off."""
    for path, at, site in fleet.people():
        groups = [item.name for item in site.groups]
        teams = [team.name for team in site.teams]
        for index, group in enumerate(groups):
            if group in _SYSTEM_ACCOUNTS or group in [user.name for user in site.users]:
                yield FieldFinding(
                    (*path, "groups", index, "name"),
                    f"group {group!r} exists already: systems and users have groups of the same name",
                    "give it another name",
                )
        for index, user in enumerate(site.users):
            where = (*path, "users", index)
            if user.name in _SYSTEM_ACCOUNTS or user.name == site.ssh.user:
                yield FieldFinding(
                    (*where, "name"),
                    f"{user.name!r} is a system account that already exists on the hosts",
                    "use another user name",
                )
            for place, name in enumerate(user.groups):
                if name not in groups:
                    yield FieldFinding(
                        (*where, "groups", place),
                        f"user {user.name!r} is in group {name!r}, which site {at!r} does not declare",
                        did_you_mean(nearest(name, groups), f"declare it, as {{ name: {name}, gid: 5000 }}"),
                    )
            for place, name in enumerate(user.teams):
                if name not in teams:
                    yield FieldFinding(
                        (*where, "teams", place),
                        f"user {user.name!r} is in team {name!r}, which site {at!r} does not declare",
                        did_you_mean(nearest(name, teams), "declare it under `teams` of the site"),
                    )
            if not user.ssh_keys:
                yield FieldFinding(
                    (*where, "ssh_keys"),
                    f"user {user.name!r} has no SSH key and cannot log in",
                    "add a public key, such as the content of ~/.ssh/id_ed25519.pub",
                    "warning",
                    user.name,
                )


@check("nvme-cache", "mount", "local_nvme")
def nvme_cache(fleet: Fleet) -> Iterator[FieldFinding]:
    """The cache must be on the local NVMe file system. Elsewhere it would fill the system disk."""
    for path, site in fleet.onprem():
        nvme = site.local_nvme
        if nvme is not None and nvme.cache is not None and not nvme.cache.startswith(f"{nvme.mount}/"):
            yield FieldFinding(
                (*path, "local_nvme", "cache"),
                f"cache {nvme.cache} is not below {nvme.mount}",
                f"write '{nvme.mount}/cache'",
            )


@check("host-addresses", "nodes", "controllers", "login")
def host_addresses(fleet: Fleet) -> Iterator[FieldFinding]:
    """An address belongs to one host of the site and is in the site's network."""
    for path, site in fleet.onprem():
        hosts, network = _hosts(site), parse_network(site.network)
        seen: dict[str, str] = {}
        for name, address in site.addresses.items():
            where = (*path, "addresses", name)
            if name not in hosts:
                yield FieldFinding(
                    where,
                    f"{name!r} has an address but is not a host of site {site.site!r}",
                    did_you_mean(nearest(name, hosts), f"use one of {listed(hosts)}"),
                )
            other = seen.setdefault(address, name)
            if other != name:
                yield FieldFinding(
                    where, f"{address} is also the address of {other!r}", "give each host its own"
                )
            if network is not None and not _within(address, network):
                yield FieldFinding(
                    where,
                    f"{address} of {name!r} is not in the site's network {network}",
                    "correct the address or `network`",
                    "warning",
                )


def _within(address: str, network: ipaddress.IPv4Network) -> bool:
    """Return whether an address is in a network, True for a host name."""
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return True


@check("host-fingerprints", "nodes", "controllers", "login")
def host_fingerprints(fleet: Fleet) -> Iterator[FieldFinding]:
    """A fingerprint belongs to one host of the site. Hosts with the same key were cloned, and each can
    impersonate the others."""
    for path, site in fleet.onprem():
        hosts = _hosts(site)
        seen: dict[str, str] = {}
        for name, value in site.ssh.fingerprints.items():
            where = (*path, "ssh", "fingerprints", name)
            if name not in hosts:
                yield FieldFinding(
                    where,
                    f"{name!r} has a fingerprint but is not a host of site {site.site!r}",
                    did_you_mean(nearest(name, hosts), f"use one of {listed(hosts)}"),
                )
            other = seen.setdefault(value, name)
            if other != name:
                yield FieldFinding(
                    where,
                    f"{name!r} and {other!r} have the same host key",
                    "remove the keys on one of them and run `ssh-keygen -A` there",
                )


@check("doca-repository")
def doca_repository(fleet: Fleet) -> Iterator[FieldFinding]:
    """Packages of DOCA-OFED come from one place, the site's mirror or its DOCA repository. Another key than
    NVIDIA's is trusted by its own fingerprint."""
    for path, site in fleet.onprem():
        given = [
            name for name in ("repository", "key", "fingerprint") if getattr(site.doca, name) is not None
        ]
        if given and site.package_mirror is not None:
            yield FieldFinding(
                (*path, "doca", given[0]),
                f"{getattr(site.doca, given[0])} has no effect: with package_mirror {site.package_mirror} the"
                " hosts use no other repository",
                "remove `doca` or `package_mirror`",
                "warning",
            )
        elif site.doca.key is not None and site.doca.fingerprint is None:
            yield FieldFinding(
                (*path, "doca", "key"),
                f"{site.doca.key} has no fingerprint: only NVIDIA's own key is trusted without one",
                "add `fingerprint`: the 40 digits that `gpg --show-keys` shows of it, confirmed by who"
                " signs the repository",
            )


@check("reboot-settings")
def reboot_settings(fleet: Fleet) -> Iterator[FieldFinding]:
    """A batch is at most 100% of the nodes. Firmware needs more than a minute to start, and a wait of hours
    delays the other nodes (the bounds are gpufleet's own)."""
    for path, site in fleet.onprem():
        if site.reboot.batch.value > 100:
            yield FieldFinding(
                (*path, "reboot", "batch"),
                f"a reboot batch of {site.reboot.batch} is more than all nodes",
                "write 100% or less",
            )
        if not timedelta(minutes=1) <= site.reboot.timeout.delta <= timedelta(hours=2):
            yield FieldFinding(
                (*path, "reboot", "timeout"),
                f"a reboot timeout of {site.reboot.timeout} is not supported",
                "write 1 min to 2 h",
            )


CHECKS = (
    rack_nodes,
    people_numbers,
    people_names,
    nvme_cache,
    host_addresses,
    host_fingerprints,
    doca_repository,
    reboot_settings,
)
