"""Route 53 Resolver: endpoints, forwarding rules, and the VPCs that use them."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import is_missing, keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list
from gpufleet.lab.aws.provider.resources.ec2 import await_state, remove
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

TIMEOUT_S = 600.0
_LEAST_ADDRESSES = 2


def _tags(inputs: Props) -> dict[str, Any]:
    return {"Tags": tag_list(inputs["tags"])} if inputs.get("tags") else {}


def _get(aws: Aws, operation: str, key: str, **parameters: str) -> Props | None:
    try:
        found: Props = getattr(aws.client("route53resolver"), operation)(**parameters)[key]
    except Exception as error:
        if is_missing(error):
            return None
        raise
    return found


def _tags_of(aws: Aws, arn: str) -> dict[str, str]:
    listed = aws.client("route53resolver").list_tags_for_resource(ResourceArn=arn)
    return {each["Key"]: each["Value"] for each in listed["Tags"]}


def _address(given: Props) -> dict[str, str]:
    named = {"SubnetId": given.get("subnetId"), "Ip": given.get("ip")}
    return {key: str(value) for key, value in named.items() if value}


class ResolverEndpoint(Handler):
    """aws.route53.ResolverEndpoint."""

    pulumi_type = "aws:route53/resolverEndpoint:ResolverEndpoint"
    force_new = frozenset({"direction", "securityGroupIds", "resolverEndpointType"})
    computed = frozenset({
        "protocols", "resolverEndpointType", "ipAddresses.ip", "ipAddresses.ipId",
        "rniEnhancedMetricsEnabled", "targetNameServerMetricsEnabled",
    })  # fmt: skip
    sets = frozenset({"ipAddresses"})
    auto_name = AutoName(max_length=64)

    def check(self, inputs: Props) -> list[Problem]:
        """Check the number of addresses."""
        addresses = inputs.get("ipAddresses")
        if isinstance(addresses, list) and len(addresses) < _LEAST_ADDRESSES:
            return [Problem("ipAddresses", f"an endpoint has at least {_LEAST_ADDRESSES} addresses")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the endpoint and wait until it is operational."""
        named = only(inputs, "name", "direction", "protocols", "resolverEndpointType", "securityGroupIds")
        made = aws.client("route53resolver").create_resolver_endpoint(
            CreatorRequestId=uuid.uuid4().hex,
            IpAddresses=[_address(each) for each in inputs["ipAddresses"]],
            **{f"{key[0].upper()}{key[1:]}": value for key, value in named.items()},
            **_tags(inputs),
        )
        rid = str(made["ResolverEndpoint"]["Id"])
        with keep_on_failure(rid):
            self._await(aws, rid)
        return rid

    def _await(self, aws: Aws, rid: str) -> None:
        await_state(lambda: self._find(aws, rid), "Status", {"OPERATIONAL"}, timeout_s=TIMEOUT_S, what=rid)

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return _get(aws, "get_resolver_endpoint", "ResolverEndpoint", ResolverEndpointId=rid)

    @staticmethod
    def _addresses(aws: Aws, rid: str) -> list[Props]:
        pages = aws.client("route53resolver").get_paginator("list_resolver_endpoint_ip_addresses")
        return [
            {"ip": each["Ip"], "ipId": each["IpId"], "subnetId": each["SubnetId"]}
            for page in pages.paginate(ResolverEndpointId=rid)
            for each in page["IpAddresses"]
        ]

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The endpoint and its addresses."""
        found = self._find(aws, rid)
        if found is None:
            return None
        return {
            **self.decode(found, Names(rename={"hostVpcId": "HostVPCId"})),
            "ipAddresses": self._addresses(aws, rid),
            "tags": _tags_of(aws, found["Arn"]),
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change name, addresses and tags; new addresses come before old ones go."""
        client = aws.client("route53resolver")
        if "name" in changed:
            client.update_resolver_endpoint(ResolverEndpointId=rid, Name=new["name"])
            self._await(aws, rid)
        if "ipAddresses" in changed:
            had = {each["subnetId"]: each for each in self._addresses(aws, rid)}
            wanted = {each["subnetId"]: each for each in new["ipAddresses"]}
            for subnet in [each for each in wanted if each not in had]:
                client.associate_resolver_endpoint_ip_address(
                    ResolverEndpointId=rid, IpAddress=_address(wanted[subnet])
                )
                self._await(aws, rid)
            for subnet in [each for each in had if each not in wanted]:
                client.disassociate_resolver_endpoint_ip_address(
                    ResolverEndpointId=rid, IpAddress=_address(had[subnet])
                )
                self._await(aws, rid)
        retag(client, {"ResourceArn": str(old["arn"])}, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the endpoint once no rule uses it."""
        client = aws.client("route53resolver")
        remove(
            lambda: client.delete_resolver_endpoint(ResolverEndpointId=rid),
            lambda: self._find(aws, rid),
            rid,
        )


class ResolverRule(Handler):
    """aws.route53.ResolverRule: where queries of a domain go."""

    pulumi_type = "aws:route53/resolverRule:ResolverRule"
    force_new = frozenset({"domainName", "ruleType"})
    defaults: ClassVar[Defaults] = {}
    sets = frozenset({"targetIps"})
    auto_name = AutoName(max_length=64)

    @staticmethod
    def _targets(inputs: Props) -> list[dict[str, Any]]:
        return [{"Ip": each["ip"], "Port": int(each.get("port") or 53)} for each in inputs["targetIps"]]

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the rule."""
        named = only(inputs, "name", "domainName", "ruleType", "resolverEndpointId")
        made = aws.client("route53resolver").create_resolver_rule(
            CreatorRequestId=uuid.uuid4().hex,
            **{f"{key[0].upper()}{key[1:]}": value for key, value in named.items()},
            **({"TargetIps": self._targets(inputs)} if inputs.get("targetIps") else {}),
            **_tags(inputs),
        )
        rid = str(made["ResolverRule"]["Id"])
        with keep_on_failure(rid):
            await_state(lambda: self._find(aws, rid), "Status", {"COMPLETE"}, timeout_s=TIMEOUT_S, what=rid)
        return rid

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return _get(aws, "get_resolver_rule", "ResolverRule", ResolverRuleId=rid)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The rule; its domain without the last dot, as the real provider has it."""
        found = self._find(aws, rid)
        if found is None:
            return None
        return {
            **self.decode(found),
            "domainName": str(found["DomainName"]).removesuffix("."),
            "tags": _tags_of(aws, found["Arn"]),
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change name, servers, endpoint and tags."""
        client = aws.client("route53resolver")
        if changed & {"name", "targetIps", "resolverEndpointId"}:
            config = {"Name": new["name"], "ResolverEndpointId": new["resolverEndpointId"]}
            client.update_resolver_rule(
                ResolverRuleId=rid, Config={**config, "TargetIps": self._targets(new)}
            )
        retag(client, {"ResourceArn": str(old["arn"])}, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the rule once no VPC uses it."""
        client = aws.client("route53resolver")
        remove(lambda: client.delete_resolver_rule(ResolverRuleId=rid), lambda: self._find(aws, rid), rid)


class ResolverRuleAssociation(Handler):
    """aws.route53.ResolverRuleAssociation: a VPC uses a rule."""

    pulumi_type = "aws:route53/resolverRuleAssociation:ResolverRuleAssociation"
    force_new = frozenset({"name", "resolverRuleId", "vpcId"})
    auto_name = AutoName(max_length=64)

    def create(self, aws: Aws, inputs: Props) -> str:
        """Associate the rule and wait until it applies."""
        made = aws.client("route53resolver").associate_resolver_rule(
            ResolverRuleId=inputs["resolverRuleId"],
            VPCId=inputs["vpcId"],
            **({"Name": inputs["name"]} if inputs.get("name") else {}),
        )
        rid = str(made["ResolverRuleAssociation"]["Id"])
        with keep_on_failure(rid):
            await_state(lambda: self._find(aws, rid), "Status", {"COMPLETE"}, timeout_s=TIMEOUT_S, what=rid)
        return rid

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return _get(
            aws,
            "get_resolver_rule_association",
            "ResolverRuleAssociation",
            ResolverRuleAssociationId=rid,
        )

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The association as described."""
        found = self._find(aws, rid)
        return None if found is None else self.decode(found, Names(rename={"vpcId": "VPCId"}))

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Let the VPC no longer use the rule."""
        client = aws.client("route53resolver")
        remove(
            lambda: client.disassociate_resolver_rule(
                ResolverRuleId=state["resolverRuleId"], VPCId=state["vpcId"]
            ),
            lambda: self._find(aws, rid),
            rid,
        )


HANDLERS = (ResolverEndpoint(), ResolverRule(), ResolverRuleAssociation())
