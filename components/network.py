"""Network: a VPC with private nodes, and the security groups that GPU nodes need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags
from gpufleet.components.flow_logs import flow_logs
from gpufleet.components.security_groups import closed_default_group, efa_group, node_group_rules
from gpufleet.errors import InputError
from gpufleet.kinds import LOG_RETENTION_DAYS


@dataclass(frozen=True, kw_only=True)
class SubnetArgs:
    """One subnet. A zone with NAT needs a public and a private one."""

    zone: str
    cidr: str
    public: bool = False


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """Inputs of `Network`.

    `nat_zones` are the zones with a NAT gateway, in their public subnets. A private subnet reaches the
    internet through the gateway of its own zone, so a failure of another zone does not affect it; else
    through the first gateway; without any, not at all. By default the first zone with a public subnet has
    one. They change in place: each private subnet has its own route table. `interface_endpoints` are
    service names without prefix (`ecr.api`); a network without NAT needs them for every service that its
    nodes call. `cluster_name` tags the subnets for the load balancers of that EKS cluster.
    """

    cidr: str
    subnets: Sequence[SubnetArgs]
    nat_zones: Sequence[str] | None = None
    tags: Tags
    cluster_name: str | None = None
    interface_endpoints: Sequence[str] = ()
    log_retention_days: int = LOG_RETENTION_DAYS


class Network(Component):
    """A VPC with public and private subnets, NAT, an S3 gateway endpoint, flow logs and groups.

    The default security group is closed. `efa_security_group_id` allows all traffic between its members,
    as EFA requires, and nothing else. `node_security_group_id` is for nodes outside EKS: all traffic
    between its members, HTTPS to the internet.
    """

    vpc_id: pulumi.Output[str]
    cidr: str
    public_subnet_ids: Mapping[str, pulumi.Output[str]]
    """Subnet id by zone; `private_subnet_ids` has the same form."""
    private_subnet_ids: Mapping[str, pulumi.Output[str]]
    route_table_ids: Mapping[str, pulumi.Output[str]]
    """Route table ids by `public`, and `private-<zone>` of each zone."""
    efa_security_group_id: pulumi.Output[str]
    node_security_group_id: pulumi.Output[str]
    nat_ready: Sequence[pulumi.Resource]
    """Resources that must exist before a node in a private subnet can reach the internet."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        _check(name, args)
        super().__init__("gpufleet:network:Network", name, args.tags, opts)
        context = self.aws_context()
        self.cidr = args.cidr
        self._vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=args.cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=self.tags(name),
            opts=self.child(),
        )
        self.vpc_id = self._vpc.id
        closed_default_group(self, name, self.vpc_id)
        self._subnets = {
            (subnet.zone, subnet.public): self._subnet(name, subnet, args.cluster_name)
            for subnet in args.subnets
        }
        self.public_subnet_ids = {zone: s.id for (zone, public), s in self._subnets.items() if public}
        self.private_subnet_ids = {zone: s.id for (zone, public), s in self._subnets.items() if not public}
        public = self._route_public(name)
        tables = self._route_private(name, args)
        self.route_table_ids = {
            **({"public": public.id} if public is not None else {}),
            **{f"private-{zone}": table.id for zone, table in tables.items()},
        }
        aws.ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=self.vpc_id,
            vpc_endpoint_type="Gateway",
            service_name=pulumi.Output.format("com.amazonaws.{0}.s3", context.region),
            route_table_ids=[table.id for table in tables.values()],
            tags=self.tags(f"{name}-s3"),
            opts=self.child(),
        )
        self._endpoints(name, args, context.region)
        flow_logs(self, name, self.vpc_id, context, args.log_retention_days)
        self.efa_security_group_id = efa_group(self, name, self.vpc_id)
        self.node_security_group_id = node_group_rules(self, name, self.vpc_id, args.cidr)
        self.register_outputs(
            {
                "vpcId": self.vpc_id,
                "publicSubnetIds": dict(self.public_subnet_ids),
                "privateSubnetIds": dict(self.private_subnet_ids),
                "efaSecurityGroupId": self.efa_security_group_id,
                "nodeSecurityGroupId": self.node_security_group_id,
            }
        )

    def _subnet(self, name: str, subnet: SubnetArgs, cluster_name: str | None) -> aws.ec2.Subnet:
        kind = "public" if subnet.public else "private"
        label = f"{name}-{kind}-{subnet.zone}"
        extra: dict[str, pulumi.Input[str]] = {}
        if cluster_name:
            extra["kubernetes.io/role/elb" if subnet.public else "kubernetes.io/role/internal-elb"] = "1"
            extra[f"kubernetes.io/cluster/{cluster_name}"] = "shared"
        return aws.ec2.Subnet(
            label,
            vpc_id=self.vpc_id,
            availability_zone=subnet.zone,
            cidr_block=subnet.cidr,
            # A node that needs a public address requests it in its launch template.
            map_public_ip_on_launch=False,
            tags=self.tags(label, **extra),
            opts=self.child(),
        )

    def _route_public(self, name: str) -> aws.ec2.RouteTable | None:
        self._gateway: aws.ec2.InternetGateway | None = None
        if not self.public_subnet_ids:
            return None
        self._gateway = aws.ec2.InternetGateway(
            f"{name}-internet", vpc_id=self.vpc_id, tags=self.tags(f"{name}-internet"), opts=self.child()
        )
        table = self._table(f"{name}-public")
        aws.ec2.Route(
            f"{name}-public-internet",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=self._gateway.id,
            opts=self.child(),
        )
        for zone, subnet_id in self.public_subnet_ids.items():
            self._associate(f"{name}-public-{zone}", table, subnet_id)
        return table

    def _route_private(self, name: str, args: NetworkArgs) -> dict[str, aws.ec2.RouteTable]:
        wanted = args.nat_zones if args.nat_zones is not None else list(self.public_subnet_ids)[:1]
        gateways = {zone: self._nat(name, zone) for zone in wanted}
        first = next(iter(gateways.values()), None)
        tables = {}
        ready: list[pulumi.Resource] = []
        for zone, subnet_id in self.private_subnet_ids.items():
            table = self._table(f"{name}-private-{zone}")
            ready.append(self._associate(f"{name}-private-{zone}", table, subnet_id))
            gateway = gateways.get(zone, first)
            if gateway is not None:
                ready.append(
                    aws.ec2.Route(
                        f"{name}-private-{zone}-internet",
                        route_table_id=table.id,
                        destination_cidr_block="0.0.0.0/0",
                        nat_gateway_id=gateway.id,
                        opts=self.child(),
                    )
                )
            tables[zone] = table
        self.nat_ready = ready
        return tables

    def _nat(self, name: str, zone: str) -> aws.ec2.NatGateway:
        label = f"{name}-nat-{zone}"
        address = aws.ec2.Eip(label, domain="vpc", tags=self.tags(label), opts=self.child())
        return aws.ec2.NatGateway(
            label,
            allocation_id=address.id,
            subnet_id=self.public_subnet_ids[zone],
            tags=self.tags(label),
            opts=self.child(depends_on=[self._gateway] if self._gateway else None),
        )

    def _table(self, label: str) -> aws.ec2.RouteTable:
        return aws.ec2.RouteTable(label, vpc_id=self.vpc_id, tags=self.tags(label), opts=self.child())

    def _associate(
        self, label: str, table: aws.ec2.RouteTable, subnet_id: pulumi.Output[str]
    ) -> aws.ec2.RouteTableAssociation:
        return aws.ec2.RouteTableAssociation(
            label, route_table_id=table.id, subnet_id=subnet_id, opts=self.child()
        )

    def _endpoints(self, name: str, args: NetworkArgs, region: pulumi.Output[str]) -> None:
        if not args.interface_endpoints:
            return
        group = aws.ec2.SecurityGroup(
            f"{name}-endpoints",
            description="Interface endpoints: HTTPS from this network",
            vpc_id=self.vpc_id,
            tags=self.tags(f"{name}-endpoints"),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-endpoints-https",
            security_group_id=group.id,
            description="HTTPS from this network",
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            cidr_ipv4=args.cidr,
            tags=self.tags(f"{name}-endpoints-https"),
            opts=self.child(),
        )
        for service in args.interface_endpoints:
            label = f"{name}-{service.replace('.', '-')}"
            aws.ec2.VpcEndpoint(
                label,
                vpc_id=self.vpc_id,
                vpc_endpoint_type="Interface",
                service_name=pulumi.Output.format("com.amazonaws.{0}.{1}", region, service),
                private_dns_enabled=True,
                subnet_ids=list(self.private_subnet_ids.values()),
                security_group_ids=[group.id],
                tags=self.tags(label),
                opts=self.child(),
            )


def _check(name: str, args: NetworkArgs) -> None:
    public = {subnet.zone for subnet in args.subnets if subnet.public}
    without = [zone for zone in args.nat_zones or () if zone not in public]
    if without:
        raise InputError(
            f"network {name}: a NAT gateway in {without[0]}, which has no public subnet",
            remedy=f"add a public subnet there, or remove {without[0]} from nat_zones",
        )
