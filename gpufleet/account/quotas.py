"""Service quotas of a region against what a fleet needs at maximum and what others use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from gpufleet.account.needs import NodeNeed, RegionNeeds, SiteNeeds
from gpufleet.account.quota_table import (
    ADDRESSES,
    CLUSTERS,
    GROUPS_OF_CLUSTER,
    LUSTRE,
    NODES_OF_GROUP,
    RESOLVER_ENDPOINTS,
    VPCS,
    VPN,
    VPN_GATEWAYS,
    Quota,
    vcpu_quota,
)
from gpufleet.account.reading import Clients, NotCheckedError, error_code, read
from gpufleet.account.result import AccountCheck, AccountFinding, SpecPath
from gpufleet.account.use import QuotaUse
from gpufleet.catalog import Catalog

CHECK = "quotas"


class QuotaNeed(Struct, frozen=True):
    """What a fleet needs of a quota: `now` at once, `most` at maximum, and for what (`names`)."""

    quota: Quota
    path: SpecPath
    now: int
    most: int
    names: tuple[str, ...]


def check_quotas(needs: RegionNeeds, catalog: Catalog, clients: Clients) -> AccountCheck:
    """Compare each quota that the fleet needs; a quota or its use that cannot be read is not checked."""
    use = QuotaUse(needs, catalog, clients)
    findings: list[AccountFinding] = []
    unchecked: list[str] = list(_unknown_quotas(needs))
    facts: list[dict[str, Any]] = []
    for need in quota_needs(needs, catalog):
        quota = need.quota
        try:
            applied = _applied(clients("service-quotas", needs.region), quota)
            used = use.of_others(quota)
        except NotCheckedError as error:
            unchecked.append(f"{quota.name} ({quota.code}): {error}")
            continue
        facts.append(
            {
                "service": quota.service,
                "code": quota.code,
                "name": quota.name,
                "unit": quota.unit,
                "applied": applied,
                "used_by_others": used,
                "needed_now": need.now,
                "needed_at_maximum": need.most,
            }
        )
        if applied < used + need.most:
            findings.append(_finding(need, applied, used, needs.region))
    return AccountCheck(CHECK, needs.region, tuple(findings), tuple(unchecked), tuple(facts))


def quota_needs(needs: RegionNeeds, catalog: Catalog) -> tuple[QuotaNeed, ...]:
    """Return what the fleet needs of each quota in the region, vCPUs first.

    A group with several types may launch the largest only: it counts for the quota of each type with its
    largest type of that quota. Existing reservations and Capacity Blocks add nothing: reserved instances
    count while they are reserved, and those in a block do not count (EC2 user guide, "Capacity Blocks").
    """
    found: dict[str, QuotaNeed] = {}

    def add(quota: Quota, path: SpecPath, now: int, most: int, name: str, *, each: bool = False) -> None:
        if most <= 0:
            return
        before = found.get(quota.code)
        if before is None:
            found[quota.code] = QuotaNeed(quota, path, now, most, (name,))
            return
        names = tuple(dict.fromkeys([*before.names, name]))
        sizes = (
            (max(before.now, now), max(before.most, most)) if each else (before.now + now, before.most + most)
        )
        found[quota.code] = QuotaNeed(quota, before.path, *sizes, names)

    for node in needs.nodes:
        for quota, vcpus in _vcpus(node, catalog).values():
            add(quota, node.path, node.now * vcpus, node.most * vcpus, node.name)
    for site in needs.sites:
        plan, path = site.plan, site.path
        add(VPCS, (*path, "network"), 1, 1, plan.site)
        nat = len(plan.nat_zones)
        add(ADDRESSES, (*path, "network", "nat"), nat, nat, plan.site)
        _connections(site, add)
        for item in plan.lustre:
            where = (*path, "storage")
            systems, capacity = LUSTRE[item.deployment]
            add(systems, where, 1, 1, item.name)
            add(capacity, where, item.capacity_gib, item.capacity_gib, item.name)
        if plan.kubernetes is not None:
            _kubernetes(site, add)
    return tuple(found.values())


def _connections(site: SiteNeeds, add: Callable[..., None]) -> None:
    plan, path = site.plan, (*site.path, "network")
    if plan.vpn is not None or plan.direct_connect is not None:
        add(VPN_GATEWAYS, (*path, "vpn" if plan.vpn is not None else "direct_connect"), 1, 1, plan.site)
    for quota in VPN if plan.vpn is not None else ():
        add(quota, (*path, "vpn"), 1, 1, plan.site)
    endpoints = len(plan.dns.directions) if plan.dns is not None else 0
    add(RESOLVER_ENDPOINTS, (*path, "dns"), endpoints, endpoints, plan.site)


def _kubernetes(site: SiteNeeds, add: Callable[..., None]) -> None:
    path, plan = (*site.path, "scheduler"), site.plan
    add(CLUSTERS, path, 1, 1, plan.site)
    # The system's group, the fleet's, and their fallbacks.
    groups = [node for node in site.nodes if node.managed]
    add(GROUPS_OF_CLUSTER, path, len(groups), len(groups), plan.site, each=True)
    for node in groups:
        add(NODES_OF_GROUP, node.path, min(node.now, node.managed), node.managed, node.name, each=True)


def _vcpus(node: NodeNeed, catalog: Catalog) -> Mapping[str, tuple[Quota, int]]:
    """Return code -> (quota, the most vCPUs of a node) of a need."""
    found: dict[str, tuple[Quota, int]] = {}
    for name in () if node.reserved else node.types:
        quota = vcpu_quota(name, node.market)
        if quota is not None:
            most = max(catalog.instance(name).vcpus, found[quota.code][1] if quota.code in found else 0)
            found[quota.code] = (quota, most)
    return found


def _unknown_quotas(needs: RegionNeeds) -> Iterable[str]:
    """Yield the needs for which no quota is known."""
    for node in needs.nodes:
        missing = [name for name in node.types if vcpu_quota(name, node.market) is None]
        if missing and not node.reserved and node.most:
            yield f"{node.name}: no {node.market} quota of {', '.join(missing)} is known to this version"


def _applied(client: Any, quota: Quota) -> float:
    """Return the applied value, or AWS's default where none is applied."""
    from botocore.exceptions import ClientError

    for method in ("get_service_quota", "get_aws_default_service_quota"):
        try:
            answer = read(client, method, ServiceCode=quota.service, QuotaCode=quota.code)
        except ClientError as error:
            if error_code(error) != "NoSuchResourceException":
                raise NotCheckedError(f"Service Quotas: {error_code(error)}") from None
            continue
        return float(answer["Quota"]["Value"])
    raise NotCheckedError("Service Quotas has no such quota in this region")


def _finding(need: QuotaNeed, applied: float, used: float, region: str) -> AccountFinding:
    quota, wanted = need.quota, math.ceil(used + need.most)
    now = applied < used + need.now
    what = f"{need.most:g} {quota.unit} at maximum" + (f", {need.now:g} of them now" if now else "")
    return AccountFinding(
        rule="quota",
        path=need.path,
        value=applied,
        message=f"{quota.name} ({quota.code}) is {applied:g} in {region}, and others use {used:g}: "
        f"{', '.join(need.names)} need {what}",
        remedy=f"request {wanted} {quota.unit}"
        + ("" if now else ", or lower the maximum: the fleet starts, and cannot grow to it"),
        request=f"aws service-quotas request-service-quota-increase --region {region} "
        f"--service-code {quota.service} --quota-code {quota.code} --desired-value {wanted}",
        severity="error" if now else "warning",
    )
