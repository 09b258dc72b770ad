"""The keys by which cost is split are activated for cost allocation."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.policies.rules.tags._fleet import NODE_GROUP, SITE, TEAM
from gpufleet.policies.rules.tags._required import ALLOCATION, DEFAULT_KEYS, listed
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import UNKNOWN, is_unknown, shown
from gpufleet.resources.stack import Stack

ACTIVATION = "aws:costexplorer/costAllocationTag:CostAllocationTag"
OURS = (f"{TAG_PREFIX}environment", f"{TAG_PREFIX}fleet", SITE, NODE_GROUP, TEAM)


class CostAllocationTagsSettings(Settings):
    """Keys that must be active, and keys activated elsewhere."""

    keys: tuple[str, ...] = Field(
        (), description="Keys that must be active; the fleet file's required keys and gpufleet's own if empty"
    )
    active_elsewhere: tuple[str, ...] = Field((), description="Keys that are activated in the payer account")


@stack_rule(
    "cost-allocation-tags",
    group="tags",
    title="The keys by which cost is split are activated for cost allocation",
    why="AWS counts by a tag only from the day its key is activated. Until then a budget that filters by the "
    "tag counts nothing and sends no alert.",
    fix="Activate the keys in the payer account (`aws ce update-cost-allocation-tags-status`, or a "
    "CostAllocationTag resource each), and add them to `active_elsewhere`.",
    severity="medium",
    enforcement="advisory",
    framework=ALLOCATION,
    types=(ACTIVATION,),
    settings=CostAllocationTagsSettings,
    passes=Example(
        ({"type": ACTIVATION, "name": "team", "props": {"tagKey": "team", "status": "Active"}},),
        settings={"keys": ["team", "project"], "active_elsewhere": ["project"]},
    ),
    fails=Example(
        ({"type": ACTIVATION, "name": "team", "props": {"tagKey": "team", "status": "Inactive"}},),
        settings={"keys": ["team", "project"]},
    ),
)
def cost_allocation_tags(
    stack: Stack, context: RuleContext[CostAllocationTagsSettings]
) -> Iterator[Violation]:
    """Check activations in this stack, and keys that the settings list as active elsewhere."""
    settings, spec = context.settings, context.shared.spec
    required = spec.required_tags if spec is not None else DEFAULT_KEYS
    wanted = settings.keys or (*required, *OURS)
    active = set(settings.active_elsewhere)
    unclear = False
    for each in map(declared, stack.of_type(ACTIVATION)):
        key, status = each.get("tagKey"), each.get("status")
        if status == "Active" and isinstance(key, str):
            active.add(key)
        elif is_unknown(key) or status is UNKNOWN:
            unclear = True
        elif key in wanted:
            yield Violation(
                f"status of {key!r} is {shown(status)}, and cost is split by it",
                "set status to Active",
                urn=each.urn,
                prop="status",
            )
    missing = [key for key in wanted if key not in active]
    if missing:
        yield Violation(
            f"{listed(missing)} are not activated for cost allocation by this stack",
            "activate them in the payer account, and add them to the rule's active_elsewhere",
            unknown=unclear,
        )
