"""No security group is open to the internet."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._groups import TYPES, TrafficRule, rules
from gpufleet.policies.rules.security._networks import world
from gpufleet.policies.rules.security._openings import USERS, openings
from gpufleet.policies.rules.security._properties import ignored
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import SECURITY_GROUP_INGRESS


class NoOpenIngressSettings(Settings):
    """Allowed ports."""

    ports: tuple[int, ...] = Field((), description="Single ports that may be open to the internet")
    prefix_lists: bool = Field(
        False, description="Whether prefix lists from outside the stack count as listed networks"
    )


@stack_rule(
    "no-open-ingress",
    group="security",
    title="No security group is open to the internet",
    why="GPU nodes are reached through the cluster, a login node or Session Manager. Open ports are scanned "
    "within minutes. Each half of the address space counts as the internet too, and so do many large "
    "networks, over all rules of the groups of one node.",
    fix="List the networks or the security groups that need to connect.",
    severity="high",
    framework=fsbp("EC2.18"),
    types=(*TYPES, *USERS),
    settings=NoOpenIngressSettings,
    passes=Example(
        ({"type": SECURITY_GROUP_INGRESS, "props": {"ipProtocol": "tcp", "cidrIpv4": "10.0.0.0/8"}},)
    ),
    fails=Example(
        (
            {
                "type": SECURITY_GROUP_INGRESS,
                "props": {"ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "cidrIpv4": "0.0.0.0/0"},
            },
        )
    ),
)
def no_open_ingress(stack: Stack, context: RuleContext[NoOpenIngressSettings]) -> Iterator[Violation]:
    """Check inline rules, separate rules of both types, and their prefix lists."""
    settings = context.settings

    def judged(rule: TrafficRule) -> bool:
        return rule.direction == "ingress" and not rule.within(settings.ports)

    for rule in filter(judged, rules(stack)):
        yield from _by_itself(rule, settings)
    for opening in openings(stack, judged):
        yield Violation(
            f"{opening.names} together open {opening.ports} to the internet ({opening.widest})",
            "list the networks that need to connect",
            urn=opening.urn,
            prop=opening.prop,
        )


def _by_itself(rule: TrafficRule, settings: NoOpenIngressSettings) -> Iterator[Violation]:
    resource = rule.resource
    widest = world(block for _, block in rule.networks)
    if widest is not None:
        where = rule.networks[0][0]
        yield Violation(
            f"{where} is {resource.show(where)}, which opens {rule.ports} to the internet ({widest})",
            "list the networks or security groups that need to connect",
            urn=resource.urn,
            prop=where,
        )
    for where in rule.unclear:
        if settings.prefix_lists and "refixList" in where:
            continue
        yield Violation(
            f"{where} is {resource.show(where)}, so its networks are unknown, and no group may be open "
            "to the internet",
            "use networks that are known in a preview, or refer to a security group or a prefix list of "
            "this stack",
            urn=resource.urn,
            prop=where,
            unknown=True,
        )
    prop = rule.path or (rule.networks[0][0] if rule.networks else "")
    if prop and resource.ignores(prop):
        yield ignored(resource, prop, "no group may be open to the internet")
