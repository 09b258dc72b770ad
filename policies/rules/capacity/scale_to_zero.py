"""Outside production, every node group can scale to zero."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from pydantic import Field

from gpufleet.policies.rules.capacity._reservations import reservations
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, Launch, launches, tags_of, workload_of
from gpufleet.resources.node_pools import WORKLOAD_LABEL, label_of, node_pools
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import INSTANCE, NODE_GROUP, NODE_POOL, SCHEDULE, SPOT_INSTANCE_REQUEST

GROUP_LABEL = "gpufleet.io/node-group"


class ScaleToZeroSettings(Settings):
    """Where nodes may always run."""

    environments: tuple[str, ...] = Field(
        ("prod",), description="Environments (patterns) in which nodes may always run"
    )
    system_groups: tuple[str, ...] = Field(
        ("system",),
        description="Node groups that always run, by the label gpufleet.io/node-group or the tag "
        "gpufleet:node-group: they run the cluster's own services and have no GPUs",
    )
    workloads: tuple[str, ...] = Field(
        (), description="Workloads whose nodes always run, such as `inference`"
    )


@stack_rule(
    "scale-to-zero",
    group="capacity",
    title="Outside production, node groups can scale to zero",
    why="An idle GPU node costs as much as a busy one: nights and weekends are three quarters of a month.",
    fix="Write `min: 0` for the node group; an autoscaler or Slurm starts nodes when there are jobs.",
    severity="medium",
    framework=Framework(
        "FinOps Framework",
        "Workload Optimization",
        "https://www.finops.org/framework/capabilities/workload-optimization/",
    ),
    types=(*LAUNCHERS, SCHEDULE, NODE_POOL),
    settings=ScaleToZeroSettings,
    fleet_field="cloud",
    passes=Example(
        ({"type": NODE_GROUP, "props": {"scalingConfig": {"minSize": 0, "maxSize": 4, "desiredSize": 1}}},),
        settings={"environments": []},
    ),
    fails=Example(
        ({"type": NODE_GROUP, "props": {"scalingConfig": {"minSize": 1, "maxSize": 4, "desiredSize": 1}}},),
        settings={"environments": []},
    ),
)
def scale_to_zero(stack: Stack, context: RuleContext[ScaleToZeroSettings]) -> Iterator[Violation]:
    """Check the minimum of groups and fleets, except those that use a reservation."""
    settings = context.settings
    if any(fnmatchcase(context.environment, pattern) for pattern in settings.environments):
        return
    catalog = context.shared.catalog
    for launch in launches(stack):
        resource = launch.resource
        if resource.type in (INSTANCE, SPOT_INSTANCE_REQUEST) or reservations(stack).use(launch).targeted:
            continue
        if launch.minimum == 0:
            continue
        workload = workload_of(resource, context.shared.plan)
        if workload and workload in settings.workloads:
            continue
        gpus = launch.types.unclear or any(
            name not in catalog.instances or catalog.instances[name].accelerator
            for name in launch.types.names
        )
        if _group(launch) in settings.system_groups and not gpus:
            continue
        unknown = launch.minimum is UNKNOWN
        yield Violation(
            f"{launch.minimum_path} "
            + (
                "is not known, or changes of it are ignored"
                if unknown
                else f"keeps {launch.minimum} {launch.unit} at all times"
            )
            + f", and groups of {context.environment} can scale to zero",
            "write `min: 0`, or add the workload or the environment to `policies.scale-to-zero.settings`",
            urn=resource.urn,
            prop=launch.minimum_path,
            unknown=unknown,
        )
    for pool in node_pools(stack):
        if pool.replicas is None or pool.replicas == 0:
            continue
        if label_of(pool.resource, WORKLOAD_LABEL) in settings.workloads:
            continue
        unknown = pool.replicas is UNKNOWN
        yield Violation(
            "spec.replicas "
            + ("is not known" if unknown else f"keeps {pool.replicas} nodes at all times")
            + f", and groups of {context.environment} can scale to zero",
            "write `min: 0`, or add the workload or the environment to `policies.scale-to-zero.settings`",
            urn=pool.resource.urn,
            prop="spec.replicas",
            unknown=unknown,
        )


def _group(launch: Launch) -> object:
    labels = launch.resource.get("labels")
    label = labels.get(GROUP_LABEL) if isinstance(labels, dict) else None
    return label or tags_of(launch.resource).get("gpufleet:node-group")
