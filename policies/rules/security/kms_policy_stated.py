"""Every KMS key says who may use it."""

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
    title="KMS keys state who may use them",
    why="A key without a policy gets KMS's default, under which every role of the account that may use any "
    "key may use this one. Stated, it is read in reviews, and judged by `no-public-policies`.",
    fix="Set `policy`; the statement that lets the account govern the key is fine in it.",
    severity="low",
    framework=well_architected("SEC08-BP01", "sec_protect_data_rest_key_mgmt"),
    types=(*KEYS, POLICY),
    passes=Example(({"type": KEYS[0], "props": {"policy": {"Statement": []}}},)),
    fails=Example(({"type": KEYS[0], "props": {"description": "Objects of a bucket"}},)),
)
def kms_policy_stated(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Keys with neither a policy of their own nor a resource that gives them one; its text may be unknown."""
    for key in stack.of_type(*KEYS):
        policy = declared(key).get("policy")
        blank = policy is None or (isinstance(policy, str) and not policy.strip())
        if blank and not any(stack.referrers(key, "keyId", POLICY)):
            yield Violation(
                f"policy is {declared(key).show('policy')}, and a key states who may use it",
                "set policy to a policy document",
                urn=key.urn,
                prop="policy",
            )
