"""The compute fabric of rack sites: switches, rails, subnet managers, partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.spec.models import OnPremSite

_TIERS = ("leaf", "spine", "core")
_DEFAULT_PKEY = 0x7FFF


def twice(path: SpecPath, values: Sequence[str | int], what: str, key: str) -> Iterator[FieldFinding]:
    """Report values of a list's items that occur twice."""
    for index, value in enumerate(values):
        if value in values[:index]:
            yield FieldFinding((*path, index, key), f"{what} {value} is declared twice", "give each its own")


@check("switch-names")
def switch_names(fleet: Fleet) -> Iterator[FieldFinding]:
    """Uplinks and Slurm's topology use the name of a switch, the subnet manager uses its GUID. Both are
    unique."""
    for path, site in fleet.onprem():
        switches = site.fabric.switches
        where = (*path, "fabric", "switches")
        yield from twice(where, [item.name for item in switches], "switch", "name")
        guids = [item.guid or f"none of {item.name} {index}" for index, item in enumerate(switches)]
        yield from twice(where, guids, "GUID", "guid")


@check("switch-uplinks", "switches", "name", "tier")
def switch_uplinks(fleet: Fleet) -> Iterator[FieldFinding]:
    """An uplink must lead to a switch of a higher tier. Otherwise the topology is not a tree and routes
    loop."""
    for path, site in fleet.onprem():
        tiers = {item.name: item.tier for item in site.fabric.switches}
        for index, switch in enumerate(site.fabric.switches):
            for place, name in enumerate(switch.uplinks):
                where = (*path, "fabric", "switches", index, "uplinks", place)
                if name not in tiers:
                    guess = did_you_mean(
                        nearest(name, tiers), f"declare it, or use one of {listed(list(tiers))}"
                    )
                    yield FieldFinding(
                        where,
                        f"switch {switch.name!r} has an uplink to {name!r}, which is not a switch",
                        guess,
                    )
                elif _TIERS.index(tiers[name]) <= _TIERS.index(switch.tier):
                    yield FieldFinding(
                        where,
                        f"{switch.tier} {switch.name!r} has an uplink to {tiers[name]} {name!r}",
                        "write a switch of a higher tier, or correct the tiers",
                    )


@check("switch-nodes")
def switch_nodes(fleet: Fleet) -> Iterator[FieldFinding]:
    """Only leaves have nodes: GPU nodes of the site, one leaf per rail. Slurm uses this topology to place
    jobs."""
    for path, site in fleet.onprem():
        rails: dict[tuple[str, int | None], str] = {}
        below: dict[str, int] = {}
        most = len(site.fabric.rails) or _adapters(fleet, site)
        for index, switch in enumerate(site.fabric.switches):
            where = (*path, "fabric", "switches", index, "nodes")
            if switch.nodes is None:
                continue
            if switch.tier != "leaf":
                yield FieldFinding(
                    where, f"{switch.tier} {switch.name!r} has nodes", "move them to its leaves"
                )
                continue
            strange = [host for host in switch.nodes.hosts if host not in site.nodes.hosts]
            if strange:
                yield FieldFinding(
                    where,
                    f"leaf {switch.name!r} has {len(strange)} nodes that are not GPU nodes of"
                    f" site {site.site!r} ({listed(strange, 3)})",
                    f"use nodes of {site.nodes.text}",
                )
            again = [
                host
                for host in switch.nodes.hosts
                if switch.rail is not None
                and rails.setdefault((host, switch.rail), switch.name) != switch.name
            ]
            if again:
                yield FieldFinding(
                    where,
                    f"{len(again)} nodes of leaf {switch.name!r} are already on rail {switch.rail} of leaf"
                    f" {rails[again[0], switch.rail]!r} ({listed(again, 3)})",
                    "assign each node to one leaf per rail",
                )
            for host in switch.nodes.hosts:
                below[host] = below.get(host, 0) + 1
            full = [host for host in switch.nodes.hosts if most is not None and below[host] == most + 1]
            if full:
                yield FieldFinding(
                    where,
                    f"{len(full)} nodes are below more than {most} leaves, but have {most} ports"
                    f" ({listed(full, 3)})",
                    "correct `nodes` of the leaves, or `rails`",
                )


def _adapters(fleet: Fleet, site: OnPremSite) -> int | None:
    system = fleet.catalog.systems.get(site.system)
    return None if system is None else system.compute_nics


