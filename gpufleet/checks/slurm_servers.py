"""Servers of a Slurm in the cloud: what belongs to them, their instances, and what they install."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed, nearest
from gpufleet.plan.storage import default_mount

_SYSTEM_FOLDERS = tuple(
    f"/{name}"
    for name in [
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "proc",
        "root",
        "run",
        "sbin",
        "sys",
        "tmp",
        "usr",
        "var",
    ]
)
"""What a mount would hide: the system, and the key of the user that Ansible logs in as."""


@check("slurm-servers-unused")
def servers_unused(fleet: Fleet) -> Iterator[FieldFinding]:
    """The role of servers is made by the stack, and jobs burst from the nodes of racks."""
    for path, site, _ in fleet.servers():
        slurm = site.slurm
        for name, why in (
            ("identity", "the stack makes the role of its controllers"),
            ("burst", "it is for jobs that wait for nodes of racks"),
        ):
            if getattr(slurm, name) is not None:
                yield FieldFinding(
                    (*path[:-1], name),
                    f"site {site.site!r} has `servers`, and `{name}` is for `controllers` of a rack site:"
                    f" {why}",
                    f"remove `{name}`",
                )


@check("slurm-servers-types")
def servers_types(fleet: Fleet) -> Iterator[FieldFinding]:
    """Controllers and login hosts run on instance types that the catalog has, so that they have a price. Both
    have the processors of their one image."""
    known = fleet.catalog.instances
    for path, site, servers in fleet.servers():
        named = {"controllers": servers.controllers.instance_type}
        if servers.login.hosts:
            named["login"] = servers.login.instance_type
        for role, name in named.items():
            if name not in known:
                yield FieldFinding(
                    (*path, role, "instance_type"),
                    f"instance type {name!r} is not in the catalog",
                    did_you_mean(nearest(name, known), "see `gpufleet catalog`"),
                    value=name,
                )
        found = [known[name] for name in named.values() if name in known]
        if len({each.arm64 for each in found}) > 1:
            yield FieldFinding(
                (*path, "login", "instance_type"),
                f"{servers.login.instance_type} and {servers.controllers.instance_type} have different"
                f" processors, and site {site.site!r} has one image for both",
                "use types of one architecture",
                value=servers.login.instance_type,
            )
        for role, name in named.items():
            if name in known and known[name].accelerator is not None:
                yield FieldFinding(
                    (*path, role, "instance_type"),
                    f"{name} has accelerators, and no job runs on {role}",
                    "use a type without, such as m7i.xlarge",
                    "warning",
                    name,
                )


@check("slurm-servers-packages")
def servers_packages(fleet: Fleet) -> Iterator[FieldFinding]:
    """The roles install packages of the distribution, which a site without NAT does not reach."""
    for path, site, servers in fleet.servers():
        if site.network.nat == "none":
            yield FieldFinding(
                (*path[:2], "network", "nat"),
                f"servers of site {site.site!r} install packages from the internet, which they do not reach",
                "write 'nat: single'",
                value="none",
            )
        if servers.shared is None:
            continue
        if servers.shared in ("/", *_SYSTEM_FOLDERS) or servers.shared.startswith(
            tuple(f"{each}/" for each in _SYSTEM_FOLDERS if each not in ("/home", "/var"))
        ):
            yield FieldFinding(
                (*path, "shared"),
                f"a file system at {servers.shared} hides files of the system on login hosts and nodes",
                "use a folder of its own, such as '/shared'",
                value=servers.shared,
            )
        taken = [
            item.name
            for item in site.storage
            if item.lustre is not None and (item.mount or default_mount(item.name)) == servers.shared
        ]
        if taken:
            yield FieldFinding(
                (*path, "shared"),
                f"{servers.shared} is where nodes mount {listed(taken)}",
                "use another folder",
                value=servers.shared,
            )


CHECKS = (servers_unused, servers_types, servers_packages)
