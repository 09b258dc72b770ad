"""Variables of the roles that every host gets: base, users, firewall, and file systems."""

from __future__ import annotations

from typing import Any

from gpufleet.plan.json import plan_to_json
from gpufleet.racks.variables.variable import Context, Variable


def _mounts(kind: str) -> Any:
    def value(context: Context) -> list[dict[str, str]]:
        return [
            {"source": item.source, "path": item.mount} for item in context.site.mounts if item.kind == kind
        ]

    return value


def _parallel_mounts(context: Context) -> list[dict[str, Any]]:
    return [
        {"kind": item.kind, "source": item.source, "path": item.mount, "options": list(item.options)}
        for item in context.site.mounts
        if item.kind not in ("nfs", "lustre")
    ]


def _addresses(context: Context) -> list[dict[str, str]]:
    return [{"name": name, "address": address} for name, address in context.site.rack.host_addresses.items()]


def _accounts(context: Context) -> list[dict[str, Any]]:
    return [plan_to_json(person) for person in context.site.rack.people]


def _networks(context: Context) -> list[str]:
    """The site's own, and that of its pods, who ask the API and kubelets from their own addresses."""
    rack = context.site.rack
    pods = None if rack.kubernetes is None else rack.kubernetes.pod_network
    return [network for network in (rack.network, pods) if network is not None]


HOST_VARIABLES = (
    Variable(
        "base", "gpu_node", "bool", "host", "Whether the host has GPUs.", lambda c: c.host.role == "gpu"
    ),
    Variable(
        "base",
        "time_servers",
        "list",
        "site",
        "NTP servers; empty keeps the distribution's.",
        lambda c: list(c.site.rack.time_servers),
    ),
    Variable(
        "base",
        "package_mirror",
        "str",
        "site",
        "Web folder that packages come from instead of the vendors' repositories.",
        lambda c: c.site.rack.package_mirror,
    ),
    Variable(
        "base",
        "doca_version",
        "str",
        "fleet",
        "Version of DOCA-OFED, which is part of its repository's address.",
        lambda c: c.lock.doca_ofed,
    ),
    Variable(
        "base",
        "kubernetes_minor",
        "str",
        "site",
        "Minor version of Kubernetes, which is part of its repository's address.",
        lambda c: None if c.site.rack.kubernetes is None else c.site.rack.kubernetes.version,
    ),
    Variable(
        "base",
        "host_addresses",
        "list",
        "site",
        "`{name, address}` of hosts that no name server knows, for /etc/hosts.",
        _addresses,
    ),
    Variable(
        "base",
        "reboot_batch",
        "int",
        "site",
        "How many hosts may reboot at once.",
        lambda c: c.site.rack.reboot_batch,
    ),
    Variable(
        "base",
        "reboot_timeout_s",
        "int",
        "site",
        "Seconds that a host may take to come back.",
        lambda c: c.site.rack.reboot_timeout_s,
    ),
    Variable(
        "users",
        "groups",
        "list",
        "site",
        "`{name, gid}` of groups of people.",
        lambda c: [{"name": name, "gid": gid} for name, gid in c.site.rack.groups.items()],
    ),
    Variable(
        "users",
        "accounts",
        "list",
        "site",
        "`{name, uid, gid, groups, ssh_keys, sudo}` of people. `gid` is the user's own group.",
        _accounts,
    ),
    Variable(
        "firewall",
        "networks",
        "list",
        "site",
        "Networks of the cluster, from which its ports are open; empty: only addresses of its hosts.",
        _networks,
    ),
    Variable(
        "firewall",
        "cluster_hosts",
        "list",
        "site",
        "`{name, address}` of every host of the site.",
        lambda c: [{"name": host.name, "address": host.address} for host in c.site.hosts],
    ),
    Variable("firewall", "ssh_port", "int", "site", "The port of sshd.", lambda c: c.site.ssh_port),
    Variable("nfs_client", "mounts", "list", "site", "`{source, path}` of NFS file systems.", _mounts("nfs")),
    Variable(
        "lustre_client",
        "mounts",
        "list",
        "site",
        "`{source, path}` of Lustre file systems.",
        _mounts("lustre"),
    ),
    Variable(
        "parallel_fs_client",
        "mounts",
        "list",
        "site",
        "`{kind, source, path, options}` of BeeGFS, WEKA and IBM Storage Scale file systems.",
        _parallel_mounts,
    ),
    Variable(
        "local_nvme",
        "mount",
        "str",
        "site",
        "Where the scratch file system on the node's own drives is.",
        lambda c: c.site.rack.local_nvme,
    ),
    Variable(
        "local_nvme",
        "cache",
        "str",
        "site",
        "A folder of it that keeps data sets between jobs.",
        lambda c: c.site.rack.local_nvme_cache,
    ),
    Variable(
        "local_nvme",
        "drives",
        "int",
        "site",
        "How many drives there have to be.",
        lambda c: c.site.rack.local_nvme_drives,
    ),
)
