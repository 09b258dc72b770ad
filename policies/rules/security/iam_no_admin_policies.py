"""AWS's administrator policies are attached to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import fsbp
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
        (
            "AdministratorAccess",
            "PowerUserAccess",
            "IAMFullAccess",
            "AdministratorAccess-Amplify",
            "AmazonS3FullAccess",
            "AmazonEC2FullAccess",
            "AWSKeyManagementServicePowerUser",
        ),
        description="Names of forbidden AWS-managed policies",
    )


@resource_rule(
    "iam-no-admin-policies",
    group="security",
    title="AWS's administrator policies are attached to nothing",
    why="With AdministratorAccess on a role of nodes or pods, every job is an administrator of the account.",
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
    forbidden = {name.lower() for name in context.settings.policies}
    prop = ATTACHMENTS[resource.type]
    for path, arn in resource.items(prop):
        if is_unknown(arn):
            if context.shared.preview:
                continue
            wrong = True
        else:
            wrong = str(arn).strip().rpartition("/")[2].lower() in forbidden
        if wrong:
            yield Violation(
                f"{path} is {resource.show(path)}, and administrator policies are forbidden",
                "attach a policy for the purpose",
                prop=path,
                unknown=is_unknown(arn),
            )
    if resource.ignores(prop):
        yield ignored(resource, prop, "administrator policies are forbidden")
