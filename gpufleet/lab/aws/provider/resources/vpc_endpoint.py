"""VPC endpoints of the gateway and the interface kind."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.ec2 import await_state, find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.wire import Props

_MEMBERSHIPS = {
    "routeTableIds": ("AddRouteTableIds", "RemoveRouteTableIds"),
    "subnetIds": ("AddSubnetIds", "RemoveSubnetIds"),
    "securityGroupIds": ("AddSecurityGroupIds", "RemoveSecurityGroupIds"),
}
_PENDING = {"pending", "Pending"}


class VpcEndpoint(Handler):
    """aws.ec2.VpcEndpoint."""

    pulumi_type = "aws:ec2/vpcEndpoint:VpcEndpoint"
    force_new = frozenset({
        "serviceName", "serviceRegion", "vpcEndpointType", "vpcId", "resourceConfigurationArn",
        "serviceNetworkArn",
    })  # fmt: skip
    computed = frozenset({
        "dnsOptions", "ipAddressType", "policy", "privateDnsEnabled", "routeTableIds", "securityGroupIds",
        "serviceRegion", "subnetConfigurations", "subnetIds",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {"vpcEndpointType": "Gateway"}
    documents = frozenset({"policy"})
    sets = frozenset({"subnetConfigurations"})
    _names = Names(rename={"policy": "PolicyDocument"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the endpoint and wait until it is available."""
        parameters = only(
            inputs, "vpcId", "serviceName", "vpcEndpointType", "policy", "routeTableIds", "subnetIds",
            "securityGroupIds", "privateDnsEnabled", "ipAddressType", "dnsOptions", "subnetConfigurations",
            "serviceRegion", "resourceConfigurationArn", "serviceNetworkArn",
        )  # fmt: skip
        made = aws.send(
            "ec2", "CreateVpcEndpoint", parameters, self._names, **tag_spec("vpc-endpoint", inputs)
        )
        endpoint = made["VpcEndpoint"]
        rid = str(endpoint["VpcEndpointId"])
        with keep_on_failure(rid):
            if endpoint.get("State") in _PENDING:
                await_state(
                    lambda: self._find(aws, rid),
                    "State",
                    {"available", "pendingAcceptance"},
                    timeout_s=600,
                    what=rid,
                )
        return rid

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        found = find(aws.client("ec2").describe_vpc_endpoints, "VpcEndpoints", VpcEndpointIds=[rid])
        return None if found is None or str(found.get("State")).lower() in {"deleted", "deleting"} else found

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the endpoint; for a gateway also the prefix list of the service."""
        found = self._find(aws, rid)
        if found is None:
            return None
        out = self.decode(found, Names(
            rename={"policy": "PolicyDocument", "securityGroupIds": "Groups"},
            decode={"securityGroupIds": lambda groups: [item["GroupId"] for item in groups]},
        ))  # fmt: skip
        out["arn"] = aws.arn("ec2", f"vpc-endpoint/{rid}")
        out["tags"] = out.get("tags", {})
        for key in ("routeTableIds", "subnetIds", "securityGroupIds", "networkInterfaceIds", "dnsEntries"):
            out.setdefault(key, [])
        if out.get("vpcEndpointType") == "Gateway":
            out |= self._prefix_list(aws, str(found["ServiceName"]))
        return out

    @staticmethod
    def _prefix_list(aws: Aws, service: str) -> Props:
        listed = find(
            aws.client("ec2").describe_managed_prefix_lists,
            "PrefixLists",
            Filters=[{"Name": "prefix-list-name", "Values": [service]}],
        )
        if listed is None:
            return {}
        entries = aws.client("ec2").get_managed_prefix_list_entries(PrefixListId=listed["PrefixListId"])[
            "Entries"
        ]
        return {"prefixListId": listed["PrefixListId"], "cidrBlocks": [entry["Cidr"] for entry in entries]}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change members, policy and DNS in place."""
        parameters: dict[str, Any] = {}
        for key, (add, drop) in _MEMBERSHIPS.items():
            if key in changed:
                before, after = set(old.get(key) or ()), set(new.get(key) or ())
                if after - before:
                    parameters[add] = sorted(after - before)
                if before - after:
                    parameters[drop] = sorted(before - after)
        if "policy" in changed:
            parameters |= _policy(new)
        if "privateDnsEnabled" in changed:
            parameters["PrivateDnsEnabled"] = bool(new.get("privateDnsEnabled"))
        rest = only(
            {key: new.get(key) for key in changed}, "ipAddressType", "dnsOptions", "subnetConfigurations"
        )
        if parameters or rest:
            aws.send("ec2", "ModifyVpcEndpoint", rest, self._names, VpcEndpointId=rid, **parameters)
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the endpoint and its interfaces, and wait until they are gone."""
        ec2 = aws.client("ec2")
        remove(lambda: ec2.delete_vpc_endpoints(VpcEndpointIds=[rid]), lambda: self._find(aws, rid), rid)


def _policy(new: Props) -> dict[str, Any]:
    policy = new.get("policy")
    if not policy:
        return {"ResetPolicy": True}
    return {"PolicyDocument": policy if isinstance(policy, str) else json.dumps(policy)}


HANDLERS = (VpcEndpoint(),)
