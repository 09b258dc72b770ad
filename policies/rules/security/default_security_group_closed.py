"""The default security group of every VPC is managed and has no rules."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._groups import DEFAULT_GROUP, GROUPS, SEPARATE_RULES, TYPES, rules
from gpufleet.policies.rules.security._properties import ignored
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import VPC

DEFAULT_VPC = "aws:ec2/defaultVpc:DefaultVpc"
_VPC = {"type": VPC, "name": "vpc", "props": {"cidrBlock": "10.0.0.0/16"}}


@stack_rule(
    "default-security-group-closed",
    group="security",
    title="The default security group of a VPC is closed",
    why="An instance without a security group gets the default one, which allows all traffic between "
    "its members and out to the internet.",
    fix="Add an `aws:ec2/defaultSecurityGroup` without rules for each VPC.",
    severity="high",
    framework=fsbp("EC2.2"),
    types=(VPC, DEFAULT_VPC, *TYPES),
    passes=Example(
        (
            _VPC,
            {"type": DEFAULT_GROUP, "name": "closed", "props": {}, "depends": {"vpcId": ["vpc"]}},
        )
    ),
    fails=Example((_VPC,)),
)
def default_security_group_closed(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check VPCs without such a resource, and default groups with rules, inline or separate."""
    for vpc in stack.of_type(VPC, DEFAULT_VPC):
        if not any(stack.referrers(vpc, "vpcId", DEFAULT_GROUP)):
            yield Violation(
                "its default security group has AWS's rules, and it must have none",
                "add an aws:ec2/defaultSecurityGroup without rules for it",
                urn=vpc.urn,
            )
    for group in map(declared, stack.of_type(DEFAULT_GROUP)):
        for prop in ("ingress", "egress"):
            value = group.get(prop)
            if value is not None and (is_unknown(value) or len(value) > 0):
                yield Violation(
                    f"{prop} is {group.show(prop)}, and the default security group must have no rules",
                    f"leave {prop} out",
                    urn=group.urn,
                    prop=prop,
                    unknown=is_unknown(value),
                )
            elif group.ignores(prop):
                yield ignored(group, prop, "the default security group must have no rules")
    defaults = {each.urn for each in stack.of_type(DEFAULT_GROUP)}
    added = {rule.resource.urn for rule in rules(stack) if rule.group in defaults} - defaults
    for each in stack.of_type(*SEPARATE_RULES):
        # `vpc.defaultSecurityGroupId` is computed from a VPC, not from a group.
        named = {found.type for found in stack.references(each, "securityGroupId")}
        if each.urn in added or (named & {VPC, DEFAULT_VPC} and not named & set(GROUPS)):
            yield _added(each.urn)


def _added(urn: str) -> Violation:
    return Violation(
        "securityGroupId is the default security group's, which must have no rules",
        "add the rule to another security group",
        urn=urn,
        prop="securityGroupId",
    )
