"""Nodes reach the internet on a few ports only."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._groups import TYPES, TrafficRule, rules
from gpufleet.policies.rules.security._networks import world
from gpufleet.policies.rules.security._openings import USERS, openings
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import SECURITY_GROUP_EGRESS


class NoOpenEgressSettings(Settings):
    """Which ports."""

    ports: tuple[int, ...] = Field((80, 443), description="Ports on which nodes may reach any network")


@stack_rule(
    "no-open-egress",
    group="security",
    title="Security groups allow only needed ports to the internet",
    why="An intruder on a node can use every open port to send data out, or to mine coins on its GPUs.",
    fix="Write egress rules for the needed ports.",
    severity="medium",
    types=(*TYPES, *USERS),
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
    """Check all egress rules, and those of one group or node together; unknown networks may be wide."""
    few = ", ".join(map(str, context.settings.ports))

    def judged(rule: TrafficRule) -> bool:
        return rule.direction == "egress" and not rule.within(context.settings.ports)

    for opening in openings(stack, judged):
        yield Violation(
            f"{opening.names} together allow {opening.ports} to the internet ({opening.widest}), and only "
            f"{few} may reach any network",
            "list the needed ports or networks",
            urn=opening.urn,
            prop=opening.prop,
        )
    for rule in filter(judged, rules(stack)):
        resource = rule.resource
        widest = world(block for _, block in rule.networks)
        # A prefix list from outside the stack is one of AWS's services.
        unclear = [where for where in rule.unclear if "refixList" not in where]
        if widest is not None or unclear:
            where = unclear[0] if widest is None else rule.networks[0][0]
            yield Violation(
                f"{where} is {resource.show(where)}, which allows {rule.ports} to "
                f"{widest or 'unknown networks'}, and only {few} may reach any network",
                "list the needed ports or networks",
                urn=resource.urn,
                prop=where,
                unknown=widest is None,
            )