@check("fabric-rails", "rails")
def fabric_rails(fleet: Fleet) -> Iterator[FieldFinding]:
    """A rail is a port of each node. There are as many rails as compute adapters, each listed once.

    Without names, a failed rail cannot be distinguished from a storage port, and NCCL uses any adapter.
    """
    for path, site in fleet.onprem():
        fabric = site.fabric
        for key, names in (("rails", fabric.rails), ("interfaces", fabric.interfaces)):
            again = [name for index, name in enumerate(names) if name in names[:index]]
            if again:
                yield FieldFinding(
                    (*path, "fabric", key), f"{again[0]} is listed as two rails", "list each once"
                )
        adapters, system = _adapters(fleet, site), fleet.catalog.systems.get(site.system)
        rails = fabric.rails or (() if system is None else system.rails)
        if not rails and system is not None:
            variants = [f"{', '.join(names)} ({what})" for what, names in system.rails_of_variants.items()]
            yield FieldFinding(
                (*path, "fabric"),
                f"the catalog has no rails of {site.system}, and `rails` is not set: a storage port could"
                " be used instead of a failed rail",
                f"write `rails`: {' or '.join(variants) or 'the RDMA devices of the fabric'}",
                "warning",
            )
        if fabric.rails and adapters is not None and len(fabric.rails) != adapters:
            yield FieldFinding(
                (*path, "fabric", "rails"),
                f"{len(fabric.rails)} rails, but {site.system} has {adapters} compute adapters",
                f"list {adapters} devices, or remove `rails`",
                "warning",
            )
        if fabric.interfaces and len(fabric.interfaces) != len(rails):
            yield FieldFinding(
                (*path, "fabric", "interfaces"),
                f"{len(fabric.interfaces)} interfaces for {len(rails)} rails",
                "list the interface of each rail, in the order of `rails`",
            )


@check("fabric-settings")
def fabric_settings(fleet: Fleet) -> Iterator[FieldFinding]:
    """Subnet managers, partitions and IPoIB apply only to InfiniBand, PFC and DSCP only to RoCE."""
    for path, site in fleet.onprem():
        infiniband = site.fabric.kind == "infiniband"
        foreign = ("roce", "interfaces") if infiniband else ("subnet_managers", "partitions", "ipoib")
        for key in foreign:
            if key in site.fabric.model_fields_set and getattr(site.fabric, key):
                yield FieldFinding(
                    (*path, "fabric", key),
                    f"'{key}' has no effect on {site.fabric.kind}",
                    f"remove it, or use `kind: {'roce' if infiniband else 'infiniband'}` and a speed of it",
                )


@check("subnet-managers", "controllers", "login")
def subnet_managers(fleet: Fleet) -> Iterator[FieldFinding]:
    """opensm runs on controllers or login hosts, which jobs do not affect. With equal priorities the GUIDs
    decide which one is master (opensm(8)), so priorities must differ."""
    for path, site in fleet.onprem():
        managers = site.fabric.subnet_managers
        hosts = [host for part in (site.controllers, site.login) if part is not None for host in part.hosts]
        where = (*path, "fabric", "subnet_managers")
        yield from twice(where, [item.host for item in managers], "subnet manager", "host")
        yield from twice(where, [item.priority for item in managers], "priority", "priority")
        for index, manager in enumerate(managers):
            if manager.host in hosts:
                continue
            node = manager.host in site.nodes.hosts
            yield FieldFinding(
                (*where, index, "host"),
                f"{manager.host!r} is a GPU node, which jobs can bring down"
                if node
                else f"{manager.host!r} is not a host of site {site.site!r}",
                did_you_mean(None if node else nearest(manager.host, hosts), f"use one of {listed(hosts)}")
                if hosts
                else "declare `controllers` or `login` hosts first",
            )


@check("fabric-partitions")
def fabric_partitions(fleet: Fleet) -> Iterator[FieldFinding]:
    """A partition has a unique name and key. 0x7fff is the default partition, 0x0000 is invalid (InfiniBand
    Architecture Specification, partitioning)."""
    for path, site in fleet.onprem():
        where = (*path, "fabric", "partitions")
        partitions = site.fabric.partitions
        yield from twice(where, [item.name for item in partitions], "partition", "name")
        yield from twice(where, [item.pkey for item in partitions], "key", "pkey")
        for index, item in enumerate(partitions):
            if int(item.pkey, 16) in (0, _DEFAULT_PKEY):
                yield FieldFinding(
                    (*where, index, "pkey"),
                    f"{item.pkey} is reserved and not a valid partition key",
                    "write a key from 0x0001 to 0x7ffe",
                )


CHECKS = (
    switch_names,
    switch_uplinks,
    switch_nodes,
    fabric_rails,
    fabric_settings,
    subnet_managers,
    fabric_partitions,
)
