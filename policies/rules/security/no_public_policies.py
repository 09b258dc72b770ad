"""No policy of a bucket, key, topic, queue or secret allows public access."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._documents import Statement
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._policy_paths import resource_documents
from gpufleet.policies.rules.security._shares import shares
from gpufleet.policies.rules.security._statements import StatementRule
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource


class NoPublicPoliciesSettings(Settings):
    """How policies that are unknown in a preview count."""

    refuse_unknown: bool = Field(
        False,
        description="Whether a policy that is unknown in a preview fails; otherwise `up` checks it when its "
        "ARNs are known, before it is created",
    )


def _example(principal: dict[str, str]) -> Example:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sns:Publish", "Resource": "*"}
    return Example(
        ({"type": "aws:sns/topicPolicy:TopicPolicy", "props": {"policy": {"Statement": [statement]}}},)
    )


@resource_rule(
    "no-public-policies",
    group="security",
    title="No resource policy allows public access",
    why="`Principal: *` is every AWS account, and for buckets and queues everyone. A condition on the "
    "account, organisation or source restricts it. KMS's default statement has the account as principal.",
    fix="List the principals, or add a condition on aws:SourceAccount, aws:PrincipalOrgID or the like.",
    severity="critical",
    framework=fsbp("SNS.4"),
    types=(),
    settings=NoPublicPoliciesSettings,
    passes=_example({"Service": "budgets.amazonaws.com"}),
    fails=_example({"AWS": "*"}),
)
def no_public_policies(
    resource: Resource, context: RuleContext[NoPublicPoliciesSettings]
) -> Iterator[Violation]:
    """Check policies, inline and in separate resources of every type, and permissions without a policy."""
    yield from _RULE.violations(resource, resource_documents(resource), context)
    for path in shares(resource):
        yield Violation(
            f"{path} is {resource.show(path)}, which gives access to anyone, and {_RULE.rule}",
            _RULE.remedy,
            prop=path,
        )


def _wrong(statement: Statement) -> Iterator[str]:
    if statement.allows and statement.open and not statement.restricted:
        yield f"open: {statement.name} allows {', '.join(statement.actions[:3])} to anyone"


_RULE = StatementRule(
    "no policy may allow public access",
    "list the principals, or add a condition on the account or organisation",
    "use ARNs that are known in a preview",
    _wrong,
)
