"""Teams: declared teams of node groups, and quotas that the site can provide."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed


@check("team-known", "kubernetes", "teams", "name")
def team_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """The team of a node group must be declared by its site. Otherwise it has no namespace, and its costs
    have no owner."""
    for each in fleet.groups():
        team = each.group.team
        if team is None:
            continue
        declared = [item.name for item in each.site.kubernetes.teams] if each.site.kubernetes else []
        if team in declared or (not declared and each.site.scheduler != "kubernetes"):
            continue
        near = get_close_matches(team, declared, n=1)
        yield FieldFinding(
            (*each.path, "team"),
            f"{each.name} belongs to team '{team}', which site {each.site.site!r} does not declare",
            did_you_mean(
                near[0] if near else None,
                f"use one of {listed(declared)}"
                if declared
                else f"declare it under `kubernetes.teams`, as {{ name: {team}, gpus: 8 }}",
            ),
            "error" if declared else "warning",
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


CHECKS = (team_known, team_quota)
