"""No policy of a bucket, key, topic, queue, secret or the like lets everybody use it."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._attached import RESOURCE, documents
from gpufleet.policies.rules.security._documents import parse
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import ignored
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource


class NoPublicPoliciesSettings(Settings):
    """What becomes of text that is not known in a preview."""

    refuse_unknown: bool = Field(
        False,
        description="Whether a policy that is not known in a preview is refused then; else it is judged "
        "by `up`, when the ARNs in it are known and before it is created",
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
    why="`Principal: *` is every AWS account there is, and for buckets and queues those without one too. "
    "A condition on the account, organisation or source makes it somebody; KMS's default statement "
    "names the account itself.",
    fix="Name the principals, or add a condition on aws:SourceAccount, aws:PrincipalOrgID or the like.",
    severity="critical",
    framework=fsbp("SNS.4"),
    types=tuple(RESOURCE),
    settings=NoPublicPoliciesSettings,
    passes=_example({"Service": "budgets.amazonaws.com"}),
    fails=_example({"AWS": "*"}),
)
def no_public_policies(
    resource: Resource, context: RuleContext[NoPublicPoliciesSettings]
) -> Iterator[Violation]:
    """Policies inline and as resources of their own."""
    for path, value in documents(resource, RESOURCE):
        document = parse(value)
        if document.error:
            yield _violation(path, f"no policy: {document.error}", "write a policy document in JSON")
        elif document.unknown and (context.settings.refuse_unknown or not context.shared.preview):
            yield _violation(path, "not known yet", "write ARNs that are known beforehand", unknown=True)
        for statement in document:
            if statement.allows and statement.anybody and not statement.restricted:
                yield _violation(
                    path,
                    f"open: {statement.name} allows {', '.join(statement.actions[:3])} to anybody",
                    "name the principals, or add a condition on the account or organisation",
                )
        if resource.ignores(path):
            yield ignored(resource, path, "no policy may allow public access")


def _violation(path: str, what: str, remedy: str, *, unknown: bool = False) -> Violation:
    return Violation(
        f"{path} is {what}, and no policy may allow public access", remedy, prop=path, unknown=unknown
    )
