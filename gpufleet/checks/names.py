"""Names: unique, and short enough for the AWS names derived from them."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.plan.names import (
    FALLBACK_SUFFIX,
    LONGEST_ROLE_SUFFIX,
    OWNERS,
    PULUMI_SUFFIX,
    RACKS,
    TEAM_DATA_SUFFIX,
    group_resource_name,
    site_resource_name,
)
from gpufleet.spec.models import NodeGroup, Spot

EKS_NODE_GROUP = 63
IAM_ROLE = 64
NAMESPACES = (
    "default",
    "amazon-cloudwatch",
    "amazon-guardduty",
    "cert-manager",
    "gpu-operator",
    "gpufleet-system",
    "jobset-system",
    "kueue-system",
    "lws-system",
    "mount-s3",
    "nvsentinel",
)
RACK_NAMESPACES = (
    "default",
    "gpu-operator",
    "network-operator",
    "kueue-system",
    "calico-system",
    "calico-apiserver",
    "tigera-operator",
    "cilium-secrets",
)


@check("name-repeated")
def names_once(fleet: Fleet) -> Iterator[FieldFinding]:
    """Names are unique: sites in a fleet, teams in a site, and node groups and storage together in a site,
    since they share one cost list."""
    sites: list[tuple[SpecPath, str]] = [
        (("cloud", index, "site"), site.site) for index, site in enumerate(fleet.spec.cloud)
    ]
    sites += [(("onprem", index, "site"), site.site) for index, site in enumerate(fleet.spec.onprem)]
    yield from _repeated("site", sites)
    for path, site in fleet.cloud():
        named: list[tuple[SpecPath, str]] = [
            ((*path, "node_groups", index, "name"), group.name)
            for index, group in enumerate(site.node_groups)
        ]
        named += [((*path, "storage", index, "name"), item.name) for index, item in enumerate(site.storage)]
        taken = [
            (where, f"{name}{FALLBACK_SUFFIX}")
            for (where, name), group in zip(named, site.node_groups, strict=False)
            if falls_back(group)
        ]
        yield from _repeated("node group or storage", [*taken, *named])
        for where, name in named:
            if name in OWNERS:
                yield FieldFinding(
                    where,
                    f"'{name}' is reserved: the site's own costs are listed under it",
                    f"choose another name, such as '{name}-1'",
                )
    for path, rack_site in fleet.onprem():
        stores: list[tuple[SpecPath, str]] = [
            ((*path, "storage", index, "name"), item.name) for index, item in enumerate(rack_site.storage)
        ]
        yield from _repeated("storage", stores)
        for where, name in stores:
            if name == RACKS:
                yield FieldFinding(
                    where, f"'{name}' is reserved: the site's own costs are listed under it", "choose another"
                )
    teams: dict[SpecPath, list[tuple[SpecPath, str]]] = {}
    for where, _, team in fleet.teams():
        teams.setdefault(where[:2], []).append(((*where, "name"), team.name))
    for listed_teams in teams.values():
        yield from _repeated("team", listed_teams)


def falls_back(group: NodeGroup) -> bool:
    """Return whether a spot group has an on-demand part, which has its own name in AWS."""
    option = group.capacity.option
    return isinstance(option, Spot) and option.falls_back


def _repeated(kind: str, named: list[tuple[SpecPath, str]]) -> Iterator[FieldFinding]:
    seen: set[str] = set()
    for path, name in named:
        if name in seen:
            yield FieldFinding(path, f"a {kind} named '{name}' already exists", "give each its own name")
        seen.add(name)


@check("name-too-long")
def derived_lengths(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS names consist of fleet, environment, site and group, and the suffixes of components and Pulumi.
    Maximum lengths: IAM role 64 characters, EKS node group 63 (IAM and EKS API References). Longer names fail
    in the middle of a deployment."""
    fleet_name, environment = fleet.spec.fleet, fleet.spec.environment
    for path, site in fleet.cloud():
        base = site_resource_name(fleet_name, environment, site.site)
        role = len(base) + len(LONGEST_ROLE_SUFFIX) + PULUMI_SUFFIX
        if role > IAM_ROLE:
            yield _too_long((*path, "site"), f"IAM roles of '{base}'", role, IAM_ROLE)
            continue
        for index, group in enumerate(site.node_groups):
            name = group_resource_name(fleet_name, environment, site.site, group.name)
            length = len(name) + PULUMI_SUFFIX + (len(FALLBACK_SUFFIX) if falls_back(group) else 0)
            if length > EKS_NODE_GROUP:
                yield _too_long(
                    (*path, "node_groups", index, "name"), f"EKS node group '{name}'", length, EKS_NODE_GROUP
                )
        for index, member in enumerate(site.kubernetes.teams if site.kubernetes is not None else ()):
            length = len(f"{base}-{member.name}{TEAM_DATA_SUFFIX}") + PULUMI_SUFFIX
            if member.buckets and length > IAM_ROLE:
                where = (*path, "kubernetes", "teams", index, "name")
                yield _too_long(where, f"IAM role '{base}-{member.name}'", length, IAM_ROLE)


def _too_long(path: SpecPath, what: str, length: int, limit: int) -> FieldFinding:
    return FieldFinding(
        path,
        f"the name of {what} would have {length} characters, and AWS allows {limit}",
        f"shorten this name, or that of the fleet or environment, by {length - limit} characters",
    )


@check("team-name")
def team_names(fleet: Fleet) -> Iterator[FieldFinding]:
    """A team is a Kubernetes namespace. Kubernetes reserves names that start with kube- and a few others."""
    for path, site in fleet.cloud():
        for index, team in enumerate(site.kubernetes.teams if site.kubernetes is not None else ()):
            if team.name.startswith("kube-") or team.name in NAMESPACES:
                yield FieldFinding(
                    (*path, "kubernetes", "teams", index, "name"),
                    f"namespace '{team.name}' is reserved for the cluster",
                    f"choose another name, such as 'team-{team.name}'",
                )
    for path, rack in fleet.onprem():
        if rack.scheduler != "kubernetes":
            continue
        for index, owner in enumerate(rack.teams):
            if owner.name.startswith("kube-") or owner.name in RACK_NAMESPACES:
                yield FieldFinding(
                    (*path, "teams", index, "name"),
                    f"namespace '{owner.name}' is reserved for the cluster",
                    f"choose another name, such as 'team-{owner.name}'",
                )


CHECKS = (names_once, derived_lengths, team_names)
