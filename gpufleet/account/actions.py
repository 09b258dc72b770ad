"""IAM actions that `up` of a fleet needs, and the resources that they act on.

Source: the API calls of each resource of the stack (those of the emulated `up`, which a test records), named
as the Service Authorization Reference names their actions. S3 has actions with other names than its calls.
Only actions that create, change or read a fleet: `destroy` needs others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpufleet.account.needs import RegionNeeds
from gpufleet.kinds import LAUNCHER_SUFFIX
from gpufleet.plan.capacity_models import CapacityBlockPlan, ExistingBlockPlan, ReservationPlan, SpotPlan
from gpufleet.plan.models import CloudSitePlan, FleetPlan
from gpufleet.plan.names import SERVERS_SUFFIX

NETWORK = (
    "ec2:AllocateAddress",
    "ec2:AssociateRouteTable",
    "ec2:AttachInternetGateway",
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateFlowLogs",
    "ec2:CreateInternetGateway",
    "ec2:CreateNatGateway",
    "ec2:CreateRoute",
    "ec2:CreateRouteTable",
    "ec2:CreateSecurityGroup",
    "ec2:CreateSubnet",
    "ec2:CreateTags",
    "ec2:CreateVpc",
    "ec2:CreateVpcEndpoint",
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeFlowLogs",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeManagedPrefixLists",
    "ec2:DescribeNatGateways",
    "ec2:DescribeNetworkAcls",
    "ec2:DescribePrefixLists",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroupRules",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcAttribute",
    "ec2:DescribeVpcEndpoints",
    "ec2:DescribeVpcs",
    "ec2:GetManagedPrefixListEntries",
    "ec2:ModifySubnetAttribute",
    "ec2:ModifyVpcAttribute",
    "ec2:RevokeSecurityGroupEgress",
    "ec2:RevokeSecurityGroupIngress",
    "logs:CreateLogGroup",
    "logs:DescribeLogGroups",
    "logs:ListTagsForResource",
    "logs:PutRetentionPolicy",
    "logs:TagResource",
)
PRIVATE_GATEWAY = (
    "ec2:AttachVpnGateway",
    "ec2:CreateVpnGateway",
    "ec2:DescribeVpnGateways",
    "ec2:EnableVgwRoutePropagation",
)
SERVERS = (
    "ec2:CreateSubnetCidrReservation",
    "ec2:DescribeIamInstanceProfileAssociations",
    "ec2:DescribeInstanceAttribute",
    "ec2:DescribeVolumes",
    "ec2:GetSubnetCidrReservations",
    "ec2:ModifyInstanceMetadataOptions",
    "ec2:RunInstances",
)
SHARED_FILES = (
    "elasticfilesystem:CreateFileSystem",
    "elasticfilesystem:CreateMountTarget",
    "elasticfilesystem:DescribeFileSystems",
    "elasticfilesystem:DescribeLifecycleConfiguration",
    "elasticfilesystem:DescribeMountTargetSecurityGroups",
    "elasticfilesystem:DescribeMountTargets",
    "elasticfilesystem:TagResource",
)
VPN = (
    "ec2:CreateCustomerGateway",
    "ec2:CreateVpnConnection",
    "ec2:DescribeCustomerGateways",
    "ec2:DescribeVpnConnections",
)
STATIC_ROUTES = ("ec2:CreateVpnConnectionRoute",)
TUNNEL_LOGS = (
    "logs:CreateLogDelivery",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
)
"""EC2 makes the delivery of a VPN's logs with the caller's permissions (Site-to-Site VPN User Guide, "IAM
requirements to publish to CloudWatch Logs")."""
DIRECT_CONNECT = (
    "directconnect:CreateDirectConnectGatewayAssociation",
    "directconnect:DescribeDirectConnectGatewayAssociations",
)
PROPOSAL = (
    "directconnect:CreateDirectConnectGatewayAssociationProposal",
    "directconnect:DescribeDirectConnectGatewayAssociationProposals",
)
DNS = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DescribeNetworkInterfaces",
    "route53resolver:CreateResolverEndpoint",
    "route53resolver:GetResolverEndpoint",
    "route53resolver:ListResolverEndpointIpAddresses",
    "route53resolver:ListTagsForResource",
    "route53resolver:TagResource",
)
"""Those of EC2: Route 53 makes the interfaces of an endpoint with the caller's permissions (Route 53
Developer Guide, AmazonRoute53ResolverFullAccess)."""
DNS_RULES = (
    "route53resolver:AssociateResolverRule",
    "route53resolver:CreateResolverRule",
    "route53resolver:GetResolverRule",
    "route53resolver:GetResolverRuleAssociation",
)
KEYS = (
    "kms:CreateKey",
    "kms:DescribeKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
    "kms:TagResource",
)
ROLES = (
    "iam:AttachRolePolicy",
    "iam:CreateRole",
    "iam:GetRole",
    "iam:GetRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
    "iam:PassRole",
    "iam:PutRolePolicy",
    "iam:TagRole",
)
LAUNCH = (
    "ec2:CreateLaunchTemplate",
    "ec2:CreateLaunchTemplateVersion",
    "ec2:CreatePlacementGroup",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribePlacementGroups",
    "ec2:RunInstances",
    "ssm:GetParameter",
    "ssm:GetParameters",
)
CLUSTER = (
    "eks:AssociateAccessPolicy",
    "eks:CreateAccessEntry",
    "eks:CreateAddon",
    "eks:CreateCluster",
    "eks:CreateNodegroup",
    "eks:CreatePodIdentityAssociation",
    "eks:DescribeAccessEntry",
    "eks:DescribeAddon",
    "eks:DescribeCluster",
    "eks:DescribeNodegroup",
    "eks:DescribePodIdentityAssociation",
    "eks:DescribeUpdate",
    "eks:ListAssociatedAccessPolicies",
    "eks:TagResource",
    "eks:UpdateClusterConfig",
    "eks:UpdateNodegroupConfig",
    "eks:UpdateNodegroupVersion",
)
SCALING = (
    "autoscaling:CreateAutoScalingGroup",
    "autoscaling:CreateOrUpdateTags",
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeScalingActivities",
    "autoscaling:UpdateAutoScalingGroup",
)
AUTOSCALED = (
    "autoscaling:CreateOrUpdateTags",
    "autoscaling:DescribeTags",
)
ORDERS = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeScalingActivities",
    "autoscaling:SetDesiredCapacity",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeInstances",
)
BLOCKS = (
    "autoscaling:DescribeScheduledActions",
    "autoscaling:PutScheduledUpdateGroupAction",
    "ec2:DescribeCapacityBlockOfferings",
    "ec2:DescribeCapacityReservations",
    "ec2:PurchaseCapacityBlock",
)
EXTENSIONS = (
    "ec2:DescribeCapacityBlockExtensionHistory",
    "ec2:DescribeCapacityBlockExtensionOfferings",
    "ec2:DescribeCapacityReservations",
    "ec2:PurchaseCapacityBlockExtension",
)
RESERVATIONS = (
    "ec2:CreateCapacityReservation",
    "ec2:DescribeCapacityReservations",
    "ec2:ModifyCapacityReservation",
)
SHARES = (
    "ram:AssociateResourceShare",
    "ram:CreateResourceShare",
    "ram:DisassociateResourceShare",
    "ram:GetResourceShareAssociations",
    "ram:GetResourceShares",
    "ram:TagResource",
    "ram:UpdateResourceShare",
)
LUSTRE = (
    "fsx:CreateDataRepositoryAssociation",
    "fsx:CreateFileSystem",
    "fsx:DescribeDataRepositoryAssociations",
    "fsx:DescribeFileSystems",
    "fsx:ListTagsForResource",
    "fsx:TagResource",
    "fsx:UpdateFileSystem",
)
BUCKET = (
    "s3:CreateBucket",
    "s3:GetBucketOwnershipControls",
    "s3:GetBucketPolicy",
    "s3:GetBucketPublicAccessBlock",
    "s3:GetBucketTagging",
    "s3:GetBucketVersioning",
    "s3:GetEncryptionConfiguration",
    "s3:GetLifecycleConfiguration",
    "s3:ListBucket",
    "s3:PutBucketOwnershipControls",
    "s3:PutBucketPolicy",
    "s3:PutBucketPublicAccessBlock",
    "s3:PutBucketTagging",
    "s3:PutBucketVersioning",
    "s3:PutEncryptionConfiguration",
    "s3:PutLifecycleConfiguration",
)
BUDGET = (
    "budgets:ListTagsForResource",
    "budgets:ModifyBudget",
    "budgets:ViewBudget",
    "sns:CreateTopic",
    "sns:GetSubscriptionAttributes",
    "sns:GetTopicAttributes",
    "sns:ListTagsForResource",
    "sns:SetTopicAttributes",
    "sns:Subscribe",
    "sns:TagResource",
)
STOP = (
    "lambda:AddPermission",
    "lambda:CreateFunction",
    "lambda:GetFunction",
    "lambda:GetFunctionCodeSigningConfig",
    "lambda:GetPolicy",
    "lambda:ListVersionsByFunction",
    "lambda:TagResource",
    "ssm:GetParametersByPath",
)
PARAMETERS = (
    "ssm:AddTagsToResource",
    "ssm:DescribeParameters",
    "ssm:ListTagsForResource",
    "ssm:PutParameter",
)
DENIALS = (
    "iam:CreatePolicy",
    "iam:GetPolicy",
    "iam:GetPolicyVersion",
    "iam:TagPolicy",
)
PROFILES = (
    "iam:AddRoleToInstanceProfile",
    "iam:CreateInstanceProfile",
    "iam:GetInstanceProfile",
)
LAUNCHER = ("kms:Decrypt", "kms:Encrypt")
"""A SecureString is encrypted with the caller's rights."""

