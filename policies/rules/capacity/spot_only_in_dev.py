"""Spot instances only where the environment is for trying, or says which work may run on them."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from pydantic import Field

from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, TEMPLATES, launches, workload_of
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import NODE_GROUP

NODE_POOLS = ("kubernetes:karpenter.sh/v1:NodePool", "kubernetes:karpenter.sh/v1beta1:NodePool")


class SpotOnlyInDevSettings(Settings):
    """Where spot may be used."""

    environments: tuple[str, ...] = Field(
        ("dev",), description="Environments (patterns) in which anything may run on spot"
    )
    workloads: tuple[str, ...] = Field(
        (), description="Workloads that may run on spot in every environment, such as `batch`"
    )


@stack_rule(
    "spot-only-in-dev",
    group="capacity",
    title="Spot only in dev, and elsewhere for the work that the environment names",
    why="A spot node is taken back at two minutes' notice: a training run over many of them loses a "
    "node, and with it the step, many times a day, and a service loses requests.",
    fix="Buy on demand or reserve, or name the environment or the workload in the rule's settings.",
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
    """Everything that launches, with its launch templates."""
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
                f"it buys spot instances for {workload or 'work of no known kind'}, and {where}",
                "use `capacity: {on_demand: ...}` or `{reserved: ...}`, or name the workload in "
                "`policies.spot-only-in-dev.settings.workloads`",
                urn=launch.resource.urn,
                prop="capacityType" if launch.resource.type == NODE_GROUP else "",
            )
        elif "unknown" in launch.markets or launch.unclear:
            yield Violation(
                f"whether it buys spot instances is not known"
                f"{f' ({launch.unclear})' if launch.unclear else ''}, and {where}",
                "write how instances are bought, and keep the launch template in this stack",
                urn=launch.resource.urn,
                unknown=True,
            )
    for pool in stack.of_type(*NODE_POOLS):
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
