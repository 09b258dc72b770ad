"""Handlers by Pulumi type. Modules are imported when one of their types is first used."""

from __future__ import annotations

import importlib
import threading
from functools import lru_cache

from gpufleet.errors import InputError
from gpufleet.lab.aws.provider.handler import Handler
from gpufleet.lab.aws.provider.schema.tokens import RESOURCES

_PACKAGE = "gpufleet.lab.aws.provider.resources"
_MODULES = {
    "aws:autoscaling/group:Group": "autoscaling",
    "aws:autoscaling/tag:Tag": "autoscaling_tag",
    "aws:budgets/budget:Budget": "budgets",
    "aws:cloudwatch/eventRule:EventRule": "events",
    "aws:cloudwatch/eventTarget:EventTarget": "events",
    "aws:cloudwatch/logGroup:LogGroup": "logs",
    "aws:costexplorer/anomalyMonitor:AnomalyMonitor": "costexplorer",
    "aws:costexplorer/anomalySubscription:AnomalySubscription": "costexplorer",
    "aws:directconnect/gatewayAssociation:GatewayAssociation": "direct_connect",
    "aws:directconnect/gatewayAssociationProposal:GatewayAssociationProposal": "direct_connect",
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": "capacity",
    "aws:ec2/capacityReservation:CapacityReservation": "capacity",
    "aws:ec2/customerGateway:CustomerGateway": "vpn_gateways",
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": "security_group",
    "aws:ec2/eip:Eip": "gateway",
    "aws:ec2/flowLog:FlowLog": "flow_log",
    "aws:ec2/instance:Instance": "instances",
    "aws:ec2/internetGateway:InternetGateway": "gateway",
    "aws:ec2/launchTemplate:LaunchTemplate": "launch_template",
    "aws:ec2/natGateway:NatGateway": "gateway",
    "aws:ec2/placementGroup:PlacementGroup": "capacity",
    "aws:ec2/route:Route": "route",
    "aws:ec2/routeTable:RouteTable": "route",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "route",
    "aws:ec2/securityGroup:SecurityGroup": "security_group",
    "aws:ec2/securityGroupRule:SecurityGroupRule": "security_group_rule",
    "aws:ec2/subnet:Subnet": "vpc",
    "aws:ec2/subnetCidrReservation:SubnetCidrReservation": "instances",
    "aws:ec2/vpc:Vpc": "vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "vpc_endpoint",
    "aws:ec2/vpnConnection:VpnConnection": "vpn_connections",
    "aws:ec2/vpnConnectionRoute:VpnConnectionRoute": "vpn_connections",
    "aws:ec2/vpnGateway:VpnGateway": "vpn_gateways",
    "aws:ec2/vpnGatewayRoutePropagation:VpnGatewayRoutePropagation": "vpn_gateways",
    "aws:efs/fileSystem:FileSystem": "efs",
    "aws:efs/mountTarget:MountTarget": "efs",
    "aws:eks/accessEntry:AccessEntry": "eks_access",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "eks_access",
    "aws:eks/addon:Addon": "eks_access",
    "aws:eks/cluster:Cluster": "eks_cluster",
    "aws:eks/nodeGroup:NodeGroup": "eks_node_group",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "eks_access",
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": "fsx",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "fsx",
    "aws:iam/instanceProfile:InstanceProfile": "iam_policy",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "iam_policy",
    "aws:iam/policy:Policy": "iam_policy",
    "aws:iam/role:Role": "iam",
    "aws:iam/rolePolicy:RolePolicy": "iam",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "iam",
    "aws:kms/alias:Alias": "kms",
    "aws:kms/key:Key": "kms",
    "aws:lambda/function:Function": "lambda_function",
    "aws:lambda/permission:Permission": "lambda_function",
    "aws:ram/principalAssociation:PrincipalAssociation": "ram",
    "aws:ram/resourceAssociation:ResourceAssociation": "ram",
    "aws:ram/resourceShare:ResourceShare": "ram",
    "aws:route53/resolverEndpoint:ResolverEndpoint": "route53_resolver",
    "aws:route53/resolverRule:ResolverRule": "route53_resolver",
    "aws:route53/resolverRuleAssociation:ResolverRuleAssociation": "route53_resolver",
    "aws:s3/bucket:Bucket": "s3",
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": "s3_settings",
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": "s3_settings",
    "aws:s3/bucketPolicy:BucketPolicy": "s3_settings",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "s3_settings",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": "s3_settings",
    "aws:s3/bucketVersioning:BucketVersioning": "s3_settings",
    "aws:sns/topic:Topic": "sns",
    "aws:sns/topicPolicy:TopicPolicy": "sns",
    "aws:sns/topicSubscription:TopicSubscription": "sns",
    "aws:sqs/queue:Queue": "sqs",
    "aws:sqs/queuePolicy:QueuePolicy": "sqs",
    "aws:ssm/parameter:Parameter": "ssm",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "security_group_rule",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "security_group_rule",
}
_IMPORTING = threading.Lock()


def tokens() -> tuple[str, ...]:
    """Every type that is served."""
    return RESOURCES


def is_served(urn_type: str) -> bool:
    """Return whether the emulated AWS has a type."""
    return urn_type.rsplit("$", 1)[-1] in _MODULES


def handler_for(urn_type: str) -> Handler:
    """Return the handler of a type. Raises InputError for a type that the emulated AWS of gpufleet lacks.

    A type from a URN is qualified by those of its parents (`a:b:Parent$aws:ec2/vpc:Vpc`).
    """
    token = urn_type.rsplit("$", 1)[-1]
    module = _MODULES.get(token)
    if module is None:
        raise InputError(
            f"the emulated AWS of gpufleet does not have the type {token}",
            remedy="use the Pulumi CLI with a real account for it, or do not use it in the sandbox",
        )
    with _IMPORTING:
        return _handlers(module)[token]


@lru_cache(maxsize=64)
def _handlers(module: str) -> dict[str, Handler]:
    found: tuple[Handler, ...] = importlib.import_module(f"{_PACKAGE}.{module}").HANDLERS
    return {handler.pulumi_type: handler for handler in found}
