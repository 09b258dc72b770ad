"""SiteDns: endpoints, their security groups, and a rule for each domain."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpufleet.components.dns import SiteDns, SiteDnsArgs
from tests.unit.components.recording import Recording, record

NAME = "atlas-prod-use1"
BASE = SiteDnsArgs(
    vpc_id="vpc-1",
    subnet_ids=["subnet-a", "subnet-b"],
    forward={
        "corp.example": ["10.60.0.53", "10.60.1.53"],
        "lab.example": ["10.60.1.53"],
    },
    inbound=True,
    networks=("10.60.0.0/22", "10.64.0.0/22"),
    tags={"team": "ml"},
)


def dns(**changes: Any) -> Recording:
    return record(lambda: SiteDns(NAME, dataclasses.replace(BASE, **changes)))


@pytest.fixture(scope="module")
def both() -> Recording:
    return dns()


@pytest.mark.parametrize("direction", ["inbound", "outbound"])
def test_endpoint_has_an_address_in_each_subnet_and_its_own_group(both: Recording, direction: str) -> None:
    label = f"{NAME}-dns-{direction}"
    found = both.one("ResolverEndpoint", label).inputs
    assert found == {
        "name": label,
        "direction": direction.upper(),
        "resolverEndpointType": "IPV4",
        "protocols": ["Do53"],
        "securityGroupIds": [f"{label}-id"],
        "ipAddresses": [{"subnetId": "subnet-a"}, {"subnetId": "subnet-b"}],
        "tags": {"team": "ml", "Name": label},
    }
    assert both.one("SecurityGroup", label).inputs["vpcId"] == "vpc-1"


def rules(made: Recording, kind: str) -> set[tuple[str, str, int, int, str]]:
    """The rules of a kind: group, protocol, ports and network."""
    return {
        (
            each.inputs["securityGroupId"],
            each.inputs["ipProtocol"],
            int(each.inputs["fromPort"]),
            int(each.inputs["toPort"]),
            each.inputs["cidrIpv4"],
        )
        for each in made.of(kind)
    }


def test_racks_query_the_inbound_endpoint_from_their_networks_only(both: Recording) -> None:
    assert rules(both, "SecurityGroupIngressRule") == {
        (f"{NAME}-dns-inbound-id", protocol, 53, 53, network)
        for protocol in ("udp", "tcp")
        for network in BASE.networks
    }


def test_outbound_endpoint_queries_the_servers_only(both: Recording) -> None:
    assert rules(both, "SecurityGroupEgressRule") == {
        (f"{NAME}-dns-outbound-id", protocol, 53, 53, f"{server}/32")
        for protocol in ("udp", "tcp")
        for server in ("10.60.0.53", "10.60.1.53")
    }


def test_each_domain_has_a_rule_that_the_vpc_uses(both: Recording) -> None:
    found = both.one("ResolverRule", f"{NAME}-dns-corp.example").inputs
    assert found["domainName"] == "corp.example"
    assert found["ruleType"] == "FORWARD"
    assert found["resolverEndpointId"] == f"{NAME}-dns-outbound-id"
    assert [(each["ip"], int(each["port"])) for each in found["targetIps"]] == [
        ("10.60.0.53", 53),
        ("10.60.1.53", 53),
    ]
    assert {each.name for each in both.of("ResolverRule")} == {
        f"{NAME}-dns-corp.example",
        f"{NAME}-dns-lab.example",
    }
    for each in both.of("ResolverRuleAssociation"):
        assert (each.inputs["vpcId"], each.inputs["resolverRuleId"]) == ("vpc-1", f"{each.name}-id")
    assert len(both.of("ResolverRuleAssociation")) == 2


def test_names_fit_resolver() -> None:
    domain = f"{'a' * 40}.example"
    found = dns(forward={domain: ["10.60.0.53"]}).one("ResolverRule").inputs["name"]
    assert len(found) == 64
    assert "." not in found


def test_site_that_only_forwards_has_no_inbound_endpoint() -> None:
    made = dns(inbound=False)
    assert [each.inputs["direction"] for each in made.of("ResolverEndpoint")] == ["OUTBOUND"]
    assert not made.of("SecurityGroupIngressRule")


def test_site_that_is_only_queried_has_no_outbound_endpoint() -> None:
    made = dns(forward={})
    assert [each.inputs["direction"] for each in made.of("ResolverEndpoint")] == ["INBOUND"]
    for kind in ("SecurityGroupEgressRule", "ResolverRule", "ResolverRuleAssociation"):
        assert not made.of(kind)


def test_endpoints_are_children_of_the_component(both: Recording) -> None:
    parent = both.one("gpufleet:network:SiteDns")
    for each in both:
        assert each.urn == parent.urn or each.parent == parent.urn
