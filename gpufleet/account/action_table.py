"""IAM actions by what is made: those that create, change or read it. `destroy` needs others.

Source: the API calls of each resource of the stack (those of the emulated `up`, which tests record), named as
the Service Authorization Reference names their actions, with the actions that it says these depend on. S3 has
actions with other names than its calls.
"""

from __future__ import annotations

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
    "kms:CreateGrant",
    "kms:CreateKey",
    "kms:DescribeKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
    "kms:TagResource",
)
"""EKS grants its control plane the use of a cluster's key with the caller's rights (EKS user guide, "Encrypt
Kubernetes secrets with KMS")."""
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
    "ec2:GetSecurityGroupsForVpc",
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
    "budgets:TagResource",
    "budgets:ViewBudget",
    "sns:CreateTopic",
    "sns:GetSubscriptionAttributes",
    "sns:GetTopicAttributes",
    "sns:ListTagsForResource",
    "sns:SetTopicAttributes",
    "sns:Subscribe",
    "sns:TagResource",
)
ANOMALIES = (
    "ce:CreateAnomalyMonitor",
    "ce:CreateAnomalySubscription",
    "ce:GetAnomalyMonitors",
    "ce:GetAnomalySubscriptions",
    "ce:ListTagsForResource",
    "ce:TagResource",
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
    "iam:TagInstanceProfile",
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
PRIVATE_NAMES = ("route53:AssociateVPCWithHostedZone",)
"""EC2 makes the private names of an interface endpoint with the caller's rights."""
SESSIONS = (
    "ec2:DescribeInstances",
    "ssm:DescribeInstanceInformation",
    "ssm:StartSession",
    "ssm:TerminateSession",
)
