"""What the controllers of a Slurm cluster need to launch its nodes in AWS, and nodes to join it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import (
    AwsContext,
    Component,
    Tags,
    encryption_key,
    may_create_spot_role,
    policy_document,
)
from gpufleet.kinds import LAUNCHER_SUFFIX, NODE_GROUP_TAG, SLURM_NODE_TAG

SLURMD_PORT = 6818
"""The port of slurmd (slurm.conf, SlurmdPort)."""

NO_KEY = "not written yet"
"""What the parameter holds at first: shorter than any munge key, so that nodes wait."""


@dataclass(frozen=True, kw_only=True)
class SlurmLauncherArgs:
    """Inputs of `SlurmLauncher`.

    `identity` is the ARN of the controllers' own IAM role or user, which assumes a role; or, with
    `identity_role_name`, that role itself gets the rights. `network` is the CIDR that they and their login
    hosts are in, None if they are in the nodes' security group. Nodes are launched from
    `launch_template_arns` only, with the role `node_role_arn` (`node_role_name`), into `security_group_id`;
    those that have all of `own_tags` may be terminated. `spot` is True if some are spot instances.
    `parameter` is the name of the SSM parameter for the munge key, `key_name` that of its key. `stopped` is
    the name of the parameter with the groups that a breach of the budget stopped, `stopped_region` its
    region; empty if a breach stops none. `drained` are names of the parameters with the groups that it
    drains, in the same region.
    """

    identity: str | None
    identity_role_name: pulumi.Input[str] | None = None
    network: str | None
    launch_template_arns: Sequence[pulumi.Input[str]]
    node_role_arn: pulumi.Input[str]
    node_role_name: pulumi.Input[str]
    security_group_id: pulumi.Input[str]
    own_tags: Mapping[str, str]
    spot: bool = False
    parameter: str
    key_name: str
    stopped: str = ""
    stopped_region: str = ""
    drained: Sequence[str] = ()
    tags: Tags


class SlurmLauncher(Component):
    """A role that controllers assume to launch and terminate nodes, the parameter by which nodes get the
    cluster's munge key, and the way from the controllers to slurmd.
    """

    role_arn: pulumi.Output[str]
    """Of the role that controllers assume; empty if their own has the rights."""
    munge_key_arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: SlurmLauncherArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpufleet:slurm:SlurmLauncher", name, args.tags, opts)
        context = self.aws_context()
        key = encryption_key(self, args.key_name, f"Munge key of Slurm nodes of {name}", context)
        parameter = aws.ssm.Parameter(
            args.key_name,
            name=args.parameter,
            description="Munge key of the Slurm cluster, written by its controllers",
            type="SecureString",
            key_id=key.arn,
            value=NO_KEY,
            tags=self.tags(args.key_name),
            # The controllers write it: a run never knows it.
            opts=self.child(ignore_changes=["value"]),
        )
        aws.iam.RolePolicy(
            args.key_name,
            role=args.node_role_name,
            policy=policy_document(_read_key(parameter.arn, key.arn)),
            opts=self.child(),
        )
        label = f"{name}{LAUNCHER_SUFFIX}"
        role = None if args.identity is None else self._role(name, label, args.identity)
        aws.iam.RolePolicy(
            label,
            role=args.identity_role_name if role is None else role.id,
            policy=policy_document(_statements(args, context, parameter.arn, key.arn)),
            opts=self.child(),
        )
        if args.network is not None:
            self._slurmd(name, args.security_group_id, args.network)
        self.role_arn = pulumi.Output.from_input("") if role is None else role.arn
        self.munge_key_arn = key.arn
        self.register_outputs({"roleArn": self.role_arn, "mungeKeyArn": self.munge_key_arn})

    def _role(self, name: str, label: str, identity: str) -> aws.iam.Role:
        return aws.iam.Role(
            label,
            description=f"Slurm controllers: launch and terminate nodes of {name}",
            assume_role_policy=policy_document(
                [{"Effect": "Allow", "Principal": {"AWS": identity}, "Action": "sts:AssumeRole"}]
            ),
            tags=self.tags(label),
            opts=self.child(),
        )

    def _slurmd(self, name: str, security_group_id: pulumi.Input[str], network: str) -> None:
        label = f"{name}-slurmd"
        aws.vpc.SecurityGroupIngressRule(
            label,
            security_group_id=security_group_id,
            description="slurmd, from controllers and login hosts",
            ip_protocol="tcp",
            from_port=SLURMD_PORT,
            to_port=SLURMD_PORT,
            cidr_ipv4=network,
            tags=self.tags(label),
            opts=self.child(),
        )
        # slurmd connects to slurmctld, and steps connect to the srun that waits for them, on any free port.
        aws.vpc.SecurityGroupEgressRule(
            f"{label}-out",
            security_group_id=security_group_id,
            description="slurmctld and srun, on controllers and login hosts",
            ip_protocol="tcp",
            from_port=1024,
            to_port=65535,
            cidr_ipv4=network,
            tags=self.tags(f"{label}-out"),
            opts=self.child(),
        )


def _read_key(parameter: pulumi.Input[str], key: pulumi.Input[str]) -> list[dict[str, Any]]:
    return [
        {"Effect": "Allow", "Action": ["ssm:GetParameter"], "Resource": [parameter]},
        {"Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": [key]},
    ]


def _statements(
    args: SlurmLauncherArgs,
    context: AwsContext,
    parameter: pulumi.Input[str],
    key: pulumi.Input[str],
) -> list[dict[str, Any]]:
    """Return what controllers may do: launch from the site's templates, name and terminate these nodes.

    A launch needs rights on all that it uses. `ec2:LaunchTemplate` keeps it to the site's templates, and
    `ec2:IsLaunchTemplateResource` to their image, security group, placement group, reservation and key pair.
    The latter is not asked of what a launch overrides (subnets) or makes. Requests for spot instances know
    neither key, and the actions on fleets neither (Service Authorization Reference, Amazon EC2).
    """

    def ec2(resource: str) -> pulumi.Output[str]:
        return pulumi.Output.format(
            "arn:{0}:ec2:{1}:{2}:{3}", context.partition, context.region, context.account_id, resource
        )

    def shared(resource: str) -> pulumi.Output[str]:
        return pulumi.Output.format("arn:{0}:ec2:{1}::{2}", context.partition, context.region, resource)

    ours = {f"aws:ResourceTag/{tag}": value for tag, value in args.own_tags.items()}
    # Servers of the site have the same tags, and are in no node group.
    a_node = {f"aws:ResourceTag/{NODE_GROUP_TAG}": "false"}
    by_template = {"ArnEquals": {"ec2:LaunchTemplate": list(args.launch_template_arns)}}
    as_it_says = {**by_template, "Bool": {"ec2:IsLaunchTemplateResource": "true"}}
    image, snapshot = shared("image/*"), shared("snapshot/*")
    made = [ec2("instance/*"), ec2("volume/*"), ec2("network-interface/*")]
    spot_request = ec2("spot-instances-request/*")
    requests = [ec2("fleet/*"), spot_request]
    subnet, placement_group = ec2("subnet/*"), ec2("placement-group/*")
    from_it = [
        image,
        placement_group,
        *map(ec2, ("security-group/*", "capacity-reservation/*", "key-pair/*")),
    ]
    launches: list[dict[str, Any]] = [
        {
            "Effect": "Allow",
            "Action": ["ec2:CreateFleet"],
            "Resource": [
                *args.launch_template_arns,
                *requests,
                *made,
                image,
                snapshot,
                subnet,
                placement_group,
            ],
        },
        {
            "Effect": "Allow",
            "Action": ["ec2:RunInstances"],
            "Resource": [*args.launch_template_arns, spot_request],
        },
        {
            "Effect": "Allow",
            "Action": ["ec2:RunInstances"],
            "Resource": [*made, subnet, snapshot],
            "Condition": by_template,
        },
        {
            "Effect": "Allow",
            "Action": ["ec2:RunInstances"],
            "Resource": from_it,
            "Condition": as_it_says,
        },
    ]
    return [
        # EC2 has no permission to list single instances.
        {"Effect": "Allow", "Action": ["ec2:DescribeInstances"], "Resource": ["*"]},
        *(launches if args.launch_template_arns else ()),
        *([may_create_spot_role(context)] if args.spot else ()),
        {
            "Effect": "Allow",
            "Action": ["ec2:CreateTags"],
            "Resource": [*made, *requests],
            "Condition": {"StringEquals": {"ec2:CreateAction": ["RunInstances", "CreateFleet"]}},
        },
        {
            "Effect": "Allow",
            "Action": ["ec2:CreateTags"],
            "Resource": [ec2("instance/*")],
            "Condition": {
                "StringEquals": ours,
                "Null": a_node,
                "ForAllValues:StringEquals": {"aws:TagKeys": [SLURM_NODE_TAG]},
            },
        },
        {
            "Effect": "Allow",
            "Action": ["ec2:TerminateInstances"],
            "Resource": [ec2("instance/*")],
            "Condition": {"StringEquals": ours, "Null": a_node},
        },
        {
            "Effect": "Allow",
            "Action": ["iam:PassRole"],
            "Resource": [args.node_role_arn],
            "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        },
        {"Effect": "Allow", "Action": ["ssm:GetParameter", "ssm:PutParameter"], "Resource": [parameter]},
        {"Effect": "Allow", "Action": ["kms:Encrypt", "kms:Decrypt"], "Resource": [key]},
        *(_read_records(["ssm:GetParameter"], [args.stopped], args, context) if args.stopped else ()),
        *(_read_records(["ssm:GetParameters"], args.drained, args, context) if args.drained else ()),
    ]


def _read_records(
    actions: Sequence[str], names: Sequence[str], args: SlurmLauncherArgs, context: AwsContext
) -> list[dict[str, Any]]:
    arns = [
        pulumi.Output.format(
            "arn:{0}:ssm:{1}:{2}:parameter{3}",
            context.partition,
            args.stopped_region,
            context.account_id,
            name,
        )
        for name in names
    ]
    return [{"Effect": "Allow", "Action": list(actions), "Resource": arns}]
