"""A change does not stop nodes that run jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from gpufleet.policies.rules.change_safety._nodes import disturbed, group_of
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, change_rule
from gpufleet.resources.launches import LAUNCHERS, workload_of
from gpufleet.resources.types import LAUNCH_TEMPLATE, NODE_GROUP


class RunningJobsSettings(Settings):
    """What is made of a group of which nobody told how many jobs run on it."""

    unknown_fails: tuple[str, ...] = Field(
        ("training",),
        description="Workloads of which an unknown number of jobs counts as running ones",
    )


def _nodes(kind: str) -> tuple[dict[str, Any], ...]:
    tags = {"gpufleet:site": "use1", "gpufleet:node-group": "pretrain"}
    sizes = {"minSize": 0, "maxSize": 4, "desiredSize": 4}
    props = {"tags": tags, "labels": {"gpufleet.io/workload": "training"}, "instanceTypes": [kind]}
    return ({"type": NODE_GROUP, "name": "pretrain", "props": {**props, "scalingConfig": sizes}},)


@change_rule(
    "running-jobs",
    group="change-safety",
    title="No nodes go while jobs run on them",
    why="A training run that loses a node starts again from its last checkpoint, with every other node "
    "waiting, and EKS replaces all nodes of a group for any change of its launch template.",
    fix="Wait until the group is idle and say so (`gpufleet check --jobs FILE`, with its number 0), or take "
    "an exemption for the group.",
    severity="high",
    types=(*LAUNCHERS, LAUNCH_TEMPLATE),
    settings=RunningJobsSettings,
    fleet_field="cloud",
    passes=Example(_nodes("p5en.48xlarge"), before=_nodes("p5.48xlarge"), jobs={"use1/pretrain": 0}),
    fails=Example(_nodes("p5en.48xlarge"), before=_nodes("p5.48xlarge"), jobs={"use1/pretrain": 3}),
)
def running_jobs(change: StackChange, context: RuleContext[RunningJobsSettings]) -> Iterator[Violation]:
    """Every group whose nodes the change takes away, by how many jobs run on it."""
    for each in disturbed(change):
        resource, group = each.launch.resource, group_of(each.launch)
        jobs = change.jobs.get(group)
        if jobs == 0:
            continue
        if jobs is None:
            # The label of the resource as it was: the new plan may call its work something else.
            labels = resource.get("labels")
            label = labels.get("gpufleet.io/workload") if isinstance(labels, dict) else None
            workload = label if isinstance(label, str) else workload_of(resource, context.shared.plan)
            if workload not in context.settings.unknown_fails:
                continue
            running = f"how many {workload} jobs run on it is not known"
        else:
            running = f"{jobs} job{'s run' if jobs != 1 else ' runs'} on it"
        yield Violation(
            f"the change {each.how}, and {running} ({group})",
            "wait until it is idle and say so (`--jobs`), or take an exemption of running-jobs",
            urn=each.urn,
            unknown=jobs is None,
        )
