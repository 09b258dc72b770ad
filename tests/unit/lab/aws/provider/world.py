"""Prerequisites of resources: created on first use, shared by the tests of a session."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from gpufleet.lab.aws.provider.clients import Clients
from gpufleet.lab.aws.provider.wire import ARCHIVE
from tests.unit.lab.aws.provider.driver import Engine, Resource

REGION = "us-east-1"
ZONES = ("us-east-1a", "us-east-1b")


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def allow(action: str, resource: str, **extra: Any) -> str:
    statement = {"Effect": "Allow", "Action": action, "Resource": resource, **extra}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def archive(text: str) -> dict[str, Any]:
    """The plain value of an archive with one file, of which the text is the hash, too."""
    return {ARCHIVE: "archive", "hash": text, "assets": {"index.py": {ARCHIVE: "asset", "text": text}}}


class World:
    """Prerequisites, by name. Everything is made through the provider, as a program would."""

    def __init__(self, engine: Engine, clients: Clients) -> None:
        self.engine = engine
        self.clients = clients

    def client(self, service: str) -> Any:
        return self.clients.get(service, REGION)

    def make(self, token: str, name: str, **inputs: Any) -> Resource:
        return self.engine.create(token, f"world-{name}", inputs)

    @cached_property
    def vpc(self) -> Resource:
        return self.make("aws:ec2/vpc:Vpc", "vpc", cidrBlock="10.0.0.0/16", enableDnsHostnames=True)

    @cached_property
    def other_vpc(self) -> Resource:
        return self.make("aws:ec2/vpc:Vpc", "other-vpc", cidrBlock="10.1.0.0/16")

    @cached_property
    def subnets(self) -> list[Resource]:
        return [
            self.make(
                "aws:ec2/subnet:Subnet", f"subnet-{index}", vpcId=self.vpc.id, cidrBlock=f"10.0.{index}.0/24",
                availabilityZone=zone,
            )
            for index, zone in enumerate(ZONES)
        ]  # fmt: skip

    @cached_property
    def quiet_subnet(self) -> Resource:
        """A subnet that gives out no address by itself: nodes of groups can fill the others."""
        cidr = "10.0.77.0/24"
        return self.make(
            "aws:ec2/subnet:Subnet", "quiet", vpcId=self.vpc.id, cidrBlock=cidr, availabilityZone=ZONES[0]
        )

    @cached_property
    def gateway(self) -> Resource:
        return self.make("aws:ec2/internetGateway:InternetGateway", "igw", vpcId=self.vpc.id)

    @cached_property
    def table(self) -> Resource:
        return self.make("aws:ec2/routeTable:RouteTable", "rtb", vpcId=self.vpc.id)

    @cached_property
    def other_table(self) -> Resource:
        return self.make("aws:ec2/routeTable:RouteTable", "rtb2", vpcId=self.vpc.id)

    @cached_property
    def router(self) -> Resource:
        token = "aws:ec2/customerGateway:CustomerGateway"
        return self.make(token, "router", type="ipsec.1", ipAddress="203.0.113.7", bgpAsn="65000")

    @cached_property
    def other_router(self) -> Resource:
        token = "aws:ec2/customerGateway:CustomerGateway"
        return self.make(token, "other-router", type="ipsec.1", ipAddress="203.0.113.8", bgpAsn="65000")

    @cached_property
    def vpn_gateway(self) -> Resource:
        return self.make("aws:ec2/vpnGateway:VpnGateway", "vgw", vpcId=self.vpc.id)

    @cached_property
    def direct_connect_gateways(self) -> list[str]:
        client = self.client("directconnect")
        return [
            client.create_direct_connect_gateway(directConnectGatewayName=name)["directConnectGateway"][
                "directConnectGatewayId"
            ]
            for name in ("first", "second")
        ]

    @cached_property
    def dns_group(self) -> Resource:
        return self.make("aws:ec2/securityGroup:SecurityGroup", "dns-sg", vpcId=self.vpc.id)

    @cached_property
    def outbound_endpoint(self) -> Resource:
        return self.make(
            "aws:route53/resolverEndpoint:ResolverEndpoint", "outbound", direction="OUTBOUND",
            securityGroupIds=[self.dns_group.id],
            ipAddresses=[{"subnetId": each.id} for each in self.subnets[:2]],
        )  # fmt: skip

    @cached_property
    def dns_rule(self) -> Resource:
        return self.make(
            "aws:route53/resolverRule:ResolverRule", "rule", ruleType="FORWARD", domainName="hall.example",
            resolverEndpointId=self.outbound_endpoint.id, targetIps=[{"ip": "10.60.0.53"}],
        )  # fmt: skip

    @cached_property
    def static_vpn(self) -> Resource:
        token = "aws:ec2/customerGateway:CustomerGateway"
        router = self.make(token, "static-router", type="ipsec.1", ipAddress="203.0.113.9", bgpAsn="65000")
        return self.make(
            "aws:ec2/vpnConnection:VpnConnection",
            "static-vpn",
            type="ipsec.1",
            customerGatewayId=router.id,
            vpnGatewayId=self.vpn_gateway.id,
            staticRoutesOnly=True,
        )

    @cached_property
    def addresses(self) -> list[Resource]:
        return [self.make("aws:ec2/eip:Eip", f"eip-{index}", domain="vpc") for index in range(2)]

    @cached_property
    def nat(self) -> Resource:
        address = self.make("aws:ec2/eip:Eip", "eip-nat", domain="vpc")
        return self.make(
            "aws:ec2/natGateway:NatGateway", "nat", allocationId=address.id, subnetId=self.subnets[0].id
        )

    @cached_property
    def group(self) -> Resource:
        everything = {"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}
        return self.make(
            "aws:ec2/securityGroup:SecurityGroup",
            "efa",
            vpcId=self.vpc.id,
            ingress=[everything],
            egress=[everything],
        )

    @cached_property
    def bare_group(self) -> Resource:
        return self.make("aws:ec2/securityGroup:SecurityGroup", "bare", vpcId=self.vpc.id)

    @cached_property
    def other_group(self) -> Resource:
        return self.make("aws:ec2/securityGroup:SecurityGroup", "other", vpcId=self.vpc.id)

    @cached_property
    def cluster_role(self) -> Resource:
        return self.make("aws:iam/role:Role", "cluster", assumeRolePolicy=trust("eks.amazonaws.com"))

    @cached_property
    def node_role(self) -> Resource:
        return self.make("aws:iam/role:Role", "node", assumeRolePolicy=trust("ec2.amazonaws.com"))

    @cached_property
    def pod_role(self) -> Resource:
        return self.make("aws:iam/role:Role", "pod", assumeRolePolicy=trust("pods.eks.amazonaws.com"))

    @cached_property
    def admin_role(self) -> Resource:
        return self.make("aws:iam/role:Role", "admin", assumeRolePolicy=trust("ec2.amazonaws.com"))

    @cached_property
    def logs_role(self) -> Resource:
        return self.make("aws:iam/role:Role", "logs", assumeRolePolicy=trust("vpc-flow-logs.amazonaws.com"))

    @cached_property
    def shared_files(self) -> Resource:
        return self.make("aws:efs/fileSystem:FileSystem", "efs", encrypted=True, throughputMode="elastic")

    @cached_property
    def key(self) -> Resource:
        return self.make("aws:kms/key:Key", "key", deletionWindowInDays=7)

    @cached_property
    def other_key(self) -> Resource:
        return self.make("aws:kms/key:Key", "other-key", deletionWindowInDays=7)

    @cached_property
    def cluster(self) -> Resource:
        return self.make(
            "aws:eks/cluster:Cluster", "cluster", roleArn=self.cluster_role.state["arn"],
            vpcConfig={"subnetIds": [subnet.id for subnet in self.subnets], "endpointPrivateAccess": True},
            accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
        )  # fmt: skip

    @cached_property
    def template(self) -> Resource:
        return self.make("aws:ec2/launchTemplate:LaunchTemplate", "lt", instanceType="p4d.24xlarge")

    @cached_property
    def asg_template(self) -> Resource:
        return self.make(
            "aws:ec2/launchTemplate:LaunchTemplate",
            "asg-lt",
            instanceType="g6e.xlarge",
            imageId="ami-12c6146b",
        )

    @cached_property
    def log_groups(self) -> list[Resource]:
        return [self.make("aws:cloudwatch/logGroup:LogGroup", f"logs-{index}") for index in range(2)]

    @cached_property
    def bucket(self) -> Resource:
        return self.make("aws:s3/bucket:Bucket", "bucket", forceDestroy=True)

    @cached_property
    def other_bucket(self) -> Resource:
        return self.make("aws:s3/bucket:Bucket", "other-bucket", forceDestroy=True)

    @cached_property
    def file_system(self) -> Resource:
        return self.make(
            "aws:fsx/lustreFileSystem:LustreFileSystem", "lustre", subnetIds=self.subnets[0].id,
            storageCapacity=1200,
            deploymentType="PERSISTENT_2", perUnitStorageThroughput=125,
            securityGroupIds=[self.lustre_group.id],
        )  # fmt: skip

    @cached_property
    def lustre_group(self) -> Resource:
        return self.make(
            "aws:ec2/securityGroup:SecurityGroup", "lustre-sg", vpcId=self.vpc.id,
            ingress=[
                {"protocol": "tcp", "fromPort": 988, "toPort": 988, "self": True},
                {"protocol": "tcp", "fromPort": 1018, "toPort": 1023, "self": True},
            ],
            egress=[{"protocol": "-1", "fromPort": 0, "toPort": 0, "cidrBlocks": ["0.0.0.0/0"]}],
        )  # fmt: skip

    @cached_property
    def topic(self) -> Resource:
        return self.make("aws:sns/topic:Topic", "topic")

    @cached_property
    def function_role(self) -> Resource:
        return self.make("aws:iam/role:Role", "function", assumeRolePolicy=trust("lambda.amazonaws.com"))

    @cached_property
    def function(self) -> Resource:
        return self.make(
            "aws:lambda/function:Function", "function", role=self.function_role.state["arn"],
            runtime="python3.13", handler="index.handler", code=archive("handler = print"),
        )  # fmt: skip

    @cached_property
    def other_topic(self) -> Resource:
        return self.make("aws:sns/topic:Topic", "other-topic")

    @cached_property
    def queue(self) -> Resource:
        return self.make("aws:sqs/queue:Queue", "queue")

    @cached_property
    def other_queue(self) -> Resource:
        return self.make("aws:sqs/queue:Queue", "other-queue")

    @cached_property
    def policy(self) -> Resource:
        return self.make("aws:iam/policy:Policy", "policy", policy=allow("s3:GetObject", "*"))

    @cached_property
    def other_policy(self) -> Resource:
        return self.make("aws:iam/policy:Policy", "other-policy", policy=allow("s3:PutObject", "*"))

    @cached_property
    def monitor(self) -> Resource:
        specification = json.dumps({"Tags": {"Key": "project", "Values": ["atlas"]}})
        return self.make(
            "aws:costexplorer/anomalyMonitor:AnomalyMonitor", "monitor", monitorType="CUSTOM",
            monitorSpecification=specification,
        )  # fmt: skip

    @cached_property
    def rule(self) -> Resource:
        return self.make(
            "aws:cloudwatch/eventRule:EventRule", "rule", eventPattern=json.dumps({"source": ["aws.ec2"]})
        )

    @cached_property
    def other_rule(self) -> Resource:
        return self.make(
            "aws:cloudwatch/eventRule:EventRule",
            "other-rule",
            eventPattern=json.dumps({"source": ["aws.fsx"]}),
        )

    def block_offering(self, instance_type: str = "p5.48xlarge", hours: int = 24) -> dict[str, Any]:
        return self.engine.invoke(
            "aws:ec2/getCapacityBlockOffering:getCapacityBlockOffering", instanceType=instance_type,
            instanceCount=1,
            capacityDurationHours=hours,
        )  # fmt: skip
