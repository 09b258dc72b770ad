"""While a Capacity Block runs, its nodes are neither replaced nor terminated without approval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.policies.rules.change_safety._block_nodes import (
    block_launches,
    block_times,
    disturbed_in_block,
)
from gpufleet.policies.rules.change_safety._nodes import group_of
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, change_rule
from gpufleet.resources.launches import LAUNCHERS
from gpufleet.resources.types import (
    BLOCK_OFFERING,
    BLOCK_SCHEDULE,
    CAPACITY_BLOCK,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SCHEDULE,
)


def _nodes(user_data: str, end: str) -> tuple[dict[str, Any], ...]:
    target = {"capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}}
    block = {"id": "cr-0123456789abcdef0", "startDate": "2026-11-15T11:30:00Z", "endDate": end}
    return (
        {"type": CAPACITY_BLOCK, "name": "block", "props": block},
        {
            "type": LAUNCH_TEMPLATE,
            "name": "template",
            "props": {"userData": user_data, "capacityReservationSpecification": target},
        },
        {
            "type": NODE_GROUP,
            "name": "pretrain",
            "props": {
                "capacityType": "CAPACITY_BLOCK",
                "scalingConfig": {"minSize": 0, "maxSize": 8, "desiredSize": 0},
                "launchTemplate": {"id": "lt-1", "version": user_data},
            },
            "depends": {"launchTemplate": ["template"]},
        },
    )


@change_rule(
    "capacity-block-undisturbed",
    group="change-safety",
    title="A running Capacity Block keeps its nodes",
    why="The hours of a Capacity Block are paid for and end at a fixed date. A node that is replaced inside "
    "it costs paid hours, a training run restarts from its last checkpoint, and an image that does not start "
    "costs the block.",
    fix="Make the change before the block starts or after it ends. If it cannot wait, add an exemption of "
    "capacity-block-undisturbed for the node group.",
    severity="high",
    types=(*LAUNCHERS, LAUNCH_TEMPLATE, CAPACITY_BLOCK, BLOCK_OFFERING, BLOCK_SCHEDULE, SCHEDULE),
    fleet_field="cloud",
    passes=Example(_nodes("2", "2026-11-20T11:30:00Z"), before=_nodes("1", "2026-11-20T11:30:00Z")),
    fails=Example(_nodes("2", "2026-11-29T11:30:00Z"), before=_nodes("1", "2026-11-29T11:30:00Z")),
)
def capacity_block_undisturbed(change: StackChange, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check every launch into a block that runs now, or may run."""
    now = context.shared.now
    for launch in block_launches(change.before):
        times = [time for time in block_times(launch, change, context.shared) if time.runs(now) is not False]
        if not times:
            continue
        time = next((each for each in times if each.runs(now)), times[0])
        found = disturbed_in_block(change, launch, time.end)
        if found is None:
            continue
        running = f"its Capacity Block {time.text}" if time.runs(now) else f"it may run now: {time.unclear}"
        yield Violation(
            f"the change {found.how}, and {running} ({group_of(launch)})",
            "make the change after the block has ended, or add an exemption of capacity-block-undisturbed",
            urn=found.urn,
            unknown=time.requested or not time.runs(now),
        )
