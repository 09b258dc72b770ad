"""Slurm of rack sites: partitions, QOS, and teams that exist."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rack_fabric import twice
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.plan.rack_slurm import state_export
from gpufleet.spec.models import RackSlurm, SlurmServers

_TEAM_QOS = ("low", "normal", "high")


@check("slurm-unused", "scheduler")
def slurm_unused(fleet: Fleet) -> Iterator[FieldFinding]:
    """Settings of a scheduler that the site does not run have no effect."""
    for path, site in fleet.onprem():
        if site.scheduler != "slurm" and "slurm" in site.model_fields_set:
            yield FieldFinding(
                (*path, "slurm"),
                f"site {site.site!r} has `slurm` settings but its scheduler is {site.scheduler}",
                "remove them, or set the `scheduler` of the site to slurm",
                value=site.scheduler,
            )


@check("slurm-partitions", "teams", "name")
def slurm_partitions(fleet: Fleet) -> Iterator[FieldFinding]:
    """A partition has GPU nodes of its site and declared teams; at most one partition is the default.
    slurmctld does not start with an unknown node (slurm.conf(5))."""
    for path, site in fleet.onprem():
        partitions = site.slurm.partitions
        where = (*path, "slurm", "partitions")
        yield from twice(where, [item.name for item in partitions], "partition", "name")
        defaults = [index for index, item in enumerate(partitions) if item.default]
        for index in defaults[1:]:
            yield FieldFinding(
                (*where, index, "default"),
                f"partition {partitions[index].name!r} is a second default besides"
                f" {partitions[defaults[0]].name!r}",
                "keep one",
            )
        teams = [team.name for team in site.teams]
        for index, item in enumerate(partitions):
            strange = [
                host for host in (item.nodes.hosts if item.nodes else ()) if host not in site.nodes.hosts
            ]
            if strange:
                yield FieldFinding(
                    (*where, index, "nodes"),
                    f"partition {item.name!r} has {len(strange)} nodes that are not GPU nodes of site"
                    f" {site.site!r} ({listed(strange, 3)})",
                    f"use nodes of {site.nodes.text}",
                )
            for place, team in enumerate(item.teams):
                if team not in teams:
                    guess = did_you_mean(nearest(team, teams), f"use one of {listed(teams)}")
                    yield FieldFinding(
                        (*where, index, "teams", place),
                        f"partition {item.name!r} is for team {team!r}, which site {site.site!r} does not"
                        " declare",
                        guess if teams else "declare it under `teams` of the site",
                    )


@check("slurm-qos")
def slurm_qos(fleet: Fleet) -> Iterator[FieldFinding]:
    """A QOS preempts only existing QOS. Two QOS must not preempt each other, since their jobs would requeue
    each other for ever."""
    settings: list[tuple[SpecPath, RackSlurm | SlurmServers]] = [
        *(((*path, "slurm"), site.slurm) for path, site in fleet.onprem()),
        *((path, servers) for path, _, servers in fleet.servers()),
    ]
    for path, slurm in settings:
        where = (*path, "qos")
        declared = {item.name: set(item.preempts) for item in slurm.qos}
        yield from twice(where, [item.name for item in slurm.qos], "QOS", "name")
        known = {*_TEAM_QOS, *declared}
        for index, item in enumerate(slurm.qos):
            for place, name in enumerate(item.preempts):
                spot = (*where, index, "preempts", place)
                if name not in known:
                    guess = did_you_mean(nearest(name, known), f"use one of {listed(sorted(known))}")
                    yield FieldFinding(
                        spot, f"QOS {item.name!r} preempts {name!r}, which is not a QOS", guess
                    )
                elif item.name in _reached(name, declared):
                    yield FieldFinding(
                        spot,
                        f"QOS {item.name!r} preempts {name!r}, which leads back to itself",
                        "let only one of them preempt the other",
                    )
            if item.preempts and slurm.preemption == "none":
                yield FieldFinding(
                    (*where, index, "preempts"),
                    f"QOS {item.name!r} preempts others, but preemption is off",
                    "write 'preemption: requeue', or remove it",
                    "warning",
                )


def _reached(start: str, declared: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = {start}
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= declared.get(name, set()) - found
    return found


@check("slurm-state", "scheduler", "controllers", "storage")
def slurm_state(fleet: Fleet) -> Iterator[FieldFinding]:
    """A backup controller continues from the primary's state. The state needs a file system that both reach
    and that survives the loss of either (slurm.conf(5), StateSaveLocation)."""
    for path, site in fleet.onprem():
        if site.scheduler != "slurm" or site.controllers is None:
            continue
        where = (*path, "slurm", "state")
        controllers = site.controllers.hosts
        if state_export(site) is None and len(controllers) > 1:
            yield FieldFinding(
                where,
                f"site {site.site!r} has {len(controllers)} controllers but no shared file system for their"
                " state: a backup could not take over",
                "write an NFS export, such as `slurm: {state: 'nas01:/export/slurm'}`, declare an NFS file"
                " system under `storage`, or use one controller",
                value=site.controllers.text,
            )
        export = site.slurm.state
        if export is None:
            continue  # the check of the file system reports it
        server, _, folder = export.partition(":")
        if not folder.startswith("/"):
            yield FieldFinding(
                where, f"{export!r} is not an NFS export", "write it as host:/export", value=export
            )
        elif server in controllers:
            yield FieldFinding(
                where,
                f"{export!r} is on a controller of site {site.site!r} and would be lost with it",
                "use an export of a file server",
                value=export,
            )


CHECKS = (slurm_unused, slurm_partitions, slurm_qos, slurm_state)
