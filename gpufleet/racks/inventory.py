"""The Ansible inventory of a fleet: rack hosts from the plan, cloud nodes of Slurm sites from stack outputs.

Pure and deterministic: the same plan, catalog and outputs give the same bytes. It holds facts of
the fleet file and the catalog only, and never a secret. Variables are named `gpufleet_*`, which say
what a host is, or begin with the role that takes them (`gpufleet.racks.variables`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpufleet.catalog import Catalog, SoftwareLock
from gpufleet.errors import InputError
from gpufleet.plan.json import model_to_json
from gpufleet.plan.models import CloudSitePlan, FleetPlan, HostPlan, NodeGroupPlan, OnPremSitePlan
from gpufleet.pricing.node_hours import node_hours
from gpufleet.racks.cloud_nodes import CloudNode, cloud_nodes
from gpufleet.racks.rack_groups import RACK_GROUPS, rack_groups_of
from gpufleet.racks.server_access import server_proxies
from gpufleet.racks.systems import system_of
from gpufleet.racks.variables import LaunchedSite, fleet_values, host_values, site_values

Inventory = dict[str, Any]
"""An Ansible inventory in its YAML structure: `{"all": {"vars": ..., "children": ...}}`."""

ONPREM, CLOUD, SERVERS = "onprem", "cloud", "slurm_servers"
_RESERVED = frozenset({"all", "ungrouped", "localhost", ONPREM, CLOUD, SERVERS, *RACK_GROUPS})
_NOT_FOR_HOSTS = frozenset(
    {
        "sources",
        "notes",
        "unverified",
        "kubernetes",
        "kubernetes_releases",
        "cni",
        "gpus_min_driver",
        "driver_eol",
    }
)


def group_name(kind: str, value: str) -> str:
    """The group of a site, role, system, scheduler, fabric or node group: `site_dc1`, `system_dgx_h100`.

    Ansible takes letters, digits and underscores only, so every other character becomes one.
    """
    return re.sub(r"[^a-z0-9_]", "_", f"{kind}_{value}".lower())


def build_inventory(plan: FleetPlan, catalog: Catalog, outputs: Mapping[str, Any] | None = None) -> Inventory:
    """The inventory of `plan`. `outputs` are the stack's, see `gpufleet.racks.cloud_nodes`.

    Raises InputError when two hosts share a name, when a host is named like a built-in group, when
    two sites or systems would share a group, and when the outputs name what the plan has not.
    """
    own = {site.site for site in plan.server_hosts}
    slurm_sites = [site for site in plan.cloud if site.scheduler == "slurm" and site.site not in own]
    nodes = cloud_nodes(slurm_sites, outputs or {})
    _refuse_shared_names(
        [host.name for site in plan.host_sites() for host in site.hosts] + [n.name for n in nodes]
    )
    groups = _Groups()
    lock = catalog.lock(plan.software_channel)
    for name in RACK_GROUPS if plan.host_sites() else ():
        groups.named(name)
    for site in plan.host_sites():
        launched = launched_sites(plan, catalog, site.site, outputs or {})
        _add_host_site(groups, site, catalog, lock, launched, SERVERS if site.site in own else ONPREM)
    for name in (ONPREM, SERVERS) if plan.host_sites() else ():
        groups.named(name)
    for cloud_site in slurm_sites:
        _add_cloud_site(groups, cloud_site, [node for node in nodes if node.site == cloud_site.site])
    return {"all": {"vars": _fleet_vars(plan, lock), "children": groups.tree()}}


class _Groups:
    """The groups by name, each made for one thing only."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Any]] = {}
        self._made_for: dict[str, tuple[str, str]] = {}

    def of(self, kind: str, value: str) -> dict[str, Any]:
        name = group_name(kind, value)
        made_for = self._made_for.setdefault(name, (kind, value))
        if made_for != (kind, value):
            raise InputError(
                f"{made_for[0]} {made_for[1]!r} and {kind} {value!r} are both Ansible group {name!r}: "
                "groups take letters, digits and '_' only",
                remedy=f"rename one of them so that they differ in more than punctuation: {value!r}",
            )
        return self._groups.setdefault(name, {})

    def named(self, name: str) -> dict[str, Any]:
        return self._groups.setdefault(name, {})

    def tree(self) -> dict[str, Any]:
        """Groups sorted by name, hosts in the order of the fleet file, empty parts left out."""
        return {
            name: {part: body[part] for part in ("vars", "children", "hosts") if body.get(part)}
            for name, body in sorted(self._groups.items())
        }


def software_of(lock: SoftwareLock) -> dict[str, Any]:
    """The versions of a software channel, as hosts have them."""
    return lock.model_dump(mode="json", exclude=set(_NOT_FOR_HOSTS))


def _fleet_vars(plan: FleetPlan, lock: SoftwareLock) -> dict[str, Any]:
    return {
        "gpufleet_fleet": plan.fleet,
        "gpufleet_environment": plan.environment,
        "gpufleet_tags": dict(sorted(plan.tags.items())),
        "gpufleet_software": software_of(lock),
        **fleet_values(lock),
    }


def launched_sites(
    plan: FleetPlan, catalog: Catalog, rack: str, outputs: Mapping[str, Any]
) -> list[LaunchedSite]:
    """The cloud sites whose nodes the Slurm of a site launches, as far as they are built."""
    return [
        LaunchedSite(
            site,
            launches,
            node_hours(plan, catalog, site) if site.slurm.burst else {},
            site_outputs.get("slurm_servers") or {},
        )
        for site in plan.cloud
        if site.slurm is not None and site.slurm.controllers == rack
        if (launches := (site_outputs := outputs.get(site.site) or {}).get("slurm")) is not None
    ]


