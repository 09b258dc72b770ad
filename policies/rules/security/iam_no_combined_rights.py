"""All policies of one role together give no rights of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from gpufleet.policies.rules.security._documents import parse
from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policies.rules.security._grants import Grants
from gpufleet.policies.rules.security._identities import ROLE, TYPES, Identity, identities
from gpufleet.policies.rules.security._managed_policies import OF_SERVICES
from gpufleet.policies.rules.security._patterns import matches
from gpufleet.policies.rules.security.iam_no_wildcards import statements_of, stems_of, too_wide
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack

_POLICY = "aws:iam/rolePolicy:RolePolicy"


class IamNoCombinedRightsSettings(Settings):
    """Allowed reads, and reviewed policies that the stack does not define."""

    reads: tuple[str, ...] = Field(
        ("Describe*", "List*"), description="Action names that are allowed on all resources"
    )
    reviewed: tuple[str, ...] = Field(
        (), description="ARNs of reviewed policies of the account that may be attached; `*` matches any text"
    )


def _example(action: str) -> tuple[dict[str, Any], ...]:
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    statements: dict[str, Any] = {
        "pass": {"Effect": "Allow", "Action": "iam:PassRole", "Resource": "*", "Condition": to_ec2},
        "run": {"Effect": "Allow", "Action": action, "Resource": "*"},
    }
    return tuple(
        {"type": _POLICY, "name": name, "props": {"role": "nodes", "policy": {"Statement": [statement]}}}
        for name, statement in statements.items()
    )


@stack_rule(
    "iam-no-combined-rights",
    group="security",
    title="All policies of one role together give no rights of others",
    why="A role has all its policies at once. One that passes any role to EC2, and another one that launches "
    "instances, together give the rights of every role; patterns from a to z in several policies are all "
    "resources. A policy that the stack does not define cannot be checked.",
    fix="List the actions and the ARNs that they apply to, and define the policies in the stack.",
    severity="high",
    framework=well_architected("SEC03-BP02", "sec_permissions_least_privileges"),
    types=TYPES,
    settings=IamNoCombinedRightsSettings,
    passes=Example(_example("ec2:DescribeInstances")),
    fails=Example(_example("ec2:RunInstances")),
)
def iam_no_combined_rights(
    stack: Stack, context: RuleContext[IamNoCombinedRightsSettings]
) -> Iterator[Violation]:
    """Check the sum of the documents of each role, user and group; `iam-no-wildcards` checks each of them."""
    reads = tuple(each.lower() for each in context.settings.reads)
    stems = stems_of(context.shared.spec)
    for identity in identities(stack):
        yield from _together(identity, reads, stems)
        yield from _elsewhere(identity, context.settings)


def _together(identity: Identity, reads: tuple[str, ...], stems: tuple[str, ...]) -> Iterator[Violation]:
    texts = [value for _, _, value in identity.documents]
    alone = {reason for value in texts for reason in too_wide(value, reads, stems)}
    statements = [each for value in texts for each in statements_of(value, reads, stems)]
    for reason in Grants(statements, identity.name).reasons(reads):
        if reason not in alone:
            resource, path, _ = identity.documents[-1]
            yield Violation(
                f"{path} is too wide: with the other policies of {_title(identity)} it {reason}, and a role "
                "must have no rights of others",
                "list the actions and the ARNs that they apply to, or add a condition on aws:ResourceTag",
                urn=resource.urn,
                prop=path,
            )


def _elsewhere(identity: Identity, settings: IamNoCombinedRightsSettings) -> Iterator[Violation]:
    for resource, path, arn in identity.outside:
        account = arn.split(":", 5)[4] if arn.count(":") >= 5 else ""
        name = arn.strip().rpartition("/")[2]
        if account == "aws":
            if name.lower() in _OF_SERVICES and _for_workloads(identity):
                yield Violation(
                    f"{path} is {resource.show(path)}, which AWS's services use to act for others, and "
                    f"{_title(identity)} is for nodes or pods",
                    "attach a policy for the purpose",
                    urn=resource.urn,
                    prop=path,
                )
        elif not any(matches(each, arn) for each in settings.reviewed):
            yield Violation(
                f"{path} is {resource.show(path)}, which the stack does not define, and every policy must be "
                "checked",
                "define the policy in the stack, or add its ARN to the rule's setting `reviewed`",
                urn=resource.urn,
                prop=path,
            )


def _for_workloads(identity: Identity) -> bool:
    """Return whether instances, pods or people assume the role; a role outside the stack may be for them."""
    if identity.resource is None or identity.resource.type != ROLE:
        return True
    trust = parse(identity.resource.get("assumeRolePolicy"))
    return trust.unknown or any(
        kind != "service" or value.strip().lower().partition(".amazonaws.com")[0] in _WORKLOADS
        for statement in trust
        for kind, value in statement.principals
    )


def _title(identity: Identity) -> str:
    return identity.name or identity.key.rpartition("::")[2]


_WORKLOADS = ("ec2", "pods.eks", "ecs-tasks", "lambda", "eks-fargate-pods")
_OF_SERVICES = frozenset(each.lower() for each in OF_SERVICES)
