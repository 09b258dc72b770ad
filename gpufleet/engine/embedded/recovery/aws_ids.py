"""The id of an AWS resource by type: from its inputs, from its ARN, or not needed.

Ids are those of pulumi_aws (the `Import` section of each resource's documentation, and the provider's
sources for routes). The kinds in ARNs are AWS's (Service Authorization Reference, "Resource types").
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

Inputs = Mapping[str, Any]

NAMED: dict[str, str] = {
    "aws:autoscaling/group:Group": "{name}",
    "aws:budgets/budget:Budget": "{account}:{name}",
    "aws:cloudwatch/logGroup:LogGroup": "{name}",
    "aws:directconnect/gatewayAssociation:GatewayAssociation": "{dxGatewayId}/{associatedGatewayId}",
    "aws:ec2/placementGroup:PlacementGroup": "{name}",
    "aws:eks/accessEntry:AccessEntry": "{clusterName}:{principalArn}",
    "aws:eks/addon:Addon": "{clusterName}:{addonName}",
    "aws:eks/cluster:Cluster": "{name}",
    "aws:eks/nodeGroup:NodeGroup": "{clusterName}:{nodeGroupName}",
    "aws:iam/instanceProfile:InstanceProfile": "{name}",
    "aws:iam/policy:Policy": "arn:{partition}:iam::{account}:policy{path}{name}",
    "aws:iam/role:Role": "{name}",
    "aws:kms/alias:Alias": "{name}",
    "aws:lambda/function:Function": "{name}",
    "aws:lambda/permission:Permission": "{statementId}",
    "aws:ram/principalAssociation:PrincipalAssociation": "{resourceShareArn},{principal}",
    "aws:ram/resourceAssociation:ResourceAssociation": "{resourceShareArn},{resourceArn}",
    "aws:s3/bucket:Bucket": "{bucket}",
    "aws:sns/topic:Topic": "arn:{partition}:sns:{region}:{account}:{name}",
    "aws:ssm/parameter:Parameter": "{name}",
}
"""Type -> its id, with inputs of the resource in braces (AWS rejects a second one of that name)."""

TAGGED: dict[str, str] = {
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": "capacity-reservation",
    "aws:ec2/capacityReservation:CapacityReservation": "capacity-reservation",
    "aws:ec2/customerGateway:CustomerGateway": "customer-gateway",
    "aws:ec2/eip:Eip": "elastic-ip",
    "aws:ec2/flowLog:FlowLog": "vpc-flow-log",
    "aws:ec2/instance:Instance": "instance",
    "aws:ec2/internetGateway:InternetGateway": "internet-gateway",
    "aws:ec2/launchTemplate:LaunchTemplate": "launch-template",
    "aws:ec2/natGateway:NatGateway": "natgateway",
    "aws:ec2/routeTable:RouteTable": "route-table",
    "aws:ec2/securityGroup:SecurityGroup": "security-group",
    "aws:ec2/subnet:Subnet": "subnet",
    "aws:ec2/vpc:Vpc": "vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "vpc-endpoint",
    "aws:ec2/vpnConnection:VpnConnection": "vpn-connection",
    "aws:ec2/vpnGateway:VpnGateway": "vpn-gateway",
    "aws:efs/fileSystem:FileSystem": "file-system",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "podidentityassociation",
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": "association",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "file-system",
    "aws:kms/key:Key": "key",
    "aws:ram/resourceShare:ResourceShare": "resource-share",
    "aws:route53/resolverEndpoint:ResolverEndpoint": "resolver-endpoint",
    "aws:route53/resolverRule:ResolverRule": "resolver-rule",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "security-group-rule",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "security-group-rule",
}
"""Type -> its kind in ARNs, whose last part is the id. AWS chooses the id, so it is found by tags."""

BY_ARN = frozenset({"resource-share"})
"""Kinds in ARNs of resources whose id is the ARN."""

BUCKET = "aws:s3/bucket:Bucket"
"""Created by one call and tagged by another (CreateBucket, PutBucketTagging)."""

REPEATABLE = frozenset(
    {
        "aws:autoscaling/tag:Tag",
        "aws:cloudwatch/eventRule:EventRule",
        "aws:cloudwatch/eventTarget:EventTarget",
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "aws:ec2/subnetCidrReservation:SubnetCidrReservation",
        "aws:ec2/vpnConnectionRoute:VpnConnectionRoute",
        "aws:ec2/vpnGatewayRoutePropagation:VpnGatewayRoutePropagation",
        "aws:efs/mountTarget:MountTarget",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "aws:iam/rolePolicy:RolePolicy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
        "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "aws:s3/bucketVersioning:BucketVersioning",
        "aws:sns/topicPolicy:TopicPolicy",
        "aws:sns/topicSubscription:TopicSubscription",
        "aws:sqs/queue:Queue",
        "aws:sqs/queuePolicy:QueuePolicy",
    }
)
"""Types whose creation sets something, or returns an existing resource of that name."""


def _route(inputs: Inputs) -> str:
    """Return a route's id: its table and the CRC-32 of its destination."""
    keys = ("destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId")
    destination = next((str(inputs[key]) for key in keys if inputs.get(key)), "")
    return f"r-{inputs['routeTableId']}{zlib.crc32(destination.encode())}" if destination else ""


DERIVED: dict[str, Callable[[Inputs], str]] = {"aws:ec2/route:Route": _route}
"""Type -> its id from its inputs, if a template is not sufficient."""

ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
"""Has no tags, and an id that AWS chooses; the route table of its subnet contains it."""
