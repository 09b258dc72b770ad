"""Variables of the roles that every host gets: base, users, firewall, and file systems."""

from __future__ import annotations

from typing import Any

from gpufleet.plan.json import model_to_json
from gpufleet.plan.slurm_models import EFS_OPTIONS, SHARED
from gpufleet.racks.variables.variable import Context, Variable


def _mounts(kind: str) -> Any:
    def value(context: Context) -> list[dict[str, str]]:
        # The stack knows the address of the file system that it made for servers.
        made = context.file_system(SHARED) if kind == "nfs" else None
        return [
            {"source": source, "path": item.mount}
            for item in context.site.mounts
            if item.kind == kind and (source := item.source or made)
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
    return [model_to_json(person) for person in context.site.rack.people]


def _networks(context: Context) -> list[str]:
    """The site's own, that of its pods, who ask the API and kubelets from their own addresses, and those of
    cloud nodes that its Slurm launches."""
    rack = context.site.rack
    pods = None if rack.kubernetes is None else rack.kubernetes.pod_network
    cloud = [each.plan.cidr for each in context.launched]
    return list(dict.fromkeys(network for network in (rack.network, pods, *cloud) if network is not None))


HOST_VARIABLES = (
    Variable("base", "gpu_node", "host", lambda c: c.host.role == "gpu"),
    Variable("base", "time_servers", "site", lambda c: list(c.site.rack.time_servers)),
    Variable("base", "package_mirror", "site", lambda c: c.site.rack.package_mirror),
    Variable("base", "doca_version", "fleet", lambda c: c.lock.doca_ofed),
    Variable("base", "doca_repository", "site", lambda c: c.site.rack.doca_repository),
    Variable("base", "doca_key", "site", lambda c: c.site.rack.doca_key),
    Variable(
        "base",
        "doca_key_fingerprint",
        "site",
        lambda c: c.site.rack.doca_key_fingerprint or c.lock.doca_key_fingerprint,
    ),
    Variable(
        "base",
        "kubernetes_minor",
        "site",
        lambda c: None if c.site.rack.kubernetes is None else c.site.rack.kubernetes.version,
    ),
    Variable("base", "host_addresses", "site", _addresses),
    Variable("base", "reboot_batch", "site", lambda c: c.site.rack.reboot_batch),
    Variable("base", "reboot_timeout_s", "site", lambda c: c.site.rack.reboot_timeout_s),
    Variable(
        "users",
        "groups",
        "site",
        lambda c: [{"name": name, "gid": gid} for name, gid in c.site.rack.groups.items()],
    ),
    Variable("users", "accounts", "site", _accounts),
    Variable("firewall", "networks", "site", _networks),
    Variable(
        "firewall",
        "cluster_hosts",
        "site",
        lambda c: [{"name": host.name, "address": host.address} for host in c.site.hosts],
    ),
    Variable("firewall", "ssh_port", "site", lambda c: c.site.ssh_port),
    Variable("nfs_client", "mounts", "site", _mounts("nfs")),
    Variable("nfs_client", "options", "site", lambda c: EFS_OPTIONS if c.file_system(SHARED) else None),
    Variable("lustre_client", "mounts", "site", _mounts("lustre")),
    Variable("parallel_fs_client", "mounts", "site", _parallel_mounts),
    Variable("local_nvme", "mount", "site", lambda c: c.site.rack.local_nvme),
    Variable("local_nvme", "cache", "site", lambda c: c.site.rack.local_nvme_cache),
    Variable("local_nvme", "drives", "site", lambda c: c.site.rack.local_nvme_drives),
)
