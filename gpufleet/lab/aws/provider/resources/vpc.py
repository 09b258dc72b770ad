"""VPCs and subnets."""

from __future__ import annotations

from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.ec2 import await_state, find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.wire import Props

_VPC_SWITCHES = {
    "enableDnsSupport": "EnableDnsSupport",
    "enableDnsHostnames": "EnableDnsHostnames",
    "enableNetworkAddressUsageMetrics": "EnableNetworkAddressUsageMetrics",
}
_SUBNET_SWITCHES = {
    "mapPublicIpOnLaunch": "MapPublicIpOnLaunch",
    "assignIpv6AddressOnCreation": "AssignIpv6AddressOnCreation",
    "enableDns64": "EnableDns64",
    "enableResourceNameDnsARecordOnLaunch": "EnableResourceNameDnsARecordOnLaunch",
    "enableResourceNameDnsAaaaRecordOnLaunch": "EnableResourceNameDnsAAAARecordOnLaunch",
}


class Vpc(Handler):
    """aws.ec2.Vpc."""

    pulumi_type = "aws:ec2/vpc:Vpc"
    force_new = frozenset({"cidrBlock", "ipv4IpamPoolId", "ipv4NetmaskLength"})
    computed = frozenset({
        "cidrBlock", "enableDnsHostnames", "enableNetworkAddressUsageMetrics", "ipv6CidrBlock",
        "ipv6CidrBlockNetworkBorderGroup",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {"enableDnsSupport": True, "instanceTenancy": "default"}

    def replaces(self, old: Props, new: Props, changed: frozenset[str]) -> frozenset[str]:
        """Tenancy can change in place only to default."""
        if "instanceTenancy" in changed and new.get("instanceTenancy") != "default":
            return frozenset({"instanceTenancy"})
        return frozenset()

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the VPC, then set its attributes."""
        parameters = only(
            inputs, "cidrBlock", "instanceTenancy", "ipv4IpamPoolId", "ipv4NetmaskLength", "ipv6CidrBlock",
            "ipv6IpamPoolId", "ipv6NetmaskLength", "ipv6CidrBlockNetworkBorderGroup",
        )  # fmt: skip
        names = Names()
        if inputs.get("assignGeneratedIpv6CidrBlock"):
            parameters["amazonProvidedIpv6CidrBlock"] = True
        made = aws.send("ec2", "CreateVpc", parameters, names, **tag_spec("vpc", inputs))
        rid = str(made["Vpc"]["VpcId"])
        with keep_on_failure(rid):
            ec2 = aws.client("ec2")
            await_state(
                lambda: find(ec2.describe_vpcs, "Vpcs", VpcIds=[rid]),
                "State",
                {"available"},
                timeout_s=120,
                what=rid,
            )
            # AWS enables DNS support by default and disables the other attributes.
            wanted = {"enableDnsSupport": True, **only(inputs, *_VPC_SWITCHES)}
            start = {"enableDnsSupport": True}
            for key in (item for item in wanted if bool(wanted[item]) != start.get(item, False)):
                self._switch(ec2, rid, key, wanted[key])
        return rid

    @staticmethod
    def _switch(ec2: Any, rid: str, key: str, value: Any) -> None:
        ec2.modify_vpc_attribute(VpcId=rid, **{_VPC_SWITCHES[key]: {"Value": bool(value)}})

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the VPC, its attributes and the ids of its default resources."""
        ec2 = aws.client("ec2")
        vpc = find(ec2.describe_vpcs, "Vpcs", VpcIds=[rid])
        if vpc is None:
            return None
        out = self.decode({key: value for key, value in vpc.items() if key != "Ipv6CidrBlockAssociationSet"})
        out["tags"] = out.get("tags", {})
        out["arn"] = aws.arn("ec2", f"vpc/{rid}")
        for key in _VPC_SWITCHES:
            answer = ec2.describe_vpc_attribute(VpcId=rid, Attribute=key)
            out[key] = bool(answer[_VPC_SWITCHES[key]]["Value"])
        blocks = vpc.get("Ipv6CidrBlockAssociationSet") or []
        if blocks:
            out["ipv6AssociationId"] = blocks[0]["AssociationId"]
            out["ipv6CidrBlock"] = blocks[0]["Ipv6CidrBlock"]
        of_vpc = {"Name": "vpc-id", "Values": [rid]}
        group = find(
            ec2.describe_security_groups,
            "SecurityGroups",
            Filters=[of_vpc, {"Name": "group-name", "Values": ["default"]}],
        )
        acl = find(
            ec2.describe_network_acls,
            "NetworkAcls",
            Filters=[of_vpc, {"Name": "default", "Values": ["true"]}],
        )
        table = find(
            ec2.describe_route_tables,
            "RouteTables",
            Filters=[of_vpc, {"Name": "association.main", "Values": ["true"]}],
        )
        out["defaultSecurityGroupId"] = group and group["GroupId"]
        out["defaultNetworkAclId"] = acl and acl["NetworkAclId"]
        out["mainRouteTableId"] = out["defaultRouteTableId"] = table and table["RouteTableId"]
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change attributes, tenancy and tags in place."""
        ec2 = aws.client("ec2")
        for key in sorted(changed & set(_VPC_SWITCHES)):
            self._switch(ec2, rid, key, new.get(key, key == "enableDnsSupport"))
        if "instanceTenancy" in changed:
            ec2.modify_vpc_tenancy(VpcId=rid, InstanceTenancy="default")
        if changed & {"ipv6CidrBlock", "assignGeneratedIpv6CidrBlock"}:
            self._change_ipv6(ec2, rid, old, new)
        retag(aws, rid, old, new)

    @staticmethod
    def _change_ipv6(ec2: Any, rid: str, old: Props, new: Props) -> None:
        if old.get("ipv6AssociationId"):
            ec2.disassociate_vpc_cidr_block(AssociationId=old["ipv6AssociationId"])
        if new.get("assignGeneratedIpv6CidrBlock"):
            ec2.associate_vpc_cidr_block(VpcId=rid, AmazonProvidedIpv6CidrBlock=True)
        elif new.get("ipv6CidrBlock"):
            ec2.associate_vpc_cidr_block(VpcId=rid, Ipv6CidrBlock=new["ipv6CidrBlock"])

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the VPC and wait until it is gone."""
        ec2 = aws.client("ec2")
        remove(lambda: ec2.delete_vpc(VpcId=rid), lambda: find(ec2.describe_vpcs, "Vpcs", VpcIds=[rid]), rid)


class Subnet(Handler):
    """aws.ec2.Subnet."""

    pulumi_type = "aws:ec2/subnet:Subnet"
    force_new = frozenset({
        "vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId", "outpostArn", "ipv6Native",
        "ipv4IpamPoolId", "ipv4NetmaskLength", "ipv6IpamPoolId", "ipv6NetmaskLength",
    })  # fmt: skip
    computed = frozenset({
        "availabilityZone", "availabilityZoneId", "cidrBlock", "ipv6CidrBlock",
        "privateDnsHostnameTypeOnLaunch",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {
        "assignIpv6AddressOnCreation": False, "enableDns64": False,
        "enableResourceNameDnsARecordOnLaunch": False,
        "enableResourceNameDnsAaaaRecordOnLaunch": False, "ipv6Native": False, "mapPublicIpOnLaunch": False,
    }  # fmt: skip
    # Two subnets of one VPC cannot have the same addresses.
    delete_before_replace = True
    _names = Names(rename={"ipv6CidrBlock": "Ipv6CidrBlock"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the subnet, then set what cannot be set at creation."""
        parameters = only(
            inputs, "vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId", "ipv6CidrBlock",
            "outpostArn",
            "ipv4IpamPoolId", "ipv4NetmaskLength", "ipv6IpamPoolId", "ipv6NetmaskLength",
        )  # fmt: skip
        if inputs.get("ipv6Native"):
            parameters["ipv6Native"] = True
        made = aws.send("ec2", "CreateSubnet", parameters, self._names, **tag_spec("subnet", inputs))[
            "Subnet"
        ]
        rid = str(made["SubnetId"])
        with keep_on_failure(rid):
            ec2 = aws.client("ec2")
            if made.get("State") != "available":
                await_state(
                    lambda: find(ec2.describe_subnets, "Subnets", SubnetIds=[rid]),
                    "State", {"available"}, timeout_s=120, what=rid,
                )  # fmt: skip
            self._switch(ec2, rid, {key: inputs[key] for key in _SUBNET_SWITCHES if inputs.get(key)})
            self._host_names(ec2, rid, inputs)
        return rid

    @staticmethod
    def _switch(ec2: Any, rid: str, switches: Props) -> None:
        # AWS changes one attribute per call.
        for key, value in switches.items():
            ec2.modify_subnet_attribute(SubnetId=rid, **{_SUBNET_SWITCHES[key]: {"Value": bool(value)}})

    @staticmethod
    def _host_names(ec2: Any, rid: str, inputs: Props) -> None:
        kind = inputs.get("privateDnsHostnameTypeOnLaunch")
        if kind:
            ec2.modify_subnet_attribute(SubnetId=rid, PrivateDnsHostnameTypeOnLaunch=kind)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The subnet as described."""
        subnet = find(aws.client("ec2").describe_subnets, "Subnets", SubnetIds=[rid])
        if subnet is None:
            return None
        out = self.decode(subnet, Names(rename={"arn": "SubnetArn"}))
        options = subnet.get("PrivateDnsNameOptionsOnLaunch") or {}
        out["privateDnsHostnameTypeOnLaunch"] = options.get("HostnameType")
        for key, member in (
            ("enableResourceNameDnsARecordOnLaunch", "EnableResourceNameDnsARecord"),
            ("enableResourceNameDnsAaaaRecordOnLaunch", "EnableResourceNameDnsAAAARecord"),
        ):
            if member in options:
                out[key] = bool(options[member])
        blocks = subnet.get("Ipv6CidrBlockAssociationSet") or []
        if blocks:
            out["ipv6CidrBlock"] = blocks[0]["Ipv6CidrBlock"]
            out["ipv6CidrBlockAssociationId"] = blocks[0]["AssociationId"]
        out["tags"] = out.get("tags", {})
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change attributes, IPv6 block and tags in place."""
        ec2 = aws.client("ec2")
        self._switch(ec2, rid, {key: new.get(key, False) for key in _SUBNET_SWITCHES if key in changed})
        if "privateDnsHostnameTypeOnLaunch" in changed:
            self._host_names(ec2, rid, new)
        if "ipv6CidrBlock" in changed:
            if old.get("ipv6CidrBlockAssociationId"):
                ec2.disassociate_subnet_cidr_block(AssociationId=old["ipv6CidrBlockAssociationId"])
            if new.get("ipv6CidrBlock"):
                ec2.associate_subnet_cidr_block(SubnetId=rid, Ipv6CidrBlock=new["ipv6CidrBlock"])
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the subnet and wait until it is gone."""
        ec2 = aws.client("ec2")
        remove(
            lambda: ec2.delete_subnet(SubnetId=rid),
            lambda: find(ec2.describe_subnets, "Subnets", SubnetIds=[rid]),
            rid,
        )


HANDLERS = (Vpc(), Subnet())
