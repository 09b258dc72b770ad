"""Every VPC has flow logs."""

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
    """Which traffic is recorded."""

    traffic: tuple[str, ...] = Field(("ALL",), description="Allowed values of trafficType")


_VPC = {"type": VPC, "name": "vpc", "props": {"cidrBlock": "10.0.0.0/16"}}


@stack_rule(
    "vpc-flow-logs",
    group="security",
    title="VPCs have flow logs",
    why="After data has leaked, only flow logs show which nodes communicated, and how much they sent.",
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
    """Check each VPC with its flow logs; those of single subnets do not count."""
    allowed = context.settings.traffic
    for vpc in stack.of_type(VPC, DEFAULT_VPC):
        logs = [declared(each) for each in stack.referrers(vpc, "vpcId", FLOW_LOG)]
        if not logs:
            yield Violation(
                "it has no flow log, and every VPC needs one",
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
                f"{' or '.join(allowed)} is required",
                f"set it to {allowed[0]}",
            )
