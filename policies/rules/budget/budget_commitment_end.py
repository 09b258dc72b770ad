"""No reservation ends after the budget does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from gpufleet.plan.capacity_models import ExistingBlockPlan
from gpufleet.plan.names import group_resource_name
from gpufleet.policies.rules.budget._caps import example_fleet, fleet_of, no_fleet
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, stack_rule
from gpufleet.pricing.of_stack.inputs import declared
from gpufleet.pricing.of_stack.reservations import offering_of, read_block
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.launch_inputs import number
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BLOCK_EXTENSION, CAPACITY_BLOCK, CAPACITY_RESERVATION
from gpufleet.spec.quantity import Moment, QuantityError

FIELD = "budget.ends"

START_WITHIN = dt.timedelta(hours=36)
"""How long after the requested time a block may start: the search takes the next offering that fits."""


class BudgetCommitmentEndSettings(Settings):
    """Which reservations are commitments."""

    open_ended: bool = Field(
        True,
        description="Whether an On-Demand Capacity Reservation without an end is allowed: it can be"
        " cancelled any day",
    )


def _block(end: str) -> tuple[dict[str, Any], ...]:
    props = {"instanceType": "p5.48xlarge", "instanceCount": 2, "startDate": "2026-12-01T11:30:00Z"}
    return ({"type": CAPACITY_BLOCK, "name": "pretrain", "props": {**props, "endDate": end}},)


@stack_rule(
    "budget-commitment-end",
    group="budget",
    title="No commitment ends after the budget",
    why="A reservation is paid for until it ends, so it must end within the approved budget.",
    fix="Reserve for a shorter time or earlier, or extend `budget.ends`.",
    severity="medium",
    framework=Framework(
        "FinOps Framework",
        "Rate Optimization",
        "https://www.finops.org/framework/capabilities/rate-optimization/",
    ),
    types=(CAPACITY_BLOCK, CAPACITY_RESERVATION, BLOCK_EXTENSION),
    fleet_field=FIELD,
    settings=BudgetCommitmentEndSettings,
    passes=Example(_block("2026-12-08T11:30:00Z"), fleet=example_fleet(ends="2026-12-31")),
    fails=Example(_block("2027-01-05T11:30:00Z"), fleet=example_fleet(ends="2026-12-31")),
)
def budget_commitment_end(
    stack: Stack, context: RuleContext[BudgetCommitmentEndSettings]
) -> Iterator[Violation]:
    """Check the latest end of blocks and reservations. The end of a block outside the stack is unknown."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    last = spec.budget.ends
    if last is None:
        return
    for resource in stack.of_type(CAPACITY_BLOCK):
        yield from _check(resource, _extended(stack, resource, context.shared.now), last)
    for resource in stack.of_type(CAPACITY_RESERVATION):
        kind = declared(resource, "endDateType")
        if kind in (None, "unlimited") and declared(resource, "endDate") is None:
            if not context.settings.open_ended:
                yield Violation(
                    f"{resource.name} is reserved without an end date, and {FIELD} is {last}",
                    "set endDateType to limited, and endDate",
                    urn=resource.urn,
                    prop="endDateType",
                )
            continue
        yield from _check(resource, _moment(declared(resource, "endDate")), last)
    for group in context.shared.plan.node_groups if context.shared.plan is not None else ():
        if isinstance(group.capacity, ExistingBlockPlan):
            name = group_resource_name(spec.fleet, spec.environment, group.site, group.name)
            yield Violation(
                f"when the Capacity Block {group.capacity.reservation_id} of {name} ends is not known, and"
                f" {FIELD} is {last}",
                "look up when it ends, and exempt the stack from this rule until then",
                fleet_field=FIELD,
                unknown=True,
            )


def _check(resource: Resource, end: dt.datetime | None, last: dt.date) -> Iterator[Violation]:
    if end is None:
        yield Violation(
            f"when {resource.name} ends is not known, and {FIELD} is {last}",
            "write its end as a date, or its start and length in the fleet file",
            urn=resource.urn,
            prop="endDate",
            unknown=True,
        )
    elif end.astimezone(dt.UTC).date() > last:
        yield Violation(
            f"{resource.name} is committed until {end:%Y-%m-%d} at the latest, and {FIELD} is {last}",
            f"reserve for a shorter time or earlier, or extend {FIELD}",
            urn=resource.urn,
            prop="endDate",
        )


def _extended(stack: Stack, block: Resource, now: dt.datetime) -> dt.datetime | None:
    """Return when a block ends with its extensions; those that are not bought yet follow the others."""
    end = _end_of_block(stack, block, now)
    extensions = stack.referrers(block, "reservation_id", BLOCK_EXTENSION)
    for each in sorted(extensions, key=lambda one: (len(one.name), one.name)):
        known, hours = _moment(declared(each, "end_date")), number(declared(each, "hours"))
        if known is not None:
            end = known if end is None else max(end, known)
        elif end is None or hours is UNKNOWN:
            return None
        else:
            end += dt.timedelta(hours=hours)
    return end


def _end_of_block(stack: Stack, block: Resource, now: dt.datetime) -> dt.datetime | None:
    """Return when a block ends: as AWS reports it, else the latest end that was requested."""
    known = declared(block, "endDate")
    if known is not None:
        return _moment(known)
    offering = offering_of(stack, block)
    found = declared(offering, "end_date") if offering is not None else None
    if found is not None:
        return _moment(found)
    start = declared(offering, "start") if offering is not None else None
    if not isinstance(start, str):
        return None
    try:
        asked = Moment.parse(start)
        length = dt.timedelta(hours=float(read_block(stack, block).hours))
    except (UnpricedError, QuantityError):
        return None
    begins = now + asked.offset if asked.offset is not None else asked.at
    return None if begins is None else _in_utc(begins) + START_WITHIN + length


def _moment(value: Any) -> dt.datetime | None:
    if value is UNKNOWN or not isinstance(value, str):
        return None
    try:
        return _in_utc(dt.datetime.fromisoformat(value))
    except ValueError:
        return None


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
