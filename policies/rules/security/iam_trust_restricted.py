"""Roles trust specific principals only."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._documents import Statement
from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policies.rules.security._patterns import has_wildcard
from gpufleet.policies.rules.security._statements import StatementRule
from gpufleet.policies.rules.security._subjects import named_subject
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource

ROLE = "aws:iam/role:Role"
PATH = "assumeRolePolicy"


class IamTrustRestrictedSettings(Settings):
    """How trust policies that are unknown in a preview count."""

    refuse_unknown: bool = Field(
        True, description="Whether a trust policy that is unknown in a preview fails"
    )


def _example(principal: dict[str, str]) -> Example:
    document = {"Statement": [{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}]}
    return Example(({"type": ROLE, "props": {PATH: document}},))


@resource_rule(
    "iam-trust-restricted",
    group="security",
    title="Roles trust specific principals",
    why="Everyone can assume a role that trusts everyone. One that trusts an identity provider without a "
    "condition, or with a pattern in place of the repository or service account, can be assumed by every "
    "user and repository that matches.",
    fix="List the service, role or account in `Principal`; for an identity provider add conditions on "
    "its `aud` and on one `sub` (`repo:atlas/infra:ref:refs/heads/main`).",
    severity="critical",
    framework=well_architected("SEC03-BP07", "sec_permissions_analyze_cross_account"),
    types=(ROLE,),
    settings=IamTrustRestrictedSettings,
    passes=_example({"Service": "ec2.amazonaws.com"}),
    fails=_example({"AWS": "*"}),
)
def iam_trust_restricted(
    resource: Resource, context: RuleContext[IamTrustRestrictedSettings]
) -> Iterator[Violation]:
    """Check each role's trust policy."""
    yield from _RULE.violations(resource, [(PATH, resource.get(PATH))], context)


def _wrong(statement: Statement) -> Iterator[str]:
    if statement.allows:
        for reason in _open(statement):
            yield f"too wide: {statement.name} {reason}"


def _open(statement: Statement) -> Iterator[str]:
    for kind, value in statement.principals:
        if kind == "federated" and not has_wildcard(value):
            if not named_subject(value, statement.conditions):
                yield f"trusts identities of {value} without a condition on one subject and its audience"
        elif kind == "service" and has_wildcard(value):
            yield "trusts every service"
    if statement.open and not statement.restricted:
        yield "trusts everyone"


_RULE = StatementRule(
    "roles must trust specific principals",
    "list who may assume the role, or add a condition",
    "use principals that are known in a preview",
    _wrong,
)
