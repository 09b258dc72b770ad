"""IAM roles of a cluster's control plane, of its nodes and of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags, assume_role_policy, available_after, policy_document
from gpufleet.errors import InputError
from gpufleet.kinds import TEAMS_SHARED

NODE_POLICIES: Mapping[str, tuple[str, ...]] = {
    "kubernetes": (
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    ),
    "slurm": ("AmazonSSMManagedInstanceCore",),
}
"""AWS-managed policies of a node's role. On Kubernetes the network plugin has its own role."""


@dataclass(frozen=True, kw_only=True)
class IamRolesArgs:
    """Inputs of `IamRoles`. Nodes may read and write the objects of `bucket_arns`, and nothing else in S3.

    `bucket_key_arns` are the KMS keys of these buckets: without permission to use them S3 rejects both
    reads and writes.
    """

    scheduler: Literal["kubernetes", "slurm"]
    bucket_arns: Sequence[pulumi.Input[str]] = ()
    bucket_key_arns: Sequence[pulumi.Input[str]] = ()
    tags: Tags


class IamRoles(Component):
    """The roles of a site: always for nodes, and for the EKS control plane on Kubernetes.

    `cluster_role_arn` is None without Kubernetes. Each ARN depends on the policies of its role: a cluster or
    node that starts without them fails, and one that is deleted after them does not finish.
    """

    node_role_arn: pulumi.Output[str]
    node_role_name: pulumi.Output[str]
    instance_profile_arn: pulumi.Output[str]
    instance_profile_name: pulumi.Output[str]
    cluster_role_arn: pulumi.Output[str] | None

    def __init__(self, name: str, args: IamRolesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:identity:IamRoles", name, args.tags, opts)
        partition = aws.get_partition_output(opts=pulumi.InvokeOutputOptions(parent=self)).partition
        ready: list[pulumi.Resource] = []

        def attach(label: str, role: aws.iam.Role, policy: str) -> None:
            ready.append(
                aws.iam.RolePolicyAttachment(
                    f"{label}-{policy}",
                    role=role.name,
                    policy_arn=pulumi.Output.format("arn:{0}:iam::aws:policy/{1}", partition, policy),
                    opts=self.child(),
                )
            )

        node = self._role(f"{name}-node", "ec2.amazonaws.com", "Nodes")
        for policy in NODE_POLICIES[args.scheduler]:
            attach(f"{name}-node", node, policy)
        if args.bucket_arns:
            ready.append(
                aws.iam.RolePolicy(
                    f"{name}-node-buckets",
                    role=node.id,
                    policy=policy_document(bucket_statements(args.bucket_arns, args.bucket_key_arns)),
                    opts=self.child(),
                )
            )
        profile = aws.iam.InstanceProfile(
            f"{name}-node", role=node.name, tags=self.tags(f"{name}-node"), opts=self.child()
        )
        self.node_role_name = node.name
        self.node_role_arn = available_after(node.arn, ready)
        self.instance_profile_arn = available_after(profile.arn, ready)
        self.instance_profile_name = available_after(profile.name, ready)
        self.cluster_role_arn = None
        if args.scheduler == "kubernetes":
            cluster = self._role(f"{name}-cluster", "eks.amazonaws.com", "EKS control plane")
            attach(f"{name}-cluster", cluster, "AmazonEKSClusterPolicy")
            self.cluster_role_arn = available_after(cluster.arn, ready)
        self.register_outputs(
            {
                "nodeRoleArn": self.node_role_arn,
                "instanceProfileArn": self.instance_profile_arn,
                "clusterRoleArn": self.cluster_role_arn,
            }
        )

    def _role(self, label: str, service: str, description: str) -> aws.iam.Role:
        return aws.iam.Role(
            label,
            description=description,
            assume_role_policy=assume_role_policy(service),
            tags=self.tags(label),
            opts=self.child(),
        )


@dataclass(frozen=True, kw_only=True)
class PodRoleArgs:
    """Inputs of `PodRole`: which service account assumes the role, and its permissions.

    `managed_policies` are names of AWS-managed policies (`service-role/AmazonEBSCSIDriverPolicy`),
    `statements` the role's own IAM statements. With `role_name` the role has this name in AWS, and policies
    that others attached to it do not keep it from being deleted; `after` is deleted after it.
    """

    cluster_name: pulumi.Input[str]
    namespace: str
    service_account: str
    managed_policies: Sequence[str] = ()
    statements: Sequence[Mapping[str, Any]] = ()
    role_name: str | None = None
    after: Sequence[pulumi.Resource] = ()
    tags: Tags


class PodRole(Component):
    """A role for one Kubernetes service account, by EKS Pod Identity.

    Pods get their credentials from the Pod Identity agent, so nodes can keep the instance metadata service
    out of reach of pods (hop limit 1).
    """

    role_arn: pulumi.Output[str]
    association: aws.eks.PodIdentityAssociation

    def __init__(self, name: str, args: PodRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:identity:PodRole", name, args.tags, opts)
        partition = aws.get_partition_output(opts=pulumi.InvokeOutputOptions(parent=self)).partition
        role = aws.iam.Role(
            name,
            name=args.role_name,
            force_detach_policies=True if args.role_name is not None else None,
            description=f"Pods of {args.namespace}/{args.service_account}",
            assume_role_policy=assume_role_policy(
                "pods.eks.amazonaws.com", actions=("sts:AssumeRole", "sts:TagSession")
            ),
            tags=self.tags(name),
            # Two roles of one name cannot exist at once.
            opts=self.child(
                depends_on=list(args.after),
                delete_before_replace=True if args.role_name is not None else None,
            ),
        )
        policies: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy.rpartition('/')[2]}",
                role=role.name,
                policy_arn=pulumi.Output.format("arn:{0}:iam::aws:policy/{1}", partition, policy),
                opts=self.child(),
            )
            for policy in args.managed_policies
        ]
        if args.statements:
            policies.append(
                aws.iam.RolePolicy(
                    name, role=role.id, policy=policy_document(args.statements), opts=self.child()
                )
            )
        self.association = aws.eks.PodIdentityAssociation(
            name,
            cluster_name=args.cluster_name,
            namespace=args.namespace,
            service_account=args.service_account,
            role_arn=role.arn,
            tags=self.tags(name),
            opts=self.child(depends_on=policies),
        )
        self.role_arn = role.arn
        self.register_outputs({"roleArn": self.role_arn})


