"""docs/reference/aws.md: what the AWS features that gpufleet uses were judged by.

A new resource type of a component or an operation that a program sends needs a row here; a test says so.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from gpufleet.lab.aws.backends import SERVICES, install
from gpufleet.lab.aws.backends.operation import REGISTRY

_HEADER = """# What AWS features were judged by

gpufleet has not run against a real AWS account yet: the last column of each table says "no", and a first `up`
there may find what the other columns could not. They mean:

- **botocore's model**: the operations whose requests botocore's service models check in tests: names, types,
  required members, lengths and patterns. The provider of the emulated AWS sends every request by botocore.
- **answered by**: what answers these operations in tests: moto, which others wrote, or backends of gpufleet
  where moto lacks the operation or accepts what AWS rejects.
- **documentation**: pages of AWS's documentation that checks, components or backends follow. "-": none but
  the API's model.

This page is written by `make docs`; a test keeps it current.
"""


class AwsFeature(NamedTuple):
    """A feature: its Pulumi types (of `pulumi_aws`), its operations by service, and pages that were read."""

    feature: str
    types: tuple[str, ...]
    operations: tuple[str, ...]
    pages: tuple[str, ...] = ()


_EC2 = "EC2 User Guide"
_EKS = "EKS User Guide"
_FSX = "FSx for Lustre User Guide"
_S3 = "S3 User Guide"


# Sections in the order of the page.
FEATURES: dict[str, tuple[AwsFeature, ...]] = {
    "Network": (
        AwsFeature(
            "VPC and subnets",
            ("ec2.Vpc", "ec2.Subnet"),
            ("ec2:CreateVpc", "ec2:CreateSubnet"),
            ('VPC User Guide, "VPC CIDR blocks"',),
        ),
        AwsFeature(
            "Internet and NAT gateways",
            ("ec2.InternetGateway", "ec2.Eip", "ec2.NatGateway"),
            ("ec2:CreateInternetGateway", "ec2:AllocateAddress", "ec2:CreateNatGateway"),
        ),
        AwsFeature(
            "Routes",
            ("ec2.RouteTable", "ec2.Route", "ec2.RouteTableAssociation"),
            ("ec2:CreateRouteTable", "ec2:CreateRoute", "ec2:AssociateRouteTable"),
        ),
        AwsFeature(
            "Gateway and interface endpoints",
            ("ec2.VpcEndpoint",),
            ("ec2:CreateVpcEndpoint", "ec2:ModifyVpcEndpoint"),
            ("VPC User Guide, gateway endpoints",),
        ),
        AwsFeature(
            "Security groups, with the rules that EFA needs",
            (
                "ec2.SecurityGroup",
                "ec2.DefaultSecurityGroup",
                "vpc.SecurityGroupIngressRule",
                "vpc.SecurityGroupEgressRule",
            ),
            (
                "ec2:CreateSecurityGroup",
                "ec2:AuthorizeSecurityGroupIngress",
                "ec2:AuthorizeSecurityGroupEgress",
            ),
            (f'{_EC2}, "Get started with EFA"',),
        ),
        AwsFeature(
            "Site-to-site VPN: gateways, two tunnels, routes by BGP or static ones",
            (
                "ec2.CustomerGateway",
                "ec2.VpnGateway",
                "ec2.VpnConnection",
                "ec2.VpnConnectionRoute",
                "ec2.VpnGatewayRoutePropagation",
            ),
            (
                "ec2:CreateCustomerGateway",
                "ec2:CreateVpnGateway",
                "ec2:AttachVpnGateway",
                "ec2:CreateVpnConnection",
                "ec2:ModifyVpnConnection",
                "ec2:ModifyVpnTunnelOptions",
                "ec2:CreateVpnConnectionRoute",
                "ec2:EnableVgwRoutePropagation",
            ),
            ('Site-to-Site VPN User Guide, "Tunnel options" and "Customer gateway options"',),
        ),
        AwsFeature(
            "Addresses kept for servers",
            ("ec2.SubnetCidrReservation",),
            ("ec2:CreateSubnetCidrReservation",),
            ('VPC User Guide, "Subnet CIDR reservations"',),
        ),
        AwsFeature(
            "Direct Connect: associations of virtual private gateways, and proposals to other accounts",
            ("directconnect.GatewayAssociation", "directconnect.GatewayAssociationProposal"),
            (
                "directconnect:CreateDirectConnectGatewayAssociation",
                "directconnect:UpdateDirectConnectGatewayAssociation",
                "directconnect:CreateDirectConnectGatewayAssociationProposal",
            ),
            ('Direct Connect User Guide, "Virtual private gateway associations" and "Quotas"',),
        ),
        AwsFeature(
            "DNS over the connection: Resolver endpoints, and rules that forward domains",
            ("route53.ResolverEndpoint", "route53.ResolverRule", "route53.ResolverRuleAssociation"),
            (
                "route53resolver:CreateResolverEndpoint",
                "route53resolver:AssociateResolverEndpointIpAddress",
                "route53resolver:CreateResolverRule",
                "route53resolver:UpdateResolverRule",
                "route53resolver:AssociateResolverRule",
            ),
            ('Route 53 Developer Guide, "Forwarding outbound DNS queries" and "Quotas"',),
        ),
        AwsFeature("Flow logs", ("ec2.FlowLog",), ("ec2:CreateFlowLogs",)),
        AwsFeature(
            "Log groups",
            ("cloudwatch.LogGroup",),
            ("logs:CreateLogGroup", "logs:PutRetentionPolicy"),
        ),
    ),
    "Nodes": (
        AwsFeature(
            "Launch templates: network cards with EFA, disks, metadata service, purchase",
            ("ec2.LaunchTemplate",),
            ("ec2:CreateLaunchTemplate", "ec2:CreateLaunchTemplateVersion"),
            (f'{_EC2}, "Elastic Fabric Adapter" and "Maximize network bandwidth"',),
        ),
        AwsFeature(
            "Images by exact name or by SSM parameter",
            (),
            ("ec2:DescribeImages", "ssm:GetParameter"),
            (
                'DLAMI Developer Guide, "Finding the ID of a DLAMI"',
                'Systems Manager User Guide, "Working with parameter versions"',
            ),
        ),
        AwsFeature(
            "Auto Scaling groups with mixed instances",
            ("autoscaling.Group",),
            (
                "autoscaling:CreateAutoScalingGroup",
                "autoscaling:UpdateAutoScalingGroup",
                "autoscaling:StartInstanceRefresh",
            ),
            ('EC2 Auto Scaling User Guide, "Tag Auto Scaling groups and instances"',),
        ),
        AwsFeature(
            "Placement groups",
            ("ec2.PlacementGroup",),
            ("ec2:CreatePlacementGroup",),
            (f'{_EC2}, "Placement strategies"',),
        ),
        AwsFeature(
            "On-Demand Capacity Reservations",
            ("ec2.CapacityReservation",),
            ("ec2:CreateCapacityReservation", "ec2:ModifyCapacityReservation"),
            (f'{_EC2}, "Launch instances into an existing Capacity Reservation"',),
        ),
        AwsFeature(
            "Notices of interruptions, in a queue",
            ("cloudwatch.EventRule", "cloudwatch.EventTarget", "sqs.Queue", "sqs.QueuePolicy"),
            (
                "events:PutRule",
                "events:PutTargets",
                "sqs:CreateQueue",
                "sqs:SetQueueAttributes",
                "sqs:ReceiveMessage",
                "sqs:DeleteMessageBatch",
                "ec2:DescribeInstances",
                "autoscaling:TerminateInstanceInAutoScalingGroup",
            ),
            (
                f'{_EC2}, "Spot Instance interruption notices"',
                f'{_EC2}, "EC2 instance rebalance recommendations"',
                f'{_EC2}, "Monitor Capacity Blocks using EventBridge"',
                'AWS Health User Guide, "AWS Health events Amazon EventBridge schema"',
            ),
        ),
        AwsFeature(
            "Reservations shared with other accounts",
            ("ram.ResourceShare", "ram.ResourceAssociation", "ram.PrincipalAssociation"),
            (
                "ram:CreateResourceShare",
                "ram:UpdateResourceShare",
                "ram:AssociateResourceShare",
                "ram:DisassociateResourceShare",
            ),
            (f'{_EC2}, "Shared Capacity Reservations"', f'{_EC2}, "Share a Capacity Reservation"'),
        ),
        AwsFeature(
            "Launches into resource groups of reservations",
            (),
            (
                "ec2:RunInstances",
                "resource-groups:GetGroupConfiguration",
                "resource-groups:ListGroupResources",
            ),
            (
                f'{_EC2}, "Capacity Reservation groups"',
                "EC2 API Reference, CapacityReservationSpecification",
            ),
        ),
        AwsFeature(
            "Capacity Blocks",
            ("ec2.CapacityBlockReservation",),
            ("ec2:DescribeCapacityBlockOfferings", "ec2:PurchaseCapacityBlock"),
            (f'{_EC2}, "Capacity Blocks for ML"',),
        ),
        AwsFeature(
            "Extensions of Capacity Blocks",
            (),
            (
                "ec2:DescribeCapacityBlockExtensionOfferings",
                "ec2:PurchaseCapacityBlockExtension",
                "ec2:DescribeCapacityBlockExtensionHistory",
            ),
            (f'{_EC2}, "Extend Capacity Blocks"',),
        ),
        AwsFeature(
            "Nodes that Slurm launches and terminates",
            (),
            (
                "ec2:CreateFleet",
                "ec2:CreateTags",
                "ec2:DescribeInstances",
                "ec2:TerminateInstances",
                "sts:AssumeRole",
                "ssm:GetParameter",
                "ssm:PutParameter",
            ),
            ("EC2 API Reference, CreateFleet", f'{_EC2}, "Configure an EC2 Fleet of type instant"'),
        ),
        AwsFeature(
            "Controllers and login hosts of a Slurm in the cloud",
            ("ec2.Instance",),
            ("ec2:RunInstances", "ec2:ModifyInstanceAttribute", "ec2:ModifyVolume", "ec2:TerminateInstances"),
            (f'{_EC2}, "Change the instance type"',),
        ),
    ),
    "EKS": (
        AwsFeature(
            "Cluster: private endpoint, secrets encryption, logs, upgrades",
            ("eks.Cluster",),
            ("eks:CreateCluster", "eks:UpdateClusterConfig", "eks:UpdateClusterVersion"),
            (f'{_EKS}, "Network requirements", "Cluster endpoint" and "Update existing cluster"',),
        ),
        AwsFeature(
            "Managed node groups",
            ("eks.NodeGroup",),
            ("eks:CreateNodegroup", "eks:UpdateNodegroupConfig", "eks:UpdateNodegroupVersion"),
            (
                f'{_EKS}, "Customize managed nodes with launch templates"',
                f'{_EKS}, "Limits and conditions when specifying an AMI ID"',
                "awslabs/amazon-eks-ami, CHANGELOG and nodeadm's API",
            ),
        ),
        AwsFeature(
            "Groups of the Cluster Autoscaler",
            ("autoscaling.Tag",),
            ("autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags", "autoscaling:DescribeTags"),
            (
                f'{_EKS}, "Managed node groups concepts": tags of Auto Scaling groups',
                "kubernetes/autoscaler, cloudprovider/aws; its program ran on the emulated AWS",
            ),
        ),
        AwsFeature(
            "Rights of Karpenter, and policies that deny its launches",
            ("iam.Policy",),
            ("iam:CreatePolicy", "iam:AttachRolePolicy", "iam:DetachRolePolicy"),
            ("karpenter-provider-aws v1.14, cloudformation.yaml: its rights and their conditions",),
        ),
        AwsFeature(
            "Add-ons",
            ("eks.Addon",),
            ("eks:CreateAddon", "eks:UpdateAddon"),
            (f'{_EKS}, "Amazon VPC CNI", "CoreDNS" and "kube-proxy": tables of versions',),
        ),
        AwsFeature(
            "Access entries and policies",
            ("eks.AccessEntry", "eks.AccessPolicyAssociation"),
            ("eks:CreateAccessEntry", "eks:AssociateAccessPolicy"),
            (f'{_EKS}, "Access entries" and access policy permissions',),
        ),
        AwsFeature(
            "Roles of pods (Pod Identity)",
            ("eks.PodIdentityAssociation",),
            ("eks:CreatePodIdentityAssociation",),
        ),
    ),
    "Storage": (
        AwsFeature(
            "FSx for Lustre: capacity, throughput, metadata IOPS, EFA, backups",
            ("fsx.LustreFileSystem",),
            ("fsx:CreateFileSystem", "fsx:UpdateFileSystem"),
            (
                f'{_FSX}, "Performance", "Managing storage capacity" and "Data encryption"',
                f'{_FSX}, "EFA-enabled file systems"',
                "FSx API Reference, FileSystemLustreMetadataConfiguration",
            ),
        ),
        AwsFeature(
            "File systems of a Slurm in the cloud",
            ("efs.FileSystem", "efs.MountTarget"),
            ("efs:CreateFileSystem", "efs:CreateMountTarget"),
            ('EFS User Guide, "Recommended NFS mount settings"',),
        ),
        AwsFeature(
            "FSx data repositories",
            ("fsx.DataRepositoryAssociation",),
            ("fsx:CreateDataRepositoryAssociation", "fsx:UpdateDataRepositoryAssociation"),
            (f"{_FSX}, data repositories",),
        ),
        AwsFeature(
            "Buckets",
            ("s3.Bucket", "s3.BucketPolicy"),
            ("s3:CreateBucket", "s3:PutBucketPolicy"),
            (f'{_S3}, "Bucket naming rules"',),
        ),
        AwsFeature(
            "Settings of buckets",
            (
                "s3.BucketLifecycleConfiguration",
                "s3.BucketOwnershipControls",
                "s3.BucketPublicAccessBlock",
                "s3.BucketServerSideEncryptionConfiguration",
                "s3.BucketVersioning",
            ),
            (
                "s3:PutBucketLifecycleConfiguration",
                "s3:PutBucketOwnershipControls",
                "s3:PutPublicAccessBlock",
                "s3:PutBucketEncryption",
                "s3:PutBucketVersioning",
            ),
            (f'{_S3}, "Expiring objects"',),
        ),
    ),
    "Identity and keys": (
        AwsFeature(
            "Roles, their policies, instance profiles",
            ("iam.Role", "iam.RolePolicy", "iam.RolePolicyAttachment", "iam.InstanceProfile"),
            ("iam:CreateRole", "iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:CreateInstanceProfile"),
            (
                'IAM User Guide, "Tags for IAM resources"',
                "Service Authorization Reference: actions, resources and condition keys of every policy",
            ),
        ),
        AwsFeature("KMS keys", ("kms.Key",), ("kms:CreateKey", "kms:PutKeyPolicy")),
    ),
    "Cost": (
        AwsFeature(
            "Budgets with alerts",
            ("budgets.Budget",),
            ("budgets:CreateBudget",),
            ("AWS Budgets API Reference, CreateBudget and Subscriber",),
        ),
        AwsFeature(
            "Monitors of cost anomalies",
            ("costexplorer.AnomalyMonitor", "costexplorer.AnomalySubscription"),
            ("ce:CreateAnomalyMonitor", "ce:CreateAnomalySubscription"),
            ('User Guide of AWS Cost Management, "Getting started with AWS Cost Anomaly Detection"',),
        ),
        AwsFeature(
            "Function that stops scale-out",
            ("lambda_.Function", "lambda_.Permission", "ssm.Parameter"),
            ("lambda:CreateFunction", "lambda:AddPermission", "ssm:PutParameter"),
            ("EKS API Reference, NodegroupScalingConfig",),
        ),
        AwsFeature(
            "Topics of alerts",
            ("sns.Topic", "sns.TopicPolicy", "sns.TopicSubscription"),
            ("sns:CreateTopic", "sns:SetTopicAttributes", "sns:Subscribe"),
        ),
    ),
}


def answered_by(feature: AwsFeature) -> str:
    """Return what answers the operations of a feature in tests: moto, gpufleet's backends, or both."""
    ours = [name for service, name in parts(feature) if name in REGISTRY.get(_MOTO.get(service, service), {})]
    if not ours:
        return "moto"
    return "gpufleet" if len(ours) == len(feature.operations) else f"moto; gpufleet: {', '.join(ours)}"


_MOTO = {"resource-groups": "resourcegroups", "service-quotas": "servicequotas"}
"""botocore's name of a service -> moto's, where they differ."""


def parts(feature: AwsFeature) -> list[tuple[str, str]]:
    """Return service and name of each operation of a feature."""
    return [(service, name) for service, _, name in (item.partition(":") for item in feature.operations)]


def reference() -> str:
    """Return the page as Markdown."""
    install(*SERVICES)
    lines = [_HEADER]
    for title, features in FEATURES.items():
        lines += [
            f"## {title}\n",
            "| feature | resource types | botocore's model | answered by | documentation | real account |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(feature) for feature in features]
        lines.append("")
    return "\n".join(lines)


def _row(feature: AwsFeature) -> str:
    cells = (
        feature.feature,
        ", ".join(f"`{name}`" for name in feature.types) or "-",
        ", ".join(f"{service} {name}" for service, name in parts(feature)),
        answered_by(feature),
        "; ".join(feature.pages) or "-",
        "no",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
