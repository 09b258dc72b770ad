"""One change disturbs only a limited part of the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from gpufleet.plan.onprem import plan_hosts
from gpufleet.policies.rules.change_safety._nodes import disturbed, nodes_of, site_of
from gpufleet.policies.rules.change_safety._pools import pool_launches
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, change_rule
from gpufleet.resources.launches import LAUNCHERS, launches
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import LAUNCH_TEMPLATE, NODE_CLASS, NODE_GROUP, NODE_POOL
from gpufleet.spec.models import FleetSpec

FLEET = "the fleet"


class BlastRadiusSettings(Settings):
    """How many nodes one change may disturb."""

    percent: float = Field(25, gt=0, le=100, description="Percent of the nodes of a site or of the fleet")
    minimum_nodes: int = Field(
        8, ge=1, description="Nodes that a change may always disturb, whatever their percentage"
    )


def _nodes(kind: str, size: int) -> tuple[dict[str, Any], ...]:
    sizes = {"minSize": 0, "maxSize": size, "desiredSize": size}
    group = {
        "type": NODE_GROUP,
        "name": "serve",
        "props": {
            "tags": {"gpufleet:site": "use1"},
            "instanceTypes": [kind],
            "scalingConfig": sizes,
        },
    }
    return (group,)


@change_rule(
    "blast-radius",
    group="change-safety",
    title="A change disturbs a limited part of the nodes",
    why="A fault in an image, a driver or a launch template shows only when nodes start with it. If all "
    "nodes of a site change at once, no node is left to run jobs on.",
    fix="Split the change: one node group first, the others once it works.",
    severity="high",
    types=(*LAUNCHERS, LAUNCH_TEMPLATE, NODE_POOL, NODE_CLASS),
    settings=BlastRadiusSettings,
    fleet_field="cloud",
    passes=Example(_nodes("g6.2xlarge", 4), before=_nodes("g6.xlarge", 4)),
    fails=Example(_nodes("g6.2xlarge", 40), before=_nodes("g6.xlarge", 40)),
)
def blast_radius(change: StackChange, context: RuleContext[BlastRadiusSettings]) -> Iterator[Violation]:
    """Count the nodes that are deleted, replaced or rolled, per site and in the fleet, racks included."""
    settings = context.settings
    total: dict[str, int] = {FLEET: 0}
    for launch in (*launches(change.before), *pool_launches(change.before)):
        nodes = nodes_of(launch)
        if nodes is not UNKNOWN:
            _add(total, site_of(launch), nodes)
    hit: dict[str, int] = {FLEET: 0}
    who: dict[str, list[str]] = {FLEET: []}
    for each in disturbed(change):
        if each.nodes is UNKNOWN:
            yield Violation(
                f"the change {each.how}, and its number of nodes is not known",
                "write its sizes, so that its percentage of the fleet can be computed",
                urn=each.urn,
                unknown=True,
            )
            continue
        if each.nodes:
            _add(hit, site_of(each.launch), each.nodes)
            for key in (site_of(each.launch), FLEET):
                who.setdefault(key, []).append(f"{each.launch.resource.name} {each.nodes}")
    racks_before = _racks(change.spec_before)
    racks_after = _racks(context.shared.spec)
    for site, hosts in racks_before.items():
        _add(total, site, len(hosts))
        lost = len(hosts - racks_after.get(site, frozenset()))
        if lost:
            _add(hit, site, lost)
            for key in (site, FLEET):
                who.setdefault(key, []).append(f"racks of {site} {lost}")
    for place, nodes in hit.items():
        whole = total.get(place, 0)
        if nodes <= settings.minimum_nodes or not place or nodes * 100 <= settings.percent * whole:
            continue
        part = f"{nodes * 100 / whole:.0f}%, and {settings.percent:g}% are allowed"
        yield Violation(
            f"{nodes} of the {whole} nodes of {place} would be replaced, rolled or deleted at once "
            f"({part}): {', '.join(who[place][:5])}",
            "split it into changes of fewer node groups, or add an exemption of blast-radius for `stack`",
            fleet_field="onprem" if place in racks_before else "",
        )


def _add(counts: dict[str, int], site: str, nodes: int) -> None:
    counts[FLEET] = counts.get(FLEET, 0) + nodes
    counts[site] = counts.get(site, 0) + nodes


def _racks(spec: FleetSpec | None) -> dict[str, frozenset[str]]:
    """Return the GPU nodes of each rack site."""
    return {
        site.site: frozenset(host.name for host in plan_hosts(site) if host.role == "gpu")
        for site in (spec.onprem if spec is not None else ())
    }
