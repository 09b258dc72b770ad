"""Resource types that are priced, free or usage-based. All other types have an unknown cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpufleet.pricing import by_use
from gpufleet.pricing.models import Kind
from gpufleet.pricing.of_stack.context import Pricing
from gpufleet.pricing.of_stack.disks import price_stand_alone
from gpufleet.pricing.of_stack.groups import price_auto_scaling_group, price_launched_nodes, price_node_group
from gpufleet.pricing.of_stack.machines import price_fleet_request, price_instance, price_spot_fleet
from gpufleet.pricing.of_stack.node_pools import price_node_pool
from gpufleet.pricing.of_stack.reservations import price_block, price_extension, price_reservation
from gpufleet.pricing.of_stack.scaling import price_schedule
from gpufleet.pricing.of_stack.services import (
    price_addon,
    price_address,
    price_cluster,
    price_endpoint,
    price_key,
    price_lustre,
    price_nat_gateway,
    price_resolver_endpoint,
    price_vpn_connection,
)
from gpufleet.resources.resource import Resource
from gpufleet.resources.types import (
    ADDRESS,
    AUTO_SCALING_GROUP,
    BLOCK_EXTENSION,
    BLOCK_OFFERING,
    BLOCK_SCHEDULE,
    BUCKETS,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    CLUSTER,
    FLEET,
    INSTANCE,
    KEY,
    LAUNCHED_NODES,
    LUSTRE,
    NAT_GATEWAY,
    NODE_CLASS,
    NODE_GROUP,
    NODE_POOL,
    NODES_IN_SERVICE,
    ORDERED_CAPACITY,
    RESOLVER_ENDPOINT,
    SCHEDULE,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
    VOLUME,
    VPC_ENDPOINT,
    VPN_CONNECTION,
)

PRICED: Mapping[str, tuple[Kind, Callable[[Pricing, Resource], None]]] = {
    CAPACITY_RESERVATION: ("compute", price_reservation),
    CAPACITY_BLOCK: ("compute", price_block),
    BLOCK_EXTENSION: ("compute", price_extension),
    AUTO_SCALING_GROUP: ("compute", price_auto_scaling_group),
    NODE_GROUP: ("compute", price_node_group),
    LAUNCHED_NODES: ("compute", price_launched_nodes),
    NODE_POOL: ("compute", price_node_pool),
    SCHEDULE: ("compute", price_schedule),
    INSTANCE: ("compute", price_instance),
    SPOT_INSTANCE_REQUEST: ("compute", price_instance),
    FLEET: ("compute", price_fleet_request),
    SPOT_FLEET: ("compute", price_spot_fleet),
    VOLUME: ("storage", price_stand_alone),
    LUSTRE: ("storage", price_lustre),
    CLUSTER: ("control-plane", price_cluster),
    "aws:eks/addon:Addon": ("service", price_addon),
    NAT_GATEWAY: ("network", price_nat_gateway),
    ADDRESS: ("network", price_address),
    VPC_ENDPOINT: ("network", price_endpoint),
    VPN_CONNECTION: ("network", price_vpn_connection),
    RESOLVER_ENDPOINT: ("network", price_resolver_endpoint),
    KEY: ("service", price_key),
    "aws:kms/replicaKey:ReplicaKey": ("service", price_key),
    "aws:kms/externalKey:ExternalKey": ("service", price_key),
}
"""Functions that add the lines of one resource or raise `UnpricedError`, with the kind of cost."""


def _tokens(module: str, *names: str) -> list[str]:
    """Return Pulumi type tokens. The file part is the type with a lower-case first letter."""
    return [f"aws:{module}/{name[0].lower()}{name[1:]}:{name}" for name in names]


_ROUTING = "VPCs, subnets, routes and their rules are free of charge"
_ACCESS = "permissions are free of charge"
_SETTINGS = "a setting of another resource, which is charged"

FREE: Mapping[str, str] = {
    **dict.fromkeys(
        _tokens(
            "ec2",
            *("Vpc", "DefaultVpc", "Subnet", "DefaultSubnet", "RouteTable", "DefaultRouteTable", "Route"),
            *("RouteTableAssociation", "MainRouteTableAssociation", "InternetGateway"),
            *("InternetGatewayAttachment", "EgressOnlyInternetGateway", "SecurityGroup"),
            *(
                "DefaultSecurityGroup",
                "SecurityGroupRule",
                "NetworkAcl",
                "NetworkAclRule",
                "NetworkAclAssociation",
            ),
            *("DefaultNetworkAcl", "VpcDhcpOptions", "DefaultVpcDhcpOptions", "VpcDhcpOptionsAssociation"),
            *(
                "ManagedPrefixList",
                "ManagedPrefixListEntry",
                "NetworkInterface",
                "NetworkInterfaceAttachment",
            ),
            *("NetworkInterfaceSecurityGroupAttachment", "VpcIpv4CidrBlockAssociation"),
            *("VpcIpv6CidrBlockAssociation", "VpcEndpointPolicy", "VpcEndpointRouteTableAssociation"),
            *("EipAssociation", "VpcPeeringConnection", "VpcPeeringConnectionAccepter"),
            *("CustomerGateway", "VpnGateway", "VpnGatewayAttachment", "VpnGatewayRoutePropagation"),
            *("VpnConnectionRoute", "SubnetCidrReservation"),
            *("PeeringConnectionOptions", "VpcBlockPublicAccessOptions", "VpcSecurityGroupRulesExclusive"),
        ),
        _ROUTING,
    ),
    **dict.fromkeys(
        _tokens("vpc", "SecurityGroupIngressRule", "SecurityGroupEgressRule", "SecurityGroupVpcAssociation"),
        _ROUTING,
    ),
    **dict.fromkeys(
        _tokens("route53", "ResolverRule", "ResolverRuleAssociation"),
        "the endpoint that forwards the queries is charged",
    ),
    **dict.fromkeys(
        _tokens("ec2", "LaunchTemplate", "LaunchConfiguration"),
        "the instances launched from it are charged",
    ),
    **dict.fromkeys(
        _tokens("ec2", "PlacementGroup", "KeyPair", "VolumeAttachment", "Tag", "InstanceMetadataDefaults")
        + _tokens("ebs", "DefaultKmsKey", "EncryptionByDefault", "SnapshotBlockPublicAccess")
        + _tokens("autoscaling", "Policy", "Tag", "LifecycleHook", "Notification", "Attachment")
        + _tokens("autoscaling", "TrafficSourceAttachment"),
        _SETTINGS,
    ),
    **dict.fromkeys(
        _tokens("eks", "AccessEntry", "AccessPolicyAssociation", "PodIdentityAssociation")
        + _tokens("eks", "IdentityProviderConfig")
        + _tokens("kms", "Alias", "Grant", "KeyPolicy", "Ciphertext")
        + _tokens("sns", "TopicPolicy")
        + _tokens("sqs", "QueuePolicy", "RedrivePolicy", "RedriveAllowPolicy")
        + _tokens("lambda", "Permission")
        + _tokens("secretsmanager", "SecretPolicy", "SecretVersion"),
        _ACCESS,
    ),
    **dict.fromkeys(
        _tokens(
            "s3",
            *("BucketPolicy", "BucketPublicAccessBlock", "BucketOwnershipControls", "BucketVersioning"),
            *("BucketServerSideEncryptionConfiguration", "BucketLifecycleConfiguration", "BucketAcl"),
            *(
                "BucketNotification",
                "BucketLogging",
                "BucketCorsConfiguration",
                "BucketObjectLockConfiguration",
            ),
            *("BucketVersioningV2", "BucketServerSideEncryptionConfigurationV2"),
            *(
                "BucketLifecycleConfigurationV2",
                "BucketAclV2",
                "BucketLoggingV2",
                "BucketCorsConfigurationV2",
            ),
            *("BucketObjectLockConfigurationV2", "AccountPublicAccessBlock"),
        )
        + _tokens("fsx", "DataRepositoryAssociation")
        + _tokens("efs", "MountTarget")
        + _tokens("cloudwatch", "LogResourcePolicy", "LogStream", "EventTarget")
        + _tokens("resourcegroups", "Group")
        + _tokens("ram", "ResourceShare", "ResourceAssociation", "PrincipalAssociation")
        + _tokens("servicequotas", "ServiceQuota"),
        _SETTINGS,
    ),
    **dict.fromkeys(
        _tokens("budgets", "Budget")
        + _tokens(
            "costexplorer", "AnomalyMonitor", "AnomalySubscription", "CostAllocationTag", "CostCategory"
        ),
        "budgets without actions and the settings of Cost Explorer are free of charge",
    ),
    "aws:ssm/parameter:Parameter": "standard parameters are free of charge",
    NODE_CLASS: "the nodes of its pools are charged",
    BLOCK_OFFERING: "looks up an offering and creates nothing",
    BLOCK_SCHEDULE: "sets the size of a group, which is priced",
    ORDERED_CAPACITY: "sets the sizes of groups, which are priced",
    NODES_IN_SERVICE: "waits for the nodes of a group, which are priced",
}
"""Types without a charge, with the reason."""

FREE_MODULES: Mapping[str, str] = {"aws:iam/": "IAM is free of charge"}
"""Modules in which all types are free."""

BY_USE: Mapping[str, str] = {
    **dict.fromkeys(BUCKETS, by_use.OBJECTS),
    **dict.fromkeys(_tokens("s3", "BucketObject", "BucketObjectv2"), by_use.OBJECTS),
    **dict.fromkeys(_tokens("cloudwatch", "LogGroup") + _tokens("ec2", "FlowLog"), by_use.LOGS),
    **dict.fromkeys(_tokens("efs", "FileSystem"), by_use.FILES),
    **dict.fromkeys(_tokens("cloudwatch", "EventRule"), by_use.EVENTS),
    **dict.fromkeys(_tokens("lambda", "Function"), by_use.FUNCTIONS),
    **dict.fromkeys(_tokens("sns", "Topic", "TopicSubscription"), by_use.TOPICS),
    **dict.fromkeys(_tokens("sqs", "Queue"), by_use.QUEUES),
    **dict.fromkeys(
        _tokens("directconnect", "GatewayAssociation", "GatewayAssociationProposal"), by_use.DIRECT_CONNECT
    ),
    "kubernetes:storage.k8s.io/v1:StorageClass": by_use.CLAIMS,
    **dict.fromkeys(_tokens("ecr", "Repository"), "images in ECR repositories, by the GB"),
    **dict.fromkeys(_tokens("fsx", "Backup"), "backups of file systems, by the GB that changed"),
    **dict.fromkeys(
        _tokens("ebs", "Snapshot", "SnapshotCopy"), "snapshots of volumes, by the GB that changed"
    ),
}
"""Types with usage-based charges, with their texts."""

HARMLESS_PACKAGES = frozenset({"pulumi", "kubernetes", "random", "tls"})
"""Packages whose resources create nothing charged, except those in `gpufleet.pricing.of_stack.objects`."""
