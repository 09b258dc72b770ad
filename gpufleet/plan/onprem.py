"""Rack sites: hosts with their addresses, and what every role needs to know of them."""

from __future__ import annotations

from gpufleet.catalog import Catalog
from gpufleet.plan.marks import site_tags
from gpufleet.plan.models import HostPlan, OnPremSitePlan, TeamPlan
from gpufleet.spec.models import FleetSpec, OnPremSite


def plan_hosts(site: OnPremSite) -> tuple[HostPlan, ...]:
    """Every host of a site: GPU nodes (each with its management controller), controllers, login nodes."""
    bmcs = site.bmc.hosts if site.bmc is not None else ()
    hosts = [
        HostPlan(
            name=name,
            site=site.site,
            role="gpu",
            address=_address(name, site.ssh.domain),
            bmc=_address(bmcs[index], site.ssh.domain) if index < len(bmcs) else None,
        )
        for index, name in enumerate(site.nodes.hosts)
    ]
    for names, role in ((site.controllers, "controller"), (site.login, "login")):
        if names is None:
            continue
        hosts.extend(
            HostPlan(
                name=name,
                site=site.site,
                role="controller" if role == "controller" else "login",
                address=_address(name, site.ssh.domain),
            )
            for name in names.hosts
        )
    return tuple(hosts)


def plan_onprem_site(spec: FleetSpec, site: OnPremSite, catalog: Catalog) -> OnPremSitePlan:
    """A rack site with everything that follows from its declaration."""
    system = catalog.system(site.system)
    return OnPremSitePlan(
        site=site.site,
        system=site.system,
        gpu=system.gpu,
        gpus_per_node=system.gpus,
        hosts=plan_hosts(site),
        fabric_kind=site.fabric.kind,
        fabric_speed=site.fabric.speed,
        fabric_topology=site.fabric.topology,
        scheduler=site.scheduler,
        ssh_user=site.ssh.user,
        ssh_port=site.ssh.port,
        mounts=tuple((item.kind, item.source, item.mount) for item in site.storage),
        teams=tuple(TeamPlan(team.name, team.gpus, team.priority) for team in site.teams),
        power_kw_per_node=system.power_kw_max,
        tags=site_tags(spec, site.site),
    )


def _address(name: str, domain: str) -> str:
    return f"{name}.{domain}" if domain else name
