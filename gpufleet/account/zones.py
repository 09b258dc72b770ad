"""Zones of a region: their ids in this account, EKS's unsupported ones, and where types are offered."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.account.needs import NodeNeed, RegionNeeds
from gpufleet.account.reading import Clients, NotCheckedError, pages, read
from gpufleet.account.result import AccountCheck, AccountFinding, SpecPath

CHECK = "zones"

EKS_UNSUPPORTED = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zones in which EKS accepts no subnet of a cluster (EKS user guide, "View Amazon EKS networking requirements
for VPC and subnets")."""


def check_zones(needs: RegionNeeds, clients: Clients) -> AccountCheck:
    """Check the zones of each site, and the offerings of each type of each group by zone id.

    Zone names are those of the account: us-east-1a of two accounts may be two places.
    """
    client = clients("ec2", needs.region)
    try:
        answer = read(client, "describe_availability_zones", AllAvailabilityZones=False)
    except NotCheckedError as error:
        return AccountCheck(CHECK, needs.region, unchecked=(str(error),))
    ids = {zone["ZoneName"]: zone["ZoneId"] for zone in answer["AvailabilityZones"]}
    facts = tuple({"zone": name, "zone_id": ids[name]} for name in sorted(ids))
    findings = [*_zones(needs, ids)]
    unchecked: tuple[str, ...] = ()
    types = sorted({kind for need in needs.nodes for kind in need.types})
    if types:
        filters = [{"Name": "instance-type", "Values": types}]
        try:
            offered = {
                (each["InstanceType"], each["Location"])
                for each in pages(
                    client,
                    "describe_instance_type_offerings",
                    "InstanceTypeOfferings",
                    LocationType="availability-zone-id",
                    Filters=filters,
                )
            }
        except NotCheckedError as error:
            unchecked = (str(error),)
        else:
            findings += _offerings(needs, ids, offered)
    return AccountCheck(CHECK, needs.region, tuple(findings), unchecked, facts)


def _zones(needs: RegionNeeds, ids: dict[str, str]) -> Iterator[AccountFinding]:
    usable = [name for name in sorted(ids) if ids[name] not in EKS_UNSUPPORTED]
    for site in needs.sites:
        for index, zone in enumerate(site.plan.zones):
            path: SpecPath = (*site.path, "zones", index)
            if zone not in ids:
                yield AccountFinding(
                    "zone-unknown",
                    path,
                    zone,
                    f"the account has no zone {zone} in {needs.region}",
                    f"use zones of the account: {', '.join(sorted(ids))}",
                )
            elif site.plan.kubernetes is not None and ids[zone] in EKS_UNSUPPORTED:
                yield AccountFinding(
                    "eks-zone",
                    path,
                    zone,
                    f"{zone} is {ids[zone]} in this account, where EKS accepts no subnet of a cluster",
                    f"use zones that EKS supports: {', '.join(usable)}",
                )


def _offerings(
    needs: RegionNeeds, ids: dict[str, str], offered: set[tuple[str, str]]
) -> Iterator[AccountFinding]:
    for need in needs.nodes:
        known = [zone for zone in need.zones if zone in ids]
        lacking = {kind: [zone for zone in known if (kind, ids[zone]) not in offered] for kind in need.types}
        lacking = {kind: zones for kind, zones in lacking.items() if zones}
        if not lacking:
            continue
        nowhere = all(lacking.get(kind) == known for kind in need.types)
        yield _offering(need, lacking, ids, offered, nowhere=nowhere)


def _offering(
    need: NodeNeed,
    lacking: dict[str, list[str]],
    ids: dict[str, str],
    offered: set[tuple[str, str]],
    *,
    nowhere: bool,
) -> AccountFinding:
    where = "; ".join(
        f"{kind} is not offered in {', '.join(f'{zone} ({ids[zone]})' for zone in zones)}"
        for kind, zones in lacking.items()
    )
    elsewhere = "; ".join(
        f"{kind} is offered in {', '.join(zones) or 'no zone of the region'}"
        for kind in lacking
        for zones in [[name for name in sorted(ids) if (kind, ids[name]) in offered]]
    )
    return AccountFinding(
        "type-offered",
        (*need.path, "instance_types"),
        ", ".join(lacking),
        f"{need.name}: {where}" + ("" if nowhere else ": these zones or types give no nodes"),
        f"{elsewhere}: use such a zone, or another type",
        severity="error" if nowhere else "warning",
    )
