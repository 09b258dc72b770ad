"""AWS's administrator policies are attached to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._managed_policies import FAMILIES, POWERFUL, name_of
from gpufleet.policies.rules.security._patterns import matches
from gpufleet.policies.rules.security._properties import ignored
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown

ATTACHMENTS = {
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "policyArn",
    "aws:iam/userPolicyAttachment:UserPolicyAttachment": "policyArn",
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment": "policyArn",
    "aws:iam/policyAttachment:PolicyAttachment": "policyArn",
    "aws:iam/role:Role": "managedPolicyArns",
    "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive": "policyArns",
    "aws:iam/userPolicyAttachmentsExclusive:UserPolicyAttachmentsExclusive": "policyArns",
    "aws:iam/groupPolicyAttachmentsExclusive:GroupPolicyAttachmentsExclusive": "policyArns",
    "aws:ssoadmin/managedPolicyAttachment:ManagedPolicyAttachment": "managedPolicyArn",
}
EXAMPLE = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"


class IamNoAdminPoliciesSettings(Settings):
    """Forbidden policies."""

    policies: tuple[str, ...] = Field(
        FAMILIES, description="Names of forbidden AWS-managed policies; `*` matches any text"
    )
    powerful: bool = Field(
        True,
        description="Whether AWS-managed policies with another name are forbidden if they give such rights",
    )
    allowed: tuple[str, ...] = Field(
        ("AmazonElasticFileSystemClientFullAccess",),
        description="Names of reviewed policies that are allowed although they match",
    )


@resource_rule(
    "iam-no-admin-policies",
    group="security",
    title="AWS's administrator policies are attached to nothing",
    why="With AdministratorAccess on a role of nodes or pods, every job is an administrator of the account. "
    "Policies that give everything of a service (`...FullAccess`) delete its data, and many others pass "
    "roles or run commands: they are as powerful.",
    fix="Attach a policy for the purpose, or write the needed statements.",
    severity="critical",
    framework=fsbp("IAM.1"),
    types=tuple(ATTACHMENTS),
    settings=IamNoAdminPoliciesSettings,
    passes=Example(
        ({"type": EXAMPLE, "props": {"policyArn": "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}},)
    ),
    fails=Example(
        ({"type": EXAMPLE, "props": {"policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}},)
    ),
)
def iam_no_admin_policies(
    resource: Resource, context: RuleContext[IamNoAdminPoliciesSettings]
) -> Iterator[Violation]:
    """Check attachments of every kind.

    An ARN that is unknown in a preview belongs to a policy of this stack, which `iam-no-wildcards` checks.
    `up` checks it again before it is attached.
    """
    prop = ATTACHMENTS[resource.type]
    for path, arn in resource.items(prop):
        if is_unknown(arn):
            if context.shared.preview:
                continue
            wrong = True
        else:
            wrong = _forbidden(name_of(str(arn)), context.settings)
        if wrong:
            yield Violation(
                f"{path} is {resource.show(path)}, and administrator policies are forbidden",
                "attach a policy for the purpose",
                prop=path,
                unknown=is_unknown(arn),
            )
    if resource.ignores(prop):
        yield ignored(resource, prop, "administrator policies are forbidden")


def _forbidden(name: str, settings: IamNoAdminPoliciesSettings) -> bool:
    if name in {each.lower() for each in settings.allowed}:
        return False
    named = any(matches(each.lower(), name) for each in settings.policies)
    return named or (settings.powerful and name in _POWERFUL)


_POWERFUL = frozenset(each.lower() for each in POWERFUL)
