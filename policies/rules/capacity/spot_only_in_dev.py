"""Spot instances are used only in dev, or for workloads that the environment lists."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from pydantic import Field

from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, TEMPLATES, launches, workload_of
from gpufleet.resources.node_pools import WORKLOAD_LABEL, label_of
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import NODE_GROUP, NODE_POOL

NODE_POOLS = (NODE_POOL, "kubernetes:karpenter.sh/v1beta1:NodePool")


class SpotOnlyInDevSettings(Settings):
    """Where spot may be used."""

    environments: tuple[str, ...] = Field(
        ("dev",), description="Environments (patterns) in which every workload may run on spot"
    )
    workloads: tuple[str, ...] = Field(
        (), description="Workloads that may run on spot in every environment, such as `batch`"
    )


@stack_rule(
    "spot-only-in-dev",
    group="capacity",
    title="Spot is used only in dev, and elsewhere for listed workloads",
    why="AWS takes back a spot node at two minutes' notice. A training run over many spot nodes loses one "
    "many times a day, and its current step with it. A service loses requests.",
    fix="Use on-demand or reserved capacity, or add the environment or the workload to the rule's settings.",
    severity="medium",
    types=(*LAUNCHERS, *TEMPLATES),
    settings=SpotOnlyInDevSettings,
    fleet_field="cloud",
    passes=Example(
        (
            {
                "type": NODE_GROUP,
                "props": {"capacityType": "SPOT", "labels": {"gpufleet.io/workload": "batch"}},
            },
        ),
        settings={"workloads": ["batch"]},
    ),
    fails=Example(
        (
            {
                "type": NODE_GROUP,
                "props": {"capacityType": "SPOT", "labels": {"gpufleet.io/workload": "training"}},
            },
        ),
        settings={"workloads": ["batch"]},
    ),
)
def spot_only_in_dev(stack: Stack, context: RuleContext[SpotOnlyInDevSettings]) -> Iterator[Violation]:
    """Check everything that launches, with its launch templates."""
    settings = context.settings
    if any(fnmatchcase(context.environment, pattern) for pattern in settings.environments):
        return
    for launch in launches(stack):
        workload = workload_of(launch.resource, context.shared.plan)
        if workload in settings.workloads:
            continue
        where = f"{context.environment} allows spot for {', '.join(settings.workloads) or 'nothing'}"
        if "spot" in launch.markets:
            yield Violation(
                f"it buys spot instances for {workload or 'an unknown workload'}, and {where}",
                "use `capacity: {on_demand: ...}` or `{reserved: ...}`, or add the workload to "
                "`policies.spot-only-in-dev.settings.workloads`",
                urn=launch.resource.urn,
                prop="capacityType" if launch.resource.type == NODE_GROUP else "",
            )
        elif "unknown" in launch.markets or launch.unclear:
            yield Violation(
                f"whether it buys spot instances is not known"
                f"{f' ({launch.unclear})' if launch.unclear else ''}, and {where}",
                "state how instances are bought, and keep the launch template in this stack",
                urn=launch.resource.urn,
                unknown=True,
            )
    for pool in stack.of_type(*NODE_POOLS):
        if label_of(pool, WORKLOAD_LABEL) in settings.workloads:
            continue
        for path, need in pool.items("spec.template.spec.requirements"):
            if not isinstance(need, dict) or need.get("key") == "karpenter.sh/capacity-type":
                values = need.get("values") if isinstance(need, dict) else need
                if not isinstance(values, (list, tuple)) or set(values) - {"on-demand", "reserved"}:
                    yield Violation(
                        f"{path} lets Karpenter buy spot instances",
                        "allow only the capacity types on-demand and reserved",
                        urn=pool.urn,
                        prop=path,
                    )
