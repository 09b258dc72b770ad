"""On-demand nodes with EFA are in a cluster placement group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from gpufleet.policies.rules.capacity._efa import has_efa
from gpufleet.policies.rules.capacity._placement import placements, strategy
from gpufleet.policies.rules.capacity._reservations import reservations, uses_block
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, launches
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    INSTANCE,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    PLACEMENT_GROUP,
    SPOT_INSTANCE_REQUEST,
)


class EfaInPlacementGroupSettings(Settings):
    """Which groups need a placement group."""

    spot: bool = Field(
        False,
        description="Whether spot groups need one too; without it they find spare capacity more easily",
    )


def _example(placement: dict[str, Any], depends: dict[str, Any]) -> Example:
    interfaces = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    group = {
        "instanceTypes": ["g6.8xlarge"],
        "launchTemplate": {"version": "$Latest"},
        "scalingConfig": {"minSize": 0, "maxSize": 2},
    }
    return Example(
        (
            {"type": PLACEMENT_GROUP, "name": "close", "props": {"strategy": "cluster"}},
            {
                "type": LAUNCH_TEMPLATE,
                "name": "template",
                "props": {"networkInterfaces": interfaces, **placement},
                "depends": depends,
            },
            {
                "type": NODE_GROUP,
                "name": "nodes",
                "props": group,
                "depends": {"launchTemplate": ["template"]},
            },
        )
    )


@stack_rule(
    "efa-in-placement-group",
    group="capacity",
    title="On-demand nodes with EFA are in a cluster placement group",
    why="Outside a placement group nodes are spread over the zone, with more switches between them. Latency "
    "increases and collective operations slow down.",
    fix="Leave `placement` at `auto` and use one zone, or write `placement: cluster`.",
    severity="medium",
    types=(*LAUNCHERS, LAUNCH_TEMPLATE, PLACEMENT_GROUP),
    settings=EfaInPlacementGroupSettings,
    fleet_field="cloud",
    passes=_example({"placement": {"groupName": "close"}}, {"placement": ["close"]}),
    fails=_example({}, {}),
)
def efa_in_placement_group(
    stack: Stack, context: RuleContext[EfaInPlacementGroupSettings]
) -> Iterator[Violation]:
    """Check groups with EFA that use no reservation: AWS places those of blocks and reservations."""
    found = reservations(stack)
    known = context.shared.catalog.instances
    for launch in launches(stack):
        if launch.resource.type in (INSTANCE, SPOT_INSTANCE_REQUEST):
            continue
        single = launch.maximum is not UNKNOWN and launch.maximum < 2
        use = found.use(launch)
        if single or not any(has_efa(template) for template in launch.templates):
            continue
        if (
            uses_block(launch, use)
            or use.targeted
            or (launch.markets == {"spot"} and not context.settings.spot)
        ):
            continue
        if any(
            "cluster" not in known[name].placement_strategies for name in launch.types.names if name in known
        ):
            continue
        placed = list(placements(stack, launch))
        if not placed:
            yield Violation(
                "it has EFA and no placement group",
                "set a placement group with strategy cluster in its launch template (`placement: cluster`)",
                urn=launch.resource.urn,
                prop="placement",
            )
        for each in placed:
            kind = strategy(each.group) if each.group is not None else UNKNOWN
            if kind != "cluster":
                what = "not known" if kind is UNKNOWN else repr(kind)
                yield Violation(
                    f"{each.prop} is {each.resource.show(each.prop)}, whose strategy is {what}, and EFA needs"
                    " 'cluster'",
                    "use a placement group of this stack with strategy cluster",
                    urn=each.resource.urn,
                    prop=each.prop,
                    unknown=kind is UNKNOWN,
                )
