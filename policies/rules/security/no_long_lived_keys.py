"""No access keys, passwords or IAM users: people and jobs get credentials that expire."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource

KINDS = {
    "aws:iam/accessKey:AccessKey": "an access key",
    "aws:iam/userLoginProfile:UserLoginProfile": "a password",
    "aws:iam/user:User": "an IAM user",
    "aws:iam/serviceSpecificCredential:ServiceSpecificCredential": "a service's password",
    "aws:iam/sshKey:SshKey": "an SSH key of an IAM user",
    "aws:iam/signingCertificate:SigningCertificate": "a signing certificate of an IAM user",
    "aws:lightsail/bucketAccessKey:BucketAccessKey": "a bucket's access key",
}


@resource_rule(
    "no-long-lived-keys",
    group="security",
    title="There are no long-lived credentials",
    why="An access key works from anywhere until it is deleted. Its secret is in the stack's "
    "state and in every shell history that it was pasted into.",
    fix="Use roles: EKS Pod Identity for pods, instance profiles for nodes, IAM Identity Center for people, "
    "OIDC for CI.",
    severity="critical",
    framework=well_architected("SEC02-BP02", "sec_identities_unique"),
    types=tuple(KINDS),
    passes=Example(({"type": "aws:iam/role:Role", "props": {}},)),
    fails=Example(({"type": "aws:iam/accessKey:AccessKey", "props": {"user": "ci"}},)),
)
def no_long_lived_keys(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Report every resource of these types."""
    yield Violation(
        f"{KINDS[resource.type]} does not expire, and all credentials must",
        "use a role instead",
    )
