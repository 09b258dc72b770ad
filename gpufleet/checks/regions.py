"""Regions and zones: known, consistent, and suitable for the resources in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed
from gpufleet.plan.subnets import MAX_ZONES

_ZONE = re.compile(r"(?P<region>[a-z]{2}(-[a-z]+)+-\d)(?P<letter>[a-z])")
LAST_LETTER = "f"
"""No AWS region has more than six zones (us-east-1, a to f)."""


@check("region-known")
def region_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """The first API call to an unknown region fails."""
    for path, site in fleet.cloud():
        if site.region not in fleet.catalog.regions:
            yield FieldFinding(
                (*path, "region"),
                f"{site.region!r} is not an AWS region in the catalog",
                did_you_mean(
                    fleet.catalog.suggest_region(site.region),
                    f"use one of {listed(sorted(fleet.catalog.regions), 40)}",
                ),
            )


@check("zone-in-region")
def zone_in_region(fleet: Fleet) -> Iterator[FieldFinding]:
    """A zone belongs to its region. Accounts differ in the zone letters they have, so an unknown letter up to
    f is only a warning."""
    for path, site in fleet.cloud():
        known = fleet.catalog.zones(site.region)
        for index, zone in enumerate(site.zones):
            where = (*path, "zones", index)
            match = _ZONE.fullmatch(zone)
            among = f"zones of {site.region}: {listed(known)}" if known else f"such as {site.region}a"
            if match is None:
                yield FieldFinding(where, f"{zone!r} is not a zone", f"write its name ({among})")
            elif match["region"] != site.region:
                yield FieldFinding(
                    where,
                    f"zone {zone} is not in region {site.region}",
                    f"use its own ({among}), or change the region to {match['region']}",
                )
            elif known and zone not in known:
                yield FieldFinding(
                    where,
                    f"zone {zone} is not a known zone of {site.region}",
                    f"{among}; `gpufleet catalog refresh` reads the zones of your account",
                    "error" if match["letter"] > LAST_LETTER else "warning",
                )


@check("zone-repeated")
def zone_repeated(fleet: Fleet) -> Iterator[FieldFinding]:
    """Each zone gets one public and one private subnet, so a zone is listed once."""
    for path, site in fleet.cloud():
        yield from _repeated((*path, "zones"), site.zones)
    for each in fleet.groups():
        yield from _repeated((*each.path, "zones"), each.group.zones)


def _repeated(path: SpecPath, zones: tuple[str, ...]) -> Iterator[FieldFinding]:
    for index, zone in enumerate(zones):
        if zone in zones[:index]:
            yield FieldFinding((*path, index), f"zone {zone} is listed twice", "list it once")


@check("zone-count")
def zone_count(fleet: Fleet) -> Iterator[FieldFinding]:
    """EKS places its control plane in subnets of at least two zones (EKS User Guide, "Amazon EKS
    networking requirements"), and gpufleet divides a network for at most seven."""
    for path, site in fleet.cloud():
        distinct = len(set(site.zones))
        if site.scheduler == "kubernetes" and distinct < 2:
            spare = [zone for zone in fleet.catalog.zones(site.region) if zone not in site.zones]
            yield FieldFinding(
                (*path, "zones"),
                "EKS needs subnets in at least two zones, but this site has one",
                f"add a zone{f', such as {spare[0]}' if spare else ''}; node groups can still use one zone"
                " with `zones`",
            )
        if distinct > MAX_ZONES:
            yield FieldFinding(
                (*path, "zones"),
                f"{distinct} zones are more than the maximum of {MAX_ZONES} per network",
                f"keep {MAX_ZONES} or fewer",
            )


@check("zone-in-site", "zones")
def zone_in_site(fleet: Fleet) -> Iterator[FieldFinding]:
    """Node groups, file systems and reservations need subnets, which exist only in the site's zones. A
    reservation in another zone would be paid for unused."""
    for each in fleet.groups():
        for index, zone in enumerate(each.group.zones):
            if zone not in each.site.zones:
                yield _outside((*each.path, "zones", index), each.name, zone, each.site.zones)
    for each, held in fleet.reserved():
        where = (*each.option_path, "zone")
        if held.zone is None:
            continue
        if held.zone not in each.site.zones:
            yield _outside(where, f"the reservation of {each.name}", held.zone, each.site.zones)
        elif each.group.zones and held.zone not in each.group.zones:
            yield FieldFinding(
                where,
                f"the reservation of {each.name} is in {held.zone}, but the group is in"
                f" {listed(each.group.zones)}",
                f"write 'zones: [{held.zone}]' for the group, or remove its `zones`",
            )
    for path, site, item, lustre in fleet.lustre():
        if lustre.zone is not None and lustre.zone not in site.zones:
            yield _outside((*path, "zone"), f"file system {item.name!r}", lustre.zone, site.zones)


def _outside(path: SpecPath, what: str, zone: str, zones: tuple[str, ...]) -> FieldFinding:
    return FieldFinding(
        path,
        f"{what} is in zone {zone}, which its site does not list",
        f"use one of {listed(zones)}, or add {zone} to the site's `zones`",
    )


CHECKS = (region_known, zone_in_region, zone_repeated, zone_count, zone_in_site)