NOTICES = (
    "events:DescribeRule",
    "events:ListTagsForResource",
    "events:ListTargetsByRule",
    "events:PutRule",
    "events:PutTargets",
    "events:TagResource",
    "sqs:CreateQueue",
    "sqs:GetQueueAttributes",
    "sqs:ListQueueTags",
    "sqs:SetQueueAttributes",
    "sqs:TagQueue",
)
LINKED_ROLE = "iam:CreateServiceLinkedRole"


class ActionSet(Struct, frozen=True):
    """Actions on the same resources: ARNs with `*` only where AWS names them."""

    actions: tuple[str, ...]
    resources: tuple[str, ...] = ("*",)


def action_sets(needs: RegionNeeds, partition: str, account: str) -> Iterator[ActionSet]:
    """Yield the actions that `up` needs in a region.

    Names in AWS have a random suffix: `-0000000` stands for it.
    """
    general = {*KEYS, *BUDGET, *((*STOP, *PARAMETERS) if needs.stop_role else ())}
    if needs.drain_role:
        general |= set(AUTOSCALED)
    for site in needs.sites:
        general |= {*NETWORK, *_of_site(site.plan)}
        if (
            needs.stop_role
            and site.plan.kubernetes is not None
            and site.plan.kubernetes.karpenter is not None
        ):
            general |= set(DENIALS)
    yield ActionSet(tuple(sorted(general)))
    names = [f"{site.name}-node" for site in needs.sites]
    names += [role for role in (needs.stop_role, needs.drain_role) if role]
    for site in needs.sites:
        names += _slurm_roles(site.name, site.plan)
    yield ActionSet(ROLES, tuple(f"arn:{partition}:iam::{account}:role/{name}-0000000" for name in names))
    buckets = tuple(
        f"arn:{partition}:s3:::{item.bucket}" for site in needs.sites for item in site.plan.buckets
    )
    if buckets:
        yield ActionSet(BUCKET, buckets)


