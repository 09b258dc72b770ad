"""Every KMS key has an explicit policy."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack

POLICY = "aws:kms/keyPolicy:KeyPolicy"
KEYS = (
    "aws:kms/key:Key",
    "aws:kms/externalKey:ExternalKey",
    "aws:kms/replicaKey:ReplicaKey",
    "aws:kms/replicaExternalKey:ReplicaExternalKey",
)


@stack_rule(
    "kms-policy-stated",
    group="security",
    title="KMS keys have an explicit policy",
    why="A key without a policy gets KMS's default, under which every role of the account with access to any "
    "key may use this one. Reviewers and `no-public-policies` can check an explicit policy.",
    fix="Set `policy`; the statement that lets the account manage the key is allowed in it.",
    severity="low",
    framework=well_architected("SEC08-BP01", "sec_protect_data_rest_key_mgmt"),
    types=(*KEYS, POLICY),
    passes=Example(({"type": KEYS[0], "props": {"policy": {"Statement": []}}},)),
    fails=Example(({"type": KEYS[0], "props": {"description": "Objects of a bucket"}},)),
)
def kms_policy_stated(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Report keys without a policy, inline or in a separate resource. Its text may be unknown."""
    for key in stack.of_type(*KEYS):
        policy = declared(key).get("policy")
        blank = policy is None or (isinstance(policy, str) and not policy.strip())
        if blank and not any(stack.referrers(key, "keyId", POLICY)):
            yield Violation(
                f"policy is {declared(key).show('policy')}, and a key must have an explicit policy",
                "set policy to a policy document",
                urn=key.urn,
                prop="policy",
            )
