"""Clusters are neither deleted nor replaced, and no site leaves the fleet, without approval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.kinds import SLURM_SERVER_TAG
from gpufleet.policies.rules.change_safety._removals import forced, removals
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, change_rule
from gpufleet.resources.launches import tags_of
from gpufleet.resources.resource import Resource
from gpufleet.resources.types import CLUSTER, INSTANCE


def _cluster(name: str, **more: Any) -> dict[str, Any]:
    return {"type": CLUSTER, "name": "use1", "props": {"name": name, **more}}


def _what(resource: Resource) -> str:
    """Return what a resource is the cluster of, empty for an instance that is no controller."""
    if resource.type == CLUSTER:
        return f"the cluster {resource.name}"
    controls = tags_of(resource).get(SLURM_SERVER_TAG) == "controller"
    return f"the Slurm controller {resource.name}" if controls else ""


@change_rule(
    "clusters-survive",
    group="change-safety",
    title="Clusters and sites survive a change",
    why="Replacing a cluster deletes every workload, queue and volume claim in it; replacing a controller of "
    "Slurm loses its jobs and accounting. A rack site that is "
    "removed from the fleet file is no longer monitored or configured.",
    fix="Revert what forces the replacement; remove a cluster or a site in a separate change.",
    severity="critical",
    types=(CLUSTER, INSTANCE),
    fleet_field="cloud",
    passes=Example((_cluster("use1", version="1.36"),), before=(_cluster("use1", version="1.35"),)),
    fails=Example((_cluster("use1-new", __replace=["name"]),), before=(_cluster("use1"),)),
)
def clusters_survive(change: StackChange, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check EKS clusters and Slurm controllers as the engine reports them, sites by the two fleet files."""
    for step, fate in removals(change, (CLUSTER, INSTANCE)):
        if step.before is None or (fate == "delete" and step.before.options.retain_on_delete):
            continue
        what = _what(step.before)
        if not what:
            continue
        lost = "all its workloads" if step.before.type == CLUSTER else "the jobs and accounting on its disk"
        yield Violation(
            f"{what} would be {fate}d{forced(step)}, with {lost}",
            "revert what forces it, or add an exemption of clusters-survive for it",
            urn=step.urn,
            prop=step.replace_keys[0] if step.replace_keys else "",
        )
    before, after = change.spec_before, context.shared.spec
    if before is None or after is None:
        return
    left = {*(site.site for site in after.onprem), *(site.site for site in after.cloud)}
    former = [("onprem", site.site) for site in before.onprem] + [
        ("cloud", site.site) for site in before.cloud
    ]
    for field, site in former:
        if site not in left:
            yield Violation(
                f"the {'rack' if field == 'onprem' else 'cloud'} site {site!r} would leave the fleet",
                "keep the site, or add an exemption of clusters-survive for `stack`",
                fleet_field=field,
            )