def _slurm_roles(name: str, site: CloudSitePlan) -> list[str]:
    """Return the names of a site's roles for Slurm: what controllers assume, or those of its servers."""
    if site.slurm is None:
        return []
    if site.slurm.servers is None:
        return [f"{name}{LAUNCHER_SUFFIX}"]
    roles = dict.fromkeys(each.role for each in site.slurm.servers.servers)
    return [f"{name}{SERVERS_SUFFIX}-{role}" for role in roles]


def _of_site(site: CloudSitePlan) -> Iterator[str]:
    if site.node_groups or site.kubernetes is not None:
        yield from LAUNCH
    if site.kubernetes is not None:
        yield from CLUSTER
        yield "iam:CreateOpenIDConnectProvider"
        if site.kubernetes.autoscaler is not None:
            yield from AUTOSCALED
    elif site.slurm is not None:
        yield from (*PROFILES, *PARAMETERS, *LAUNCHER)
        if site.slurm.servers is not None:
            yield from (*SERVERS, *(SHARED_FILES if site.slurm.servers.file_systems else ()))
    elif site.node_groups:
        yield from (*PROFILES, *SCALING)
    kinds = [type(group.capacity) for group in site.node_groups]
    if CapacityBlockPlan in kinds:
        yield from BLOCKS
    if ReservationPlan in kinds:
        yield from RESERVATIONS
    capacities = [group.capacity for group in site.node_groups]
    if any(isinstance(each, ReservationPlan) and each.share_with for each in capacities):
        yield from SHARES
    if any(
        isinstance(each, CapacityBlockPlan | ExistingBlockPlan) and each.extensions for each in capacities
    ):
        yield from EXTENSIONS
    if any(group.ordered for group in site.node_groups):
        yield from ORDERS
    if site.lustre:
        yield from LUSTRE
    if site.interruptions is not None:
        yield from NOTICES
    yield from _of_connections(site)