def _add_host_site(
    groups: _Groups,
    site: OnPremSitePlan,
    catalog: Catalog,
    lock: SoftwareLock,
    launched: Sequence[LaunchedSite],
    among: str,
) -> None:
    here = groups.of("site", site.site)
    here["vars"] = {
        "gpufleet_site": site.site,
        "gpufleet_system": site.system,
        "gpufleet_scheduler": site.scheduler,
        "gpufleet_fabric": model_to_json(site.fabric),
        "gpufleet_mounts": [
            {"kind": item.kind, "source": item.source, "path": item.mount} for item in site.mounts
        ],
        "gpufleet_teams": [model_to_json(team) for team in site.teams],
        "gpufleet_site_tags": dict(sorted(site.tags.items())),
        **_slurm_vars(site, catalog),
        **site_values(site, catalog, lock, launched),
    }
    proxies = server_proxies(launched)
    here["hosts"] = {
        host.name: _host_vars(site, host)
        | proxies.get(host.name, {})
        | host_values(host, site, catalog, lock)
        for host in site.hosts
    }
    groups.named(among).setdefault("children", {})[group_name("site", site.site)] = {}
    for host in site.hosts:
        _join(groups.of("role", host.role), [host.name])
    _join(groups.of("scheduler", site.scheduler), [host.name for host in site.hosts])
    gpu_hosts = [host.name for host in site.hosts if host.role == "gpu"]
    for host in site.hosts:
        for name in rack_groups_of(host, site, system_of(site, catalog)):
            _join(groups.named(name), [host.name])
    if not gpu_hosts:
        return
    _join(groups.of("fabric", site.fabric.kind), gpu_hosts)
    system = groups.of("system", site.system)
    system["vars"] = _system_vars(site, catalog)
    _join(system, gpu_hosts)


def _slurm_vars(site: OnPremSitePlan, catalog: Catalog) -> dict[str, Any]:
    """Which releases of Slurm each release takes over, on Slurm sites."""
    if site.rack.slurm is None:
        return {}
    known = catalog.slurm_releases
    return {"gpufleet_slurm_upgrades": {name: list(item.upgrades_from) for name, item in known.items()}}


def _host_vars(site: OnPremSitePlan, host: HostPlan) -> dict[str, Any]:
    values: dict[str, Any] = {
        "ansible_host": host.address,
        "ansible_port": site.ssh_port,
        "ansible_user": site.ssh_user,
        "gpufleet_role": host.role,
    }
    if host.bmc is not None:
        values["gpufleet_bmc_address"] = host.bmc
    return values


def _system_vars(site: OnPremSitePlan, catalog: Catalog) -> dict[str, Any]:
    """Return the expected values of each node of the system. An unpublished figure is null, never 0."""
    system = catalog.system(site.system)
    power = site.power_kw_per_node
    return {
        "gpufleet_gpu": system.gpu,
        "gpufleet_gpus_per_node": system.gpus,
        "gpufleet_compute_nics_per_node": system.compute_nics,
        "gpufleet_nvswitches_per_node": system.nvswitches,
        "gpufleet_fabric_gbps": system.fabric_gbps,
        "gpufleet_power_kw_per_node": None if power is None else float(power),
    }


def _add_cloud_site(groups: _Groups, site: CloudSitePlan, nodes: list[CloudNode]) -> None:
    here = groups.of("site", site.site)
    here["vars"] = {
        "gpufleet_site": site.site,
        "gpufleet_region": site.region,
        "gpufleet_scheduler": site.scheduler,
        "gpufleet_mounts": [
            {"kind": "lustre", "name": item.name, "path": item.mount} for item in site.lustre
        ],
        "gpufleet_site_tags": dict(sorted(site.tags.items())),
    }
    here["hosts"] = {
        node.name: {
            "ansible_host": node.address,
            "gpufleet_role": "gpu",
            "gpufleet_node_group": node.node_group,
        }
        | ({"ansible_user": node.user} if node.user else {})
        for node in nodes
    }
    groups.named(CLOUD).setdefault("children", {})[group_name("site", site.site)] = {}
    names = [node.name for node in nodes]
    _join(groups.of("role", "gpu"), names)
    _join(groups.of("scheduler", site.scheduler), names)
    _join(groups.of("fabric", "efa"), [node.name for node in nodes if node.efa])
    for node_group in site.node_groups:
        members = groups.of("node_group", f"{site.site}_{node_group.name}")
        members["vars"] = _node_group_vars(node_group)
        _join(members, [node.name for node in nodes if node.node_group == node_group.name])


def _node_group_vars(group: NodeGroupPlan) -> dict[str, Any]:
    return {
        "gpufleet_instance_types": list(group.instance_types),
        "gpufleet_gpu": group.gpu,
        "gpufleet_gpus_per_node": group.gpus_per_node,
        "gpufleet_gres": group.accelerator.gres if group.accelerator is not None else "",
        "gpufleet_efa_interfaces_per_node": sum(
            1 for item in group.network_interfaces if item.interface_type != "interface"
        ),
    }


def _join(group: dict[str, Any], hosts: Iterable[str]) -> None:
    group.setdefault("hosts", {}).update({name: {} for name in hosts})


def _refuse_shared_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in _RESERVED:
            raise InputError(
                f"host {name!r} has the name of a built-in Ansible group", remedy="give the host another name"
            )
        if name in seen:
            raise InputError(
                f"host {name!r} is in the inventory twice: an Ansible host name stands for one host",
                remedy="give the hosts of each site a prefix of their own",
            )
        seen.add(name)
