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
from gpufleet.resources.types import LAUNCH_TEMPLATE, NODE_CLASS, NODE_GROUP, NODE_POOL


class RunningJobsSettings(Settings):
    """How a group with an unknown number of running jobs counts."""

    unknown_fails: tuple[str, ...] = Field(
        ("training",),
        description="Workloads that count as running jobs if the number of jobs is unknown",
    )


def _nodes(kind: str) -> tuple[dict[str, Any], ...]:
    tags = {"gpufleet:site": "use1", "gpufleet:node-group": "pretrain"}
    sizes = {"minSize": 0, "maxSize": 4, "desiredSize": 4}
    props = {"tags": tags, "labels": {"gpufleet.io/workload": "training"}, "instanceTypes": [kind]}
    return ({"type": NODE_GROUP, "name": "pretrain", "props": {**props, "scalingConfig": sizes}},)


@change_rule(
    "running-jobs",
    group="change-safety",
    title="No nodes are removed while jobs run on them",
    why="A training run that loses a node restarts from its last checkpoint, and all other nodes wait. EKS "
    "replaces all nodes of a group for any change of its launch template.",
    fix="Wait until the group is idle and pass its number of jobs, 0 (`gpufleet check --jobs FILE`), or add "
    "an exemption for the group.",
    severity="high",
    types=(*LAUNCHERS, LAUNCH_TEMPLATE, NODE_POOL, NODE_CLASS),
    settings=RunningJobsSettings,
    fleet_field="cloud",
    passes=Example(_nodes("p5en.48xlarge"), before=_nodes("p5.48xlarge"), jobs={"use1/pretrain": 0}),
    fails=Example(_nodes("p5en.48xlarge"), before=_nodes("p5.48xlarge"), jobs={"use1/pretrain": 3}),
)
def running_jobs(change: StackChange, context: RuleContext[RunningJobsSettings]) -> Iterator[Violation]:
    """Check every group whose nodes the change removes, by the number of jobs on it."""
    for each in disturbed(change):
        resource, group = each.launch.resource, group_of(each.launch)
        jobs = change.jobs.get(group)
        if jobs == 0:
            continue
        if jobs is None:
            # The workload label before the change: the change may rename it.
            labels = resource.get("labels")
            label = labels.get("gpufleet.io/workload") if isinstance(labels, dict) else None
            workload = label if isinstance(label, str) else workload_of(resource, context.shared.plan)
            if workload not in context.settings.unknown_fails:
                continue
            running = f"the number of {workload} jobs on it is not known"
        else:
            running = f"{jobs} job{'s run' if jobs != 1 else ' runs'} on it"
        yield Violation(
            f"the change {each.how}, and {running} ({group})",
            "wait until it is idle and pass 0 jobs (`--jobs`), or add an exemption of running-jobs",
            urn=each.urn,
            unknown=jobs is None,
        )