@dataclass(frozen=True, kw_only=True)
class TeamBucketArgs:
    """A bucket that a team's pods reach: its ARN, that of its key, and whether they write."""

    arn: pulumi.Input[str]
    key_arn: pulumi.Input[str]
    write: bool = True


def team_bucket_statements(team: str, buckets: Sequence[TeamBucketArgs], region: Any) -> list[dict[str, Any]]:
    """Return IAM statements for a team's pods: read and write below `<team>/`, read below `shared/`.

    They list these two prefixes only, and use the keys only through S3 in `region`. Raises InputError for a
    team without a name that is safe in a prefix.
    """
    if not team or not team.replace("-", "").isalnum():
        raise InputError(
            f"team {team!r}: its name is no prefix of a bucket", remedy="use letters, digits and '-'"
        )
    arns = [bucket.arn for bucket in buckets]
    writable = [bucket for bucket in buckets if bucket.write]
    prefixes = (f"{team}/", f"{TEAMS_SHARED}/")
    through_s3 = {"StringEquals": {"kms:ViaService": pulumi.Output.format("s3.{0}.amazonaws.com", region)}}

    def below(arn: pulumi.Input[str], prefix: str) -> pulumi.Output[str]:
        return pulumi.Output.format("{0}/{1}*", arn, prefix)

    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": arns},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": arns,
            "Condition": {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}},
        },
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject"],
            "Resource": [below(arn, prefix) for arn in arns for prefix in prefixes],
        },
        {
            "Effect": "Allow",
            "Action": ["kms:Decrypt"],
            "Resource": [bucket.key_arn for bucket in buckets],
            "Condition": through_s3,
        },
    ]
    if writable:
        statements += [
            {
                "Effect": "Allow",
                "Action": ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
                "Resource": [below(bucket.arn, f"{team}/") for bucket in writable],
            },
            {
                "Effect": "Allow",
                "Action": ["kms:GenerateDataKey"],
                "Resource": [bucket.key_arn for bucket in writable],
                "Condition": through_s3,
            },
        ]
    return statements


def bucket_statements(
    bucket_arns: Sequence[pulumi.Input[str]], key_arns: Sequence[pulumi.Input[str]] = ()
) -> list[dict[str, Any]]:
    """Return IAM statements to list the buckets and to read and write their encrypted objects.

    Reading needs `kms:Decrypt`, writing `kms:GenerateDataKey`; a multipart upload needs both.
    """
    statements: list[dict[str, Any]] = [
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket", "s3:GetBucketLocation"],
            "Resource": list(bucket_arns),
        },
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            "Resource": [pulumi.Output.format("{0}/*", arn) for arn in bucket_arns],
        },
    ]
    if key_arns:
        statements.append(
            {
                "Effect": "Allow",
                "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
                "Resource": list(key_arns),
            }
        )
    return statements
