"""No IAM policy allows whole services, or all of AWS, on all resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace
from pydantic import Field

from gpufleet.plan.names import environment_resource_name, site_resource_name
from gpufleet.policies.rules.security._documents import Statement, parse
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._grants import Grants
from gpufleet.policies.rules.security._patterns import beyond, has_wildcard, matches
from gpufleet.policies.rules.security._policy_paths import IDENTITY, documents
from gpufleet.policies.rules.security._statements import StatementRule
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource
from gpufleet.spec.models import FleetSpec


class IamNoWildcardsSettings(Settings):
    """Allowed wildcards, and how policies that are unknown in a preview count."""

    reads: tuple[str, ...] = Field(
        ("Describe*", "List*"), description="Action names that are allowed on all resources"
    )
    refuse_unknown: bool = Field(
        False,
        description="Whether a policy that is unknown in a preview fails; otherwise `up` checks it when its "
        "ARNs are known, before it is created",
    )


def _example(action: str, resource: str) -> Example:
    document = {"Statement": [{"Effect": "Allow", "Action": [action], "Resource": resource}]}
    return Example(({"type": "aws:iam/rolePolicy:RolePolicy", "props": {"policy": document}},))


@resource_rule(
    "iam-no-wildcards",
    group="security",
    title="IAM policies grant nothing on all resources that gives rights, runs code or deletes",
    why="Every job on a node uses the node's role. With a whole service allowed on all resources, one job "
    "can delete the data of all others; with iam:PassRole on all roles, or an action that writes policies or "
    "function code, it can become administrator. Patterns that together match everything count as `*`. KMS "
    "key policies are exempt: `*` is the key itself there.",
    fix="List the actions and the ARNs that they apply to, or add a condition on aws:ResourceTag.",
    severity="high",
    framework=fsbp("IAM.21"),
    types=tuple(IDENTITY),
    settings=IamNoWildcardsSettings,
    passes=_example("s3:GetObject", "arn:aws:s3:::atlas-corpus/*"),
    fails=_example("s3:*", "*"),
)
def iam_no_wildcards(resource: Resource, context: RuleContext[IamNoWildcardsSettings]) -> Iterator[Violation]:
    """Check policies of roles, users and groups, inline and separate; each document as a whole."""
    reads = tuple(each.lower() for each in context.settings.reads)
    found = list(documents(resource, IDENTITY))
    rule = StatementRule(
        "a policy must have no wildcard on action and resource together",
        REMEDY,
        "use ARNs that are known in a preview",
        lambda statement: (f"too wide: {statement.name} {each}" for each in _wrong(statement, reads)),
    )
    yield from rule.violations(resource, found, context)
    for path, value in found:
        for reason in too_wide(value, reads, stems_of(context.shared.spec)):
            yield Violation(
                f"{path} is too wide: it {reason}, and a policy must give no rights of others",
                REMEDY,
                prop=path,
            )


REMEDY = "list the actions and the ARNs that they apply to, or add a condition on aws:ResourceTag"


def stems_of(spec: FleetSpec | None) -> tuple[str, ...]:
    """Return the beginnings that the names of all resources of a fleet, an environment or a site share."""
    if spec is None:
        return ()
    names = [environment_resource_name(spec.fleet, spec.environment), spec.fleet]
    names += [site_resource_name(spec.fleet, spec.environment, site.site) for site in spec.cloud]
    return tuple(f"{name}-" for name in names)


def too_wide(value: Any, reads: tuple[str, ...], stems: tuple[str, ...]) -> Iterator[str]:
    """Yield what the statements of a document, each of which passes, grant together."""
    yield from Grants(statements_of(value, reads, stems)).reasons(reads)


def statements_of(value: Any, reads: tuple[str, ...], stems: tuple[str, ...]) -> list[Statement]:
    """Return the statements of a document that are not too wide by themselves.

    Their resources are without `stems`, so that patterns are measured by what they name in the fleet.
    """
    passing = (each for each in parse(value) if not any(_wrong(each, reads)))
    return [
        replace(each, resources=tuple(beyond(resource, stems) for resource in each.resources))
        for each in passing
    ]


def _wrong(statement: Statement, reads: tuple[str, ...]) -> Iterator[str]:
    if not statement.allows:
        return
    if statement.not_actions:
        yield "allows everything except NotAction, future actions included"
        return
    for action in statement.actions:
        service, _, name = action.partition(":")
        if has_wildcard(service):
            yield f"allows {action!r}, which is actions of every service"
        elif (
            statement.all_resources and has_wildcard(name) and not any(matches(read, name) for read in reads)
        ):
            yield f"allows {action!r} on all resources"