def _of_connections(site: CloudSitePlan) -> Iterator[str]:
    if site.vpn is not None or site.direct_connect is not None:
        yield from PRIVATE_GATEWAY
    if site.vpn is not None:
        yield from (*VPN, *(STATIC_ROUTES if site.vpn.static else ()))
        yield from TUNNEL_LOGS if site.vpn.logs else ()
    if site.direct_connect is not None:
        yield from DIRECT_CONNECT if site.direct_connect.owner is None else PROPOSAL
    if site.dns is not None:
        yield from (*DNS, *(DNS_RULES if site.dns.forward else ()))


def linked_roles(plan: FleetPlan) -> Mapping[str, str]:
    """Return service -> name of each service-linked role that the fleet uses.

    AWS creates them at the first use, if the caller may (IAM user guide, "Create a service-linked role").
    Names: the user guides of EC2 Auto Scaling, EC2 ("Spot Instances"), EKS and FSx for Lustre. The role of a
    link to S3 is made for each file system, and has no fixed name.
    """
    found: dict[str, str] = {}
    if any(site.kubernetes or (site.node_groups and site.slurm is None) for site in plan.cloud):
        found["autoscaling.amazonaws.com"] = "AWSServiceRoleForAutoScaling"
    if any(isinstance(group.capacity, SpotPlan) for group in plan.node_groups):
        found["spot.amazonaws.com"] = "AWSServiceRoleForEC2Spot"
    if any(site.slurm for site in plan.cloud):
        found["ec2fleet.amazonaws.com"] = "AWSServiceRoleForEC2Fleet"
    if any(site.kubernetes for site in plan.cloud):
        found["eks.amazonaws.com"] = "AWSServiceRoleForAmazonEKS"
        found["eks-nodegroup.amazonaws.com"] = "AWSServiceRoleForAmazonEKSNodegroup"
    if any(site.lustre for site in plan.cloud):
        found["fsx.amazonaws.com"] = "AWSServiceRoleForAmazonFSx"
    return found


def s3_linked(plan: FleetPlan) -> bool:
    """Return whether a file system is linked to a bucket."""
    return any(item.import_bucket is not None for site in plan.cloud for item in site.lustre)


S3_LINK = "s3.data-source.lustre.fsx.amazonaws.com"
"""The service whose linked role reads and writes the bucket of a file system."""
