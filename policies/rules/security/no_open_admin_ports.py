"""Administration and storage ports are never open to the internet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._groups import TYPES, TrafficRule, rules
from gpufleet.policies.rules.security._networks import world
from gpufleet.policies.rules.security._openings import USERS, used_together
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import SECURITY_GROUP_INGRESS


class NoOpenAdminPortsSettings(Settings):
    """Which ports."""

    ports: tuple[int, ...] = Field(
        (22, 3389, 2049, 988, 6443, 10250, 6817, 6818, 6819, 8888),
        description="SSH, RDP, NFS, Lustre, Kubernetes, kubelet, Slurm and Jupyter by default",
    )


@stack_rule(
    "no-open-admin-ports",
    group="security",
    title="Administration and storage ports are never open to the internet",
    why="SSH, RDP, kubelet, Slurm, Jupyter and file systems give a shell or the data to anyone who passes "
    "one password. This rule applies even if `no-open-ingress` allows ports or is disabled.",
    fix="Use Session Manager, or list the networks of administrators.",
    severity="critical",
    framework=fsbp("EC2.19"),
    types=(*TYPES, *USERS),
    settings=NoOpenAdminPortsSettings,
    passes=Example(
        (
            {
                "type": SECURITY_GROUP_INGRESS,
                "props": {"ipProtocol": "tcp", "fromPort": 22, "toPort": 22, "cidrIpv4": "203.0.113.0/24"},
            },
        )
    ),
    fails=Example(({"type": SECURITY_GROUP_INGRESS, "props": {"ipProtocol": "-1", "cidrIpv6": "::/0"}},)),
)
def no_open_admin_ports(stack: Stack, context: RuleContext[NoOpenAdminPortsSettings]) -> Iterator[Violation]:
    """Check each port with all rules of a group that cover it; `no-open-ingress` reports unknown networks."""
    found: dict[tuple[str, int], list[TrafficRule]] = defaultdict(list)
    together = used_together(stack)
    for rule in rules(stack):
        if rule.direction == "ingress" and rule.networks:
            for port in context.settings.ports:
                if rule.covers(port):
                    found[(rule.group or rule.resource.urn, port)].append(rule)
                    for use in together:
                        if rule.group in use.groups:
                            found[(use.key, port)].append(rule)
    violations: dict[tuple[str, str], tuple[TrafficRule, str, list[int]]] = {}
    for (_, port), covering in found.items():
        widest = world(block for rule in covering for _, block in rule.networks)
        if widest is not None:
            rule = covering[-1]
            key = (rule.resource.urn, rule.path)
            violations.setdefault(key, (rule, widest, []))[2].append(port)
    for rule, block, ports in violations.values():
        where = rule.networks[0][0]
        yield Violation(
            f"{where} is {rule.resource.show(where)}, which opens port {', '.join(map(str, ports))} to "
            f"the internet ({block})",
            "list the networks of administrators, or use Session Manager",
            urn=rule.resource.urn,
            prop=where,
        )
