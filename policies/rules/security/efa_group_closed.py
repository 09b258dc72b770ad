"""EFA devices are in a security group that allows all traffic between its members, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._groups import TYPES, TrafficRule, rules
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, holds_unknown, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    LAUNCH_TEMPLATE,
    LUSTRE,
    SECURITY_GROUP,
    SECURITY_GROUP_EGRESS,
    SECURITY_GROUP_INGRESS,
)

INTERFACE = "aws:ec2/networkInterface:NetworkInterface"
_EFA = ("efa", "efa-only")

_GROUP = {"type": SECURITY_GROUP, "name": "efa", "props": {"id": "sg-1"}}
_IN = {
    "type": SECURITY_GROUP_INGRESS,
    "name": "in",
    "props": {"ipProtocol": "-1", "referencedSecurityGroupId": "sg-1"},
    "depends": {"securityGroupId": ["efa"], "referencedSecurityGroupId": ["efa"]},
}
_OUT = {**_IN, "type": SECURITY_GROUP_EGRESS, "name": "out"}
_TEMPLATE = {
    "type": LAUNCH_TEMPLATE,
    "name": "nodes",
    "props": {"networkInterfaces": [{"interfaceType": "efa", "securityGroups": ["sg-1"]}]},
    "depends": {"networkInterfaces": ["efa"]},
}


@stack_rule(
    "efa-group-closed",
    group="security",
    title="EFA devices are in a security group that allows only itself, in both directions",
    why="EFA traffic is neither TCP nor UDP. Without rules for all traffic from and to the group itself, the "
    "devices start but cannot reach each other. Any other rule on that group opens the training fabric to "
    "others.",
    fix="Give EFA interfaces a security group of their own with two rules: all traffic from itself, all "
    "traffic to itself.",
    severity="high",
    framework=Framework(
        "Amazon EC2 User Guide",
        "EFA: prepare an EFA-enabled security group",
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html#efa-start-security",
    ),
    types=(LAUNCH_TEMPLATE, LUSTRE, INTERFACE, *TYPES),
    passes=Example((_GROUP, _IN, _OUT, _TEMPLATE)),
    fails=Example((_GROUP, _IN, _TEMPLATE)),
)
def efa_group_closed(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check launch templates with EFA interfaces, file systems with EFA, and separate EFA interfaces."""
    by_group: dict[str, list[TrafficRule]] = {}
    for rule in rules(stack):
        by_group.setdefault(rule.group, []).append(rule)
    ids = {each.get("id"): each for each in stack.of_type(SECURITY_GROUP) if isinstance(each.get("id"), str)}
    for resource, path in _users(stack):
        value = resource.get(path)
        prop = path.partition(".")[0].partition("[")[0]
        named = [ids[each] for each in value if each in ids] if isinstance(value, (list, tuple)) else []
        if holds_unknown(value):
            named += stack.references(resource, prop, types=(SECURITY_GROUP,))
        wrong = {group.urn: _wrong(by_group.get(group.urn, [])) for group in named}
        if any(not reasons for reasons in wrong.values()):
            continue
        yield from _violations(stack, resource, path, wrong)


def _users(stack: Stack) -> Iterator[tuple[Resource, str]]:
    """Yield resources with EFA devices, and the property that holds the groups of each."""
    for template in map(declared, stack.of_type(LAUNCH_TEMPLATE)):
        for path, _ in template.items("networkInterfaces"):
            kind = template.get(f"{path}.interfaceType")
            if is_unknown(kind) or str(kind).strip().lower() in _EFA:
                yield template, f"{path}.securityGroups"
    for interface in map(declared, stack.of_type(INTERFACE)):
        if str(interface.get("interfaceType")).strip().lower() in _EFA:
            yield interface, "securityGroups"
    for system in map(declared, stack.of_type(LUSTRE)):
        if system.get("efaEnabled") is True:
            yield system, "securityGroupIds"


def _wrong(found: list[TrafficRule]) -> list[tuple[str, Resource | None, str]]:
    """Return why a group is not a valid EFA group: the reason, the rule to blame, its property."""
    reasons: list[tuple[str, Resource | None, str]] = []
    for direction, way in (("ingress", "from"), ("egress", "to")):
        same = [rule for rule in found if rule.direction == direction]
        if not any(rule.itself and rule.all_traffic and not is_unknown(rule.protocol) for rule in same):
            reasons.append((f"it has no rule for all traffic {way} itself", None, ""))
        for rule in same:
            if rule.networks or rule.unclear or rule.others or not rule.itself:
                reasons.append(
                    (f"{rule.resource.name} allows {rule.ports} {way} elsewhere", rule.resource, rule.path)
                )
    return reasons


def _violations(
    stack: Stack, resource: Resource, path: str, wrong: dict[str, list[tuple[str, Resource | None, str]]]
) -> Iterator[Violation]:
    remedy = "use a group with only two rules: all traffic from itself, and all traffic to itself"
    if not wrong:
        yield Violation(
            f"{path} is {resource.show(path)}, and an EFA device needs a security group of this stack that "
            "refers to itself",
            remedy,
            urn=resource.urn,
            prop=path,
            unknown=is_unknown(resource.get(path)),
        )
        return
    # Report the group that is closest to a valid one.
    nearest = min(wrong, key=lambda urn: len(wrong[urn]))
    reasons = "; ".join(reason for reason, _, _ in wrong[nearest])
    yield Violation(
        f"{path}: no group allows only itself; {stack.by_urn[nearest].name}: {reasons}",
        remedy,
        urn=resource.urn,
        prop=path,
    )
