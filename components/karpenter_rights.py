"""What Karpenter may do in AWS, and how a spent budget takes the right to launch away.

The statements follow Karpenter's own policies (cloudformation.yaml of its guide "Getting started", v1.14).
They allow less: nodes get an instance profile of the stack, images are named by their ids, and notices of AWS
go to gpufleet's handler. Instances start in the given subnets and reservations with the given security groups
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from gpufleet.components.base import AwsContext, may_create_spot_role

POOL_TAG = "karpenter.sh/nodepool"
CLUSTER_TAG = "eks:eks-cluster-name"
GROUP_TAG = "gpufleet:node-group"

_READS = (
    *("ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus"),
    *("ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates"),
    *("ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory"),
    "ec2:DescribeSubnets",
)
_LAUNCHES = ("ec2:RunInstances", "ec2:CreateFleet")
_MADE = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")


@dataclass(frozen=True, kw_only=True)
class KarpenterRights:
    """The cluster, and what its nodes get: role, instance profile, subnets, security groups, and reservations
    with Capacity Blocks by their ids. `spot` is True if some are spot instances."""

    cluster: str
    node_role_arn: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    security_group_ids: Sequence[pulumi.Input[str]]
    reservation_ids: Sequence[pulumi.Input[str]] = ()
    spot: bool = False


def iam_statements(rights: KarpenterRights, context: AwsContext) -> list[dict[str, Any]]:
    """Return the statements of the role of Karpenter's pods."""
    owned = f"kubernetes.io/cluster/{rights.cluster}"

    def ec2(kind: str, name: pulumi.Input[str] = "*", *, aws_owned: bool = False) -> pulumi.Output[str]:
        account: pulumi.Input[str] = "" if aws_owned else context.account_id
        return pulumi.Output.format(
            "arn:{0}:ec2:{1}:{2}:{3}/{4}", context.partition, context.region, account, kind, name
        )

    def profile() -> pulumi.Output[str]:
        return pulumi.Output.format(
            "arn:{0}:iam::{1}:instance-profile/*", context.partition, context.account_id
        )

    def reservation(name: pulumi.Input[str]) -> pulumi.Output[str]:
        # One that another account shares has the account of its owner in its ARN.
        return pulumi.Output.format(
            "arn:{0}:ec2:{1}:*:capacity-reservation/{2}", context.partition, context.region, name
        )

    reads = [*_READS, *(["ec2:DescribeCapacityReservations"] if rights.reservation_ids else [])]
    asked = {
        "StringEquals": {f"aws:RequestTag/{owned}": "owned", f"aws:RequestTag/{CLUSTER_TAG}": rights.cluster},
        "StringLike": {f"aws:RequestTag/{POOL_TAG}": "*"},
    }
    had = {
        "StringEquals": {f"aws:ResourceTag/{owned}": "owned"},
        "StringLike": {f"aws:ResourceTag/{POOL_TAG}": "*"},
    }
    return [
        _allow(
            _LAUNCHES,
            [
                # An image of another account, or of AWS, has no account in its ARN.
                ec2("image", aws_owned=True),
                ec2("snapshot", aws_owned=True),
                ec2("placement-group"),
                *(ec2("subnet", each) for each in rights.subnet_ids),
                *(ec2("security-group", each) for each in rights.security_group_ids),
                *(reservation(each) for each in rights.reservation_ids),
            ],
        ),
        _allow(_LAUNCHES, [ec2("launch-template")], had),
        _allow([*_LAUNCHES, "ec2:CreateLaunchTemplate"], [ec2(kind) for kind in _MADE], asked),
        _allow(
            ["ec2:CreateTags"],
            [ec2(kind) for kind in _MADE],
            {
                **asked,
                "StringEquals": {
                    **asked["StringEquals"],
                    "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
                },
            },
        ),
        _allow(
            ["ec2:CreateTags"],
            [ec2("instance")],
            {
                **had,
                "StringEqualsIfExists": {f"aws:RequestTag/{CLUSTER_TAG}": rights.cluster},
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": [CLUSTER_TAG, "karpenter.sh/nodeclaim", "Name"],
                },
            },
        ),
        _allow(
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            [ec2("instance"), ec2("launch-template")],
            had,
        ),
        _allow(
            ["iam:PassRole"],
            [rights.node_role_arn],
            {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        ),
        _allow(
            ["eks:DescribeCluster"],
            [
                pulumi.Output.format(
                    "arn:{0}:eks:{1}:{2}:cluster/{3}",
                    context.partition,
                    context.region,
                    context.account_id,
                    rights.cluster,
                )
            ],
        ),
        _allow(reads, ["*"], {"StringEquals": {"aws:RequestedRegion": context.region}}),
        # Prices are global. It looks for instance profiles that it made, and has none.
        _allow(["pricing:GetProducts", "iam:ListInstanceProfiles"], ["*"]),
        _allow(["iam:GetInstanceProfile"], [profile()]),
        *([may_create_spot_role(context)] if rights.spot else ()),
    ]


def stop_statements(group: str) -> list[dict[str, Any]]:
    """Return the statements of a policy that stops the growth of a node group, attached to Karpenter's role.

    Instances, volumes and fleets of the group have its tag. Karpenter reports the refusal in the conditions
    of the group's EC2NodeClass; nodes that run stay.
    """
    return [
        {
            "Effect": "Deny",
            "Action": list(_LAUNCHES),
            "Resource": ["*"],
            "Condition": {"StringEquals": {f"aws:RequestTag/{GROUP_TAG}": group}},
        }
    ]


def _allow(
    actions: Sequence[str], resources: Sequence[Any], conditions: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return {**statement, "Condition": dict(conditions)} if conditions else statement
