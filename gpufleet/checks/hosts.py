"""Rack sites: unique hosts, known systems, matching fabrics and power."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed
from gpufleet.spec.models import OnPremSite
from gpufleet.spec.rack_fabric import GBPS

INFINIBAND = ("hdr", "ndr", "xdr")
LONGEST_FULL_NAME = 253
MOST_KW_OF_A_RACK = 600


def _ranges(path: SpecPath, site: OnPremSite) -> Iterator[tuple[SpecPath, str, tuple[str, ...]]]:
    for role in ("nodes", "controllers", "login", "bmc"):
        declared = getattr(site, role)
        if declared is not None:
            yield (*path, role), f"{role} of site {site.site!r}", declared.hosts


@check("hosts-overlap")
def hosts_overlap(fleet: Fleet) -> Iterator[FieldFinding]:
    """A host has one site and one role. If it is listed twice, two playbooks overwrite each other's
    configuration."""
    seen: dict[str, str] = {}
    for path, site in fleet.onprem():
        for where, name, hosts in _ranges(path, site):
            twice: dict[str, list[str]] = {}
            for host in hosts:
                if host in seen:
                    twice.setdefault(seen[host], []).append(host)
                seen.setdefault(host, name)
            for owner, same in twice.items():
                yield FieldFinding(
                    where,
                    f"{len(same)} host{'s' if len(same) != 1 else ''} of {name} "
                    f"{'are' if len(same) != 1 else 'is'} also in {owner} ({listed(same, 3)})",
                    "list each host once",
                )


@check("bmc-count")
def bmc_count(fleet: Fleet) -> Iterator[FieldFinding]:
    """Management controllers are assigned to nodes by position. A missing one shifts all that follow, and
    resets reach the wrong machine."""
    for path, site in fleet.onprem():
        if site.bmc is not None and len(site.bmc.hosts) != len(site.nodes.hosts):
            nodes = len(site.nodes.hosts)
            yield FieldFinding(
                (*path, "bmc"),
                f"{len(site.bmc.hosts)} management controllers for {nodes} nodes",
                f"list {nodes}, in the order of `nodes` ({site.nodes.text})",
            )


@check("system-known")
def system_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """GPUs, power and fabric of a rack site come from the catalog entry of its system."""
    for path, site in fleet.onprem():
        if site.system not in fleet.catalog.systems:
            yield FieldFinding(
                (*path, "system"),
                f"system {site.system!r} is not in the catalog",
                did_you_mean(
                    fleet.catalog.suggest_system(site.system),
                    f"use one of {listed(list(fleet.catalog.systems))}",
                ),
            )


@check("fabric-kind")
def fabric_kind(fleet: Fleet) -> Iterator[FieldFinding]:
    """HDR, NDR and XDR are InfiniBand speeds; 200, 400 and 800 GbE are Ethernet (RoCE) speeds."""
    for path, site in fleet.onprem():
        infiniband = site.fabric.speed in INFINIBAND
        if infiniband == (site.fabric.kind == "infiniband"):
            continue
        same = [
            name
            for name, gbps in GBPS.items()
            if gbps == GBPS[site.fabric.speed] and (name in INFINIBAND) != infiniband
        ]
        other = "infiniband" if infiniband else "roce"
        yield FieldFinding(
            (*path, "fabric", "speed"),
            f"{site.fabric.speed} is not a speed of {site.fabric.kind}",
            f"write 'kind: {other}', or 'speed: {same[0]}'",
        )


@check("fabric-speed")
def fabric_speed(fleet: Fleet) -> Iterator[FieldFinding]:
    """A link runs at the speed of its slower end. A fabric faster than the adapters wastes money; a slower
    one limits the nodes."""
    for path, site in fleet.onprem():
        system = fleet.catalog.systems.get(site.system)
        if system is None or system.fabric_gbps is None:
            continue
        gbps = GBPS[site.fabric.speed]
        if gbps == system.fabric_gbps:
            continue
        fitting = [
            name
            for name, speed in GBPS.items()
            if speed == system.fabric_gbps and (name in INFINIBAND) == (site.fabric.kind == "infiniband")
        ]
        yield FieldFinding(
            (*path, "fabric", "speed"),
            f"{site.fabric.speed} is {gbps} Gb/s, but the adapters of {system.title} have"
            f" {system.fabric_gbps} Gb/s",
            f"write 'speed: {fitting[0]}'" if fitting else "see `gpufleet catalog` for the system's adapters",
            "error" if gbps > system.fabric_gbps else "warning",
        )


@check("rack-power")
def rack_power(fleet: Fleet) -> Iterator[FieldFinding]:
    """A rack must supply at least one node at full load, and no more than the largest announced rack: a GB200
    NVL72 draws 120 to 132 kW, NVIDIA's Kyber rack up to 600 kW (GTC 2025)."""
    for path, site in fleet.onprem():
        system = fleet.catalog.systems.get(site.system)
        if site.power is not None and site.power.per_rack.kw > MOST_KW_OF_A_RACK:
            yield FieldFinding(
                (*path, "power", "per_rack"),
                f"{site.power.per_rack} is more than any rack draws ({MOST_KW_OF_A_RACK} kW)",
                "write the power of one rack, not of the site, such as '40 kW'",
            )
        if site.power is None or system is None or system.power_kw_max is None:
            continue
        if site.power.per_rack.kw < system.power_kw_max:
            yield FieldFinding(
                (*path, "power", "per_rack"),
                f"a rack of {site.power.per_rack} cannot supply one {system.title}"
                f" ({system.power_kw_max} kW at full load)",
                f"check the unit; one node needs {system.power_kw_max} kW",
            )


@check("slurm-controllers")
def slurm_controllers(fleet: Fleet) -> Iterator[FieldFinding]:
    """slurmctld needs a host that runs no jobs."""
    for path, site in fleet.onprem():
        if site.scheduler == "slurm" and site.controllers is None:
            yield FieldFinding(
                (*path, "controllers"),
                f"site {site.site!r} runs Slurm but has no controller host",
                "write 'controllers: ctl01' (two for a backup: 'ctl[01-02]')",
                "warning",
                site.site,
            )


@check("no-site")
def no_site(fleet: Fleet) -> Iterator[FieldFinding]:
    """A fleet needs at least one site, since all resources belong to sites."""
    if not fleet.spec.cloud and not fleet.spec.onprem:
        yield FieldFinding(
            (),
            f"fleet {fleet.spec.fleet!r} has no site",
            "add a site under `cloud` or `onprem`, or run `gpufleet init` to create a fleet file",
            value=fleet.spec.fleet,
        )


@check("host-names")
def host_names(fleet: Fleet) -> Iterator[FieldFinding]:
    """A fully qualified host name has at most 253 characters (RFC 1035)."""
    for path, site in fleet.onprem():
        domain = site.ssh.domain
        longest = max(len(host) for _, _, hosts in _ranges(path, site) for host in hosts)
        length = longest + 1 + len(domain)
        if length > LONGEST_FULL_NAME:
            yield FieldFinding(
                (*path, "ssh", "domain"),
                f"host names of site {site.site!r} have {length} characters with their domain"
                f" (at most {LONGEST_FULL_NAME})",
                "use a shorter domain",
            )


CHECKS = (
    hosts_overlap,
    bmc_count,
    system_known,
    fabric_kind,
    fabric_speed,
    rack_power,
    slurm_controllers,
    no_site,
    host_names,
)
