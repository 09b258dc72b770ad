"""No IAM policy allows whole services, or all of AWS, on all resources."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from pydantic import Field

from gpufleet.policies.rules.security._documents import Statement
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._policy_paths import IDENTITY, documents
from gpufleet.policies.rules.security._statements import StatementRule
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource

ESCALATES = ("iam:passrole", "sts:assumerole")
"""Actions that grant the rights of another role: on all roles they grant those of the most powerful."""

_NARROWS = ("iam:passedtoservice", "aws:resourcetag/gpufleet:fleet", "iam:resourcetag/gpufleet:fleet")


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
    title="IAM policies have no wildcard on action and resource together",
    why="Every job on a node uses the node's role. With a whole service allowed on all resources, one job "
    "can delete the data of all others; with iam:PassRole on all roles it can become administrator. KMS "
    "key policies are exempt: `*` is the key itself there.",
    fix="List the actions and the ARNs that they apply to.",
    severity="high",
    framework=fsbp("IAM.21"),
    types=tuple(IDENTITY),
    settings=IamNoWildcardsSettings,
    passes=_example("s3:GetObject", "arn:aws:s3:::atlas-corpus/*"),
    fails=_example("s3:*", "*"),
)
def iam_no_wildcards(resource: Resource, context: RuleContext[IamNoWildcardsSettings]) -> Iterator[Violation]:
    """Check policies of roles, users and groups, inline and separate."""
    reads = tuple(each.lower() for each in context.settings.reads)
    rule = StatementRule(
        "a policy must have no wildcard on action and resource together",
        "list the actions and the ARNs that they apply to",
        "use ARNs that are known in a preview",
        lambda statement: (f"too wide: {statement.name} {each}" for each in _wrong(statement, reads)),
    )
    yield from rule.violations(resource, documents(resource, IDENTITY), context)


def _wrong(statement: Statement, reads: tuple[str, ...]) -> Iterator[str]:
    if not statement.allows:
        return
    if statement.not_actions:
        yield "allows everything except NotAction, future actions included"
        return
    for action in statement.actions:
        service, _, name = action.partition(":")
        if not service.strip("*?"):
            yield f"allows {action!r}, which is every action of every service"
        elif statement.all_resources and ("*" in name or "?" in name) and not _reads(name, reads):
            yield f"allows {action!r} on all resources"
    for action in ESCALATES:
        if statement.covers(action) and _every_role(statement) and not _for_a_service(statement):
            yield f"allows {action} on all roles"


def _reads(name: str, reads: tuple[str, ...]) -> bool:
    """Return whether the actions only read: `DescribeTags*` is in `Describe*`, `D*` is not."""
    return any(fnmatchcase(name, read) for read in reads)


def _every_role(statement: Statement) -> bool:
    return statement.all_resources or any(
        each.rpartition(":role/")[2].strip("*?/") == "" for each in statement.resources
    )


def _for_a_service(statement: Statement) -> bool:
    return any(
        condition.key in _NARROWS
        and not condition.operator.startswith(("stringnot", "null", "forallvalues:"))
        and all(value.strip("*? ") for value in condition.values)
        for condition in statement.conditions
    )
