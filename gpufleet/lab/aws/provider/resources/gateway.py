"""Internet gateways, elastic addresses and NAT gateways."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.ec2 import await_state, find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle
from gpufleet.lab.aws.provider.wire import Props


class InternetGateway(Handler):
    """aws.ec2.InternetGateway."""

    pulumi_type = "aws:ec2/internetGateway:InternetGateway"
    computed = frozenset({"vpcId"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the gateway and attach it."""
        ec2 = aws.client("ec2")
        rid = str(
            ec2.create_internet_gateway(**tag_spec("internet-gateway", inputs))["InternetGateway"][
                "InternetGatewayId"
            ]
        )
        with keep_on_failure(rid):
            if inputs.get("vpcId"):
                ec2.attach_internet_gateway(InternetGatewayId=rid, VpcId=inputs["vpcId"])
        return rid

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The gateway and its VPC."""
        found = self._find(aws, rid)
        if found is None:
            return None
        attached = found.get("Attachments") or []
        return self.decode(found) | {
            "arn": aws.arn("ec2", f"internet-gateway/{rid}"),
            "ownerId": found.get("OwnerId") or aws.account,
            "vpcId": attached[0]["VpcId"] if attached else None,
        }

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(
            aws.client("ec2").describe_internet_gateways, "InternetGateways", InternetGatewayIds=[rid]
        )

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Move the gateway to another VPC, and change its tags."""
        if "vpcId" in changed:
            self._detach(aws, rid)
            if new.get("vpcId"):
                aws.client("ec2").attach_internet_gateway(InternetGatewayId=rid, VpcId=new["vpcId"])
        retag(aws, rid, old, new)

    def _detach(self, aws: Aws, rid: str) -> None:
        for attachment in (self._find(aws, rid) or {}).get("Attachments") or []:
            vpc = str(attachment["VpcId"])
            detach = partial(aws.client("ec2").detach_internet_gateway, InternetGatewayId=rid, VpcId=vpc)
            settle(detach, codes="DependencyViolation", timeout_s=5.0)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Detach, then delete."""
        self._detach(aws, rid)
        ec2 = aws.client("ec2")
        remove(lambda: ec2.delete_internet_gateway(InternetGatewayId=rid), lambda: self._find(aws, rid), rid)


class Eip(Handler):
    """aws.ec2.Eip."""

    pulumi_type = "aws:ec2/eip:Eip"
    force_new = frozenset({"address", "domain", "ipamPoolId", "networkBorderGroup", "customerOwnedIpv4Pool"})
    computed = frozenset({
        "address", "associateWithPrivateIp", "domain", "instance", "networkBorderGroup", "networkInterface",
        "publicIpv4Pool", "ipamPoolId",
    })  # fmt: skip

    def create(self, aws: Aws, inputs: Props) -> str:
        """Allocate an address of the VPC kind, and associate it if requested."""
        parameters = only(
            inputs, "address", "customerOwnedIpv4Pool", "ipamPoolId", "networkBorderGroup", "publicIpv4Pool"
        )
        made = aws.send(
            "ec2", "AllocateAddress", parameters, None, Domain="vpc", **tag_spec("elastic-ip", inputs)
        )
        rid = str(made["AllocationId"])
        with keep_on_failure(rid):
            self._associate(aws, rid, inputs)
        return rid

    @staticmethod
    def _associate(aws: Aws, rid: str, inputs: Props) -> None:
        if inputs.get("instance") or inputs.get("networkInterface"):
            parameters = only(inputs, "instance", "networkInterface", "associateWithPrivateIp")
            names = Names(rename={
                "instance": "InstanceId", "networkInterface": "NetworkInterfaceId",
                "associateWithPrivateIp": "PrivateIpAddress",
            })  # fmt: skip
            aws.send("ec2", "AssociateAddress", parameters, names, AllocationId=rid)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the address and its association."""
        found = self._find(aws, rid)
        if found is None:
            return None
        names = Names(rename={
            "instance": "InstanceId", "networkInterface": "NetworkInterfaceId",
            "privateIp": "PrivateIpAddress",
            "customerOwnedIp": "CustomerOwnedIp",
        })  # fmt: skip
        out = self.decode(found, names)
        out.setdefault("associationId", "")
        public, private = str(found["PublicIp"]), found.get("PrivateIpAddress")
        out["arn"] = aws.arn("ec2", f"elastic-ip/{rid}")
        out["publicDns"] = f"ec2-{public.replace('.', '-')}.{_zone(aws.region, 'compute')}"
        if private:
            out["privateDns"] = f"ip-{str(private).replace('.', '-')}.{_zone(aws.region, '')}"
        out["tags"] = out.get("tags", {})
        return out

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(aws.client("ec2").describe_addresses, "Addresses", AllocationIds=[rid])

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the association and the tags."""
        if changed & {"instance", "networkInterface", "associateWithPrivateIp"}:
            if old.get("associationId"):
                aws.client("ec2").disassociate_address(AssociationId=old["associationId"])
            self._associate(aws, rid, new)
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Disassociate, then release."""
        ec2 = aws.client("ec2")
        found = self._find(aws, rid)
        # A NAT gateway's association is deleted with the gateway and cannot be removed separately.
        if found and found.get("AssociationId") and found.get("InstanceId"):
            ec2.disassociate_address(AssociationId=found["AssociationId"])
        remove(lambda: ec2.release_address(AllocationId=rid), lambda: self._find(aws, rid), rid)


