"""Rack sites: hosts with their addresses, and what every role needs of them."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog import Catalog
from gpufleet.plan.marks import site_tags
from gpufleet.plan.models import (
    FabricPlan,
    HostPlan,
    MountPlan,
    OnPremSitePlan,
    OwnershipPlan,
    PowerPlan,
    TeamPlan,
)
from gpufleet.plan.rack import plan_rack
from gpufleet.plan.rack_software import plan_software
from gpufleet.spec.models import FleetSpec, OnPremSite


def plan_hosts(site: OnPremSite) -> tuple[HostPlan, ...]:
    """Every host of a site: GPU nodes (each with its management controller), controllers, login nodes."""
    bmcs = site.bmc.hosts if site.bmc is not None else ()
    hosts = [
        HostPlan(
            name=name,
            site=site.site,
            role="gpu",
            address=site.address_of(name),
            bmc=site.full_name(bmcs[index]) if index < len(bmcs) else None,
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
                address=site.address_of(name),
            )
            for name in names.hosts
        )
    return tuple(hosts)


def plan_onprem_site(spec: FleetSpec, site: OnPremSite, catalog: Catalog) -> OnPremSitePlan:
    """A rack site with everything that follows from its declaration."""
    system = catalog.system(site.system)
    rack = plan_rack(site, system.rails)
    kinds = {item.kind for item in site.storage}
    return OnPremSitePlan(
        site=site.site,
        system=site.system,
        gpu=system.gpu,
        gpus_per_node=system.gpus,
        hosts=plan_hosts(site),
        fabric=FabricPlan(site.fabric.kind, site.fabric.speed, site.fabric.topology),
        scheduler=site.scheduler,
        ssh_user=site.ssh.user,
        ssh_port=site.ssh.port,
        mounts=tuple(MountPlan(item.kind, item.source, item.mount, item.options) for item in site.storage),
        teams=tuple(TeamPlan(team.name, team.gpus, team.priority) for team in site.teams),
        power_kw_per_node=system.power_kw_max,
        power=PowerPlan(Decimal(str(site.power.pue)), site.power.price.amount) if site.power else None,
        ownership=OwnershipPlan(site.ownership.acquisition.amount, site.ownership.lifetime.delta)
        if site.ownership
        else None,
        running_costs={
            name: money.amount for name, money in dict(site.running_costs or {}).items() if money is not None
        },
        tags=site_tags(spec, site.site),
        rack=rack,
        software=plan_software(rack, kinds, system, catalog.lock(spec.software.channel)),
    )
