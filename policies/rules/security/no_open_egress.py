"""Nodes reach the world on a few ports, not on all."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._groups import TYPES, rules
from gpufleet.policies.rules.security._networks import world
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import SECURITY_GROUP_EGRESS


class NoOpenEgressSettings(Settings):
    """Which ports."""

    ports: tuple[int, ...] = Field((80, 443), description="Ports that nodes may reach anywhere")


@stack_rule(
    "no-open-egress",
    group="security",
    title="Security groups let out to the world what is needed, not everything",
    why="A node that was broken into sends data out, and mines coins on somebody's GPUs, by whatever port "
    "is open.",
    fix="Write egress rules for the ports that are needed.",
    severity="medium",
    types=TYPES,
    settings=NoOpenEgressSettings,
    passes=Example(
        (
            {
                "type": SECURITY_GROUP_EGRESS,
                "props": {"ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "cidrIpv4": "0.0.0.0/0"},
            },
        )
    ),
    fails=Example(({"type": SECURITY_GROUP_EGRESS, "props": {"ipProtocol": "-1", "cidrIpv4": "0.0.0.0/0"}},)),
)
def no_open_egress(stack: Stack, context: RuleContext[NoOpenEgressSettings]) -> Iterator[Violation]:
    """All egress rules; networks that are not known yet may be the world."""
    for rule in rules(stack):
        if rule.direction != "egress" or rule.within(context.settings.ports):
            continue
        resource = rule.resource
        widest = world(block for _, block in rule.networks)
        # A prefix list out of the stack is one of AWS's services.
        unclear = [where for where in rule.unclear if "refixList" not in where]
        if widest is not None or unclear:
            where = unclear[0] if widest is None else rule.networks[0][0]
            yield Violation(
                f"{where} is {resource.show(where)}, which lets {rule.ports} out to "
                f"{widest or 'nobody knows where'}, and {', '.join(map(str, context.settings.ports))} are "
                "the ports for the world",
                "name the ports, or the networks, that are needed",
                urn=resource.urn,
                prop=where,
                unknown=widest is None,
            )