def _zone(region: str, kind: str) -> str:
    """Return the DNS zone of a region's addresses; us-east-1 has names older than the rule."""
    if region == "us-east-1":
        return "compute-1.amazonaws.com" if kind else "ec2.internal"
    return f"{region}.compute.amazonaws.com" if kind else f"{region}.compute.internal"


class NatGateway(Handler):
    """aws.ec2.NatGateway."""

    pulumi_type = "aws:ec2/natGateway:NatGateway"
    force_new = frozenset(
        {"allocationId", "connectivityType", "privateIp", "subnetId", "vpcId", "availabilityMode"}
    )
    computed = frozenset({
        "privateIp", "secondaryAllocationIds", "secondaryPrivateIpAddressCount",
        "secondaryPrivateIpAddresses",
        "vpcId", "availabilityMode", "availabilityZoneAddresses", "allocationId", "subnetId",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {"connectivityType": "public"}
    _names = Names(rename={"privateIp": "PrivateIpAddress"})

    def check(self, inputs: Props) -> list[Problem]:
        """Check that a public gateway has an address."""
        if (
            inputs.get("connectivityType") == "public"
            and inputs.get("subnetId")
            and not inputs.get("allocationId")
        ):
            return [
                Problem("allocationId", "a public NAT gateway needs an elastic address: set allocationId")
            ]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the gateway and wait until it is available."""
        parameters = only(
            inputs, "allocationId", "connectivityType", "privateIp", "subnetId", "secondaryAllocationIds",
            "secondaryPrivateIpAddressCount", "secondaryPrivateIpAddresses", "vpcId", "availabilityMode",
        )  # fmt: skip
        made = aws.send("ec2", "CreateNatGateway", parameters, self._names, **tag_spec("natgateway", inputs))
        rid = str(made["NatGateway"]["NatGatewayId"])
        with keep_on_failure(rid):
            await_state(lambda: self._find(aws, rid), "State", {"available"}, timeout_s=600, what=rid)
        return rid

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The gateway and its primary address."""
        found = self._find(aws, rid)
        if found is None:
            return None
        out = self.decode(found, self._names)
        addresses: list[dict[str, Any]] = found.get("NatGatewayAddresses") or []
        primary = next((item for item in addresses if item.get("IsPrimary", True)), None)
        if primary:
            out |= {
                key: primary.get(member)
                for key, member in (
                    ("allocationId", "AllocationId"), ("associationId", "AssociationId"), ("publicIp",
                    "PublicIp"),
                    ("privateIp", "PrivateIp"), ("networkInterfaceId", "NetworkInterfaceId"),
                )
            }  # fmt: skip
        out["tags"] = out.get("tags", {})
        return out

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        found = find(aws.client("ec2").describe_nat_gateways, "NatGateways", NatGatewayIds=[rid])
        return None if found is None or found.get("State") in {"deleted", "deleting"} else found

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change secondary addresses and tags in place."""
        ec2 = aws.client("ec2")
        if "secondaryAllocationIds" in changed:
            before, after = (
                set(old.get("secondaryAllocationIds") or ()),
                set(new.get("secondaryAllocationIds") or ()),
            )
            if after - before:
                ec2.associate_nat_gateway_address(NatGatewayId=rid, AllocationIds=sorted(after - before))
            if before - after:
                addresses = (self._find(aws, rid) or {}).get("NatGatewayAddresses") or []
                gone = [
                    item["AssociationId"] for item in addresses if item.get("AllocationId") in before - after
                ]
                ec2.disassociate_nat_gateway_address(NatGatewayId=rid, AssociationIds=gone)
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the gateway and wait, so that its address and subnet are free."""
        ec2 = aws.client("ec2")
        remove(lambda: ec2.delete_nat_gateway(NatGatewayId=rid), lambda: self._find(aws, rid), rid)


HANDLERS = (InternetGateway(), Eip(), NatGateway())
