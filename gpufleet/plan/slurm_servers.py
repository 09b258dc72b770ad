"""Servers of a Slurm in the cloud: the instances of its site, and the hosts that the roles configure."""

from __future__ import annotations

from ipaddress import IPv4Network

from gpufleet.plan.slurm_models import ServerPlan, SlurmServersPlan
from gpufleet.plan.subnets import plan_subnets
from gpufleet.spec.models import CloudSite, SlurmServers

RESERVED_PREFIX = 28
"""Servers have addresses of the second /28 of a private subnet, which is kept for them: nodes find their
controllers by address."""

_FIRST = {"controller": 0, "login": 2}
"""The first address of each role in the block: at most two controllers come before the login hosts."""


def plan_slurm_servers(site: CloudSite, servers: SlurmServers) -> SlurmServersPlan:
    """The instances of a site's servers, one after the other over its zones."""
    subnets = plan_subnets(site.network.cidr, site.zones)
    blocks = {each.zone: _block(each.cidr) for each in subnets if each.kind == "private"}
    found: list[ServerPlan] = []
    for role, label, declared in (
        ("controller", "ctl", servers.controllers),
        ("login", "login", servers.login),
    ):
        for index in range(declared.hosts):
            zone, host = site.zones[index % len(site.zones)], f"{label}{index + 1}"
            found.append(
                ServerPlan(
                    name=f"{site.site}-{host}",
                    label=host,
                    role="controller" if role == "controller" else "login",
                    zone=zone,
                    address=str(blocks[zone][_FIRST[role] + index]),
                    instance_type=declared.instance_type,
                    volume_gib=int(declared.volume.gib),
                )
            )
    used = {each.zone for each in found}
    return SlurmServersPlan(
        servers=tuple(found),
        reserved={zone: str(block) for zone, block in blocks.items() if zone in used},
        image=servers.image,
        image_kind="ami-id" if servers.image.startswith("ami-") else "parameter",
        ssh_user=servers.ssh.user,
        keys=servers.ssh.keys,
        access=servers.ssh.access,
        shared=servers.shared,
        shares_state=servers.controllers.hosts > 1,
    )


def _block(subnet: str) -> IPv4Network:
    first = IPv4Network(subnet)
    return IPv4Network((int(first.network_address) + 16, RESERVED_PREFIX))
