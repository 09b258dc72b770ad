"""What is shared with other accounts is declared in the fleet file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from gpufleet.plan.capacity_models import ReservationPlan
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.names import group_resource_name
from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policies.rules.security._properties import is_off
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    CAPACITY_RESERVATION,
    RESOURCE_SHARE,
    SHARE_PRINCIPAL,
    SHARED_RESOURCE,
)

EXCLUSIVE = "aws:ram/resourceShareAssociationsExclusive:ResourceShareAssociationsExclusive"
"""Sets all principals and resources of a share."""


class ResourceSharesDeclaredSettings(Settings):
    """Shares besides those of the fleet file."""

    principals: tuple[str, ...] = Field(
        (),
        description="Account ids, and ARNs of organizations or organizational units, with which any share may"
        " be, besides `odcr.share_with`",
    )
    resources: tuple[str, ...] = Field(
        (), description="ARNs of resources that may be shared, besides reservations of the stack"
    )


def _example(principal: str) -> Example:
    return Example(
        (
            {
                "type": RESOURCE_SHARE,
                "name": "share",
                "props": {"name": "a", "allowExternalPrincipals": False},
            },
            {
                "type": SHARE_PRINCIPAL,
                "name": "other",
                "props": {"principal": principal},
                "depends": {"resourceShareArn": ["share"]},
            },
        ),
        settings={"principals": ["222233334444"]},
    )


@stack_rule(
    "resource-shares-declared",
    group="security",
    title="Shares with other accounts are declared in the fleet file",
    why="Another account with which a reservation is shared launches into it, while this account reserved "
    "the capacity for its own nodes. Other shares of AWS RAM give access to networks or images. With "
    "external principals a share can be given to accounts of other organizations.",
    fix="List the principal in `odcr.share_with` of the fleet file, set `share_outside_organization` for "
    "accounts of other organizations, or remove the share.",
    severity="critical",
    framework=well_architected("SEC03-BP07", "sec_permissions_analyze_cross_account"),
    types=(RESOURCE_SHARE, SHARED_RESOURCE, SHARE_PRINCIPAL, EXCLUSIVE),
    settings=ResourceSharesDeclaredSettings,
    fleet_field="cloud",
    passes=_example("222233334444"),
    fails=_example("999999999999"),
)
def resource_shares_declared(
    stack: Stack, context: RuleContext[ResourceSharesDeclaredSettings]
) -> Iterator[Violation]:
    """Check external principals, principals and resources of shares. What is unknown fails."""
    plan = context.shared.plan
    planned = {} if plan is None else _planned(plan)
    settings = context.settings
    for original in stack.of_type(RESOURCE_SHARE):
        share = declared(original)
        outside = share.get("allowExternalPrincipals", False)
        wanted = planned.get(original.name)
        if (not is_off(outside) or share.ignores("allowExternalPrincipals")) and not (
            wanted is not None and wanted.share_outside_organization
        ):
            yield _violation(
                share,
                "allowExternalPrincipals",
                "accounts of other organizations must be declared",
                "set it to false, or set `odcr.share_outside_organization` in the fleet file",
            )
    for original in stack.of_type(SHARE_PRINCIPAL, EXCLUSIVE):
        yield from _principals(stack, declared(original), planned, settings.principals)
    for original in stack.of_type(SHARED_RESOURCE, EXCLUSIVE):
        yield from _resources(stack, declared(original), settings.resources)


def _planned(plan: FleetPlan) -> dict[str, ReservationPlan]:
    """Return the reservations that the fleet file shares, by the name of their resources."""
    return {
        group_resource_name(plan.fleet, plan.environment, group.site, group.name): group.capacity
        for group in plan.node_groups
        if isinstance(group.capacity, ReservationPlan) and group.capacity.share_with
    }


def _principals(
    stack: Stack, resource: Resource, planned: Mapping[str, ReservationPlan], more: tuple[str, ...]
) -> Iterator[Violation]:
    known = set(more)
    for share in stack.of_type(RESOURCE_SHARE):
        if share.name in planned and stack.refers(resource, "resourceShareArn", share, "arn"):
            known |= {*planned[share.name].share_with}
    prop = "principal" if resource.type == SHARE_PRINCIPAL else "principals"
    for path, value in resource.items(prop):
        if is_unknown(value) or str(value) not in known:
            yield _violation(
                resource,
                path,
                "principals of shares must be declared",
                "list it in `odcr.share_with` of the fleet file",
                value,
            )


def _resources(stack: Stack, resource: Resource, more: tuple[str, ...]) -> Iterator[Violation]:
    prop = "resourceArn" if resource.type == SHARED_RESOURCE else "resourceArns"
    held = [each for each in stack.of_type(CAPACITY_RESERVATION) if stack.refers(resource, prop, each, "arn")]
    for path, value in resource.items(prop):
        ours = any(is_unknown(value) or each.get("arn") in (value, None) for each in held)
        if not ours and (is_unknown(value) or str(value) not in more):
            yield _violation(
                resource,
                path,
                "only reservations of the stack are shared",
                "remove it, or list its ARN in the rule's `resources`",
                value,
            )


def _violation(resource: Resource, path: str, rule: str, remedy: str, value: object = None) -> Violation:
    found = resource.get(path) if value is None else value
    return Violation(
        f"{path} is {resource.show(path)}, and {rule}",
        remedy,
        urn=resource.urn,
        prop=path,
        unknown=is_unknown(found),
    )
