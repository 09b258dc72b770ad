"""A temporary environment has an expiry date, and so has its capacity."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from pydantic import Field

from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, declared, tags_of
from gpufleet.resources.resource import Resource, holds_unknown, is_unknown, shown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import CAPACITY_BLOCK, CAPACITY_RESERVATION, CLUSTER, LAUNCH_TEMPLATE, LUSTRE

TAG = "gpufleet:expires"
CAPACITY = (*LAUNCHERS, LAUNCH_TEMPLATE, CAPACITY_BLOCK, CAPACITY_RESERVATION, CLUSTER, LUSTRE)


class TemporaryEnvironmentsExpireSettings(Settings):
    """Which environments are temporary, and for how long."""

    names: tuple[str, ...] = Field(
        ("pr-*", "tmp-*", "temp-*", "test-*", "*-scratch"),
        description="Names (patterns) of environments or stacks that are temporary",
    )
    max_days: int = Field(30, ge=1, description="Maximum days until a temporary environment expires")


def _fleet(**more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "pr-17",
        "budget": {"monthly": "1000 USD"},
        "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
        "software": {"channel": "2026.11"},
        **more,
    }


_RESERVATION = {
    "type": CAPACITY_RESERVATION,
    "props": {"instanceType": "g6.xlarge", "instanceCount": 1, "tags": {TAG: "2026-12-01"}},
}


@stack_rule(
    "temporary-environments-expire",
    group="capacity",
    title="Temporary environments have an expiry date, and so has their capacity",
    why="An environment for a pull request or a trial keeps running unless it has an expiry date, and "
    "forgotten GPUs are expensive.",
    fix="Write `expires: <date>` in the fleet file; everything gets it as a tag. Extend it while needed.",
    severity="medium",
    types=CAPACITY,
    settings=TemporaryEnvironmentsExpireSettings,
    fleet_field="expires",
    passes=Example((_RESERVATION,), fleet=_fleet(expires="2026-12-01")),
    fails=Example((_RESERVATION,), fleet=_fleet()),
)
def temporary_environments_expire(
    stack: Stack, context: RuleContext[TemporaryEnvironmentsExpireSettings]
) -> Iterator[Violation]:
    """Check the fleet file's date, and the expiry tag of all capacity if there is a date."""
    shared, settings = context.shared, context.settings
    expires = shared.spec.expires if shared.spec is not None else None
    temporary = any(
        fnmatchcase(name.lower(), pattern)
        for name in {context.environment, shared.stack}
        for pattern in settings.names
    )
    if expires is None:
        if temporary:
            yield Violation(
                f"{context.environment} is a temporary environment and has no expiry date",
                f"write 'expires: {shared.now.date() + dt.timedelta(days=min(7, settings.max_days))}' (or up"
                f" to {settings.max_days} days ahead) in its fleet file",
            )
        return
    today = shared.now.date()
    if expires < today:
        yield Violation(
            f"{context.environment} expired on {expires}",
            f"destroy it (`gpufleet destroy {context.environment}`), or write a later date",
        )
    elif temporary and (expires - today).days > settings.max_days:
        yield Violation(
            f"{context.environment} expires on {expires}, and a temporary environment lasts"
            f" {settings.max_days} days at most",
            f"write '{today + dt.timedelta(days=settings.max_days)}' or sooner",
        )
    for original in stack.of_type(*CAPACITY):
        yield from _tag(declared(original), str(expires))


def _tag(resource: Resource, expires: str) -> Iterator[Violation]:
    value = tags_of(resource).get(TAG)
    if value != expires or resource.ignores("tags"):
        yield _violation(resource, value, expires, "tags")
    for path, item in resource.items("tagSpecifications"):
        tags = item.get("tags") if isinstance(item, dict) else None
        value = tags.get(TAG) if isinstance(tags, dict) else None
        if value != expires:
            yield _violation(resource, value, expires, f"{path}.tags")


def _violation(resource: Resource, value: object, expires: str, prop: str) -> Violation:
    unknown = is_unknown(value) or (value is None and holds_unknown(resource.get(prop)))
    if value == expires:
        return Violation(
            f"its tag {TAG} is {expires}, and changes of {prop} are ignored",
            "leave it out of ignoreChanges",
            urn=resource.urn,
            prop=prop,
        )
    return Violation(
        f"its tag {TAG} is {shown(value)}, and the environment expires on {expires}"
        if not unknown
        else f"whether it has the tag {TAG} is not known yet",
        "use the tags of the plan (`plan.tags`), which contain the date",
        urn=resource.urn,
        prop=prop,
        unknown=unknown,
    )
