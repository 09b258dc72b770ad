"""Every VPC records its traffic."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import VPC

DEFAULT_VPC = "aws:ec2/defaultVpc:DefaultVpc"
FLOW_LOG = "aws:ec2/flowLog:FlowLog"


class VpcFlowLogsSettings(Settings):
    """What is recorded."""

    traffic: tuple[str, ...] = Field(("ALL",), description="Values of trafficType that are enough")


_VPC = {"type": VPC, "name": "vpc", "props": {"cidrBlock": "10.0.0.0/16"}}


@stack_rule(
    "vpc-flow-logs",
    group="security",
    title="VPCs have flow logs",
    why="When data has left, flow logs are what tells which node talked to whom, and how much.",
    fix="Add an `aws:ec2/flowLog` with `trafficType: ALL` for each VPC.",
    severity="medium",
    framework=fsbp("EC2.6"),
    types=(VPC, DEFAULT_VPC, FLOW_LOG),
    settings=VpcFlowLogsSettings,
    passes=Example(
        (
            _VPC,
            {
                "type": FLOW_LOG,
                "name": "flows",
                "props": {"trafficType": "ALL"},
                "depends": {"vpcId": ["vpc"]},
            },
        )
    ),
    fails=Example((_VPC,)),
)
def vpc_flow_logs(stack: Stack, context: RuleContext[VpcFlowLogsSettings]) -> Iterator[Violation]:
    """Each VPC with the flow logs of the whole of it; those of single subnets do not count."""
    allowed = context.settings.traffic
    for vpc in stack.of_type(VPC, DEFAULT_VPC):
        logs = [declared(each) for each in stack.referrers(vpc, "vpcId", FLOW_LOG)]
        if not logs:
            yield Violation(
                "nothing records its traffic, and every VPC has flow logs",
                "add an aws:ec2/flowLog for it",
                urn=vpc.urn,
            )
        if any(each.get("trafficType") in allowed and not each.ignores("trafficType") for each in logs):
            continue
        for each in logs:
            yield from require(
                each,
                "trafficType",
                lambda value: value in allowed,
                f"{' or '.join(allowed)} is recorded",
                f"set it to {allowed[0]}",
            )
