"""Teams: declared teams of node groups, and quotas that the site can provide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.kinds import TEAMS_SHARED
from gpufleet.plan.names import bucket_claims
from gpufleet.spec.models import CloudSite, KubernetesTeam


@check("team-known", "kubernetes", "teams", "name")
def team_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """The team of a node group must be declared by its site. Otherwise it has no namespace, and its costs
    have no owner."""
    for each in fleet.groups():
        team = each.group.team
        if team is None:
            continue
        declared = [item.name for item in each.site.kubernetes.teams] if each.site.kubernetes else []
        servers = each.site.slurm.servers if each.site.slurm is not None else None
        if servers is not None:
            declared = [item.name for item in servers.teams]
        if team in declared or (not declared and servers is None and each.site.scheduler != "kubernetes"):
            continue
        near = get_close_matches(team, declared, n=1)
        yield FieldFinding(
            (*each.path, "team"),
            f"{each.name} belongs to team '{team}', which site {each.site.site!r} does not declare",
            did_you_mean(
                near[0] if near else None,
                f"use one of {listed(declared)}"
                if declared
                else f"declare it under `{'slurm.servers' if servers else 'kubernetes'}.teams`, as"
                f" {{ name: {team}, gpus: 8 }}",
            ),
            "error" if declared or servers is not None else "warning",
        )


@check("team-quota", "node_groups")
def team_quota(fleet: Fleet) -> Iterator[FieldFinding]:
    """A quota above the site's maximum number of GPUs has no effect."""
    gpus: dict[str, int] = {}
    for each in fleet.groups():
        types = fleet.types(each.group)
        if len(types) != len(each.group.instance_types):
            gpus[each.site.site] = -1
        elif gpus.get(each.site.site, 0) >= 0:
            most = max(item.gpu_count for item in types)
            gpus[each.site.site] = gpus.get(each.site.site, 0) + most * each.group.capacity.most_nodes
    for _, rack_site in fleet.onprem():
        system = fleet.catalog.systems.get(rack_site.system)
        gpus[rack_site.site] = system.gpus * len(rack_site.nodes.hosts) if system is not None else -1
    for path, name, team in fleet.teams():
        most = gpus.get(name, 0)
        if most >= 0 and team.gpus > most:
            yield FieldFinding(
                (*path, "gpus"),
                f"team '{team.name}' has a quota of {team.gpus} GPUs, but site {name!r} has at most {most}",
                f"write {most} or fewer",
                "warning",
            )


@check("team-neuron-quota", "node_groups")
def team_neuron_quota(fleet: Fleet) -> Iterator[FieldFinding]:
    """A quota above the site's maximum number of Neuron devices has no effect, and neither has one in a site
    without such devices."""
    for path, site in fleet.cloud():
        known, most = True, 0
        for each in (item for item in fleet.groups() if item.site is site):
            types = fleet.types(each.group)
            known = known and len(types) == len(each.group.instance_types)
            counts = [item.accelerator.count for item in types if item.neuron and item.accelerator]
            most += max(counts, default=0) * each.group.capacity.most_nodes
        for index, team in enumerate(site.kubernetes.teams if known and site.kubernetes else ()):
            if team.neuron_devices > most:
                yield FieldFinding(
                    (*path, "kubernetes", "teams", index, "neuron_devices"),
                    f"team '{team.name}' has a quota of {team.neuron_devices} Neuron devices, but site"
                    f" {site.site!r} has at most {most}",
                    f"write {most} or fewer" if most else "leave `neuron_devices` out",
                    "warning",
                )


@check("team-bucket", "storage", "name")
def team_bucket(fleet: Fleet) -> Iterator[FieldFinding]:
    """A team's pods reach buckets of their own site, each named once. What all teams may read is below
    `shared/`, so no team with buckets has that name."""
    for path, site in fleet.cloud():
        known = [item.name for item in site.storage if item.bucket is not None]
        for index, team in enumerate(site.kubernetes.teams if site.kubernetes is not None else ()):
            where = (*path, "kubernetes", "teams", index)
            if team.buckets and team.name == TEAMS_SHARED:
                yield FieldFinding(
                    (*where, "name"),
                    f"team '{team.name}' would write what all teams of site {site.site!r} read",
                    "choose another name, such as 'team-shared'",
                )
            named = [each.storage for each in team.buckets]
            yield from _storage((*where, "buckets"), team.name, site.site, named, known, "bucket")


@check("team-file-system", "storage", "name")
def team_file_system(fleet: Fleet) -> Iterator[FieldFinding]:
    """A team's pods mount FSx for Lustre file systems of their own site, each named once."""
    for path, site in fleet.cloud():
        known = [item.name for item in site.storage if item.lustre is not None]
        for index, team in enumerate(site.kubernetes.teams if site.kubernetes is not None else ()):
            where = (*path, "kubernetes", "teams", index, "file_systems")
            named = [each.storage for each in team.file_systems]
            yield from _storage(where, team.name, site.site, named, known, "file system")


@check("team-claim", "storage", "kubernetes")
def team_claim(fleet: Fleet) -> Iterator[FieldFinding]:
    """A file system makes one claim and a mounted bucket two, in the namespace of the team. Their volumes
    are called after team and claim, and no two volumes of a cluster have the same name."""
    for path, site in fleet.cloud():
        taken: dict[str, tuple[str, str, str]] = {}
        for index, team in enumerate(site.kubernetes.teams if site.kubernetes is not None else ()):
            where = (*path, "kubernetes", "teams", index)
            for at, storage, claim in _claims(site, team):
                mine = (team.name, storage, claim)
                other = taken.setdefault(f"{team.name}-{claim}", mine)
                if other != mine:
                    yield FieldFinding(
                        (*where, *at),
                        f"claim '{claim}' of team '{team.name}', for '{storage}', and claim '{other[2]}' of"
                        f" team '{other[0]}', for '{other[1]}', would have volumes of the same name,"
                        f" '{team.name}-{claim}'",
                        "rename one of the two in `storage`, or one of the teams",
                    )


def _claims(site: CloudSite, team: KubernetesTeam) -> Iterator[tuple[SpecPath, str, str]]:
    """Yield the field, the storage and the name of each claim of a team, of storage that the site has."""
    systems = {item.name for item in site.storage if item.lustre is not None}
    buckets = {item.name for item in site.storage if item.bucket is not None}
    for number, system in enumerate(team.file_systems):
        if system.storage in systems:
            yield ("file_systems", number, "storage"), system.storage, system.storage
    for number, bucket in enumerate(team.buckets):
        if bucket.mount and bucket.storage in buckets:
            for claim in bucket_claims(bucket.storage):
                yield ("buckets", number, "mount"), bucket.storage, claim


def _storage(
    where: SpecPath, team: str, site: str, named: Sequence[str], known: Sequence[str], what: str
) -> Iterator[FieldFinding]:
    """Report storage of a team that its site does not have, or that it names twice."""
    field = {"bucket": "bucket", "file system": "lustre"}[what]
    for number, name in enumerate(named):
        at = (*where, number, "storage")
        if name not in known:
            yield FieldFinding(
                at,
                f"'{name}' of team '{team}' is no {what} of site {site!r}",
                did_you_mean(
                    nearest(name, known),
                    f"use one of {listed(known)}"
                    if known
                    else f"declare it under `storage`, as {{ name: {name}, {field}: ... }}",
                ),
            )
        elif name in named[:number]:
            yield FieldFinding(
                at, f"team '{team}' names the {what} '{name}' twice", "keep one entry, with the wider access"
            )


CHECKS = (team_known, team_quota, team_neuron_quota, team_bucket, team_file_system, team_claim)
