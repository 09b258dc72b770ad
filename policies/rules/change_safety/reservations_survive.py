"""Reserved capacity is neither released nor bought a second time without approval."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from gpufleet.policies.rules.change_safety._removals import forced, removals
from gpufleet.policy.change import ChangeStep, StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, change_rule
from gpufleet.resources.launch_inputs import number
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.types import BLOCK_EXTENSION, BLOCK_OFFERING, CAPACITY_BLOCK, CAPACITY_RESERVATION

_HELD = {"instanceType": "p5.48xlarge", "instanceCount": 4, "availabilityZone": "us-east-1a"}


@change_rule(
    "reservations-survive",
    group="change-safety",
    title="Reservations survive a change",
    why="Released GPU capacity may be sold within a minute. Replacing a Capacity Block buys a second one, "
    "and the first stays paid for in full.",
    fix="Keep type, number, zone, duration and start of a reservation; add a second reservation instead.",
    severity="critical",
    types=(CAPACITY_BLOCK, CAPACITY_RESERVATION, BLOCK_OFFERING, BLOCK_EXTENSION),
    fleet_field="cloud",
    passes=Example(
        ({"type": CAPACITY_RESERVATION, "name": "base", "props": {**_HELD, "instanceCount": 6}},),
        before=({"type": CAPACITY_RESERVATION, "name": "base", "props": _HELD},),
    ),
    fails=Example(
        ({"type": CAPACITY_RESERVATION, "name": "base", "props": {**_HELD, "instanceCount": 2}},),
        before=({"type": CAPACITY_RESERVATION, "name": "base", "props": _HELD},),
    ),
)
def reservations_survive(change: StackChange, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check blocks, offerings, extensions and On-Demand Capacity Reservations that have not ended."""
    now = context.shared.now
    ended = {each.urn for each in change.before if _ended(each, now)}
    # A state that was not refreshed has the end of a block before its extensions.
    ended -= {
        block.urn
        for block in change.before.of_type(CAPACITY_BLOCK)
        for each in change.before.referrers(block, "reservation_id", BLOCK_EXTENSION)
        if each.urn not in ended
    }
    offerings = {
        offering.urn
        for block in change.before.of_type(CAPACITY_BLOCK)
        if block.urn in ended
        for offering in change.before.references(block, "capacityBlockOfferingId", types=(BLOCK_OFFERING,))
    }
    watched = (CAPACITY_BLOCK, CAPACITY_RESERVATION, BLOCK_OFFERING, BLOCK_EXTENSION)
    for step, fate in removals(change, watched):
        before = step.before
        if before is None or before.urn in ended | offerings:
            continue
        if before.type == CAPACITY_RESERVATION:
            if not (fate == "delete" and before.options.retain_on_delete):
                yield _violation(step, f"would be {fate}d{forced(step)}: its capacity is released")
        elif fate == "replace":
            yield _violation(step, f"would be bought again{forced(step)}: the first one stays paid for")
        elif before.type == CAPACITY_BLOCK:
            yield _violation(step, "would leave the state: AWS cannot cancel it, and it stays paid for")
    for step in change.steps:
        if step.operation == "update" and step.resource.type == CAPACITY_RESERVATION:
            yield from _shrunk(step)


def _shrunk(step: ChangeStep) -> Iterator[Violation]:
    if step.before is None or step.after is None or "instanceCount" not in step.diff:
        return
    old, new = number(step.before.get("instanceCount")), number(step.after.get("instanceCount"))
    if new is UNKNOWN or old is UNKNOWN or new < old:
        yield Violation(
            f"{step.resource.name} would hold {step.after.show('instanceCount')} instances instead of "
            f"{step.before.show('instanceCount')}: the others are released",
            "keep the number, or add an exemption of reservations-survive",
            urn=step.urn,
            prop="instanceCount",
            unknown=new is UNKNOWN or old is UNKNOWN,
        )


def _ended(resource: Resource, now: dt.datetime) -> bool:
    if resource.type not in (CAPACITY_BLOCK, CAPACITY_RESERVATION, BLOCK_EXTENSION):
        return False
    value = resource.get("end_date" if resource.type == BLOCK_EXTENSION else "endDate")
    try:
        end = dt.datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else None
    except ValueError:
        return False
    if end is None:
        return False
    return (end if end.tzinfo else end.replace(tzinfo=dt.UTC)) <= now


def _violation(step: ChangeStep, what: str) -> Violation:
    return Violation(
        f"{step.resource.name} {what}",
        "keep it unchanged and add another reservation, or add an exemption of reservations-survive",
        urn=step.urn,
        prop=step.replace_keys[0] if step.replace_keys else "",
    )
